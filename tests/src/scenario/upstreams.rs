//! Upstreams that fail.

use anyhow::ensure;

use super::act::{
    Act, OUTCOME_UNKNOWN, check_problem, check_replay, check_status, is_not_now, pay,
};

/// What the state counts suspected duplicates under.
pub(super) const SUSPECTED: &str = "suspected_duplicates";

/// The upstream says 503, on a rule that may execute again: the retry does.
///
/// # Errors
/// When anything is not as it must be.
pub async fn a_503_is_executed_again(act: &mut Act<'_>) -> anyhow::Result<()> {
    let name = "flaky";
    let request = pay("/orders/flaky?status=503&times=1", name);
    let first = act.send(&request).await?;
    check_status(&first, 503)?;
    act.executed(name, 1).await?;
    let second = act.retry(&request, &first).await?;
    check_status(&second, 201)?;
    let executions = act.executed(name, 2).await?;
    act.check_one_key(&executions, name)?;
    check_replay(&second, &act.send(&request).await?)?;
    act.executed(name, 2).await.map(drop)
}

/// The upstream is not there: nothing was sent, so the retry executes on every rule, as the
/// first that the upstream ever sees.
///
/// # Errors
/// When anything is not as it must be.
pub async fn a_refused_connection_is_executed_again(act: &mut Act<'_>) -> anyhow::Result<()> {
    for book in ["payments", "direct"] {
        let name = &format!("refused-{book}");
        let request = pay(&format!("/{book}"), name);
        act.does("takes the payments service down");
        act.stage.let_payments_accept(false).await?;
        let first = act.send(&request).await?;
        check_problem(&first, 503, "idempotency-upstream-unavailable")?;
        act.does("takes it up again");
        act.stage.let_payments_accept(true).await?;
        let second = act.retry(&request, &first).await?;
        check_status(&second, 201)?;
        ensure!(!second.is_replayed(), "there is nothing to replay");
        act.executed(name, 1).await?;
    }
    Ok(())
}

/// The upstream pays and closes the connection without an answer, on a rule that holds: nobody
/// guesses, and a person has to look.
///
/// # Errors
/// When anything is not as it must be.
pub async fn a_lost_answer_is_held(act: &mut Act<'_>) -> anyhow::Result<()> {
    for book in ["payments", "direct"] {
        let name = &format!("lost-{book}");
        let request = pay(&format!("/{book}/commit-then-close"), name);
        let first = act.send(&request).await?;
        ensure!(first.status >= 400, "a lost answer was answered {first}");
        for _ in 0..2 {
            let again = act.send(&request).await?;
            check_problem(&again, 409, OUTCOME_UNKNOWN)?;
        }
        act.executed(name, 1).await?;
    }
    Ok(())
}

/// The same on a rule that says to execute again: it does, as attempt 2 with the same derived
/// key, and the suspected duplicate is counted.
///
/// # Errors
/// When anything is not as it must be.
pub async fn a_lost_answer_is_executed_again_where_the_rule_says_so(
    act: &mut Act<'_>,
) -> anyhow::Result<()> {
    let name = "lost-orders";
    let request = pay("/orders/commit-then-close", name);
    let before = act.stage.counted(SUSPECTED).await?;
    let first = act.send(&request).await?;
    ensure!(first.status >= 500, "a lost answer was answered {first}");
    let second = act.retry_until(&request, |answer| answer.status == 201, is_not_now).await?;
    ensure!(!second.is_replayed(), "there was nothing to replay");
    let executions = act.executed(name, 2).await?;
    act.check_one_key(&executions, name)?;
    act.suspects(before, 1).await
}
