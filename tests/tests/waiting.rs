//! Duplicates that wait for the outcome of a running request (`on_conflict: wait`).

use anyhow::ensure;
use latchkey_tests::scenario::{
    Act, IN_PROGRESS, Narrator, check_problem, check_replay, check_status, pay,
};
use latchkey_tests::stage::{Options, Setup, Stage, StoreKind};
use latchkey_tests::wait::until;
use serde_json::json;

/// How many duplicates come at once.
const CROWD: usize = 200;

/// Duplicates of payments wait for longer than any payment here takes, those of orders hardly.
#[expect(clippy::unnecessary_wraps, reason = "a change may fail")]
fn waits(setup: &mut Setup) -> anyhow::Result<()> {
    setup.rule("payments")["on_conflict"] = json!({ "wait": { "timeout_ms": 60_000 } });
    let orders = json!({ "wait": { "timeout_ms": 100, "retry_after_s": 7 } });
    setup.rule("orders")["on_conflict"] = orders;
    Ok(())
}

async fn on_each_store(attached: bool, step: impl AsyncFn(&mut Act<'_>) -> anyhow::Result<()>) {
    let change = |setup: &mut Setup| {
        if attached {
            for book in ["payments", "orders"] {
                setup.rule(book)["execute"] = json!({ "mode": "attached" });
            }
        }
        waits(setup)
    };
    for store in [StoreKind::Sqlite, StoreKind::Redis] {
        let options = Options { gateways: 2, ..Options::on(store) };
        let act = async |stage: &mut Stage| step(&mut Act::new(stage, &Narrator)).await;
        Stage::prove_with(options, change, act).await;
    }
}

/// How many duplicates wait at all gateways.
async fn waiting(act: &Act<'_>) -> anyhow::Result<u64> {
    let mut all = 0;
    for gateway in act.stage.gateways() {
        all += gateway.statistic("wasmcustom.latchkey_waits").await?;
    }
    Ok(all)
}

async fn a_crowd_waits(act: &mut Act<'_>) -> anyhow::Result<()> {
    let name = "crowd";
    let request = pay("/payments/on-approval", name);
    let first = act.send_for_later(&request);
    act.begun(name, 1).await?;
    act.does(format_args!("sends {CROWD} duplicates over two gateways"));
    let gateways: Vec<_> = act.stage.gateways().iter().map(|it| it.address()).collect();
    let crowd: Vec<_> = (0..CROWD)
        .map(|at| {
            let (request, to) = (request.clone(), gateways[at % gateways.len()]);
            tokio::spawn(async move { request.send(to).await })
        })
        .collect();
    until("all of them wait", async || Ok((waiting(act).await? >= CROWD as u64).then_some(())))
        .await?;
    act.stage.approve(name).await?;
    let first = act.get(first).await?;
    check_status(&first, 201)?;
    for duplicate in crowd {
        check_replay(&first, &duplicate.await??)?;
    }
    act.executed(name, 1).await.map(drop)
}

async fn a_failure_lets_one_execute(act: &mut Act<'_>) -> anyhow::Result<()> {
    let name = "one-of-many";
    let request = pay("/payments/flaky?status=429&times=1", name);
    let crowd: Vec<_> = (0..20).map(|_| act.send_for_later(&request)).collect();
    let mut statuses = Vec::new();
    for duplicate in crowd {
        statuses.push(act.get(duplicate).await?.status);
    }
    // The one that failed is told so. Whoever waited for it gets what the next one brought.
    let failed = statuses.iter().filter(|status| **status == 429).count();
    let paid = statuses.iter().filter(|status| **status == 201).count();
    ensure!((failed, paid) == (1, 19), "answered {statuses:?}");
    act.executed(name, 2).await.map(drop)
}

async fn patience_has_an_end(act: &mut Act<'_>) -> anyhow::Result<()> {
    let name = "impatient";
    let request = pay("/orders/on-approval", name);
    let first = act.send_for_later(&request);
    act.begun(name, 1).await?;
    let again = act.send(&request).await?;
    check_problem(&again, 409, IN_PROGRESS)?;
    ensure!(again.header("retry-after") == Some("7"));
    act.stage.approve(name).await?;
    check_status(&act.get(first).await?, 201)?;
    act.executed(name, 1).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_duplicates_over_two_gateways_executes_once_and_all_get_the_answer() {
    on_each_store(false, a_crowd_waits).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_crowd_behind_attached_execution() {
    on_each_store(true, a_crowd_waits).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_execution_fails_one_of_those_who_wait_executes_for_all() {
    on_each_store(false, a_failure_lets_one_execute).await;
    on_each_store(true, a_failure_lets_one_execute).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_waited_long_enough_is_told_that_the_request_is_in_progress() {
    on_each_store(false, patience_has_an_end).await;
    on_each_store(true, patience_has_an_end).await;
}
