//! Records as stores write them down.

use prost::Message;

use super::convert::{
    decode_candidate, decode_subject, decode_terms, encode_candidate, encode_subject, encode_terms,
    execution, optional_status,
};
use super::record_v1 as wire;
use super::{WireError, decode_outcome, encode_outcome};
use crate::record::{CompletedBy, Fence, History, Past, Record, State};
use crate::time::StoreTime;

/// A record, written down.
#[must_use]
pub fn encode_record(record: &Record) -> Vec<u8> {
    let past = |past: &Past| wire::Past {
        execution: past.execution.0.to_vec(),
        fence: past.fence.0,
        suspected: past.suspected,
    };
    wire::Record {
        subject: Some(encode_subject(&record.subject)),
        candidate: Some(encode_candidate(&record.candidate)),
        terms: Some(encode_terms(&record.terms)),
        execution: record.execution.0.to_vec(),
        fence: record.fence.0,
        attempt: record.attempt,
        sent: record.sent,
        revision: record.revision,
        created_at_us: record.created_at.0,
        changed_at_us: record.changed_at.0,
        history: record.history.iter().map(past).collect(),
        state: Some(encode_state(&record.state)),
    }
    .encode_to_vec()
}

/// Reads a record.
///
/// # Errors
/// Where it is corrupt or incomplete. A record in progress without a lease is incomplete: it
/// must never look like one whose lease is lost.
pub fn decode_record(bytes: &[u8]) -> Result<Record, WireError> {
    let record =
        wire::Record::decode(bytes).map_err(|error| WireError::Undecodable(error.to_string()))?;
    if record.fence == 0 {
        return Err(WireError::Missing("fence"));
    }
    let past = |past: wire::Past| {
        Ok(Past {
            execution: execution(&past.execution)?,
            fence: Fence(past.fence),
            suspected: past.suspected,
        })
    };
    Ok(Record {
        subject: decode_subject(record.subject)?,
        candidate: decode_candidate(record.candidate)?,
        terms: decode_terms(record.terms)?,
        execution: execution(&record.execution)?,
        fence: Fence(record.fence),
        attempt: record.attempt,
        sent: record.sent,
        revision: record.revision,
        created_at: StoreTime(record.created_at_us),
        changed_at: StoreTime(record.changed_at_us),
        history: History::restore(
            record.history.into_iter().map(past).collect::<Result<_, WireError>>()?,
        ),
        state: decode_state(record.state.ok_or(WireError::Missing("state"))?)?,
    })
}

fn encode_state(state: &State) -> wire::record::State {
    match state {
        State::InProgress { claimed_at, lease_until, gateway } => {
            wire::record::State::InProgress(wire::InProgress {
                claimed_at_us: claimed_at.0,
                lease_until_us: lease_until.0,
                gateway: gateway.clone(),
            })
        }
        State::Completed { outcome, by } => wire::record::State::Completed(wire::Completed {
            outcome: Some(encode_outcome(outcome)),
            by: match by {
                CompletedBy::Execution(execution) => execution.0.to_vec(),
                CompletedBy::Operator => Vec::new(),
            },
        }),
        State::Retryable { last_status, not_before, unknown, released } => {
            wire::record::State::Retryable(wire::Retryable {
                last_status: last_status.map_or(0, u32::from),
                not_before_us: not_before.0,
                unknown: *unknown,
                released: *released,
            })
        }
        State::Held { last_status, lost_lease } => wire::record::State::Held(wire::Held {
            last_status: last_status.map_or(0, u32::from),
            lost_lease: *lost_lease,
        }),
    }
}

fn decode_state(state: wire::record::State) -> Result<State, WireError> {
    Ok(match state {
        wire::record::State::InProgress(it) if it.lease_until_us == 0 => {
            return Err(WireError::Missing("lease_until_us"));
        }
        wire::record::State::InProgress(it) => State::InProgress {
            claimed_at: StoreTime(it.claimed_at_us),
            lease_until: StoreTime(it.lease_until_us),
            gateway: it.gateway,
        },
        wire::record::State::Completed(it) => State::Completed {
            outcome: decode_outcome(it.outcome.ok_or(WireError::Missing("outcome"))?)?,
            by: if it.by.is_empty() {
                CompletedBy::Operator
            } else {
                CompletedBy::Execution(execution(&it.by)?)
            },
        },
        wire::record::State::Retryable(it) => State::Retryable {
            last_status: optional_status(it.last_status)?,
            not_before: StoreTime(it.not_before_us),
            unknown: it.unknown,
            released: it.released,
        },
        wire::record::State::Held(it) => {
            State::Held { last_status: optional_status(it.last_status)?, lost_lease: it.lost_lease }
        }
    })
}
