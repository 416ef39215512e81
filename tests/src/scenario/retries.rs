//! Retries while nothing is broken.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::task::JoinSet;

use super::act::{
    Act, IN_PROGRESS, check_problem, check_replay, check_status, is_in_progress, pay,
};
use crate::client::Client;

/// A double click, five times over: one payment, whose answer the later retry gets.
///
/// # Errors
/// When anything is not as it must be.
pub async fn five_parallel_retries_execute_once(act: &mut Act<'_>) -> anyhow::Result<()> {
    let name = "five-at-once";
    let request = pay("/payments/on-approval", name);
    act.sends(format_args!("{request}  (5 at once)"));
    let mut five = JoinSet::new();
    for _ in 0..5 {
        let (request, gateway) = (request.clone(), act.gateway());
        five.spawn(async move { request.send(gateway).await });
    }
    // Whichever of the five came first executes, and cannot end before it is approved.
    for _ in 0..4 {
        let answer = five.join_next().await.context("an answer is missing")???;
        act.gets(&answer);
        check_problem(&answer, 409, IN_PROGRESS)?;
        ensure!(answer.retry_after().is_some(), "a 409 does not say when to retry");
    }
    act.does("approves the payment");
    act.stage.approve(name).await?;
    let first = five.join_next().await.context("an answer is missing")???;
    act.gets(&first);
    check_status(&first, 201)?;
    ensure!(first.header("x-latchkey-details").is_none(), "our own marks reach the client");
    ensure!(
        first.headers.get_all("set-cookie").iter().count() == 2,
        "cookies were lost: {:?}",
        first.headers
    );
    act.executed(name, 1).await?;

    let again = act.send(&request).await?;
    check_replay(&first, &again)?;
    let executions = act.executed(name, 1).await?;
    act.check_one_key(&executions, name)
}

/// The same key with the same body, from two customers: two payments, and neither sees the
/// other's.
///
/// # Errors
/// When anything is not as it must be.
pub async fn each_client_has_its_own_keys(act: &mut Act<'_>) -> anyhow::Result<()> {
    let name = "two-clients";
    let ours = pay("/payments", name);
    // A client that writes the name of another into the header of the authentication filter
    // stays itself.
    let theirs = pay("/payments", name).client(Client::Globex).header("x-client-id", "acme");
    let (first, other) = (act.send(&ours).await?, act.send(&theirs).await?);
    check_status(&first, 201)?;
    check_status(&other, 201)?;
    ensure!(!other.is_replayed(), "a client got another's response");
    let executions = act.executed(name, 2).await?;
    ensure!(executions[0].key != executions[1].key, "two clients share a derived key");
    for (request, answer) in [(&ours, &first), (&theirs, &other)] {
        check_replay(answer, &act.send(request).await?)?;
    }
    act.executed(name, 2).await.map(drop)
}

/// A client that gives up after 300 ms of a payment that takes 2 s: the payment goes on, and the
/// retry gets its answer.
///
/// # Errors
/// When anything is not as it must be.
pub async fn a_client_that_hangs_up_gets_its_answer_later(act: &mut Act<'_>) -> anyhow::Result<()> {
    let name = "hangs-up";
    let request = pay("/payments/slow?ms=2000", name);
    act.sends(format_args!("{request}  (hangs up after 300 ms)"));
    request.send_and_hang_up(act.gateway(), Duration::from_millis(300)).await?;
    let again = act.retry_until(&request, |answer| answer.status == 201, is_in_progress).await?;
    ensure!(again.is_replayed(), "the retry executed by itself: {again}");
    ensure!(again.header("location").is_some(), "the answer lost its Location");
    act.executed(name, 1).await.map(drop)
}
