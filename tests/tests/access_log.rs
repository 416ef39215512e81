//! What Envoy's access log can say of each request: the rule, the outcome, whether it was a
//! replay, which attempt it caused, and who answered.

use std::path::Path;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use hyper::Method;
use latchkey_tests::client::Request;
use latchkey_tests::scenario::{Act, EVERY_MODE, Mode, pay, play_scripted};
use latchkey_tests::scripted::{Scripted, answer, path};
use latchkey_tests::stage::Setup;
use latchkey_tests::wait::until;
use serde_json::{Value, json};

const LOG: &str = "access.log";

/// Logs what clients send. Orders need neither key nor client.
fn logged(setup: &mut Setup) -> anyhow::Result<()> {
    let orders = setup.rule("orders");
    orders["key"] = json!({ "required": false });
    orders["client"] = json!({ "header": "x-tenant", "missing": "bypass" });
    orders["request_body_max_bytes"] = json!(1000);
    setup.filter["state"]["timeout_ms"] = json!(100);
    for (prefix, rule) in [("/payments/scripted/off", "off"), ("/unknown/", "nobody")] {
        let route = format!(
            "- match: {{ prefix: {prefix} }}\n  route: {{ cluster: scripted }}\n  \
             metadata: {{ filter_metadata: {{ latchkey: {{ rule: \"{rule}\" }} }} }}"
        );
        setup.ingress.insert_before("- match: { safe_regex", &route)?;
    }
    let file = setup.folder.join(LOG);
    let file = file.to_str().context("the path is not UTF-8")?;
    let log = include_str!("access_log/log.yaml").replace("PATH", file);
    setup.ingress.insert_before("http_filters:", &log)
}

/// The entry of the request that was sent as `case`, once it is there.
async fn entry(folder: &Path, case: &str) -> anyhow::Result<Value> {
    until(&format!("{case} is logged"), async || {
        let log = std::fs::read_to_string(folder.join(LOG)).unwrap_or_default();
        let entries = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut entries: Vec<_> = entries.filter(|entry| entry["case"] == case).collect();
        ensure!(entries.len() < 2, "{case} was logged more than once: {entries:?}");
        Ok(entries.pop())
    })
    .await
}

/// What the log says of a request: its status and details, then rule, outcome, whether it was
/// replayed, and the attempt.
type Expected<'a> = (u16, &'a str, [Option<&'a str>; 4]);

/// Checks the entry of `case`.
async fn is_logged(act: &Act<'_>, case: &str, expected: Expected<'_>) -> anyhow::Result<()> {
    let (status, details, fields) = expected;
    let entry = entry(&act.stage.first_gateway().setup().folder, case).await?;
    let names = ["rule", "outcome", "replayed", "attempt"];
    let logged: Vec<_> = names.iter().map(|name| entry[name].as_str()).collect();
    ensure!(entry["status"] == status, "{case}: {entry}");
    ensure!(entry["details"] == details, "{case}: {entry} and not {details}");
    ensure!(logged == fields, "{case}: {entry} and not {fields:?}");
    Ok(())
}

/// Sends `request` as `case`, and checks its entry.
async fn sends(
    act: &Act<'_>,
    case: &str,
    request: &Request,
    expected: Expected<'_>,
) -> anyhow::Result<()> {
    act.send(&request.clone().header("x-case", case)).await?;
    is_logged(act, case, expected).await
}

fn post(book: &str, name: &str) -> Request {
    Request::post(&path(book, name)).key(name).bytes("an order")
}

const PAYMENTS: Option<&str> = Some("payments");
const ORDERS: Option<&str> = Some("orders");
const YES: Option<&str> = Some("true");
const NO: Option<&str> = Some("false");

/// Who answers what was executed: the gateway by itself, or the upstream through the router.
fn details_of_executed(mode: Mode) -> &'static str {
    match mode {
        Mode::Detached | Mode::Direct => "latchkey_executed",
        Mode::Attached => "via_upstream",
    }
}

async fn what_is_executed(act: &Act<'_>, upstream: &Scripted, mode: Mode) -> anyhow::Result<()> {
    let executed = details_of_executed(mode);
    let made = answer(201, &[], "made");
    upstream.answers("paid", std::slice::from_ref(&made));
    let paid = post("payments", "paid");
    let fresh = (201, executed, [PAYMENTS, Some("executed"), NO, Some("1")]);
    sends(act, "executed", &paid, fresh).await?;
    let replay = (201, "latchkey_replayed", [PAYMENTS, Some("replayed"), YES, None]);
    sends(act, "replay", &paid, replay).await?;
    let reused = (422, "latchkey_key_reused", [PAYMENTS, Some("key_reused"), NO, None]);
    sends(act, "mismatch", &paid.bytes("another order"), reused).await?;

    upstream.answers("again", &[answer(429, &[], ""), made]);
    let again = post("payments", "again");
    for (case, status, attempt) in [("first", 429, "1"), ("second", 201, "2")] {
        let fresh = (status, executed, [PAYMENTS, Some("executed"), NO, Some(attempt)]);
        sends(act, case, &again, fresh).await?;
    }

    let unknown = Some("outcome_unknown");
    let lost = post("payments", "closed");
    upstream.answers("closed", &[""]);
    let first = (502, "latchkey_outcome_unknown", [PAYMENTS, unknown, NO, Some("1")]);
    sends(act, "lost", &lost, first).await?;
    let held = (409, "latchkey_outcome_unknown", [PAYMENTS, unknown, NO, None]);
    sends(act, "held", &lost, held).await
}

async fn what_runs_already(act: &Act<'_>, mode: Mode) -> anyhow::Result<()> {
    let request = pay("/payments/on-approval", "running");
    let first = act.send_for_later(&request.clone().header("x-case", "running"));
    act.begun("running", 1).await?;
    let running = Some("request_in_progress");
    let refused = (409, "latchkey_request_in_progress", [PAYMENTS, running, NO, None]);
    sends(act, "conflict", &request, refused).await?;
    act.stage.approve("running").await?;
    act.get(first).await?;
    let fields = [PAYMENTS, Some("executed"), NO, Some("1")];
    is_logged(act, "running", (201, details_of_executed(mode), fields)).await
}

async fn what_the_client_did_not_wait_for(act: &Act<'_>, mode: Mode) -> anyhow::Result<()> {
    let request = pay("/payments/on-approval", "gone");
    let first = act.send_for_later(&request.clone().header("x-case", "gone"));
    act.begun("gone", 1).await?;
    drop(first);
    // Nobody was told anything. What the router executes has its number from the start.
    let attempt = Some("1").filter(|_| mode == Mode::Attached);
    let fields = [PAYMENTS, None, None, attempt];
    let details = "downstream_remote_disconnect";
    is_logged(act, "gone", (0, details, fields)).await?;
    act.stage.approve("gone").await
}

async fn what_is_refused_or_passes(act: &Act<'_>, upstream: &Scripted) -> anyhow::Result<()> {
    upstream.answers("other", &[answer(201, &[], "made")]);
    upstream.answers("off", &[answer(201, &[], "made")]);
    let (payment, order) = (post("payments", "other"), post("orders", "other"));
    let named = order.clone().header("x-tenant", "a");
    let refused = |rule| move |outcome| [rule, Some(outcome), None, None];
    let missing = (400, "latchkey_key_missing", refused(PAYMENTS)("key_missing"));
    sends(act, "missing", &payment.clone().without_key(), missing).await?;
    let invalid = (400, "latchkey_key_invalid", refused(PAYMENTS)("key_invalid"));
    sends(act, "invalid", &payment.clone().key("two"), invalid).await?;
    let too_large = (413, "latchkey_payload_too_large", refused(ORDERS)("payload_too_large"));
    sends(act, "large", &named.bytes(Bytes::from(vec![0; 1001])), too_large).await?;
    let unknown = (500, "latchkey_rule_unknown", refused(None)("rule_unknown"));
    sends(act, "unknown", &payment.clone().path("/unknown/other"), unknown).await?;

    let passed = |fields| (201, "via_upstream", fields);
    let bypassed = passed([ORDERS, Some("bypassed"), None, None]);
    sends(act, "bypassed", &order, bypassed).await?;
    let unkeyed = passed([ORDERS, Some("unkeyed"), None, None]);
    sends(act, "unkeyed", &order.without_key(), unkeyed).await?;
    sends(act, "off", &post("payments", "off"), passed([None; 4])).await?;
    let get = Request::new(Method::GET, &path("payments", "other"));
    sends(act, "unguarded", &get, passed([None; 4])).await
}

async fn what_the_state_was_not_asked(act: &mut Act<'_>) -> anyhow::Result<()> {
    act.stage.server.kill();
    let state = Some("state_unavailable");
    let refused = (503, "latchkey_state_unavailable", [PAYMENTS, state, NO, None]);
    sends(act, "no-state", &post("payments", "no-state"), refused).await?;
    act.stage.server.start_again().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_access_log_tells_rule_outcome_replay_attempt_and_who_answered() {
    play_scripted(&EVERY_MODE, logged, async |act, upstream, mode| {
        what_is_executed(act, upstream, mode).await?;
        what_runs_already(act, mode).await?;
        what_the_client_did_not_wait_for(act, mode).await?;
        what_is_refused_or_passes(act, upstream).await?;
        what_the_state_was_not_asked(act).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_tells_of_requests_that_passed_without_the_state() {
    let passes = |setup: &mut Setup| {
        logged(setup)?;
        setup.rule("orders")["on_state_failure"] = json!("pass");
        Ok(())
    };
    play_scripted(&EVERY_MODE, passes, async |act, upstream, _| {
        upstream.answers("passes", &[answer(201, &[], "made")]);
        let order = post("orders", "passes").header("x-tenant", "a");
        act.stage.server.kill();
        let fields = [ORDERS, Some("bypassed"), NO, None];
        sends(act, "passes", &order, (201, "via_upstream", fields)).await
    })
    .await;
}
