//! Claim: may this request be executed?

use super::{Env, Rule, Step, lease_left_us, verdict};
use crate::counter::{Counter, Counts};
use crate::operation::{Claim, Claimed, Reply, Verdict};
use crate::record::{Fence, History, Record, State, Terms};
use crate::time::StoreTime;

pub(super) fn claim(record: Option<Record>, claim: Claim, env: &Env) -> Step {
    let Some(mut record) = record else { return first(claim, env) };
    let equal = claim.candidates.iter().any(|it| it.fingerprint == record.candidate.fingerprint);
    if !equal && env.holds(Rule::MismatchFirst) {
        return Step::unchanged(Some(record), Reply::Refused(Verdict::Mismatch));
    }
    let tightened = tighten(&mut record, &claim.terms, env);
    let mut step = decide(record, claim, env);
    step.changed |= tightened;
    step
}

fn decide(record: Record, claim: Claim, env: &Env) -> Step {
    let own = record.execution == claim.execution;
    let once = env.holds(Rule::ClaimsOnce);
    let past = once && record.history.has(&claim.execution);
    match &record.state {
        State::InProgress { .. } if own && once => repeated(record, env),
        State::InProgress { .. } if lease_left_us(&record, env) > 0 => refused(record, env),
        State::InProgress { .. } if past => spent(record),
        State::InProgress { .. } if record.holds_on_ambiguous() => hold(record, None, true, env),
        State::InProgress { .. } => take_over(record, claim, env),
        State::Completed { .. } => refused(record, env),
        State::Retryable { .. } | State::Held { .. } if (own && once) || past => spent(record),
        State::Retryable { last_status, unknown: true, released: false, .. }
            if record.holds_on_ambiguous() =>
        {
            // It was left to be executed again under terms that this claim has made stricter.
            let last_status = *last_status;
            hold(record, last_status, false, env)
        }
        State::Retryable { not_before, .. } if *not_before > env.now => refused(record, env),
        State::Retryable { last_status, unknown, .. } => {
            let (last_status, unknown) = (*last_status, *unknown);
            again(record, claim, last_status, unknown, env)
        }
        State::Held { .. } => refused(record, env),
    }
}

/// A key that was never seen, or whose retention is over.
fn first(claim: Claim, env: &Env) -> Step {
    let Some(candidate) = claim.candidates.into_iter().next() else {
        return Step::unchanged(None, Reply::Refused(Verdict::Mismatch));
    };
    let record = Record {
        subject: claim.subject,
        candidate,
        terms: claim.terms,
        execution: claim.execution,
        fence: next_fence(Fence(0), env),
        attempt: 1,
        sent: 1,
        revision: 1,
        created_at: env.now,
        changed_at: env.now,
        history: History::default(),
        state: in_progress(&claim.terms, claim.gateway, env),
    };
    let reply = Reply::Claimed(claimed(&record, env));
    Step::changed(Some(record), reply)
}

/// The owner did not get its answer and asks again.
fn repeated(mut record: Record, env: &Env) -> Step {
    let lost = lease_left_us(&record, env) == 0;
    if lost && let State::InProgress { lease_until, .. } = &mut record.state {
        *lease_until = env.now.plus(record.terms.lease_us);
    }
    let reply = Reply::Claimed(claimed(&record, env));
    Step { record: Some(record), changed: lost, reply, counts: Counts::default() }
}

/// The outcome is unknown, and the terms say not to guess.
fn hold(mut record: Record, last_status: Option<u16>, lost_lease: bool, env: &Env) -> Step {
    record.enter(State::Held { last_status, lost_lease }, env);
    let reply = Reply::Refused(verdict(&record, env));
    Step::changed(Some(record), reply).counting(Counter::Holds)
}

/// A lease was lost, and the terms say to execute again.
fn take_over(record: Record, claim: Claim, env: &Env) -> Step {
    let step = again(record, claim, None, true, env);
    match step.reply {
        Reply::Claimed(_) => step.counting(Counter::TakeOvers),
        Reply::Refused(_)
        | Reply::Renewed { .. }
        | Reply::Settled
        | Reply::Fenced(_)
        | Reply::Gone
        | Reply::Void
        | Reply::Operator(_) => step,
    }
}

/// The next attempt, if there may be one. `unknown` is whether the last one may have succeeded.
fn again(
    mut record: Record,
    claim: Claim,
    last_status: Option<u16>,
    unknown: bool,
    env: &Env,
) -> Step {
    if record.sent >= record.terms.attempts_max && env.holds(Rule::AttemptsLimited) {
        return Step::unchanged(Some(record), Reply::Refused(Verdict::Exhausted { last_status }));
    }
    let mut counts = Counts::default();
    if unknown {
        record.suspect_latest(&mut counts);
    }
    record.history.remember(record.execution, record.fence);
    record.execution = claim.execution;
    record.fence = next_fence(record.fence, env);
    record.attempt = record.attempt.saturating_add(1);
    record.sent = record.sent.saturating_add(1);
    // The strictness is the record's; how long things last is up to the latest claim.
    record.terms.lease_us = claim.terms.lease_us;
    record.terms.ttl_us = claim.terms.ttl_us;
    record.terms.held_ttl_us = claim.terms.held_ttl_us;
    let state = in_progress(&record.terms, claim.gateway, env);
    record.enter(state, env);
    let reply = Reply::Claimed(claimed(&record, env));
    Step { record: Some(record), changed: true, reply, counts }
}

fn refused(record: Record, env: &Env) -> Step {
    let reply = Reply::Refused(verdict(&record, env));
    Step::unchanged(Some(record), reply)
}

fn spent(record: Record) -> Step {
    Step::unchanged(Some(record), Reply::Refused(Verdict::Spent))
}

/// Terms only ever become stricter. True if they did.
fn tighten(record: &mut Record, terms: &Terms, env: &Env) -> bool {
    let resolved = !record.unresolved();
    if resolved || !env.holds(Rule::StrictestTerms) {
        return false;
    }
    let on_ambiguous = record.terms.on_ambiguous.max(terms.on_ambiguous);
    let attempts_max = record.terms.attempts_max.min(terms.attempts_max);
    let before = (record.terms.on_ambiguous, record.terms.attempts_max);
    if before == (on_ambiguous, attempts_max) {
        return false;
    }
    record.terms.on_ambiguous = on_ambiguous;
    record.terms.attempts_max = attempts_max;
    record.revision = record.revision.saturating_add(1);
    true
}

fn in_progress(terms: &Terms, gateway: String, env: &Env) -> State {
    State::InProgress { claimed_at: env.now, lease_until: env.now.plus(terms.lease_us), gateway }
}

fn claimed(record: &Record, env: &Env) -> Claimed {
    Claimed {
        fence: record.fence,
        attempt: record.attempt,
        sent: record.sent,
        lease_left_us: lease_left_us(record, env),
        candidate: record.candidate.clone(),
        terms: record.terms,
    }
}

/// At least the clock, so that a record that was forgotten or has expired never gets a fence
/// again that somebody may still hold.
fn next_fence(previous: Fence, env: &Env) -> Fence {
    let clock = if env.holds(Rule::FenceNeverRestarts) { env.now } else { StoreTime(0) };
    Fence(previous.0.saturating_add(1).max(clock.0))
}
