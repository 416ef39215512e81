//! What gateways keep to, as far as a record's fate hangs on it.

use crate::operation::{Claimed, Reply, Verdict};
use crate::record::Outcome;
use crate::time::StoreTime;

/// Until when, on the clock that `dispatched` was read from, a claim that was sent at
/// `dispatched` may be forwarded without renewing it first.
///
/// Counted from the dispatch, not from the answer: the lease began somewhere in between.
pub(super) fn good_until(dispatched: StoreTime, claimed: &Claimed) -> StoreTime {
    dispatched.plus(claimed.lease_left_us)
}

/// What a client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// What its own execution brought.
    Own(Outcome),
    /// What the record says.
    Record(Verdict),
    /// Nothing yet: the operation has to be asked again.
    Nothing,
}

/// What the client of an execution that brought `own` is told after `reply` to its completion.
pub(super) fn told(own: Outcome, reply: &Reply) -> Told {
    match reply {
        Reply::Settled => Told::Own(own),
        Reply::Fenced(verdict) | Reply::Refused(verdict) => Told::Record(verdict.clone()),
        Reply::Claimed(_)
        | Reply::Renewed { .. }
        | Reply::Gone
        | Reply::Void
        | Reply::Operator(_) => Told::Nothing,
    }
}
