//! What steps do and tell.

use std::fmt::Display;
use std::net::SocketAddr;

use anyhow::ensure;
use serde_json::json;

use super::upstreams::SUSPECTED;
use crate::client::{Answer, Request};
use crate::payments::Execution;
use crate::stage::Stage;
use crate::wait::until;

/// Tells what happens, a line at a time.
#[derive(Debug, Default)]
pub struct Narrator;

/// A step in progress.
pub struct Act<'a> {
    /// Where it plays.
    pub stage: &'a mut Stage,
    narrator: &'a Narrator,
}

/// The body of a payment of 12 € under `reference`.
fn body(reference: &str) -> serde_json::Value {
    json!({ "amount": 1200, "currency": "EUR", "reference": reference })
}

/// A payment on `path`; its key and its reference are both `name`.
#[must_use]
pub fn pay(path: &str, name: &str) -> Request {
    Request::post(path).key(name).json(&body(name))
}

/// The same without a key.
#[must_use]
pub fn pay_without_key(path: &str, reference: &str) -> Request {
    Request::post(path).json(&body(reference))
}

// === impl Narrator ===

impl Narrator {
    /// Something that is done to the stage.
    pub fn does(&self, what: impl Display) {
        println!("    * {what}");
    }

    fn sends(&self, request: impl Display) {
        println!("    > {request}");
    }

    fn gets(&self, answer: impl Display) {
        println!("    < {answer}");
    }

    fn counts(&self, executions: &[Execution]) {
        let paid = executions.iter().filter(|execution| execution.paid).count();
        println!("    = the upstream has executed {}, paid {paid}", executions.len());
    }
}

// === impl Act ===

impl<'a> Act<'a> {
    /// Begins on `stage`.
    pub fn new(stage: &'a mut Stage, narrator: &'a Narrator) -> Self {
        Self { stage, narrator }
    }

    /// Something that is done to the stage.
    pub fn does(&self, what: impl Display) {
        self.narrator.does(what);
    }

    /// Tells of a request that is sent by hand.
    pub(super) fn sends(&self, request: impl Display) {
        self.narrator.sends(request);
    }

    /// Tells of its answer.
    pub(super) fn gets(&self, answer: impl Display) {
        self.narrator.gets(answer);
    }

    /// The address of the first gateway.
    #[must_use]
    pub fn gateway(&self) -> SocketAddr {
        self.stage.gateway()
    }

    /// Sends, and waits for the answer.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub async fn send(&self, request: &Request) -> anyhow::Result<Answer> {
        self.narrator.sends(request);
        let answer = request.send(self.gateway()).await?;
        self.narrator.gets(&answer);
        Ok(answer)
    }

    /// Sends, and leaves the answer for later.
    #[must_use]
    pub fn send_for_later(&self, request: &Request) -> Later {
        self.narrator.sends(format_args!("{request}  (its answer comes later)"));
        let (request, gateway) = (request.clone(), self.gateway());
        Later(tokio::spawn(async move { request.send(gateway).await }))
    }

    /// The answer that was left for later.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub async fn get(&self, mut later: Later) -> anyhow::Result<Answer> {
        let answer = (&mut later.0).await??;
        self.narrator.gets(&answer);
        Ok(answer)
    }

    /// Sends and tells without an HTTP library in between.
    ///
    /// # Errors
    /// When no connection can be made, or nothing comes in time.
    pub async fn send_raw(&self, what: &str, bytes: &[u8]) -> anyhow::Result<Option<u16>> {
        self.narrator.sends(what);
        let answer = crate::client::raw::exchange(self.gateway(), bytes).await?;
        let status = crate::client::raw::status(&answer);
        self.narrator.gets(status.map_or_else(|| "nothing".to_owned(), |it| it.to_string()));
        Ok(status)
    }

    /// Sends again after `first` as a well-behaved client does: when it was told to.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub async fn retry(&self, request: &Request, first: &Answer) -> anyhow::Result<Answer> {
        if let Some(pause) = first.retry_after() {
            self.does(format_args!("waits {} s, as Retry-After says", pause.as_secs()));
            tokio::time::sleep(pause).await;
        }
        self.send(request).await
    }

    /// Sends again and again until the answer is `wanted`; what comes before must be `allowed`.
    ///
    /// # Errors
    /// When another answer comes than is wanted or allowed, or none in time.
    pub async fn retry_until(
        &self,
        request: &Request,
        wanted: impl Fn(&Answer) -> bool,
        allowed: impl Fn(&Answer) -> bool,
    ) -> anyhow::Result<Answer> {
        self.narrator.sends(format_args!("{request}  (until its outcome is known)"));
        let gateway = self.gateway();
        let mut earlier = None;
        let answer = until("the outcome is known", async || {
            let answer = request.send(gateway).await?;
            if wanted(&answer) || !allowed(&answer) {
                return Ok(Some(answer));
            }
            let told = answer.to_string();
            if earlier.as_ref() != Some(&told) {
                self.narrator.gets(format_args!("{told}, and again"));
                earlier = Some(told);
            }
            Ok(None)
        })
        .await?;
        self.narrator.gets(&answer);
        ensure!(wanted(&answer), "a retry was answered {answer}: {:?}", answer.body);
        Ok(answer)
    }

    /// The first answer that does not say that `request` is in progress. What is too large to be
    /// stored, or has no end, reaches its client before the state knows that it has.
    ///
    /// # Errors
    /// When none comes in time.
    pub async fn known(&self, request: &Request) -> anyhow::Result<Answer> {
        self.retry_until(request, |answer| !is_in_progress(answer), is_in_progress).await
    }

    /// Waits until the upstream has begun to execute `reference` for the `times`th time.
    ///
    /// # Errors
    /// When it has not in time, or has begun more often.
    pub async fn begun(&self, reference: &str, times: usize) -> anyhow::Result<()> {
        let stage = &*self.stage;
        until("the upstream has begun to execute", async || {
            Ok((stage.executions(reference).await?.len() >= times).then_some(()))
        })
        .await?;
        self.executed(reference, times).await.map(drop)
    }

    /// Checks how often the upstream has executed `reference`.
    ///
    /// # Errors
    /// When it is another number.
    pub async fn executed(&self, reference: &str, times: usize) -> anyhow::Result<Vec<Execution>> {
        let executions = self.stage.executions(reference).await?;
        self.narrator.counts(&executions);
        ensure!(
            executions.len() == times,
            "the upstream has executed {} times and not {times}: {executions:#?}",
            executions.len()
        );
        Ok(executions)
    }

    /// Checks that the state has counted `more` suspected duplicates since it stood at `before`.
    pub(super) async fn suspects(&self, before: u64, more: u64) -> anyhow::Result<()> {
        let now = self.stage.counted(SUSPECTED).await?;
        self.does(format_args!("reads the counter of suspected duplicates: {before}, now {now}"));
        ensure!(now == before + more, "{now} suspected duplicates, {before} before");
        Ok(())
    }

    /// Checks that the executions of one key told the upstream so: one derived key, which is not
    /// the client's own, attempts from 1, and rising fences.
    ///
    /// # Errors
    /// When they did not.
    pub fn check_one_key(&self, executions: &[Execution], key: &str) -> anyhow::Result<()> {
        let first = executions.first().and_then(|execution| execution.key.clone());
        ensure!(first.is_some(), "the upstream was told no key: {executions:#?}");
        ensure!(first.as_deref() != Some(key), "the upstream was told the client's own key");
        for (attempt, execution) in (1..).zip(executions) {
            ensure!(execution.key == first, "the derived key has changed: {executions:#?}");
            ensure!(execution.attempt == Some(attempt), "attempts do not rise: {executions:#?}");
        }
        let fences: Vec<_> = executions.iter().map(|execution| execution.fence).collect();
        ensure!(
            fences.iter().all(Option::is_some) && fences.windows(2).all(|pair| pair[0] < pair[1]),
            "fences do not rise: {fences:?}"
        );
        Ok(())
    }
}

/// An answer that is still to come. Dropping it closes the connection.
pub struct Later(tokio::task::JoinHandle<anyhow::Result<Answer>>);

impl Drop for Later {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Checks an answer's status.
///
/// # Errors
/// When it has another.
pub fn check_status(answer: &Answer, status: u16) -> anyhow::Result<()> {
    ensure!(answer.status == status, "answered {answer} and not {status}: {:?}", answer.body);
    Ok(())
}

/// Checks that an answer is this problem, as RFC 9457 has it.
///
/// # Errors
/// When it is another, or none.
pub fn check_problem(answer: &Answer, status: u16, kind: &str) -> anyhow::Result<()> {
    check_status(answer, status)?;
    ensure!(
        answer.problem().as_deref() == Some(kind),
        "answered {answer} and not the problem {kind}: {:?}",
        answer.body
    );
    Ok(())
}

/// Checks that `again` is `first` once more, and says so.
///
/// # Errors
/// When it is another answer, or does not say so.
pub fn check_replay(first: &Answer, again: &Answer) -> anyhow::Result<()> {
    check_status(again, first.status)?;
    ensure!(again.is_replayed(), "the answer is not marked as replayed: {:?}", again.headers);
    ensure!(!first.is_replayed(), "the first answer is marked as replayed");
    ensure!(again.body == first.body, "{:?} was replayed as {:?}", first.body, again.body);
    for name in ["location", "etag", "content-type"] {
        // Of an answer without a body Envoy drops the body's type.
        let expected = first.header(name).is_some() || first.body.is_empty();
        ensure!(
            expected && first.header(name) == again.header(name),
            "{name} was {:?} and is now {:?}",
            first.header(name),
            again.header(name)
        );
    }
    Ok(())
}

/// What a duplicate of a running request is answered.
#[must_use]
pub fn is_in_progress(answer: &Answer) -> bool {
    answer.status == 409 && answer.problem().as_deref() == Some(IN_PROGRESS)
}

/// What is answered while the state cannot be reached, or a key must wait.
pub(super) fn is_not_now(answer: &Answer) -> bool {
    is_in_progress(answer) || (answer.status == 503 && answer.retry_after().is_some())
}

/// A duplicate of a running request.
pub const IN_PROGRESS: &str = "idempotency-request-in-progress";
/// An outcome that is unknown, and not to be guessed.
pub const OUTCOME_UNKNOWN: &str = "idempotency-outcome-unknown";
