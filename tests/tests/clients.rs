//! Who the client is, by each way in which Envoy can know it: clients never meet under one key,
//! and a client is the same one whichever way it is known by. Certificates are in `certificates`.

use anyhow::{Context as _, ensure};
use latchkey_tests::client::{Client, Request, raw};
use latchkey_tests::scenario::{
    Act, EVERY_MODE, EVERY_MODE_AND_STORE, check_number, check_problem, check_status,
    number_answers, play_scripted,
};
use latchkey_tests::scripted::{Scripted, path};
use latchkey_tests::stage::Setup;
use serde_json::{Value, json};

#[path = "clients/jwt.rs"]
mod jwt;

const UNKNOWN: &str = "idempotency-client-unknown";

/// Behind Envoy's own verification of tokens, of which `claim` names the client: payments need
/// one, orders do not.
fn with_tokens(claim: &str, missing: &str) -> impl Fn(&mut Setup) -> anyhow::Result<()> {
    move |setup| {
        for book in ["payments", "orders"] {
            setup.rule(book)["client"] =
                json!({ "jwt_claim": claim, "jwt_payload": "verified", "missing": missing });
        }
        let filter = include_str!("clients/jwt_authn.yaml");
        let filter = filter.replace("JWKS", &jwt::key_set().to_string());
        setup.ingress.insert_before("- name: latchkey", &filter)
    }
}

fn post(book: &str, name: &str) -> Request {
    Request::post(&path(book, name)).key(name).bytes("an order")
}

fn bearing(request: &Request, token: &str) -> Request {
    request.clone().header("authorization", format!("Bearer {token}"))
}

/// With a token of these claims.
fn with_claims(request: &Request, claims: &Value) -> Request {
    bearing(request, &jwt::token(claims))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_of_the_verified_token_is_the_client_whichever_token_it_is() {
    play_scripted(&EVERY_MODE_AND_STORE, with_tokens("sub", "reject"), async |act, upstream, _| {
        let name = "claims";
        number_answers(upstream, name);
        let request = post("payments", name);
        let acme = with_claims(&request, &json!({ "sub": "acme", "jti": "1" }));
        let globex = with_claims(&request, &json!({ "sub": "globex", "jti": "1" }));
        check_number(act, &acme, 1, false).await?;
        check_number(act, &globex, 2, false).await?;
        let renewed = json!({ "sub": "acme", "jti": "2", "iat": 1_700_000_000, "more": [1] });
        check_number(act, &with_claims(&request, &renewed), 1, true).await?;
        check_number(act, &globex.clone().client(Client::Globex), 2, true).await?;
        // Names are compared byte for byte.
        for (number, sub) in [(3, "Acme"), (4, "acme "), (5, "acm"), (6, "caf\u{e9}")] {
            let request = with_claims(&request, &json!({ "sub": sub }));
            check_number(act, &request, number, false).await?;
            check_number(act, &request, number, true).await?;
        }
        // Whoever has no good token gets no replay.
        let expired = jwt::token(&json!({ "sub": "acme", "exp": 1_700_000_000 }));
        let forged = jwt::forged(&json!({ "sub": "acme" }));
        let elsewhere = jwt::token(&json!({ "sub": "acme", "iss": "https://other.example" }));
        for token in [expired, forged, elsewhere] {
            let refused = act.send(&bearing(&request, &token)).await?;
            check_status(&refused, 401)?;
            ensure!(refused.header("idempotent-replayed").is_none(), "{:?}", refused.headers);
        }
        check_status(&act.send(&request).await?, 401)?;
        upstream.heard(name, 6).map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_names_nobody_is_refused() {
    play_scripted(&EVERY_MODE, with_tokens("sub", "reject"), async |act, upstream, _| {
        let name = "nobody";
        number_answers(upstream, name);
        let request = post("payments", name);
        for claims in [json!({}), json!({ "sub": "" }), json!({ "subject": "acme" })] {
            let refused = act.send(&with_claims(&request, &claims)).await?;
            check_problem(&refused, 400, UNKNOWN)?;
        }
        check_problem(&act.send(&post("orders", name)).await?, 400, UNKNOWN)?;
        upstream.heard(name, 0).map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_no_name_is_refused_whatever_becomes_of_those_without() {
    for missing in ["reject", "anonymous", "bypass"] {
        play_scripted(&EVERY_MODE, with_tokens("account", missing), async |act, upstream, _| {
            let name = "no-name";
            number_answers(upstream, name);
            let request = post("payments", name);
            let long = "n".repeat(513);
            for account in [
                json!(7),
                json!(1.5),
                json!(9_007_199_254_740_993_u64),
                json!(true),
                json!(false),
                json!(["acme"]),
                json!({ "name": "acme" }),
                json!("a\nb"),
                json!("a\u{0}"),
                json!("\u{85}"),
                json!(long),
            ] {
                let request = with_claims(&request, &json!({ "account": account }));
                let refused = act.send(&request).await?;
                check_problem(&refused, 400, UNKNOWN).with_context(|| account.to_string())?;
            }
            upstream.heard(name, 0)?;
            let longest = json!({ "account": long[1..] });
            check_number(act, &with_claims(&request, &longest), 1, false).await.map(drop)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_without_a_name_are_one_where_the_rule_says_so() {
    play_scripted(&EVERY_MODE, with_tokens("account", "anonymous"), async |act, upstream, _| {
        let name = "anonymous";
        number_answers(upstream, name);
        let order = post("orders", name);
        check_number(act, &order, 1, false).await?;
        for claims in [json!({}), json!({ "account": "" }), json!({ "account": null })] {
            check_number(act, &with_claims(&order, &claims), 1, true).await?;
        }
        check_number(act, &order.clone().client(Client::Globex), 1, true).await?;
        // Whoever has a name is not one of them, be it called like this.
        for (number, account) in [(2, "anonymous"), (3, "acme")] {
            let named = with_claims(&order, &json!({ "account": account }));
            check_number(act, &named, number, false).await?;
        }
        check_number(act, &order, 1, true).await?;
        upstream.heard(name, 3).map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_without_a_name_pass_where_the_rule_says_so_and_are_told() {
    play_scripted(&EVERY_MODE, with_tokens("sub", "bypass"), async |act, upstream, _| {
        let name = "bypass";
        number_answers(upstream, name);
        let order = post("orders", name);
        let acme = with_claims(&order, &json!({ "sub": "acme" }));
        let sent = [order.clone(), with_claims(&order, &json!({})), order];
        for (number, request) in (1..).zip(&sent) {
            let passed = check_number(act, request, number, false).await?;
            let told = passed.header("idempotency-status");
            ensure!(told == Some("bypassed"), "{:?}", passed.headers);
        }
        check_number(act, &acme, 4, false).await?;
        let replay = check_number(act, &acme, 4, true).await?;
        ensure!(replay.header("idempotency-status").is_none(), "{:?}", replay.headers);
        let heard = upstream.heard(name, 4)?;
        let keys: Vec<_> = heard.iter().map(|it| it.header("idempotency-key")).collect();
        ensure!(keys[..3] == [Some(name); 3] && keys[3] != Some(name), "{keys:?}");
        let bypassed = "wasmcustom.latchkey_bypassed";
        ensure!(act.stage.first_gateway().statistic(bypassed).await? == 3);
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_client_is_everybody() {
    let fixed = |setup: &mut Setup| {
        setup.rule("payments")["client"] = json!({ "fixed": "partner" });
        setup.rule("orders")["client"] = json!({ "fixed": "another" });
        Ok(())
    };
    play_scripted(&EVERY_MODE, fixed, async |act, upstream, _| {
        let name = "fixed";
        number_answers(upstream, name);
        let request = post("payments", name);
        check_number(act, &request, 1, false).await?;
        check_number(act, &request.clone().client(Client::Globex), 1, true).await?;
        check_number(act, &request.header("x-client-id", "globex"), 1, true).await?;
        check_number(act, &post("orders", name), 2, false).await.map(drop)
    })
    .await;
}

/// Routes for the same paths that name rules by a header, each with its way to know the client.
fn by_several_ways(setup: &mut Setup) -> anyhow::Result<()> {
    with_tokens("sub", "reject")(setup)?;
    let rules = setup.filter["rules"].as_array().cloned().unwrap_or_default();
    for (way, client) in [
        ("by-token", json!({ "jwt_claim": "sub", "jwt_payload": "verified" })),
        ("by-header", json!({ "header": "x-client-id" })),
        ("by-name", json!({ "fixed": "acme" })),
    ] {
        let mut rule = rules[0].clone();
        rule["name"] = json!(way);
        rule["match"] = json!({});
        rule["client"] = client;
        if let Some(rules) = setup.filter["rules"].as_array_mut() {
            rules.push(rule);
        }
        let matches = format!("headers: [ {{ name: x-way, string_match: {{ exact: {way} }} }} ]");
        let route = format!(
            "- match: {{ prefix: /, {matches} }}\n  route: {{ cluster: scripted, timeout: 0s }}\n  \
             metadata: {{ filter_metadata: {{ latchkey: {{ rule: {way} }} }} }}"
        );
        setup.ingress.insert_before("- match: { safe_regex", &route)?;
    }
    Ok(())
}

async fn ways(act: &Act<'_>, upstream: &Scripted) -> anyhow::Result<()> {
    let name = "ways";
    number_answers(upstream, name);
    let by = |way: &str, token: &str, client: Client| {
        let request = post("orders", name).header("x-way", way).client(client);
        with_claims(&request, &json!({ "sub": token }))
    };
    // Known as acme by the token, by the credential, or by nothing.
    check_number(act, &by("by-token", "acme", Client::Globex), 1, false).await?;
    check_number(act, &by("by-header", "globex", Client::Acme), 1, true).await?;
    check_number(act, &by("by-name", "globex", Client::Globex), 1, true).await?;
    // And as globex.
    check_number(act, &by("by-header", "acme", Client::Globex), 2, false).await?;
    check_number(act, &by("by-token", "globex", Client::Acme), 2, true).await?;
    upstream.heard(name, 2).map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_the_same_one_whichever_way_it_is_known() {
    play_scripted(&EVERY_MODE, by_several_ways, async |act, upstream, _| ways(act, upstream).await)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_names_a_client_is_one_line_of_text() {
    let by_tenant = |setup: &mut Setup| {
        setup.rule("payments")["client"] = json!({ "header": "X-Tenant" });
        Ok(())
    };
    play_scripted(&EVERY_MODE, by_tenant, async |act, upstream, _| {
        let name = "tenants";
        number_answers(upstream, name);
        let bytes = |tenant: &[u8]| {
            let head = format!(
                "POST {} HTTP/1.1\r\nhost: payments.example\r\nx-api-key: acme-demo-key\r\n\
                 idempotency-key: {name}\r\ncontent-length: 0\r\nx-tenant: ",
                path("payments", name)
            );
            [head.as_bytes(), tenant, b"\r\n\r\n"].concat()
        };
        let long = "n".repeat(512);
        let known = [b"a".as_slice(), "caf\u{e9}".as_bytes(), b"a,b", long.as_bytes()];
        for (number, tenant) in (1..).zip(known) {
            for replayed in ["false", "true"] {
                let (_, told) = raw::converse(act.gateway(), &bytes(tenant)).await?;
                ensure!(told.header("idempotent-replayed") == Some(replayed), "{told:?}");
                ensure!(told.body == number.to_string().into_bytes(), "{told:?}");
            }
        }
        let long = format!("{long}n");
        for tenant in [&b""[..], b"a\r\nx-tenant: a", b"caf\xe9", b"a\tb", long.as_bytes()] {
            let (_, refused) = raw::converse(act.gateway(), &bytes(tenant)).await?;
            ensure!(refused.status() == Some(400), "{refused:?}");
            ensure!(String::from_utf8_lossy(&refused.body).contains(UNKNOWN), "{refused:?}");
        }
        upstream.heard(name, 4).map(drop)
    })
    .await;
}
