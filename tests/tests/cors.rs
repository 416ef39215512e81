//! Scripts of other origins, behind Envoy's own CORS filter.

use anyhow::ensure;
use hyper::Method;
use latchkey_tests::client::{Answer, Request};
use latchkey_tests::scenario::{EVERY_MODE, check_problem, check_status, play_scripted};
use latchkey_tests::scripted::{answer, path};
use latchkey_tests::stage::Setup;

const EXPOSED: &str = "access-control-expose-headers";
const ALLOWED: &str = "access-control-allow-origin";

/// Our fields that scripts may read.
const OURS: [&str; 2] = ["idempotent-replayed", "idempotency-status"];

/// The CORS filter before all others: a preflight has no credentials.
fn with_cors(setup: &mut Setup) -> anyhow::Result<()> {
    let filter = include_str!("cors/filter.yaml");
    setup.ingress.insert_before("- name: envoy.filters.http.api_key_auth", filter)?;
    setup.ingress.insert_before("routes:", include_str!("cors/policy.yaml"))
}

/// The names that a script may read, of all lines.
fn exposed(answer: &Answer) -> Vec<String> {
    let lines = answer.headers.get_all(EXPOSED).iter().filter_map(|line| line.to_str().ok());
    let names = lines.flat_map(|line| line.split(','));
    names.map(|name| name.trim().to_ascii_lowercase()).collect()
}

fn check_exposed(answer: &Answer, names: &[&str]) -> anyhow::Result<()> {
    let exposed = exposed(answer);
    let all = names.iter().all(|name| exposed.iter().any(|it| it == name));
    ensure!(all, "{answer} lets scripts read {exposed:?} and not {names:?}");
    Ok(())
}

fn check_origin(answer: &Answer, origin: &str) -> anyhow::Result<()> {
    let lines: Vec<_> = answer.headers.get_all(ALLOWED).iter().collect();
    ensure!(lines == [origin], "{answer} is for {lines:?} and not for {origin}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_is_for_the_origin_that_asks_and_lets_it_read_our_fields() {
    play_scripted(&EVERY_MODE, with_cors, async |act, upstream, _| {
        let name = "origins";
        let headers = ["x-payment-id: 7", "access-control-expose-headers: X-Payment-Id"];
        upstream.answers(name, &[answer(201, &headers, "made")]);
        let request = Request::post(&path("payments", name)).key(name);
        let asks = |origin| request.clone().header("origin", origin);
        let first = act.send(&asks("https://a.example")).await?;
        check_status(&first, 201)?;
        check_origin(&first, "https://a.example")?;
        check_exposed(&first, &OURS)?;
        check_exposed(&first, &["x-payment-id"])?;
        for origin in ["https://b.example", "https://a.example"] {
            let again = act.send(&asks(origin)).await?;
            ensure!(again.is_replayed(), "{:?}", again.headers);
            check_origin(&again, origin)?;
            check_exposed(&again, &OURS)?;
        }
        let nobody = act.send(&asks("https://elsewhere.test")).await?;
        ensure!(nobody.is_replayed() && nobody.header(ALLOWED).is_none(), "{:?}", nobody.headers);
        let no_script = act.send(&request).await?;
        ensure!(no_script.is_replayed(), "{:?}", no_script.headers);
        ensure!(no_script.header(EXPOSED).is_none(), "{:?}", no_script.headers);
        upstream.heard(name, 1)?;
        let other = asks("https://b.example").bytes("another order");
        let problem = act.send(&other).await?;
        check_problem(&problem, 422, "idempotency-key-reused")?;
        check_origin(&problem, "https://b.example")?;
        check_exposed(&problem, &["retry-after"])?;
        let problem = act.send(&asks("https://b.example").without_key()).await?;
        check_problem(&problem, 400, "idempotency-key-missing")?;
        check_origin(&problem, "https://b.example")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preflight_is_answered_before_any_key_is_asked_for() {
    play_scripted(&EVERY_MODE, with_cors, async |act, upstream, _| {
        let name = "preflight";
        upstream.answers(name, &[answer(201, &[], "made")]);
        let preflight = Request::new(Method::OPTIONS, &path("payments", name))
            .header("origin", "https://a.example")
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "idempotency-key");
        for _ in 0..2 {
            let answer = act.send(&preflight).await?;
            check_status(&answer, 200)?;
            check_origin(&answer, "https://a.example")?;
            let allowed = answer.header("access-control-allow-headers").unwrap_or_default();
            ensure!(allowed.contains("idempotency-key"), "{:?}", answer.headers);
            ensure!(answer.header("idempotent-replayed").is_none(), "{:?}", answer.headers);
        }
        upstream.heard(name, 0).map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_exposes_fields_of_its_own_is_the_only_one_that_does() {
    let with_fields = |setup: &mut Setup| {
        with_cors(setup)?;
        let fields = "expose_headers: \"location, idempotent-replayed\"";
        setup.ingress.insert_before("allow_methods:", fields)
    };
    play_scripted(&EVERY_MODE, with_fields, async |act, upstream, _| {
        let name = "policy";
        upstream.answers(name, &[answer(201, &["location: /payments/7"], "made")]);
        let request = Request::post(&path("payments", name)).key(name);
        let request = request.header("origin", "https://a.example");
        for replayed in [false, true] {
            let answer = act.send(&request).await?;
            ensure!(answer.is_replayed() == replayed, "{:?}", answer.headers);
            // Envoy's filter puts its policy in the place of every other line.
            ensure!(exposed(&answer) == ["location", OURS[0]], "{:?}", answer.headers);
        }
        Ok(())
    })
    .await;
}
