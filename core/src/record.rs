//! What is remembered of a key.
//!
//! A record is absent until a request claims its key, and absent again once its retention is
//! over. In between it is in one of four states:
//!
//! ```text
//!            claim                complete
//!  absent ----------> in progress ----------> completed
//!                      ^   |  |
//!                claim |   |  | fail(ambiguous) under hold, or a lease lost under hold
//!                      |   |  v
//!              retryable <-+ held       (an operator releases or resolves a held record)
//!                        fail
//! ```
//!
//! *Lost* is not a state but a reading: in progress, past its lease. Nothing here runs by
//! itself; a lost lease is found by the next operation that looks.

use crate::fingerprint::Candidate;
use crate::time::StoreTime;

/// How many past executions a record remembers. Each is needed for as long as a copy of one of
/// its messages can be under way, which is a state time-out; a key would have to execute this
/// often within one to be forgotten too early.
pub const HISTORY_MAX: usize = 16;

/// One try at executing a request: 128 random bits, chosen by the gateway. It claims once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutionId(pub [u8; 16]);

/// Orders a key's executions: rises with each claim and never restarts, also over `Forget` and
/// retention, since it is at least the store's clock in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(pub u64);

/// What to do about an execution whose outcome is unknown. Ordered by strictness.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnAmbiguous {
    /// A retry executes again: at-least-once, for upstreams that roll back or that deduplicate
    /// on the derived key.
    Reexecute,
    /// Nothing executes until an operator resolves or releases the key: at-most-once.
    Hold,
}

/// What a rule asks for its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The record keeps the strictest that any claim brought.
    pub on_ambiguous: OnAmbiguous,
    /// How many executions may be sent to the upstream; at least 1. The record keeps the least
    /// that any claim brought.
    pub attempts_max: u32,
    /// How long a claim holds without renewal, in µs.
    pub lease_us: u64,
    /// How long a record is kept after its last transition, in µs.
    pub ttl_us: u64,
    /// The same for a record that is held, or lost under hold, in µs.
    pub held_ttl_us: u64,
}

/// What operators call a key by. Never compared, never part of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The deployment's namespace.
    pub namespace: String,
    /// The rule that the first claim came by.
    pub rule: String,
    /// The client's name.
    pub client: String,
    /// The client's key.
    pub key: String,
}

/// An HTTP response, as it was stored and will be replayed.
#[derive(Clone, PartialEq, Eq)]
pub struct Response {
    /// 200 to 599.
    pub status: u16,
    /// In order, with repeated names as separate entries.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The whole body.
    pub body: Vec<u8>,
}

/// Responses are other people's payments: they stay out of logs.
impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Response({}, {} headers, {} bytes)",
            self.status,
            self.headers.len(),
            self.body.len()
        )
    }
}

/// How an operation ended, for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With a response that can be replayed.
    Response(Response),
    /// With a response that was not kept.
    Tombstone {
        /// Its status.
        status: u16,
        /// Its `Location`, if it had one.
        location: Option<Vec<u8>>,
    },
}

/// Who completed a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletedBy {
    /// An execution.
    Execution(ExecutionId),
    /// An operator, who resolved it.
    Operator,
}

/// What is remembered of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What operators call it.
    pub subject: Subject,
    /// The first claim's fingerprint and derived key.
    pub candidate: Candidate,
    /// The terms in force.
    pub terms: Terms,
    /// The latest execution to claim.
    pub execution: ExecutionId,
    /// That execution's fence.
    pub fence: Fence,
    /// That execution's number, from 1.
    pub attempt: u32,
    /// How many executions did not end `never_sent`.
    pub sent: u32,
    /// From 1, and rises with every transition but a renewal. Operators compare (fence,
    /// revision), which never comes again: a new record has a higher fence, and one that was
    /// restored has the clock's µs for its revision.
    pub revision: u64,
    /// When the key was first claimed.
    pub created_at: StoreTime,
    /// When the last transition was.
    pub changed_at: StoreTime,
    /// Earlier executions, oldest first, and the present one if it is suspected.
    pub history: History,
    /// What is going on.
    pub state: State,
}

/// What is going on with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// An execution owns it.
    InProgress {
        /// When it claimed.
        claimed_at: StoreTime,
        /// Until when its claim holds.
        lease_until: StoreTime,
        /// Which gateway runs it.
        gateway: String,
    },
    /// The outcome is final.
    Completed {
        /// How it ended.
        outcome: Outcome,
        /// Who says so.
        by: CompletedBy,
    },
    /// The last attempt failed in a way that may be retried, or an operator released the key.
    Retryable {
        /// The upstream's last status, if it gave one.
        last_status: Option<u16>,
        /// No execution before this.
        not_before: StoreTime,
        /// Whether the last execution may have succeeded all the same.
        unknown: bool,
        /// Whether an operator released it.
        released: bool,
    },
    /// The outcome is unknown, and the terms say not to guess.
    Held {
        /// The upstream's last status, if it gave one.
        last_status: Option<u16>,
        /// Whether a lost lease led here, so that the owner may still bring the outcome.
        lost_lease: bool,
    },
}

/// An execution that is no longer the latest, or that is suspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// Which.
    pub execution: ExecutionId,
    /// Its fence.
    pub fence: Fence,
    /// Whether it was counted as a suspected duplicate. Each is counted once.
    pub suspected: bool,
}

/// The last [`HISTORY_MAX`] past executions of a key, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History(Vec<Past>);

// === impl History ===

impl History {
    /// Restores a history that a store has kept.
    #[must_use]
    pub fn restore(past: Vec<Past>) -> Self {
        let excess = past.len().saturating_sub(HISTORY_MAX);
        Self(past.into_iter().skip(excess).collect())
    }

    /// Oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Past> {
        self.0.iter()
    }

    /// Whether `execution` is remembered.
    #[must_use]
    pub fn has(&self, execution: &ExecutionId) -> bool {
        self.0.iter().any(|past| past.execution == *execution)
    }

    /// Remembers that `execution` is over.
    pub(crate) fn remember(&mut self, execution: ExecutionId, fence: Fence) {
        if !self.has(&execution) {
            self.push(Past { execution, fence, suspected: false });
        }
    }

    /// Remembers that `execution` may have been a duplicate. True the first time.
    pub(crate) fn suspect(&mut self, execution: ExecutionId, fence: Fence) -> bool {
        if let Some(past) = self.0.iter_mut().find(|past| past.execution == execution) {
            return !std::mem::replace(&mut past.suspected, true);
        }
        self.push(Past { execution, fence, suspected: true });
        true
    }

    fn push(&mut self, past: Past) {
        if self.0.len() >= HISTORY_MAX {
            self.0.remove(0);
        }
        self.0.push(past);
    }
}

// === impl Record ===

impl Record {
    /// Until when the present lease holds, or `None` where nobody has one.
    ///
    /// `resumed_at` is when the store was last found to have resumed after an outage (0 if
    /// never): an outage is not a lost lease, so nothing is taken over until its owner has had
    /// a whole lease to come back.
    #[must_use]
    pub fn lease_until(&self, resumed_at: StoreTime) -> Option<StoreTime> {
        match &self.state {
            State::InProgress { lease_until, .. } => {
                Some((*lease_until).max(resumed_at.plus(self.terms.lease_us)))
            }
            State::Completed { .. } | State::Retryable { .. } | State::Held { .. } => None,
        }
    }

    /// When retention ends and the key is absent again.
    #[must_use]
    pub fn expires_at(&self) -> StoreTime {
        match &self.state {
            State::InProgress { lease_until, .. } => match self.terms.on_ambiguous {
                OnAmbiguous::Reexecute => lease_until.plus(self.terms.ttl_us),
                OnAmbiguous::Hold => lease_until.plus(self.terms.held_ttl_us),
            },
            State::Completed { .. } | State::Retryable { .. } => {
                self.changed_at.plus(self.terms.ttl_us)
            }
            State::Held { .. } => self.changed_at.plus(self.terms.held_ttl_us),
        }
    }

    /// Whether the outcome is still open.
    #[must_use]
    pub fn unresolved(&self) -> bool {
        match self.state {
            State::InProgress { .. } | State::Retryable { .. } | State::Held { .. } => true,
            State::Completed { .. } => false,
        }
    }
}
