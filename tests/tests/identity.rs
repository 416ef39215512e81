//! Whose key it is, which key it is, and which request it belongs to.

use anyhow::{Context as _, ensure};
use hyper::Method;
use latchkey_tests::client::{Client, Request, raw};
use latchkey_tests::http1::Message;
use latchkey_tests::scenario::{
    Act, EVERY_MODE_AND_STORE, check_problem, check_status, play_scripted,
};
use latchkey_tests::scripted::{Scripted, answer, path};
use latchkey_tests::stage::Setup;
use latchkey_tests::wait::until;
use serde_json::json;

const INVALID: &str = "idempotency-key-invalid";
const REUSED: &str = "idempotency-key-reused";
const NO_CLIENT: &str = "idempotency-client-unknown";

#[expect(clippy::unnecessary_wraps, reason = "a change may fail")]
fn unchanged(_: &mut Setup) -> anyhow::Result<()> {
    Ok(())
}

/// Answers every request `name` with 201 and its number.
fn counts(upstream: &Scripted, name: &str) {
    let answers: Vec<_> = (1..=9).map(|number| answer(201, &[], &number.to_string())).collect();
    upstream.answers(name, &answers);
}

fn post(name: &str) -> Request {
    Request::post(&path("payments", name)).bytes("an order")
}

/// The upstream's answer number `number`, as it was or as a replay.
async fn check_number(
    act: &Act<'_>,
    request: &Request,
    number: &str,
    replayed: bool,
) -> anyhow::Result<()> {
    let answer = act.send(request).await?;
    check_status(&answer, 201)?;
    ensure!(answer.body == number, "answered by {:?} and not {number}", answer.body);
    ensure!(answer.is_replayed() == replayed, "replayed: {:?}", answer.headers);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_spelling_of_a_key_is_the_same_key_and_case_counts() {
    play_scripted(&EVERY_MODE_AND_STORE, unchanged, async |act, upstream, _| {
        let name = "spelled";
        counts(upstream, name);
        check_number(act, &post(name).key("8e03978e-40d5"), "1", false).await?;
        for spelled in [
            "\"8e03978e-40d5\"",
            "\"8e03978e-40d5\";v=1",
            "\"8e03978e-40d5\"; created=1700000000; by=\"a;b\"",
            "  \"8e03978e-40d5\"  ",
            "\t8e03978e-40d5\t",
        ] {
            let request = post(name).key(spelled);
            check_number(act, &request, "1", true).await.context(spelled)?;
        }
        check_number(act, &post(name).key("8E03978E-40D5"), "2", false).await?;
        check_number(act, &post(name).key(r#""8e03978e-40d5\"""#), "3", false).await?;
        check_number(act, &post(name).key(r#""8e03978e-40d5\\""#), "4", false).await?;
        upstream.heard(name, 4).map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_is_not_one_key_is_refused_and_never_ignored() {
    play_scripted(&EVERY_MODE_AND_STORE, unchanged, async |act, upstream, _| {
        let name = "no-key";
        counts(upstream, name);
        let longest = "k".repeat(255);
        for wrong in [
            &["same", "same"][..],
            &["\"half", "other half\""],
            &["\"one\"", ""],
            &[""],
            &["\"\""],
            &["\"one\", \"two\""],
            &["one, two"],
            &["one two"],
            &["semi;colon=1"],
            &["br{ace"],
            &["\"open"],
            &["\"closed\" and more"],
            &[r#""bad \escape""#],
            &["\"caf\u{e9}\""],
            &["caf\u{e9}"],
            &[&format!("{longest}k")],
            &[&format!("\"{longest}k\"")],
        ] {
            let request = wrong.iter().fold(post(name), |request, line| request.key(line));
            let refused = act.send(&request).await?;
            check_problem(&refused, 400, INVALID).with_context(|| format!("{wrong:?}"))?;
            ensure!(refused.header("cache-control") == Some("no-store"), "{:?}", refused.headers);
        }
        let missing = act.send(&post(name)).await?;
        check_problem(&missing, 400, "idempotency-key-missing")?;
        upstream.heard(name, 0)?;
        check_number(act, &post(name).key(&longest), "1", false).await?;
        check_number(act, &post(name).key(&format!("\"{longest}\"")), "1", true).await
    })
    .await;
}

/// `request`, with another first line and host.
fn raw_request(method: &str, path: &str, host: &str, name: &str, more: &str) -> Vec<u8> {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nx-api-key: acme-demo-key\r\n\
         idempotency-key: {name}\r\n{more}content-length: 8\r\n\r\nan order"
    )
    .into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_belongs_to_one_method_host_path_query_and_type() {
    let more_methods = |setup: &mut Setup| {
        setup.rule("payments")["match"]["methods"] = json!(["POST", "PATCH", "PUT"]);
        setup.rule("payments")["fingerprint"] = json!({ "headers": ["x-version"] });
        Ok(())
    };
    play_scripted(&EVERY_MODE_AND_STORE, more_methods, async |act, upstream, _| {
        let name = "belongs";
        counts(upstream, name);
        let at = &path("payments", name);
        let host = "payments.example";
        let first = raw_request("POST", at, host, name, "");
        let send = async |bytes: &[u8]| {
            Ok::<_, anyhow::Error>(raw::converse(act.gateway(), bytes).await?.1)
        };
        let is_replay = |answer: &Message| {
            let replayed = answer.header("idempotent-replayed") == Some("true");
            ensure!(answer.status() == Some(201) && replayed && answer.body == b"1", "{answer:?}");
            Ok(())
        };
        ensure!(send(&first).await?.status() == Some(201));
        for other in [
            raw_request("PATCH", at, host, name, ""),
            raw_request("PUT", at, host, name, ""),
            raw_request("POST", at, "other.example", name, ""),
            raw_request("POST", at, "payments.example:8080", name, ""),
            raw_request("POST", &format!("{at}?"), host, name, "x-version: 1\r\n"),
            raw_request("POST", &format!("{at}?a=1"), host, name, ""),
            raw_request("POST", &format!("/payments/{name}"), host, name, ""),
            raw_request("POST", &path("orders", name), host, name, ""),
            raw_request("POST", at, host, name, "content-type: text/plain\r\n"),
            raw_request("POST", at, host, name, "content-encoding: gzip\r\n"),
            raw_request("POST", at, host, name, "x-version: 1\r\n"),
        ] {
            let refused = send(&other).await?;
            let text = String::from_utf8_lossy(&other).into_owned();
            ensure!(refused.status() == Some(422), "{text} is answered {refused:?}");
            ensure!(String::from_utf8_lossy(&refused.body).contains(REUSED), "{refused:?}");
            is_replay(&send(&first).await?)?;
        }
        // What says nothing of the request may differ from one try to the next.
        for more in ["user-agent: another\r\n", "traceparent: 00-1-2-00\r\n", "accept: */*\r\n"] {
            is_replay(&send(&raw_request("POST", at, host, name, more)).await?)?;
        }
        upstream.heard(name, 1).map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_clients_never_share_a_key_and_cannot_take_each_others_name() {
    play_scripted(&EVERY_MODE_AND_STORE, unchanged, async |act, upstream, _| {
        let name = "shared";
        counts(upstream, name);
        let acme = post(name).key(name);
        let globex = acme.clone().client(Client::Globex);
        check_number(act, &acme, "1", false).await?;
        check_number(act, &globex, "2", false).await?;
        for forged in ["acme", "globex", "", "acme,globex"] {
            let acme = acme.clone().header("x-client-id", forged);
            let globex = globex.clone().header("x-client-id", forged);
            check_number(act, &acme, "1", true).await?;
            check_number(act, &globex, "2", true).await?;
            let globex = globex.header("X-Client-Id", "acme");
            check_number(act, &globex, "2", true).await?;
        }
        let heard = upstream.heard(name, 2)?;
        let keys: Vec<_> = heard.iter().map(|request| request.header("idempotency-key")).collect();
        ensure!(keys[0].is_some() && keys[0] != keys[1], "the upstream was told {keys:?}");
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_client_is_refused_passed_or_kept_with_others_as_the_rule_says() {
    let by_tenant = |missing: &'static str| {
        move |setup: &mut Setup| {
            setup.rule("payments")["client"] = json!({ "header": "x-tenant", "missing": missing });
            Ok(())
        }
    };
    let name = "no-client";
    play_scripted(&EVERY_MODE_AND_STORE, by_tenant("reject"), async |act, upstream, _| {
        counts(upstream, name);
        for request in [post(name), post(name).header("x-tenant", "")] {
            check_problem(&act.send(&request.key(name)).await?, 400, NO_CLIENT)?;
        }
        let two = post(name).key(name).header("x-tenant", "a").header("x-tenant", "b");
        check_problem(&act.send(&two).await?, 400, NO_CLIENT)?;
        upstream.heard(name, 0)?;
        check_number(act, &post(name).key(name).header("x-tenant", "a"), "1", false).await
    })
    .await;
    play_scripted(&EVERY_MODE_AND_STORE, by_tenant("bypass"), async |act, upstream, _| {
        counts(upstream, name);
        for number in ["1", "2", "3"] {
            let answer = act.send(&post(name).key(name)).await?;
            check_status(&answer, 201)?;
            ensure!(answer.body == number, "{:?} and not {number}", answer.body);
            ensure!(
                answer.header("idempotency-status") == Some("bypassed"),
                "{:?}",
                answer.headers
            );
            ensure!(answer.header("idempotent-replayed").is_none(), "{:?}", answer.headers);
        }
        let heard = upstream.heard(name, 3)?;
        let keys = heard.iter().map(|request| request.header("idempotency-key"));
        ensure!(keys.clone().all(|key| key == Some(name)), "{:?}", keys.collect::<Vec<_>>());
        Ok(())
    })
    .await;
    play_scripted(&EVERY_MODE_AND_STORE, by_tenant("anonymous"), async |act, upstream, _| {
        counts(upstream, name);
        let request = post(name).key(name);
        check_number(act, &request, "1", false).await?;
        check_number(act, &request.clone().client(Client::Globex), "1", true).await?;
        check_number(act, &request.header("x-tenant", "a"), "2", false).await
    })
    .await;
}

/// Sends until every worker refuses the credential: none must give the answer away any more.
async fn is_refused(act: &Act<'_>, request: &Request) -> anyhow::Result<()> {
    let mut in_a_row = 0;
    until("the credential is refused", async || {
        let answer = request.send(act.gateway()).await?;
        ensure!(matches!(answer.status, 201 | 401), "answered {answer}");
        in_a_row = if answer.status == 401 { in_a_row + 1 } else { 0 };
        Ok((in_a_row > 8).then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_not_let_in_gets_no_replay() {
    let dynamic = |setup: &mut Setup| {
        setup.dynamic_listeners = true;
        Ok(())
    };
    play_scripted(&EVERY_MODE_AND_STORE, dynamic, async |act, upstream, _| {
        let name = "revoked";
        counts(upstream, name);
        let request = post(name).key(name);
        let theirs = request.clone().client(Client::Globex);
        check_number(act, &request, "1", false).await?;
        check_number(act, &theirs, "2", false).await?;
        let at = path("payments", name);
        for credential in ["", "x-api-key: of-nobody\r\n", "x-client-id: acme\r\n"] {
            let bytes = format!(
                "POST {at} HTTP/1.1\r\nhost: payments.example\r\nidempotency-key: {name}\r\n\
                 {credential}content-length: 8\r\n\r\nan order"
            );
            let (_, refused) = raw::converse(act.gateway(), bytes.as_bytes()).await?;
            ensure!(refused.status() == Some(401), "{refused:?}");
            ensure!(refused.header("idempotent-replayed").is_none(), "{refused:?}");
        }
        act.does("revokes a credential");
        act.stage.first_gateway().push_with(|setup| {
            setup.ingress.replace("- { key: acme-demo-key, client: acme }", "")
        })?;
        is_refused(act, &request).await?;
        check_number(act, &theirs, "2", true).await?;
        act.does("gives it back");
        act.stage.first_gateway().push_with(|_| Ok(()))?;
        until("the credential is taken", async || {
            Ok((request.send(act.gateway()).await?.status == 201).then_some(()))
        })
        .await?;
        check_number(act, &theirs, "2", true).await?;
        upstream.heard(name, 2).map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_rule_does_not_name_passes_with_the_clients_own_key() {
    let optional = |setup: &mut Setup| {
        setup.rule("orders")["key"] = json!({ "required": false });
        Ok(())
    };
    play_scripted(&EVERY_MODE_AND_STORE, optional, async |act, upstream, _| {
        for method in [Method::GET, Method::PUT, Method::DELETE, Method::OPTIONS, Method::PATCH] {
            let name = &format!("unguarded-{method}");
            counts(upstream, name);
            let request = Request::new(method, &path("payments", name));
            for number in ["1", "2"] {
                let request = request.clone().key("\"their own\";v=1").key("and another");
                let answer = act.send(&request).await?;
                check_status(&answer, 201)?;
                ensure!(answer.body == number, "{:?} and not {number}", answer.body);
                ensure!(answer.header("idempotent-replayed").is_none(), "{:?}", answer.headers);
            }
            for request in upstream.heard(name, 2)? {
                let keys: Vec<_> = request.lines("idempotency-key").collect();
                ensure!(keys.join(",") == "\"their own\";v=1,and another", "{keys:?}");
                ensure!(request.header("idempotency-attempt").is_none(), "{request:?}");
            }
        }
        let name = "keyless";
        counts(upstream, name);
        let keyless = Request::post(&path("orders", name)).bytes("an order");
        for number in ["1", "2"] {
            check_number(act, &keyless, number, false).await?;
        }
        for request in upstream.heard(name, 2)? {
            ensure!(request.header("idempotency-key").is_none(), "{request:?}");
        }
        let wrong = keyless.key("two words");
        check_problem(&act.send(&wrong).await?, 400, INVALID)?;
        upstream.heard(name, 2).map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_ours_to_say_upstream_no_client_says() {
    let with_client_keys = |setup: &mut Setup| {
        setup.rule("orders")["key"] =
            json!({ "header": "paypal-request-id", "upstream": "client" });
        Ok(())
    };
    play_scripted(&EVERY_MODE_AND_STORE, with_client_keys, async |act, upstream, mode| {
        for (book, header) in [("payments", "idempotency-key"), ("orders", "paypal-request-id")] {
            let name = &format!("forged-{book}");
            counts(upstream, name);
            let request = Request::post(&path(book, name)).header(header, format!("\"{name}\""));
            let request = [
                "idempotency-attempt",
                "idempotency-fence",
                "idempotency-outcome",
                "idempotent-replayed",
                "idempotency-status",
                "x-latchkey-details",
                "x-latchkey-anything",
                "x-envoy-max-retries",
                "x-envoy-upstream-rq-timeout-ms",
                "x-envoy-retry-on",
            ]
            .into_iter()
            .fold(request, |request, name| request.header(name, "77"));
            check_number(act, &request.header("x-theirs", "77"), "1", false).await?;
            let [heard] = &upstream.heard(name, 1)?[..] else { unreachable!() };
            let forged = heard.headers.iter().filter(|(_, value)| value == "77");
            let forged: Vec<_> = forged.map(|(name, _)| name.as_str()).collect();
            ensure!(forged == ["x-theirs"], "{mode:?}: the upstream was told {forged:?}");
            ensure!(heard.lines("idempotency-attempt").collect::<Vec<_>>() == ["1"]);
            ensure!(heard.lines("idempotency-fence").count() == 1);
            if book == "orders" {
                ensure!(heard.header("paypal-request-id") == Some("\"forged-orders\""));
                ensure!(heard.header("idempotency-key").is_none(), "{heard:?}");
            } else {
                let key = heard.header("idempotency-key").map(str::len);
                ensure!(key == Some(36) && heard.lines("idempotency-key").count() == 1);
            }
        }
        Ok(())
    })
    .await;
}
