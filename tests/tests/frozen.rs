//! A gateway that stands still for longer than its lease, and then goes on as if nothing had
//! been: a machine that is paused, moved, or out of memory.

use anyhow::ensure;
use latchkey_tests::client::Answer;
use latchkey_tests::scenario::{
    Act, EVERY_MODE_AND_STORE, Later, Narrator, OUTCOME_UNKNOWN, Place, check_problem,
    check_replay, check_status, is_in_progress, pay,
};
use latchkey_tests::stage::{Options, Stage};
use latchkey_tests::wait::until;

async fn on_two_gateways(place: Place, step: impl AsyncFn(&mut Act<'_>) -> anyhow::Result<()>) {
    let (mode, store) = place;
    println!("--- {mode:?}, {store:?}");
    let options = Options { gateways: 2, ..Options::on(store) };
    let change = |setup: &mut _| {
        mode.set(setup);
        Ok(())
    };
    let act = async |stage: &mut Stage| step(&mut Act::new(stage, &Narrator)).await;
    Stage::prove_with(options, change, act).await;
}

/// The first gateway begins to execute a payment of `book`, and freezes.
async fn freezes(act: &mut Act<'_>, book: &str) -> anyhow::Result<Later> {
    let request = pay(&format!("/{book}/on-approval"), book);
    let first = act.send_for_later(&request);
    act.begun(book, 1).await?;
    act.does("freezes the first gateway");
    act.stage.first_gateway().process().freeze()?;
    Ok(first)
}

/// The second gateway takes over and brings the payment to its end. What the first one brings is
/// too late, and its client is told what the record says.
async fn taken_over(act: &mut Act<'_>) -> anyhow::Result<()> {
    let book = "orders";
    let first = freezes(act, book).await?;
    let request = pay("/orders/on-approval", book);
    let second = act.stage.gateways()[1].address();
    let retry = async {
        until("the second gateway has paid", async || {
            let answer = request.send(second).await?;
            ensure!(answer.status == 201 || is_in_progress(&answer), "answered {answer}");
            Ok((answer.status == 201).then_some(answer))
        })
        .await
    };
    let approval = async {
        act.begun(book, 2).await?;
        act.stage.approve(book).await
    };
    let (answer, ()) = tokio::try_join!(retry, approval)?;
    ensure!(!answer.is_replayed(), "there was nothing to replay");
    let executions = act.executed(book, 2).await?;
    act.check_one_key(&executions, book)?;
    act.does("lets the first gateway go on");
    act.stage.first_gateway().process().thaw()?;
    check_replay(&answer, &act.get(first).await?)?;
    check_replay(&answer, &act.send(&request).await?)?;
    let fenced = act.stage.first_gateway().statistic("wasmcustom.latchkey_fenced").await?;
    ensure!(fenced == 1, "{fenced} executions were fenced");
    ensure!(act.stage.counted("suspected_duplicates").await? == 1);
    act.executed(book, 2).await.map(drop)
}

/// Where nobody may take over, what the first gateway brings in the end is the outcome.
async fn held(act: &mut Act<'_>) -> anyhow::Result<()> {
    let book = "payments";
    let first = freezes(act, book).await?;
    let request = pay("/payments/on-approval", book);
    let second = act.stage.gateways()[1].address();
    let answer: Answer = until("the lease is over", async || {
        let answer = request.send(second).await?;
        Ok((!is_in_progress(&answer)).then_some(answer))
    })
    .await?;
    check_problem(&answer, 409, OUTCOME_UNKNOWN)?;
    act.stage.approve(book).await?;
    act.does("lets the first gateway go on");
    act.stage.first_gateway().process().thaw()?;
    let first = act.get(first).await?;
    check_status(&first, 201)?;
    check_replay(&first, &request.send(second).await?)?;
    ensure!(act.stage.counted("suspected_duplicates").await? == 0);
    act.executed(book, 1).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_gateway_that_was_replaced_tells_what_its_replacement_brought() {
    for place in EVERY_MODE_AND_STORE {
        on_two_gateways(place, taken_over).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_gateway_that_nobody_may_replace_brings_the_outcome_in_the_end() {
    for place in EVERY_MODE_AND_STORE {
        on_two_gateways(place, held).await;
    }
}
