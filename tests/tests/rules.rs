//! Which rule has a request, and which key it reads.
//!
//! Where several rules could have one, each refuses a key that is used for another request with
//! a status of its own, which tells which of them it was.

use anyhow::{Context as _, ensure};
use hyper::Method;
use latchkey_tests::client::{Request, raw};
use latchkey_tests::scenario::{
    Act, EVERY_MODE, check_number, check_problem, number_answers, play_scripted,
};
use latchkey_tests::scripted::{Scripted, path};
use latchkey_tests::stage::Setup;
use serde_json::{Value, json};

const INVALID: &str = "idempotency-key-invalid";
const MISSING: &str = "idempotency-key-missing";
const REUSED: &str = "idempotency-key-reused";

/// A rule that matches so, beside those of the stage and executing as they do.
fn add_rule(setup: &mut Setup, name: &str, matches: &Value, mismatch: u16) -> anyhow::Result<()> {
    let mut rule = setup.rule("payments").clone();
    rule["name"] = json!(name);
    rule["match"] = matches.clone();
    rule["on_mismatch"] = json!({ "status": mismatch });
    setup.filter["rules"].as_array_mut().context("no rules")?.push(rule);
    Ok(())
}

/// A request `name` as it goes over the wire.
fn raw_post(method: &str, host: &str, path: &str, key: &str) -> Vec<u8> {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nx-api-key: acme-demo-key\r\n\
         idempotency-key: {key}\r\ncontent-length: 0\r\n\r\n"
    )
    .into_bytes()
}

/// The status with which the rule that has this request refuses another under its key, nothing
/// where none has it.
async fn whose(
    act: &Act<'_>,
    upstream: &Scripted,
    (method, host, path): (&str, &str, &str),
) -> anyhow::Result<Option<u16>> {
    let name = path.split('?').next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    number_answers(upstream, name);
    let key = format!("{method}-{host}-{}", path.replace(['?', '/', '*', '&'], "-"));
    let first = raw_post(method, host, path, &key);
    let (_, first) = raw::converse(act.gateway(), &first).await?;
    ensure!(first.status() == Some(201), "{method} {host} {path}: {first:?}");
    // No header of theirs counts, but the type does.
    let other = raw_post(method, host, path, &key);
    let other =
        String::from_utf8(other)?.replace("content-length", "content-type: a/b\r\ncontent-length");
    let (_, other) = raw::converse(act.gateway(), other.as_bytes()).await?;
    let refused = String::from_utf8_lossy(&other.body).contains(REUSED);
    ensure!(refused != (other.status() == Some(201)), "{other:?}");
    ensure!(refused == (first.header("idempotent-replayed") == Some("false")), "{first:?}");
    upstream.heard(name, if refused { 1 } else { 2 })?;
    Ok(other.status().filter(|_| refused))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_rule_that_matches_host_path_and_method_has_the_request() {
    let change = |setup: &mut Setup| {
        let host = json!({ "hosts": ["Pay.Example", "*.shop.example"], "path_prefix": "/a/" });
        add_rule(setup, "hosts", &host, 409)?;
        add_rule(setup, "exact", &json!({ "path_exact": "/a/scripted/exact" }), 400)?;
        let fits = "/[ab]/scripted/v[0-9]+(/[a-z]+)?";
        add_rule(setup, "regex", &json!({ "path_regex": fits, "methods": ["PUT", "POST"] }), 409)?;
        add_rule(
            setup,
            "prefix",
            &json!({ "path_prefix": "/a/scripted/v", "methods": ["DELETE", "POST", "PATCH"] }),
            400,
        )?;
        add_rule(setup, "shadowed", &json!({ "path_prefix": "/a/scripted/v2" }), 422)
    };
    play_scripted(&EVERY_MODE, change, async |act, upstream, _| {
        let host = "any.example";
        for (request, status) in [
            // Hosts: without a port, in any case, below but not itself.
            (("POST", "pay.example", "/a/scripted/host-1"), Some(409)),
            (("POST", "PAY.example:8443", "/a/scripted/host-2"), Some(409)),
            (("POST", "a.b.shop.example", "/a/scripted/host-3"), Some(409)),
            (("POST", "shop.example", "/a/scripted/host-4"), None),
            (("POST", "notshop.example", "/a/scripted/host-5"), None),
            (("POST", "xpay.example", "/a/scripted/host-6"), None),
            (("POST", "pay.example", "/b/scripted/host-7"), None),
            (("PUT", "pay.example", "/a/scripted/host-8"), None),
            // It comes before the rules below.
            (("PATCH", "pay.example", "/a/scripted/exact"), Some(409)),
            // The exact path, whatever the query; by default also PATCH.
            (("POST", host, "/a/scripted/exact"), Some(400)),
            (("PATCH", host, "/a/scripted/exact?b=/c"), Some(400)),
            (("POST", host, "/a/scripted/exactly"), None),
            (("POST", host, "/a/scripted/exact/"), None),
            (("GET", host, "/a/scripted/exact"), None),
            // The whole path fits, without the query; else it is the prefix's.
            (("POST", host, "/a/scripted/v1"), Some(409)),
            (("PUT", host, "/b/scripted/v27/x?y=1"), Some(409)),
            (("POST", host, "/a/scripted/v2"), Some(409)),
            (("POST", host, "/a/scripted/v2/x/y"), Some(400)),
            (("POST", host, "/a/scripted/void"), Some(400)),
            (("DELETE", host, "/a/scripted/v3"), Some(400)),
            (("PUT", host, "/a/scripted/v4/X"), None),
            (("POST", host, "/c/scripted/v5"), None),
            (("POST", host, "/b/scripted/void"), None),
            (("PATCH", host, "/b/scripted/v6"), None),
        ] {
            let had = whose(act, upstream, request).await?;
            ensure!(had == status, "{request:?} was had by {had:?} and not {status:?}");
        }
        Ok(())
    })
    .await;
}

/// Routes that name rules: one that matches nothing by itself, none, and one that is not there.
fn with_named_rules(setup: &mut Setup) -> anyhow::Result<()> {
    add_rule(setup, "named", &json!({ "methods": ["POST"] }), 409)?;
    add_rule(
        setup,
        "guarded-elsewhere",
        &json!({ "path_prefix": "/orders/", "hosts": ["no.example"] }),
        400,
    )?;
    let routes: String = [
        ("/named/", "named"),
        ("/payments/scripted/named", "named"),
        ("/elsewhere/", "guarded-elsewhere"),
        ("/payments/scripted/off", "off"),
        ("/unknown/", "nobody"),
        ("/payments/scripted/unknown", "Named"),
    ]
    .iter()
    .map(|(prefix, rule)| {
        format!(
            "- match: {{ prefix: {prefix} }}\n  route: {{ cluster: scripted, timeout: 0s }}\n  \
             metadata: {{ filter_metadata: {{ latchkey: {{ rule: \"{rule}\" }} }} }}\n"
        )
    })
    .collect();
    setup.ingress.insert_before("- match: { safe_regex", routes.trim_end())?;
    // What is executed detached comes to these routes.
    let inner = "- match: { prefix: / }\n  route: { cluster: scripted, timeout: 0s }";
    setup.inner.insert_before("- match: { safe_regex", inner)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_names_its_rule_which_goes_before_every_match() {
    play_scripted(&EVERY_MODE, with_named_rules, async |act, upstream, _| {
        let host = "payments.example";
        for (request, status) in [
            (("POST", host, "/named/plain"), Some(409)),
            (("POST", host, "/payments/scripted/named"), Some(409)),
            (("POST", host, "/elsewhere/its-match-does-not-count"), Some(400)),
            (("PATCH", host, "/elsewhere/its-methods-are-the-default"), Some(400)),
            (("PUT", host, "/named/other-method"), None),
            (("PATCH", host, "/named/other-default"), None),
            (("POST", host, "/payments/scripted/off"), None),
            (("POST", host, "/payments/scripted/its-own"), Some(422)),
        ] {
            let had = whose(act, upstream, request).await?;
            ensure!(had == status, "{request:?} was had by {had:?} and not {status:?}");
        }
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_that_names_no_rule_there_is_executes_nothing() {
    play_scripted(&EVERY_MODE, with_named_rules, async |act, upstream, _| {
        for path in ["/unknown/keyed", "/payments/scripted/unknown"] {
            let name = path.rsplit('/').next().unwrap_or_default();
            number_answers(upstream, name);
            let keyed = Request::post(path).key(name);
            let get = Request::new(Method::GET, path);
            for request in [&keyed, &keyed, &keyed.clone().without_key(), &get] {
                let refused = act.send(request).await?;
                check_problem(&refused, 500, "idempotency-rule-unknown")?;
                ensure!(refused.json()["retryable"] == false, "{:?}", refused.body);
            }
            upstream.heard(name, 0)?;
        }
        let refused = "wasmcustom.latchkey_refused";
        let refused = act.stage.first_gateway().statistic(refused).await?;
        ensure!(refused == 8, "{refused} were refused");
        Ok(())
    })
    .await;
}

/// A rule with keys in three fields, of which the upstream gets what `upstream` says.
fn several_fields(upstream: &'static str) -> impl Fn(&mut Setup) -> anyhow::Result<()> {
    move |setup| {
        setup.rule("payments")["key"] = json!({
            "header": "Idempotency-Key",
            "also": ["PayPal-Request-Id", "x-idempotency-key"],
            "upstream": upstream,
        });
        Ok(())
    }
}

const FIELDS: [&str; 3] = ["idempotency-key", "paypal-request-id", "x-idempotency-key"];

/// The lines of all key fields that the upstream got.
fn keys_heard(upstream: &Scripted, name: &str) -> anyhow::Result<Vec<(String, String)>> {
    let heard = upstream.heard(name, 1)?;
    let lines = heard.into_iter().flat_map(|request| request.headers);
    Ok(lines.filter(|(name, _)| FIELDS.contains(&name.as_str())).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_key_in_one_of_several_fields_is_the_same_key_and_two_are_refused() {
    play_scripted(&EVERY_MODE, several_fields("derived"), async |act, upstream, _| {
        for first in FIELDS {
            let name = &format!("first-in-{first}");
            number_answers(upstream, name);
            let request = Request::post(&path("payments", name));
            check_number(act, &request.clone().header(first, name), 1, false).await?;
            for again in FIELDS {
                check_number(act, &request.clone().header(again, name), 1, true).await?;
                let quoted = request.clone().header(again, format!("\"{name}\""));
                check_number(act, &quoted, 1, true).await?;
                for (another, key) in [(first, "another"), ("x-idempotency-key", name)] {
                    let two = request.clone().header(again, name).header(another, key);
                    let refused = act.send(&two).await?;
                    check_problem(&refused, 400, INVALID)?;
                    let detail = refused.json()["detail"].to_string();
                    ensure!(detail.contains("`idempotency-key`"), "{detail}");
                }
            }
            let keys = keys_heard(upstream, name)?;
            ensure!(keys.len() == 1 && keys[0].0 == "idempotency-key", "{keys:?}");
            ensure!(keys[0].1.len() == 36 && keys[0].1 != *name, "{keys:?}");
        }
        let none = act.send(&Request::post(&path("payments", "none"))).await?;
        check_problem(&none, 400, MISSING)?;
        upstream.heard("none", 0).map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_upstream_gets_the_clients_key_as_it_came_where_the_rule_says_so() {
    play_scripted(&EVERY_MODE, several_fields("client"), async |act, upstream, _| {
        for field in FIELDS {
            for (number, key) in ["plain", "\"quoted\"", "\"with\";a=1"].into_iter().enumerate() {
                let name = &format!("{field}-{number}");
                number_answers(upstream, name);
                let request = Request::post(&path("payments", name));
                let key = key.replacen(['p', 'q', 'w'], &format!("{name}-"), 1);
                check_number(act, &request.header(field, &key), 1, false).await?;
                let keys = keys_heard(upstream, name)?;
                ensure!(keys == [(field.to_owned(), key)], "the upstream got {keys:?}");
                let heard = upstream.heard(name, 1)?;
                ensure!(heard[0].header("idempotency-attempt") == Some("1"), "{:?}", heard[0]);
            }
        }
        Ok(())
    })
    .await;
}
