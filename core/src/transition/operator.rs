//! Release, Resolve and Forget: what people say of a key.

use super::{Env, Rule, Step, lease_left_us};
use crate::operation::{OperatorEvent, OperatorReply, Reply, Seen};
use crate::record::{CompletedBy, Outcome, Record, State};
use crate::time::StoreTime;

pub(super) fn apply(record: Option<Record>, seen: Seen, event: OperatorEvent, env: &Env) -> Step {
    let Some(record) = record else {
        return Step::unchanged(None, Reply::Operator(OperatorReply::NotFound));
    };
    match event {
        OperatorEvent::Release { force } => release(record, seen, force, env),
        OperatorEvent::Resolve { outcome, force } => resolve(record, seen, outcome, force, env),
        OperatorEvent::Forget => forget(record, seen, env),
    }
}

fn release(record: Record, seen: Seen, force: bool, env: &Env) -> Step {
    let fits = fits(&record, seen, env);
    let state = &record.state;
    let (last_status, unknown) = match state {
        State::Completed { .. } => return told(record, OperatorReply::AlreadyCompleted),
        State::Retryable { released: true, .. } => {
            return told(record, OperatorReply::AlreadyReleased);
        }
        _ if !fits => return told(record, OperatorReply::Changed),
        State::InProgress { .. } if !force && lease_left_us(&record, env) > 0 => {
            return told(record, OperatorReply::Live);
        }
        State::InProgress { .. } => (None, true),
        State::Retryable { last_status, unknown, .. } => (*last_status, *unknown),
        State::Held { last_status, .. } => (*last_status, true),
    };
    let mut record = record;
    record.sent = 0;
    let not_before = StoreTime(0);
    record.enter(State::Retryable { last_status, not_before, unknown, released: true }, env);
    Step::changed(Some(record), Reply::Operator(OperatorReply::Released))
}

fn resolve(record: Record, seen: Seen, outcome: Outcome, force: bool, env: &Env) -> Step {
    let fits = fits(&record, seen, env);
    match &record.state {
        State::Completed { .. } => return told(record, OperatorReply::AlreadyCompleted),
        _ if !fits => return told(record, OperatorReply::Changed),
        State::InProgress { .. } if !force && lease_left_us(&record, env) > 0 => {
            return told(record, OperatorReply::Live);
        }
        State::InProgress { .. } | State::Retryable { .. } | State::Held { .. } => {}
    }
    let mut record = record;
    record.enter(State::Completed { outcome, by: CompletedBy::Operator }, env);
    Step::changed(Some(record), Reply::Operator(OperatorReply::Resolved))
}

fn forget(record: Record, seen: Seen, env: &Env) -> Step {
    if !fits(&record, seen, env) {
        return told(record, OperatorReply::Changed);
    }
    match &record.state {
        State::Completed { .. } | State::Retryable { .. } => {
            Step::changed(None, Reply::Operator(OperatorReply::Forgotten))
        }
        State::InProgress { .. } | State::Held { .. } => told(record, OperatorReply::Refused),
    }
}

/// Whether the record is still what the operator saw.
fn fits(record: &Record, seen: Seen, env: &Env) -> bool {
    let revision = record.revision == seen.revision || !env.holds(Rule::RevisionCompared);
    record.fence == seen.fence && revision
}

fn told(record: Record, reply: OperatorReply) -> Step {
    Step::unchanged(Some(record), Reply::Operator(reply))
}
