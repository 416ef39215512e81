//! What the endpoint counts since its start, by name.

use std::sync::atomic::{AtomicU64, Ordering};

use latchkey_core::operation::{Event, FilterEvent, Operation, Reply, Verdict};

/// Defines an enum whose values are counted: its values and their names in one place.
macro_rules! counted {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$value_doc])* $value,)* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$value),*];

            /// The name in metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$value => $text,)* }
            }
        }
    };
}

counted! {
    /// What a filter asked for.
    OperationKind {
        /// To execute.
        Claim = "claim",
        /// To keep a lease.
        Renew = "renew",
        /// To record an outcome.
        Complete = "complete",
        /// To record an end without one.
        Fail = "fail",
        /// Nothing that can be understood.
        Invalid = "invalid",
    }
}

counted! {
    /// What it was answered.
    ResultKind {
        /// Leave to execute.
        Claimed = "claimed",
        /// Another execution is running.
        InProgress = "in_progress",
        /// The stored outcome.
        Completed = "completed",
        /// Not yet.
        RetryLater = "retry_later",
        /// Tried as often as it may be.
        Exhausted = "exhausted",
        /// The outcome is unknown.
        Held = "held",
        /// The key is another request's.
        Mismatch = "mismatch",
        /// The execution has claimed before.
        Spent = "spent",
        /// The lease goes on.
        Renewed = "renewed",
        /// Recorded.
        Settled = "settled",
        /// The execution no longer counts.
        Fenced = "fenced",
        /// There is no record.
        Gone = "gone",
        /// Came too late to do anything.
        Void = "void",
        /// The record cannot be understood.
        Unreadable = "unreadable",
        /// Too large for its reply.
        Alone = "alone",
        /// Unknown, or not understood.
        Failed = "failed",
    }
}

counted! {
    /// What became of a batch.
    BatchResult {
        /// Each operation has its answer.
        Answered = "answered",
        /// It could not be understood, or was too large.
        Invalid = "invalid",
        /// It bore no good token.
        Unauthorised = "unauthorised",
        /// The store, or the server, could not serve it in time.
        Unavailable = "unavailable",
    }
}

/// What was counted since the start.
#[derive(Debug, Default)]
pub struct Meters {
    operations: [[AtomicU64; ResultKind::ALL.len()]; OperationKind::ALL.len()],
    batches: [AtomicU64; BatchResult::ALL.len()],
}

// === impl Meters ===

impl Meters {
    /// How many operations of `kind` were answered with `result`. Those in batches that were
    /// not answered are in no count.
    #[must_use]
    pub fn operations(&self, kind: OperationKind, result: ResultKind) -> u64 {
        self.operations
            .get(kind as usize)
            .and_then(|results| results.get(result as usize))
            .map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// How many batches ended with `result`.
    #[must_use]
    pub fn batches(&self, result: BatchResult) -> u64 {
        self.batches.get(result as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    pub(super) fn operation(&self, kind: OperationKind, result: ResultKind) {
        if let Some(count) =
            self.operations.get(kind as usize).and_then(|results| results.get(result as usize))
        {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn batch(&self, result: BatchResult) {
        if let Some(count) = self.batches.get(result as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

// === impl OperationKind ===

impl OperationKind {
    /// What `operation` counts as.
    pub(super) fn of(operation: &Operation) -> Self {
        match &operation.event {
            Event::Filter { event, .. } => match event {
                FilterEvent::Claim(_) => Self::Claim,
                FilterEvent::Renew(_) => Self::Renew,
                FilterEvent::Complete { .. } => Self::Complete,
                FilterEvent::Fail(_) => Self::Fail,
            },
            Event::Operator { .. } => Self::Invalid,
        }
    }
}

// === impl ResultKind ===

impl ResultKind {
    /// What `reply` counts as.
    pub(super) fn of(reply: &Reply) -> Self {
        match reply {
            Reply::Claimed(_) => Self::Claimed,
            Reply::Refused(verdict) => match verdict {
                Verdict::InProgress { .. } => Self::InProgress,
                Verdict::Completed(_) => Self::Completed,
                Verdict::RetryLater { .. } => Self::RetryLater,
                Verdict::Exhausted { .. } => Self::Exhausted,
                Verdict::Held { .. } => Self::Held,
                Verdict::Mismatch => Self::Mismatch,
                Verdict::Spent => Self::Spent,
            },
            Reply::Renewed { .. } => Self::Renewed,
            Reply::Settled => Self::Settled,
            Reply::Fenced(_) => Self::Fenced,
            Reply::Gone => Self::Gone,
            Reply::Void => Self::Void,
            Reply::Operator(_) => Self::Failed,
        }
    }
}
