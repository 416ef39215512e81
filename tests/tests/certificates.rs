//! Clients that are known by their certificates, through a listener that requires them.

use std::net::SocketAddr;

use anyhow::ensure;
use latchkey_tests::client::Request;
use latchkey_tests::scenario::{
    EVERY_MODE, EVERY_MODE_AND_STORE, check_problem, check_status, number_answers, play_scripted,
};
use latchkey_tests::scripted::path;
use latchkey_tests::stage::Setup;
use serde_json::json;

#[path = "certificates/identities.rs"]
mod identities;

use identities::{Identity, Proof, stand_before};

const ACME: &str = "spiffe://example/acme";
const GLOBEX: &str = "spiffe://example/globex";

/// Payments are kept by the certificates' URIs.
fn by_certificate(clients: &[Identity], missing: &str, setup: &mut Setup) -> anyhow::Result<()> {
    setup.rule("payments")["client"] = json!({ "uri_san": true, "missing": missing });
    stand_before(setup, clients)
}

fn post(name: &str) -> Request {
    Request::post(&path("payments", name)).key(name).bytes("an order")
}

/// Sends by a proxy, and checks that execution `number` answers, now or in a replay.
async fn check_number(
    request: &Request,
    proxy: SocketAddr,
    number: usize,
    replayed: bool,
) -> anyhow::Result<()> {
    let answer = request.send(proxy).await?;
    check_status(&answer, 201)?;
    ensure!(answer.body == number.to_string(), "{:?} and not {number}", answer.body);
    ensure!(answer.is_replayed() == replayed, "replayed: {:?}", answer.headers);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_certificates_first_uri_is_the_client_whichever_certificate_it_is() {
    let clients = [
        Identity::new("acme", Proof::Uris(&[ACME])),
        Identity::new("acme_renewed", Proof::Uris(&[ACME])),
        Identity::new("globex", Proof::Uris(&[GLOBEX])),
        Identity::new("acme_first", Proof::Uris(&[ACME, GLOBEX])),
        Identity::new("globex_first", Proof::Uris(&[GLOBEX, ACME])),
        Identity::new("another", Proof::Uris(&["spiffe://example/acme/"])),
    ];
    let change = |setup: &mut Setup| by_certificate(&clients, "reject", setup);
    play_scripted(&EVERY_MODE_AND_STORE, change, async |_, upstream, _| {
        let [acme, acme_renewed, globex, acme_first, globex_first, another] =
            clients.each_ref().map(|client| client.proxy);
        let name = "certified";
        number_answers(upstream, name);
        check_number(&post(name), acme, 1, false).await?;
        check_number(&post(name), globex, 2, false).await?;
        check_number(&post(name), another, 3, false).await?;
        // The second time over a TLS session that is resumed.
        for _ in 0..2 {
            for proxy in [acme, acme_renewed, acme_first] {
                check_number(&post(name), proxy, 1, true).await?;
            }
            for proxy in [globex, globex_first] {
                check_number(&post(name), proxy, 2, true).await?;
            }
            check_number(&post(name), another, 3, true).await?;
        }
        // What a client says of itself is not asked.
        for header in ["x-forwarded-client-cert", "x-client-id"] {
            let forged = post(name).header(header, format!("URI={ACME}"));
            check_number(&forged, globex, 2, true).await?;
        }
        upstream.heard(name, 3).map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_without_a_uri_is_refused_passed_or_kept_with_others_as_the_rule_says() {
    let clients = [
        Identity::new("acme", Proof::Uris(&[ACME])),
        Identity::new("nameless", Proof::Host),
        Identity::new("nameless_too", Proof::Host),
    ];
    let [acme, nameless, nameless_too] = clients.each_ref().map(|client| client.proxy);
    let name = "nameless";
    let change = |missing| {
        let clients = &clients;
        move |setup: &mut Setup| by_certificate(clients, missing, setup)
    };
    play_scripted(&EVERY_MODE, change("reject"), async |_, upstream, _| {
        number_answers(upstream, name);
        let refused = post(name).send(nameless).await?;
        check_problem(&refused, 400, "idempotency-client-unknown")?;
        upstream.heard(name, 0)?;
        check_number(&post(name), acme, 1, false).await
    })
    .await;
    play_scripted(&EVERY_MODE, change("anonymous"), async |_, upstream, _| {
        number_answers(upstream, name);
        check_number(&post(name), nameless, 1, false).await?;
        check_number(&post(name), nameless_too, 1, true).await?;
        check_number(&post(name), acme, 2, false).await
    })
    .await;
    play_scripted(&EVERY_MODE, change("bypass"), async |_, upstream, _| {
        number_answers(upstream, name);
        for number in ["1", "2"] {
            let passed = post(name).send(nameless).await?;
            check_status(&passed, 201)?;
            ensure!(passed.body == number, "{:?}", passed.body);
            let told = passed.header("idempotency-status");
            ensure!(told == Some("bypassed"), "{:?}", passed.headers);
        }
        check_number(&post(name), acme, 3, false).await?;
        check_number(&post(name), acme, 3, true).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_no_certificate_of_the_authority_gets_no_replay() {
    let clients = [
        Identity::new("acme", Proof::Uris(&[ACME])),
        Identity::new("stranger", Proof::Strange(ACME)),
        Identity::new("nobody", Proof::Nothing),
    ];
    let change = |setup: &mut Setup| by_certificate(&clients, "anonymous", setup);
    play_scripted(&EVERY_MODE, change, async |_, upstream, _| {
        let [acme, strangers @ ..] = clients.each_ref().map(|client| client.proxy);
        let name = "trusted";
        number_answers(upstream, name);
        check_number(&post(name), acme, 1, false).await?;
        for proxy in strangers {
            let answer = post(name).send(proxy).await;
            ensure!(answer.is_err(), "answered {answer:?}");
        }
        check_number(&post(name), acme, 1, true).await?;
        upstream.heard(name, 1).map(drop)
    })
    .await;
}
