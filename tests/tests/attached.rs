//! Executions that Envoy's router makes: the same results as those of the gateway's own calls,
//! for everything but a client that hangs up.

use anyhow::{Context as _, ensure};
use latchkey_tests::client::{Answer, Client, Request};
use latchkey_tests::scenario::{
    Act, IN_PROGRESS, Narrator, OUTCOME_UNKNOWN, check_problem, check_replay, check_status, pay,
    play,
};
use latchkey_tests::stage::{Options, Setup, Stage, StoreKind};
use latchkey_tests::wait::until;
use serde_json::json;

/// A body that is held until it is stored, in bytes.
const RESPONSE_MAX_BYTES: usize = 100_000;

/// Payments and orders are executed by Envoy's router.
#[expect(clippy::unnecessary_wraps, reason = "a change may fail")]
fn attached(setup: &mut Setup) -> anyhow::Result<()> {
    for book in ["payments", "orders"] {
        let rule = setup.rule(book);
        rule["execute"] = json!({ "mode": "attached" });
        rule["store"] = json!({ "response_body_max_bytes": RESPONSE_MAX_BYTES });
    }
    Ok(())
}

async fn on_each_store(step: impl AsyncFn(&mut Act<'_>) -> anyhow::Result<()>) {
    for store in [StoreKind::Sqlite, StoreKind::Redis] {
        println!("--- {store:?}");
        let act = async |stage: &mut Stage| step(&mut Act::new(stage, &Narrator)).await;
        Stage::prove_with(Options::on(store), attached, act).await;
    }
}

fn check_fresh(answer: &Answer, status: u16) -> anyhow::Result<()> {
    check_status(answer, status)?;
    let replayed = answer.header("idempotent-replayed");
    ensure!(replayed == Some("false"), "it says idempotent-replayed: {replayed:?}");
    for ours in ["idempotency-outcome", "x-latchkey-details", "idempotency-fence"] {
        ensure!(answer.header(ours).is_none(), "{ours} is told to the client");
    }
    Ok(())
}

/// Waits until no execution is left: none may hang for its answer.
async fn check_nothing_in_flight(act: &Act<'_>) -> anyhow::Result<()> {
    until("no execution is in flight", async || {
        let gauge = "wasmcustom.latchkey_executions_in_flight";
        let gateway = act.stage.first_gateway();
        ensure!(gateway.statistic("wasmcustom.latchkey_first_executions").await? > 0);
        Ok((gateway.statistic(gauge).await? == 0).then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_is_executed_once_and_replayed_with_our_headers_upstream() {
    on_each_store(async |act| {
        let name = "once";
        let request = pay("/payments", name).header("idempotency-fence", "1");
        let request = request.header("accept-encoding", "gzip");
        let first = act.send(&request).await?;
        check_fresh(&first, 201)?;
        check_replay(&first, &act.send(&request).await?)?;
        let executions = act.executed(name, 1).await?;
        act.check_one_key(&executions, name)?;
        let lines = |wanted: &str| {
            let headers = executions[0].headers.iter();
            headers.filter(|(name, _)| name == wanted).map(|(_, value)| value.as_str()).collect()
        };
        let (keys, fences): (Vec<&str>, Vec<&str>) =
            (lines("idempotency-key"), lines("idempotency-fence"));
        ensure!(keys.len() == 1 && keys[0].len() == 36, "the upstream got {keys:?}");
        ensure!(fences.len() == 1 && fences[0].len() > 10, "the upstream got {fences:?}");
        ensure!(lines("idempotency-attempt") == ["1"]);
        ensure!(lines("accept-encoding").is_empty(), "a coded answer could not be replayed");
        check_nothing_in_flight(act).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_of_a_running_request_is_refused_and_another_request_told_so() {
    on_each_store(async |act| {
        let name = "running";
        let request = pay("/payments/on-approval", name);
        let first = act.send_for_later(&request);
        act.begun(name, 1).await?;
        check_problem(&act.send(&request).await?, 409, IN_PROGRESS)?;
        let other = pay("/payments/on-approval", "other").without_key().key(name);
        check_problem(&act.send(&other).await?, 422, "idempotency-key-reused")?;
        let theirs = request.clone().client(Client::Globex).path("/payments");
        check_fresh(&act.send(&theirs).await?, 201)?;
        act.stage.approve(name).await?;
        let first = act.get(first).await?;
        check_fresh(&first, 201)?;
        check_replay(&first, &act.send(&request).await?)?;
        act.executed(name, 2).await.map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_is_executed_again() {
    on_each_store(async |act| {
        let name = "refused";
        let request = pay("/payments", name);
        act.stage.let_payments_accept(false).await?;
        let first = act.send(&request).await?;
        check_problem(&first, 503, "idempotency-upstream-unavailable")?;
        act.stage.let_payments_accept(true).await?;
        check_fresh(&act.retry(&request, &first).await?, 201)?;
        act.executed(name, 1).await?;
        check_nothing_in_flight(act).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_held_or_executed_again_as_the_rule_says() {
    on_each_store(async |act| {
        let held = pay("/payments/commit-then-close", "lost-payments");
        check_problem(&act.send(&held).await?, 502, OUTCOME_UNKNOWN)?;
        check_problem(&act.send(&held).await?, 409, OUTCOME_UNKNOWN)?;
        act.executed("lost-payments", 1).await?;
        let again = pay("/orders/commit-then-close", "lost-orders");
        let first = act.send(&again).await?;
        check_problem(&first, 502, OUTCOME_UNKNOWN)?;
        check_fresh(&act.retry(&again, &first).await?, 201)?;
        let executions = act.executed("lost-orders", 2).await?;
        act.check_one_key(&executions, "lost-orders")?;
        check_nothing_in_flight(act).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_upstreams_failures_are_told_as_they_are() {
    on_each_store(async |act| {
        for status in [401, 429, 503] {
            let name = &format!("flaky-{status}");
            let request = pay(&format!("/orders/flaky?status={status}&times=1"), name);
            check_fresh(&act.send(&request).await?, status)?;
            check_fresh(&act.send(&request).await?, 201)?;
            act.executed(name, 2).await?;
        }
        let name = "broken";
        let request = pay("/payments/flaky?status=500&times=1", name);
        check_fresh(&act.send(&request).await?, 500)?;
        check_problem(&act.send(&request).await?, 409, OUTCOME_UNKNOWN)?;
        act.executed(name, 1).await?;
        check_nothing_in_flight(act).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_client_hangs_up_the_outcome_is_unknown() {
    on_each_store(async |act| {
        for (book, told) in [("payments", 409), ("orders", 201)] {
            let name = &format!("hangs-up-{book}");
            let request = pay(&format!("/{book}/on-approval"), name);
            let first = act.send_for_later(&request);
            act.begun(name, 1).await?;
            act.does("the client hangs up");
            drop(first);
            check_nothing_in_flight(act).await?;
            act.stage.approve(name).await?;
            let again = act.send(&request).await?;
            check_status(&again, told).context(name.clone())?;
            if told == 409 {
                check_problem(&again, 409, OUTCOME_UNKNOWN)?;
            }
        }
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_up_to_the_limit_are_replayed_and_larger_ones_leave_a_tombstone() {
    on_each_store(async |act| {
        let max = RESPONSE_MAX_BYTES;
        for bytes in [0, 1, max - 1, max, max + 1, 10 * max, 30 * max] {
            let name = &format!("answer-{bytes}");
            let path = format!("/payments/answer?reference={name}&bytes={bytes}");
            let request = Request::post(&path).key(name);
            let first = act.send(&request).await?;
            check_fresh(&first, 201).context(name.clone())?;
            ensure!(first.body.len() == bytes, "{} of {bytes} bytes came", first.body.len());
            let again = act.known(&request).await?;
            if bytes <= max {
                check_replay(&first, &again).context(name.clone())?;
                ensure!(first.header("idempotency-status").is_none());
            } else {
                check_problem(&again, 409, "idempotency-replay-unavailable")?;
                ensure!(again.header("location") == first.header("location"));
                ensure!(first.header("idempotency-status") == Some("unstored"));
            }
            act.executed(name, 1).await?;
        }
        check_nothing_in_flight(act).await
    })
    .await;
}

/// More than the listener of `deploy/envoy.yaml` holds, and less than the rule allows here.
const BEYOND_ENVOY_BYTES: usize = 2_500_000;

#[tokio::test(flavor = "multi_thread")]
async fn what_envoy_itself_cannot_hold_leaves_a_tombstone_or_the_key_free() {
    let change = |setup: &mut Setup| {
        attached(setup)?;
        let orders = setup.rule("orders");
        orders["store"] = json!({ "response_body_max_bytes": 3 * 1024 * 1024 });
        orders["request_body_max_bytes"] = (3 * 1024 * 1024).into();
        Ok(())
    };
    play(change, async |act| {
        let name = "large-answer";
        let path = format!("/orders/answer?reference={name}&bytes={BEYOND_ENVOY_BYTES}");
        let request = Request::post(&path).key(name);
        // Envoy answers in the upstream's place; what the upstream did is known all the same.
        check_status(&act.send(&request).await?, 500)?;
        let again = act.known(&request).await?;
        check_problem(&again, 409, "idempotency-replay-unavailable")?;
        ensure!(again.header("location").is_some(), "{:?}", again.headers);
        act.executed(name, 1).await?;

        let name = "large-request";
        let path = format!("/orders/document?reference={name}");
        let request = Request::post(&path).key(name);
        let large = request.clone().bytes(vec![b'b'; BEYOND_ENVOY_BYTES]);
        check_status(&act.send(&large).await?, 413)?;
        act.executed(name, 0).await?;
        check_fresh(&act.send(&request.bytes("small")).await?, 201)?;
        act.executed(name, 1).await?;
        check_nothing_in_flight(act).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_cut_short_is_unknown() {
    on_each_store(async |act| {
        let name = "cut";
        let path = format!("/payments/answer?reference={name}&bytes=1000&cut=true");
        let request = Request::post(&path).key(name);
        // What Envoy tells the client is its own affair; the key must not be free.
        if let Ok(first) = act.send(&request).await {
            ensure!(first.status >= 500, "half an answer was told as {first}");
        }
        check_problem(&act.send(&request).await?, 409, OUTCOME_UNKNOWN)?;
        act.executed(name, 1).await?;
        check_nothing_in_flight(act).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_truth_is_told_where_it_cannot_be_stored_and_is_stored_later() {
    on_each_store(async |act| {
        let name = "server-away";
        let request = pay("/orders/on-approval", name);
        let first = act.send_for_later(&request);
        act.begun(name, 1).await?;
        act.stage.server.kill();
        act.stage.approve(name).await?;
        let first = act.get(first).await?;
        check_fresh(&first, 201)?;
        ensure!(first.header("idempotency-status") == Some("unstored"));
        act.stage.server.start_again().await?;
        check_nothing_in_flight(act).await?;
        check_replay(&first, &act.send(&request).await?)?;
        act.executed(name, 1).await.map(drop)
    })
    .await;
}
