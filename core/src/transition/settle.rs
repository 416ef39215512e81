//! Renew, Complete and Fail: what an execution says of itself.

use super::{Env, Rule, Step, verdict};
use crate::counter::{Counter, Counts};
use crate::fingerprint::Fingerprint;
use crate::operation::{Fail, FailKind, Reply, Ticket, Verdict};
use crate::record::{CompletedBy, ExecutionId, Fence, History, Outcome, Record, State};

pub(super) fn renew(record: Option<Record>, ticket: Ticket, env: &Env) -> Step {
    let Some(mut record) = record else {
        let lease_left_us = ticket.terms.lease_us;
        let gateway = ticket.gateway.clone();
        let lease_until = env.now.plus(lease_left_us);
        let state = State::InProgress { claimed_at: env.now, lease_until, gateway };
        let record = restored(ticket, state, env);
        return Step::changed(Some(record), Reply::Renewed { lease_left_us })
            .counting(Counter::Restored);
    };
    if !owns(&record, ticket.execution, Some(ticket.fence)) {
        return fenced(record, Some(&ticket.candidate.fingerprint), Counts::default(), env);
    }
    let lease_us = record.terms.lease_us;
    let renewed = Reply::Renewed { lease_left_us: lease_us };
    match &mut record.state {
        State::InProgress { lease_until, .. } => {
            *lease_until = env.now.plus(lease_us);
            Step::changed(Some(record), renewed)
        }
        State::Held { lost_lease: true, .. } if env.holds(Rule::OwnerReturns) => {
            let lease_until = env.now.plus(lease_us);
            let gateway = ticket.gateway;
            record.enter(State::InProgress { claimed_at: env.now, lease_until, gateway }, env);
            Step::changed(Some(record), renewed)
        }
        State::Held { .. } | State::Completed { .. } | State::Retryable { .. } => {
            fenced(record, Some(&ticket.candidate.fingerprint), Counts::default(), env)
        }
    }
}

pub(super) fn complete(
    record: Option<Record>,
    ticket: Ticket,
    outcome: Outcome,
    env: &Env,
) -> Step {
    let by = CompletedBy::Execution(ticket.execution);
    let Some(mut record) = record else {
        let record = restored(ticket, State::Completed { outcome, by }, env);
        return Step::changed(Some(record), Reply::Settled).counting(Counter::Restored);
    };
    let fingerprint = &ticket.candidate.fingerprint;
    if *fingerprint != record.candidate.fingerprint {
        // The key was forgotten and belongs to another request now.
        return fenced(record, Some(fingerprint), Counts::default(), env);
    }
    let own = owns(&record, ticket.execution, Some(ticket.fence));
    let keep = match &record.state {
        State::InProgress { .. } => own,
        State::Completed { by: before, .. } if *before == by => {
            return Step::unchanged(Some(record), Reply::Settled);
        }
        State::Completed { .. } => false,
        State::Retryable { .. } | State::Held { .. } => own || env.holds(Rule::LateSuccessKept),
    };
    let mut counts = Counts::default();
    let suspected = !own && record.history.suspect(ticket.execution, ticket.fence);
    if suspected {
        counts.add(Counter::SuspectedDuplicates, 1);
    }
    if keep {
        record.enter(State::Completed { outcome, by }, env);
        return Step { record: Some(record), changed: true, reply: Reply::Settled, counts };
    }
    let mut step = fenced(record, Some(fingerprint), counts, env);
    step.changed |= suspected;
    step
}

pub(super) fn fail(record: Option<Record>, fail: &Fail, env: &Env) -> Step {
    let Some(record) = record else { return Step::unchanged(None, Reply::Gone) };
    let own = owns(&record, fail.execution, fail.fence)
        && (fail.fence.is_some() || fail.kind == FailKind::NeverSent);
    if !own {
        return fenced(record, fail.fingerprint.as_ref(), Counts::default(), env);
    }
    match &record.state {
        State::InProgress { .. } => end(record, fail, env),
        State::Held { lost_lease: true, .. } if env.holds(Rule::OwnerReturns) => match fail.kind {
            FailKind::NeverSent | FailKind::Retryable => end(record, fail, env),
            FailKind::Ambiguous => Step::unchanged(Some(record), Reply::Settled),
        },
        State::Held { .. } | State::Retryable { .. } => {
            Step::unchanged(Some(record), Reply::Settled)
        }
        State::Completed { .. } => {
            fenced(record, fail.fingerprint.as_ref(), Counts::default(), env)
        }
    }
}

/// The present execution is over, as `fail` says.
fn end(mut record: Record, fail: &Fail, env: &Env) -> Step {
    let last_status = fail.status;
    let unknown = match fail.kind {
        FailKind::NeverSent => {
            record.sent = record.sent.saturating_sub(1);
            false
        }
        FailKind::Retryable => false,
        FailKind::Ambiguous if record.holds_on_ambiguous() => {
            record.enter(State::Held { last_status, lost_lease: false }, env);
            return Step::changed(Some(record), Reply::Settled).counting(Counter::Holds);
        }
        FailKind::Ambiguous => true,
    };
    let not_before = env.now.plus(fail.retry_after_us);
    record.enter(State::Retryable { last_status, not_before, unknown, released: false }, env);
    Step::changed(Some(record), Reply::Settled)
}

/// Own means the execution id and the fence, where the fence is known.
fn owns(record: &Record, execution: ExecutionId, fence: Option<Fence>) -> bool {
    record.execution == execution && fence.is_none_or(|fence| fence == record.fence)
}

/// Tells an execution that does not count any more what does. Its fingerprint is compared like
/// a claim's, since a response goes only to the request that it belongs to.
fn fenced(record: Record, fingerprint: Option<&Fingerprint>, counts: Counts, env: &Env) -> Step {
    let equal = fingerprint.is_some_and(|it| *it == record.candidate.fingerprint);
    let verdict = if equal { verdict(&record, env) } else { Verdict::Mismatch };
    Step { record: Some(record), changed: false, reply: Reply::Fenced(verdict), counts }
}

/// A record made anew from what its execution knows. Its revision is the clock's, above any
/// that was counted: an operator who looked before the record was lost is out of date.
fn restored(ticket: Ticket, state: State, env: &Env) -> Record {
    Record {
        subject: ticket.subject,
        candidate: ticket.candidate,
        terms: ticket.terms,
        execution: ticket.execution,
        fence: ticket.fence,
        attempt: ticket.attempt,
        sent: ticket.sent,
        revision: env.now.0,
        created_at: env.now,
        changed_at: env.now,
        history: History::default(),
        state,
    }
}
