//! Gateways, servers and stores that die in the middle of a payment.

use std::time::{Duration, Instant};

use anyhow::ensure;

use super::act::{
    Act, OUTCOME_UNKNOWN, check_problem, check_replay, check_status, is_in_progress, is_not_now,
    pay,
};
use super::upstreams::SUSPECTED;
use crate::client::{Answer, Request};
use crate::stage::LEASE_MS;

const LEASE: Duration = Duration::from_millis(LEASE_MS);

/// The gateway is killed in mid-payment, on a rule that holds: after the lease the retry is told
/// that the outcome is unknown, and goes on being told.
///
/// # Errors
/// When anything is not as it must be.
pub async fn a_gateway_that_dies_leaves_its_key_held(act: &mut Act<'_>) -> anyhow::Result<()> {
    let name = "gateway-dies-payments";
    let request = pay("/payments/on-approval", name);
    let is_held = |answer: &Answer| answer.problem().as_deref() == Some(OUTCOME_UNKNOWN);
    let held = killed_in_mid_payment(act, &request, name, is_held).await?;
    check_problem(&held, 409, OUTCOME_UNKNOWN)?;
    act.stage.approve(name).await?;
    check_problem(&act.send(&request).await?, 409, OUTCOME_UNKNOWN)?;
    act.executed(name, 1).await.map(drop)
}

/// The same on a rule that says to execute again: after the lease the retry does, as attempt 2
/// with the same derived key, and the suspected duplicate is counted.
///
/// # Errors
/// When anything is not as it must be.
pub async fn a_gateway_that_dies_is_replaced_where_the_rule_says_so(
    act: &mut Act<'_>,
) -> anyhow::Result<()> {
    let name = "gateway-dies-orders";
    let request = pay("/orders/slow?ms=1000", name);
    let before = act.stage.counted(SUSPECTED).await?;
    let second = killed_in_mid_payment(act, &request, name, |answer| answer.status == 201).await?;
    ensure!(!second.is_replayed(), "there was nothing to replay");
    let executions = act.executed(name, 2).await?;
    act.check_one_key(&executions, name)?;
    check_replay(&second, &act.send(&request).await?)?;
    act.suspects(before, 1).await
}

/// Kills the gateway while it executes `request`, starts it again, and retries until the answer
/// is `wanted`, which must not be before the lease is over.
async fn killed_in_mid_payment(
    act: &mut Act<'_>,
    request: &Request,
    name: &str,
    wanted: impl Fn(&Answer) -> bool,
) -> anyhow::Result<Answer> {
    let first = act.send_for_later(request);
    act.begun(name, 1).await?;
    act.does("kills Envoy with -9, and starts it again");
    act.stage.gateway_process().kill();
    let killed = Instant::now();
    drop(first);
    act.stage.gateway_process().start_again().await?;
    let answer = act.retry_until(request, wanted, is_in_progress).await?;
    // A lease is renewed every third of it, so two thirds were left at least.
    ensure!(
        killed.elapsed() >= LEASE / 3 * 2,
        "the lease was taken over {:?} after its gateway died",
        killed.elapsed()
    );
    Ok(answer)
}

/// The server is killed between claim and completion and comes back: the answer arrives, and
/// retries get it.
///
/// # Errors
/// When anything is not as it must be.
pub async fn the_server_dies_and_returns_while_a_payment_runs(
    act: &mut Act<'_>,
) -> anyhow::Result<()> {
    let name = "server-dies";
    let request = pay("/payments/on-approval", name);
    let first = act.send_for_later(&request);
    act.begun(name, 1).await?;
    act.does("kills latchkey with -9, and starts it again");
    act.stage.server.kill();
    act.stage.server.start_again().await?;
    act.does("approves the payment");
    act.stage.approve(name).await?;
    let first = act.get(first).await?;
    check_status(&first, 201)?;
    gets_its_answer(act, &request, &first, name).await
}

/// The server stays away for longer than a lease: the answer arrives although it cannot be
/// stored, marked so; while the server is away retries are refused; afterwards they get the
/// answer, and there is no second payment.
///
/// # Errors
/// When anything is not as it must be.
pub async fn the_server_is_away_for_longer_than_a_lease(act: &mut Act<'_>) -> anyhow::Result<()> {
    // On the rule that would execute again if it took the outage for a lost lease.
    let name = "server-away";
    let request = pay("/orders/on-approval", name);
    let first = act.send_for_later(&request);
    act.begun(name, 1).await?;
    act.does(format_args!("kills latchkey with -9, for longer than the lease of {LEASE:?}"));
    act.stage.server.kill();
    tokio::time::sleep(LEASE + LEASE / 4).await;
    act.does("approves the payment");
    act.stage.approve(name).await?;
    let first = act.get(first).await?;
    check_status(&first, 201)?;
    ensure!(
        first.header("idempotency-status") == Some("unstored"),
        "the answer cannot have been stored, and does not say so: {:?}",
        first.headers
    );
    let refused = act.send(&request).await?;
    check_problem(&refused, 503, "idempotency-state-unavailable")?;
    act.does("starts latchkey again");
    act.stage.server.start_again().await?;
    gets_its_answer(act, &request, &first, name).await
}

/// What holds the state is killed between claim and completion and comes back: the same as with
/// the server.
///
/// # Errors
/// When anything is not as it must be.
pub async fn the_store_restarts_while_a_payment_runs(act: &mut Act<'_>) -> anyhow::Result<()> {
    let name = "store-restarts";
    let request = pay("/orders/on-approval", name);
    let first = act.send_for_later(&request);
    act.begun(name, 1).await?;
    let store = act.stage.store_process().name().to_owned();
    act.does(format_args!("kills the store ({store}) with -9"));
    act.stage.store_process().kill();
    act.does("approves the payment");
    act.stage.approve(name).await?;
    act.does("starts the store again");
    act.stage.store_process().start_again().await?;
    let first = act.get(first).await?;
    check_status(&first, 201)?;
    gets_its_answer(act, &request, &first, name).await?;

    act.does(format_args!("kills the store ({store}) with -9 once more, and starts it again"));
    act.stage.store_process().kill();
    act.stage.store_process().start_again().await?;
    gets_its_answer(act, &request, &first, name).await
}

/// Retries get `first`, as soon as it can be known, and never execute.
async fn gets_its_answer(
    act: &Act<'_>,
    request: &Request,
    first: &Answer,
    name: &str,
) -> anyhow::Result<()> {
    let again = act.retry_until(request, |answer| answer.status == 201, is_not_now).await?;
    check_replay(first, &again)?;
    act.executed(name, 1).await.map(drop)
}
