//! What becomes of a key by what the upstream answers, whoever makes the call.

use anyhow::{Context as _, ensure};
use latchkey_tests::client::{Answer, Request};
use latchkey_tests::http1::Message;
use latchkey_tests::scenario::{
    Act, EVERY_MODE_AND_STORE, OUTCOME_UNKNOWN, check_problem, check_status, play_scripted,
};
use latchkey_tests::scripted::{Scripted, answer, path};
use latchkey_tests::stage::Setup;

/// The rules of the stage: one that holds what it does not know, one that executes it again.
const HOLDS: &str = "payments";
const REEXECUTES: &str = "orders";

#[expect(clippy::unnecessary_wraps, reason = "a change may fail")]
fn unchanged(_: &mut Setup) -> anyhow::Result<()> {
    Ok(())
}

/// A request that is answered by `first`, and by 201 where it is executed again.
struct Trial<'a> {
    act: &'a Act<'a>,
    upstream: &'a Scripted,
    name: String,
    request: Request,
    status: u16,
}

// === impl Trial ===

impl<'a> Trial<'a> {
    fn new(
        act: &'a Act<'_>,
        upstream: &'a Scripted,
        book: &str,
        (status, headers): (u16, &[&str]),
    ) -> Self {
        let said = headers.concat().replace([':', ' '], "");
        let name = format!("{book}-{status}-{said}");
        let body = if matches!(status, 204 | 304) { "" } else { "as it was said first" };
        let first = answer(status, &[headers, &["location: /made"]].concat(), body);
        upstream.answers(&name, &[first, answer(201, &["location: /made-again"], "again")]);
        let request = Request::post(&path(book, &name)).key(&name).bytes("an order");
        Self { act, upstream, name, request, status }
    }

    async fn send(&self, status: u16, replayed: bool) -> anyhow::Result<Answer> {
        let answer = self.act.send(&self.request).await?;
        check_status(&answer, status)?;
        let told = answer.header("idempotent-replayed");
        ensure!(told == Some(if replayed { "true" } else { "false" }), "replayed: {told:?}");
        let outcome = answer.header("idempotency-outcome");
        ensure!(outcome.is_none(), "the client is told the upstream's word for us: {outcome:?}");
        Ok(answer)
    }

    fn heard(&self, times: usize) -> anyhow::Result<Vec<Message>> {
        let heard = self.upstream.heard(&self.name, times)?;
        for (attempt, request) in (1..).zip(&heard) {
            let told: Option<u32> =
                request.header("idempotency-attempt").and_then(|it| it.parse().ok());
            ensure!(told == Some(attempt), "attempt {attempt} is told as {told:?}");
            let key = request.header("idempotency-key");
            ensure!(key.is_some() && key == heard[0].header("idempotency-key"), "{key:?}");
        }
        Ok(heard)
    }

    /// Another request with this key is told so, whatever has become of the key, and changes
    /// nothing.
    async fn refuses_another(&self) -> anyhow::Result<()> {
        let other = self.request.clone().bytes("another order");
        check_problem(&self.act.send(&other).await?, 422, "idempotency-key-reused")
    }

    /// Every retry gets the first answer.
    async fn is_final(&self) -> anyhow::Result<()> {
        let first = self.send(self.status, false).await?;
        self.refuses_another().await?;
        for _ in 0..2 {
            let again = self.send(self.status, true).await?;
            ensure!(again.body == first.body, "{:?} became {:?}", first.body, again.body);
            ensure!(again.header("location") == Some("/made"), "{:?}", again.headers);
        }
        self.heard(1).map(drop)
    }

    /// The retry executes, and its answer is final.
    async fn is_executed_again(&self) -> anyhow::Result<()> {
        let first = self.send(self.status, false).await?;
        ensure!(first.header("location") == Some("/made"), "the client got another answer");
        self.refuses_another().await?;
        self.send(201, false).await?;
        let again = self.send(201, true).await?;
        ensure!(again.header("location") == Some("/made-again"), "{:?}", again.headers);
        self.heard(2).map(drop)
    }

    /// The client is told the truth, and the retry that nobody knows what it means.
    async fn is_held(&self) -> anyhow::Result<()> {
        self.send(self.status, false).await?;
        self.refuses_another().await?;
        for _ in 0..2 {
            check_problem(&self.act.send(&self.request).await?, 409, OUTCOME_UNKNOWN)?;
        }
        self.heard(1).map(drop)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_and_successes_are_final() {
    play_scripted(&EVERY_MODE_AND_STORE, unchanged, async |act, upstream, _| {
        for book in [HOLDS, REEXECUTES] {
            for status in [
                200, 201, 202, 203, 204, 205, 301, 302, 303, 304, 307, 308, 400, 402, 404, 405,
                406, 409, 410, 412, 413, 415, 422, 423, 428, 451, 499, 501, 505, 507,
            ] {
                let trial = Trial::new(act, upstream, book, (status, &[]));
                trial.is_final().await.with_context(|| trial.name.clone())?;
            }
        }
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_says_nothing_of_the_operation_is_executed_again() {
    play_scripted(&EVERY_MODE_AND_STORE, unchanged, async |act, upstream, _| {
        for book in [HOLDS, REEXECUTES] {
            for status in [401, 403, 407, 408, 421, 425, 429] {
                let trial = Trial::new(act, upstream, book, (status, &[]));
                trial.is_executed_again().await.with_context(|| trial.name.clone())?;
            }
        }
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_hide_a_success_is_held_or_executed_again_as_the_rule_says() {
    play_scripted(&EVERY_MODE_AND_STORE, unchanged, async |act, upstream, _| {
        for status in [500, 502, 503, 504] {
            let trial = Trial::new(act, upstream, HOLDS, (status, &[]));
            trial.is_held().await.with_context(|| trial.name.clone())?;
            let trial = Trial::new(act, upstream, REEXECUTES, (status, &[]));
            trial.is_executed_again().await.with_context(|| trial.name.clone())?;
        }
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_upstream_has_the_last_word_on_its_answers() {
    const FINAL: &[&str] = &["idempotency-outcome: final"];
    const RETRYABLE: &[&str] = &["idempotency-outcome: retryable"];
    const AMBIGUOUS: &[&str] = &["Idempotency-Outcome: ambiguous"];
    const NONSENSE: &[&str] = &["idempotency-outcome: perhaps"];
    play_scripted(&EVERY_MODE_AND_STORE, unchanged, async |act, upstream, _| {
        for book in [HOLDS, REEXECUTES] {
            for said in [(500, FINAL), (503, FINAL), (429, FINAL), (201, FINAL), (201, NONSENSE)] {
                let trial = Trial::new(act, upstream, book, said);
                trial.is_final().await.with_context(|| trial.name.clone())?;
            }
            for said in [(201, RETRYABLE), (404, RETRYABLE), (500, RETRYABLE), (429, NONSENSE)] {
                let trial = Trial::new(act, upstream, book, said);
                trial.is_executed_again().await.with_context(|| trial.name.clone())?;
            }
        }
        for said in [(201, AMBIGUOUS), (404, AMBIGUOUS), (429, AMBIGUOUS), (500, NONSENSE)] {
            let trial = Trial::new(act, upstream, HOLDS, said);
            trial.is_held().await.with_context(|| trial.name.clone())?;
            let trial = Trial::new(act, upstream, REEXECUTES, said);
            trial.is_executed_again().await.with_context(|| trial.name.clone())?;
        }
        Ok(())
    })
    .await;
}
