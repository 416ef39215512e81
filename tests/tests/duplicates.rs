//! Many duplicates of many keys, through two gateways on one store.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail, ensure};
use latchkey_tests::client::{Answer, Request};
use latchkey_tests::stage::{Options, Setup, Stage, StoreKind};
use serde_json::json;
use tokio::task::JoinSet;

const KEYS: usize = 200;
const COPIES: usize = 20;
/// As many clients as wait at one time.
const IN_FLIGHT: usize = 64;

fn request(key: usize) -> Request {
    let name = name(key);
    Request::post("/payments").key(&name).json(&json!({
        "amount": 1 + key, "currency": "EUR", "reference": name,
    }))
}

fn name(key: usize) -> String {
    format!("duplicate-{key}")
}

/// Every copy of every key once, in an order that looks random and is the same in every run.
fn shuffled() -> Vec<usize> {
    let mut order: Vec<usize> = (0..KEYS * COPIES).map(|number| number % KEYS).collect();
    let mut state: u64 = 1;
    for end in (1..order.len()).rev() {
        // Knuth's MMIX generator; its high bits are the random ones.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let chosen = usize::try_from(state >> 33).unwrap() % (end + 1);
        order.swap(end, chosen);
    }
    order
}

async fn send_all(stage: &Stage) -> anyhow::Result<Vec<(usize, Answer)>> {
    let gateways: Vec<_> = stage.gateways().iter().map(|gateway| gateway.address()).collect();
    let mut answers = Vec::with_capacity(KEYS * COPIES);
    let mut in_flight = JoinSet::new();
    for (number, key) in shuffled().into_iter().enumerate() {
        if in_flight.len() == IN_FLIGHT {
            answers.push(in_flight.join_next().await.context("none in flight")???);
        }
        let gateway = gateways[number % gateways.len()];
        in_flight
            .spawn(async move { Ok::<_, anyhow::Error>((key, request(key).send(gateway).await?)) });
    }
    while let Some(answer) = in_flight.join_next().await {
        answers.push(answer??);
    }
    Ok(answers)
}

fn check(answers: &[(usize, Answer)]) -> anyhow::Result<()> {
    ensure!(answers.len() == KEYS * COPIES, "{} answers", answers.len());
    let mut executed = BTreeMap::new();
    for (key, answer) in answers {
        match (answer.status, answer.is_replayed(), answer.problem().as_deref()) {
            (201, false, None) => {
                let earlier = executed.insert(key, &answer.body);
                ensure!(earlier.is_none(), "two answers of key {key} are first ones");
            }
            (201, true, None) | (409, false, Some("idempotency-request-in-progress")) => {}
            _ => bail!("a copy of key {key} was answered {answer}: {:?}", answer.body),
        }
    }
    ensure!(executed.len() == KEYS, "{} keys have a first answer", executed.len());
    for (key, answer) in answers.iter().filter(|(_, answer)| answer.status == 201) {
        ensure!(executed[key] == &answer.body, "a replay of key {key} has another body");
    }
    Ok(())
}

async fn twenty_duplicates_of_each_key_execute_once(stage: &mut Stage) -> anyhow::Result<()> {
    check(&send_all(stage).await?)?;
    let executions = stage.all_executions().await?;
    ensure!(executions.len() == KEYS, "{} executions", executions.len());
    let keys: BTreeSet<_> = executions.iter().map(|execution| &execution.key).collect();
    ensure!(keys.len() == KEYS, "{} derived keys", keys.len());
    // Whoever was told to come again gets the answer, at either gateway.
    for key in 0..KEYS {
        for gateway in stage.gateways() {
            let answer = request(key).send(gateway.address()).await?;
            ensure!(answer.status == 201 && answer.is_replayed(), "key {key}: {answer}");
        }
    }
    ensure!(stage.all_executions().await?.len() == KEYS, "a retry has executed");
    ensure!(stage.counted("suspected_duplicates").await? == 0, "a duplicate is suspected");
    Ok(())
}

const fn two_gateways(store: StoreKind) -> Options {
    Options { gateways: 2, ..Options::on(store) }
}

/// Payments are executed by Envoy's router.
#[expect(clippy::unnecessary_wraps, reason = "a change may fail")]
fn attached(setup: &mut Setup) -> anyhow::Result<()> {
    setup.rule("payments")["execute"] = json!({ "mode": "attached" });
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_duplicates_of_each_key_execute_once_on_sqlite() {
    let options = two_gateways(StoreKind::Sqlite);
    Stage::prove(options, twenty_duplicates_of_each_key_execute_once).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_duplicates_of_each_key_execute_once_on_redis() {
    let options = two_gateways(StoreKind::Redis);
    Stage::prove(options, twenty_duplicates_of_each_key_execute_once).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_duplicates_of_each_key_execute_once_through_the_router_on_sqlite() {
    let options = two_gateways(StoreKind::Sqlite);
    Stage::prove_with(options, attached, twenty_duplicates_of_each_key_execute_once).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_duplicates_of_each_key_execute_once_through_the_router_on_redis() {
    let options = two_gateways(StoreKind::Redis);
    Stage::prove_with(options, attached, twenty_duplicates_of_each_key_execute_once).await;
}
