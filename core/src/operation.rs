//! What can be asked of a record, and what is answered.

use crate::fingerprint::{Candidate, Fingerprint};
use crate::identity::Identity;
use crate::record::{ExecutionId, Fence, Outcome, Subject, Terms};
use crate::time::StoreTime;

/// An operation on one key's record. Filters and operators ask for these, stores apply them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The record.
    pub identity: Identity,
    /// What to do with it.
    pub event: Event,
}

/// What can happen to a record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    target_pointer_width = "64",
    expect(clippy::large_enum_variant, reason = "nearly all are the large one: filters' events")
)]
pub enum Event {
    /// What a filter does.
    Filter {
        /// On the store's clock; what arrives later does nothing, so that a delayed copy
        /// cannot act after its sender has moved on.
        void_after: StoreTime,
        /// What.
        event: FilterEvent,
    },
    /// What an operator does.
    Operator {
        /// The fence and revision that the operator saw.
        seen: Seen,
        /// What.
        event: OperatorEvent,
    },
}

/// What filters do. Each may be repeated by its execution: a repeat gets the same answer and
/// changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterEvent {
    /// Asks to execute.
    Claim(Claim),
    /// Keeps the lease of a running execution.
    Renew(Ticket),
    /// Brings the final outcome.
    Complete {
        /// By which execution.
        ticket: Ticket,
        /// What it is.
        outcome: Outcome,
    },
    /// Says that the execution ended otherwise.
    Fail(Fail),
}

/// A request to execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Who asks.
    pub execution: ExecutionId,
    /// The request's fingerprint under each version and secret that the gateway knows, the
    /// preferred one first. Without any, nothing matches.
    pub candidates: Vec<Candidate>,
    /// The rule's terms.
    pub terms: Terms,
    /// What operators call the key.
    pub subject: Subject,
    /// Which gateway asks.
    pub gateway: String,
}

/// What an execution holds from its claim on: enough to restore the record if the store loses
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Who.
    pub execution: ExecutionId,
    /// From the claim.
    pub fence: Fence,
    /// From the claim.
    pub attempt: u32,
    /// From the claim.
    pub sent: u32,
    /// The record's.
    pub candidate: Candidate,
    /// The record's.
    pub terms: Terms,
    /// What operators call the key.
    pub subject: Subject,
    /// Which gateway runs it.
    pub gateway: String,
}

/// The end of an execution without a final outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fail {
    /// Which.
    pub execution: ExecutionId,
    /// Its fence; `None` only where its claim was never answered.
    pub fence: Option<Fence>,
    /// Its fingerprint; `None` only where its claim was never answered.
    pub fingerprint: Option<Fingerprint>,
    /// How it ended.
    pub kind: FailKind,
    /// The upstream's status, if it gave one.
    pub status: Option<u16>,
    /// How long the next execution has to wait, in µs.
    pub retry_after_us: u64,
}

/// How an execution ended, if not with a final outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailKind {
    /// Nothing reached the upstream, for sure.
    NeverSent,
    /// The upstream says that it did nothing and may be asked again.
    Retryable,
    /// It may have been executed, or may still be running.
    Ambiguous,
}

/// What an operator compares with before anything is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The record's fence.
    pub fence: Fence,
    /// The record's revision.
    pub revision: u64,
}

/// What operators do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorEvent {
    /// Lets the next retry execute.
    Release {
        /// Also where an execution is running, which may then happen twice.
        force: bool,
    },
    /// Says what the outcome is.
    Resolve {
        /// The outcome.
        outcome: Outcome,
        /// Also where an execution is running.
        force: bool,
    },
    /// Drops a record that needs nobody any more.
    Forget,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To a claim: execute.
    Claimed(Claimed),
    /// To a claim: do not.
    Refused(Verdict),
    /// To a renewal: go on for this many µs, counted from when it was sent.
    Renewed {
        /// In µs.
        lease_left_us: u64,
    },
    /// To a completion or failure: recorded.
    Settled,
    /// The execution is no longer the one that counts; this is what its client gets.
    Fenced(Verdict),
    /// To a failure: there is no record.
    Gone,
    /// The operation came after its time and did nothing.
    Void,
    /// To an operator.
    Operator(OperatorReply),
}

/// Leave to execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The execution's fence.
    pub fence: Fence,
    /// The execution's number, from 1.
    pub attempt: u32,
    /// Executions that were sent, this one included.
    pub sent: u32,
    /// In µs, counted from when the claim was sent.
    pub lease_left_us: u64,
    /// The record's fingerprint and derived key.
    pub candidate: Candidate,
    /// The terms in force.
    pub terms: Terms,
}

/// What a client whose request is not executed is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// An execution is running.
    InProgress {
        /// For how long it has, in µs.
        age_us: u64,
        /// How long its lease has left, in µs; 0 if it is lost.
        lease_left_us: u64,
    },
    /// It is done; this is the answer.
    Completed(Outcome),
    /// It may be executed, but not yet.
    RetryLater {
        /// In how many µs.
        after_us: u64,
    },
    /// It was tried as often as it may be.
    Exhausted {
        /// The upstream's last status, if it gave one.
        last_status: Option<u16>,
    },
    /// The outcome is unknown.
    Held {
        /// The upstream's last status, if it gave one.
        last_status: Option<u16>,
    },
    /// The key belongs to another request.
    Mismatch,
    /// This execution has already claimed, and has ended.
    Spent,
}

/// What an operator is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperatorReply {
    /// The next retry executes.
    Released,
    /// It was released before.
    AlreadyReleased,
    /// The outcome is the operator's.
    Resolved,
    /// There is an outcome already.
    AlreadyCompleted,
    /// The record is gone.
    Forgotten,
    /// An execution is running, and `force` was not given.
    Live,
    /// What the record is does not allow it.
    Refused,
    /// The record is no longer what the operator saw.
    Changed,
    /// There is no such record.
    NotFound,
}
