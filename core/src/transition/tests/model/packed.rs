//! The record, as small as this world lets it be, and back again.

use super::Config;
use crate::fingerprint::{Candidate, Fingerprint};
use crate::record::{
    CompletedBy, ExecutionId, Fence, History, OnAmbiguous, Outcome, Past, Record, State, Subject,
    Terms,
};
use crate::time::StoreTime;

/// The store's clock, always: everything else is told from it by differences. Above every rank
/// that a fence can have, as a clock in µs is above every fence that it gave.
pub(super) const NOW: StoreTime = StoreTime(1_000);
/// Longer than everything else.
const TTL: u64 = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Packed {
    pub(super) request: u8,
    pub(super) hold: bool,
    pub(super) execution: u8,
    pub(super) fence: u16,
    pub(super) attempt: u8,
    pub(super) sent: u8,
    pub(super) revision: u16,
    /// One bit for each execution.
    pub(super) history: u8,
    pub(super) state: PackedState,
    /// Retention is over, and nobody has looked since.
    pub(super) expired: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum PackedState {
    /// With so many ticks left.
    InProgress(u8),
    /// By an execution, or [`OPERATOR`].
    Completed(u8),
    Retryable {
        unknown: bool,
        released: bool,
    },
    Held {
        lost_lease: bool,
    },
}

/// Who resolves.
pub(super) const OPERATOR: u8 = 7;

pub(super) fn execution_id(execution: u8) -> ExecutionId {
    ExecutionId([execution; 16])
}

pub(super) fn candidate(request: u8) -> Candidate {
    let fingerprint = Fingerprint { version: 1, secret: String::new(), digest: [request; 32] };
    Candidate { fingerprint, derived_key: String::new() }
}

pub(super) fn subject() -> Subject {
    Subject {
        namespace: String::new(),
        rule: String::new(),
        client: String::new(),
        key: String::new(),
    }
}

/// A tombstone that tells who left it.
pub(super) fn outcome(by: u8) -> Outcome {
    Outcome::Tombstone { status: 200 + u16::from(by), location: None }
}

pub(super) fn outcome_by(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Tombstone { status, .. } => (status - 200) as u8,
        Outcome::Response(response) => panic!("nobody brought {response:?}"),
    }
}

impl Config {
    pub(super) fn terms(&self, hold: bool) -> Terms {
        Terms {
            on_ambiguous: if hold { OnAmbiguous::Hold } else { OnAmbiguous::Reexecute },
            attempts_max: u32::from(self.attempts_max),
            lease_us: u64::from(self.lease),
            ttl_us: TTL,
            held_ttl_us: TTL,
        }
    }
}

// === impl Packed ===

impl Packed {
    pub(super) fn of(record: &Record) -> Self {
        let state = match &record.state {
            State::InProgress { lease_until, .. } => {
                PackedState::InProgress(lease_until.since(NOW) as u8)
            }
            State::Completed { outcome, by } => {
                let told = outcome_by(outcome);
                let owner = match by {
                    CompletedBy::Execution(execution) => execution.0[0],
                    CompletedBy::Operator => OPERATOR,
                };
                assert_eq!(told, owner, "an outcome is stored with who brought it");
                PackedState::Completed(owner)
            }
            State::Retryable { unknown, released, .. } => {
                PackedState::Retryable { unknown: *unknown, released: *released }
            }
            State::Held { lost_lease, .. } => PackedState::Held { lost_lease: *lost_lease },
        };
        Self {
            request: record.candidate.fingerprint.digest[0],
            hold: record.holds_on_ambiguous(),
            execution: record.execution.0[0],
            fence: record.fence.0 as u16,
            attempt: record.attempt as u8,
            sent: record.sent as u8,
            revision: record.revision as u16,
            history: record.history.iter().fold(0, |bits, past| bits | 1 << past.execution.0[0]),
            state,
            expired: false,
        }
    }

    pub(super) fn unpack(&self, config: &Config) -> Record {
        let changed_at = if self.expired { StoreTime(NOW.0 - TTL - 1) } else { NOW };
        let state = match self.state {
            PackedState::InProgress(left) => State::InProgress {
                claimed_at: changed_at,
                lease_until: changed_at.plus(u64::from(left)),
                gateway: String::new(),
            },
            PackedState::Completed(by) => State::Completed {
                outcome: outcome(by),
                by: match by {
                    OPERATOR => CompletedBy::Operator,
                    execution => CompletedBy::Execution(execution_id(execution)),
                },
            },
            PackedState::Retryable { unknown, released } => {
                State::Retryable { last_status: None, not_before: StoreTime(0), unknown, released }
            }
            PackedState::Held { lost_lease } => State::Held { last_status: None, lost_lease },
        };
        Record {
            subject: subject(),
            candidate: candidate(self.request),
            terms: config.terms(self.hold),
            execution: execution_id(self.execution),
            fence: Fence(u64::from(self.fence)),
            attempt: u32::from(self.attempt),
            sent: u32::from(self.sent),
            revision: u64::from(self.revision),
            created_at: changed_at,
            changed_at,
            history: self.history(),
            state,
        }
    }

    fn history(&self) -> History {
        let bits = (0..8).filter(|bit| self.history & 1 << bit != 0);
        History::restore(
            bits.map(|bit| Past {
                execution: execution_id(bit),
                fence: Fence(0),
                suspected: false,
            })
            .collect(),
        )
    }

    pub(super) fn is_held(&self) -> bool {
        matches!(self.state, PackedState::Held { .. })
    }

    /// Which of the states it is in.
    pub(super) fn kind(&self) -> u8 {
        match self.state {
            PackedState::InProgress(_) => 0,
            PackedState::Completed(_) => 1,
            PackedState::Retryable { .. } => 2,
            PackedState::Held { .. } => 3,
        }
    }
}
