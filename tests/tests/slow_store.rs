//! A store that is slow, or does not answer at all.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use latchkey_tests::client::{Answer, Request};
use latchkey_tests::stage::{Options, Setup, Stage, StoreKind};
use latchkey_tests::wait::until;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;

const BODIES: usize = 500;
const BODY_BYTES_MAX: usize = 64 * 1024;
const CHUNKS_MAX: usize = 5;
const JITTER: Duration = Duration::from_millis(50);
/// As many clients as wait at one time.
const IN_FLIGHT: usize = 32;

/// A hash of `number` and `salt`: sizes and bytes that look random and are the same in every
/// run.
fn noise(number: usize, salt: &str) -> [u8; 32] {
    Sha256::digest(format!("{salt} {number}")).into()
}

fn pick(number: usize, salt: &str, below: usize) -> usize {
    let [a, b, c, d, ..] = noise(number, salt);
    usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap() % below
}

/// The first body is empty and the second as large as any; the others lie in between.
fn body(number: usize) -> Vec<u8> {
    let length = match number {
        0 => 0,
        1 => BODY_BYTES_MAX,
        _ => pick(number, "length", BODY_BYTES_MAX + 1),
    };
    let block = noise(number, "body");
    block.iter().copied().cycle().take(length).collect()
}

fn chunks(number: usize, body: &[u8]) -> Vec<Bytes> {
    let count = 1 + pick(number, "chunks", CHUNKS_MAX);
    let size = body.len().div_ceil(count).max(1);
    body.chunks(size).map(Bytes::copy_from_slice).collect()
}

fn document(number: usize) -> Request {
    let pause = Duration::from_millis(u64::try_from(pick(number, "pause", 4)).unwrap());
    Request::post("/payments/document?reference=document")
        .key(&format!("document-{number}"))
        .header("content-type", "application/octet-stream")
        .chunks(chunks(number, &body(number)), pause)
}

fn check(number: usize, answer: &Answer) -> anyhow::Result<()> {
    ensure!(answer.status == 201, "body {number} was answered {answer}: {:?}", answer.body);
    let (body, told) = (body(number), answer.json());
    let sum: String = Sha256::digest(&body).iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(told["bytes"] == json!(body.len()), "body {number} arrived with another length");
    ensure!(told["sha256"] == json!(sum), "body {number} arrived with other bytes");
    Ok(())
}

async fn send_all(stage: &Stage) -> anyhow::Result<()> {
    let mut in_flight = JoinSet::new();
    for number in 0..BODIES {
        if in_flight.len() == IN_FLIGHT {
            let (number, answer): (usize, anyhow::Result<Answer>) =
                in_flight.join_next().await.context("none in flight")??;
            check(number, &answer?)?;
        }
        let gateway = stage.gateway();
        in_flight.spawn(async move { (number, document(number).send(gateway).await) });
    }
    while let Some(answered) = in_flight.join_next().await {
        let (number, answer) = answered?;
        check(number, &answer?)?;
    }
    Ok(())
}

const fn with_chaos(store: StoreKind) -> Options {
    Options { chaos: true, ..Options::on(store) }
}

/// Bodies arrive in pieces while the claim is on its way, in every order of the two.
async fn every_body_arrives_whole_whatever_the_store_takes(
    stage: &mut Stage,
) -> anyhow::Result<()> {
    stage.chaos().delay(JITTER);
    send_all(stage).await?;
    let executions = stage.executions("document").await?;
    ensure!(executions.len() == BODIES, "{} executions", executions.len());
    for number in (0..BODIES).step_by(50) {
        let again = document(number).send(stage.gateway()).await?;
        check(number, &again)?;
        ensure!(again.is_replayed(), "body {number} was executed again");
    }
    Ok(())
}

fn payment(book: &str, name: &str) -> Request {
    let body = json!({ "amount": 1200, "currency": "EUR", "reference": name });
    Request::post(&format!("/{book}")).key(name).json(&body)
}

/// Nothing is forwarded before its claim is acknowledged; claims that arrive too late do
/// nothing, and the retry executes.
async fn nothing_reaches_the_upstream_while_the_store_is_held(
    stage: &mut Stage,
) -> anyhow::Result<()> {
    let names = ["payments", "orders", "direct"].map(|book| (book, format!("held-{book}")));
    stage.chaos().hold();
    for (book, name) in &names {
        let refused = payment(book, name).send(stage.gateway()).await?;
        ensure!(
            refused.status == 503
                && refused.problem().as_deref() == Some("idempotency-state-unavailable"),
            "without a store {name} was answered {refused}"
        );
    }
    ensure!(stage.all_executions().await?.is_empty(), "a request went unguarded");

    stage.chaos().pass();
    for (book, name) in &names {
        let answer = until("the state is reached again", async || {
            let answer = payment(book, name).send(stage.gateway()).await?;
            Ok((answer.status == 201).then_some(answer))
        })
        .await?;
        ensure!(!answer.is_replayed(), "{name} was executed while the store was held");
        let executions = stage.executions(name).await?;
        ensure!(executions.len() == 1, "{name} was executed {} times", executions.len());
    }
    Ok(())
}

/// The same with a claim that is late, and not too late.
async fn a_claim_that_is_held_holds_its_request(stage: &mut Stage) -> anyhow::Result<()> {
    let name = "late";
    stage.chaos().hold();
    let (request, gateway) = (payment("payments", name), stage.gateway());
    let answer = tokio::spawn(async move { request.send(gateway).await });
    until("the claim is on its way", async || {
        let active = stage.gateways()[0].statistic("cluster.latchkey.upstream_rq_active").await?;
        Ok((active > 0).then_some(()))
    })
    .await?;
    ensure!(stage.executions(name).await?.is_empty(), "forwarded before its claim was answered");
    stage.chaos().pass();
    let answer = answer.await??;
    // On a machine so slow that the claim's time-out has passed, the answer is that.
    ensure!(matches!(answer.status, 201 | 503), "answered {answer}");
    let executions = stage.executions(name).await?;
    ensure!(
        executions.len() == usize::from(answer.status == 201),
        "answered {answer}, executed {} times",
        executions.len()
    );
    Ok(())
}

/// The same where Envoy's router executes.
async fn every_body_arrives_whole_through_the_router(store: StoreKind) {
    let attached = |setup: &mut Setup| {
        setup.rule("payments")["execute"] = json!({ "mode": "attached" });
        Ok(())
    };
    let proof = every_body_arrives_whole_whatever_the_store_takes;
    Stage::prove_with(with_chaos(store), attached, proof).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_body_arrives_whole_through_the_router_on_sqlite() {
    every_body_arrives_whole_through_the_router(StoreKind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_body_arrives_whole_through_the_router_on_redis() {
    every_body_arrives_whole_through_the_router(StoreKind::Redis).await;
}

macro_rules! on_both_stores {
    ($($proof:ident),* $(,)?) => {
        mod on_sqlite {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $proof() {
                    let options = super::with_chaos(super::StoreKind::Sqlite);
                    super::Stage::prove(options, super::$proof).await;
                }
            )*
        }
        mod on_redis {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $proof() {
                    let options = super::with_chaos(super::StoreKind::Redis);
                    super::Stage::prove(options, super::$proof).await;
                }
            )*
        }
    };
}

on_both_stores!(
    every_body_arrives_whole_whatever_the_store_takes,
    nothing_reaches_the_upstream_while_the_store_is_held,
    a_claim_that_is_held_holds_its_request,
);
