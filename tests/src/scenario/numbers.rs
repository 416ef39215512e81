//! Answers that are counted, so that each tells which execution it comes from.

use anyhow::ensure;

use super::act::{Act, check_status};
use crate::client::{Answer, Request};
use crate::scripted::{Scripted, answer};

/// How many of them there are: more than any test sends.
const ANSWERS: usize = 20;

/// Answers the first request `name` with 201 and `1`, the next with `2`, and so on.
pub fn number_answers(upstream: &Scripted, name: &str) {
    let answers: Vec<_> =
        (1..=ANSWERS).map(|number| answer(201, &[], &number.to_string())).collect();
    upstream.answers(name, &answers);
}

/// Sends, and checks that execution `number` answers, now or in a replay.
///
/// # Errors
/// When another does, or none.
pub async fn check_number(
    act: &Act<'_>,
    request: &Request,
    number: usize,
    replayed: bool,
) -> anyhow::Result<Answer> {
    let answer = act.send(request).await?;
    check_status(&answer, 201)?;
    ensure!(answer.body == number.to_string(), "{:?} and not {number}", answer.body);
    ensure!(answer.is_replayed() == replayed, "replayed: {:?}", answer.headers);
    Ok(answer)
}

/// The same for a request that is not guarded: nothing of ours is on its answer.
///
/// # Errors
/// As [`check_number`].
pub async fn check_unguarded(
    act: &Act<'_>,
    request: &Request,
    number: usize,
) -> anyhow::Result<Answer> {
    let answer = check_number(act, request, number, false).await?;
    ensure!(answer.header("idempotent-replayed").is_none(), "guarded: {:?}", answer.headers);
    Ok(answer)
}
