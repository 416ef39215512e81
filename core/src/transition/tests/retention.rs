//! How a record ends by itself, and what is made of one that the store has lost.

use super::fixture::*;
use crate::operation::{Event, FailKind, FilterEvent, OperatorEvent, OperatorReply, Reply};
use crate::record::State;

#[test]
fn retention_runs_from_the_last_transition_and_leaves_nothing() {
    let stores = [
        (completed(), TTL, 0),
        (retryable(REEXECUTE), TTL, 1),
        (live(REEXECUTE), LEASE + TTL, 1),
        (live(HOLD), LEASE + HELD_TTL, 1),
        (held(), HELD_TTL, 1),
        (held_by_lost_lease(), HELD_TTL, 1),
    ];
    for ((mut store, _), kept_us, expired_unresolved) in stores {
        let end = store.the_record().changed_at.plus(kept_us);
        store.env.now.0 = end.0 - 1;
        let still = store.claim(claim(9, HOLD));
        assert!(!matches!(&still, Reply::Claimed(claimed) if claimed.attempt == 1), "{still:?}");
        store.env.now.0 = end.0 + 2 * HELD_TTL;
        assert_eq!(granted(store.claim(claim(8, HOLD))).attempt, 1, "as if it was never seen");
        assert_eq!(store.counts.expired_unresolved, expired_unresolved);
    }
}

#[test]
fn a_record_is_there_up_to_the_last_microsecond_of_its_retention() {
    let (mut store, _) = completed();
    let end = store.the_record().expires_at();
    store.env.now.0 = end.0 - 1;
    assert_eq!(store.claim(claim(2, REEXECUTE)), Reply::Refused(replay(1)));
    assert_eq!(store.env.now, end);
    granted(store.claim(claim(2, REEXECUTE)));
}

#[test]
fn whoever_finds_a_record_expired_counts_it_and_drops_it() {
    let (mut store, first) = held();
    let seen = store.seen();
    store.pass(HELD_TTL + 1);
    let mut other = store.clone();
    let release = OperatorEvent::Release { force: false };
    assert_eq!(store.operator(seen, release), OperatorReply::NotFound);
    assert!(store.changed);
    assert_eq!((store.state(), store.counts.expired_unresolved), ("absent", 1));
    assert_eq!(other.fail(&first, FailKind::NeverSent), Reply::Gone);
    assert_eq!((other.state(), other.counts.expired_unresolved), ("absent", 1));
}

#[test]
fn a_renewal_keeps_a_long_execution_from_expiring() {
    let (mut store, first) = live(REEXECUTE);
    for _ in 0..4 {
        store.pass(TTL);
        store.renew(&first);
    }
    assert_eq!(store.owner(), (execution(1), first.fence));
    assert_eq!(store.counts.restored, 0);
}

#[test]
fn a_void_operation_does_not_even_drop_an_expired_record() {
    let (mut store, _) = completed();
    let void_after = store.env.now;
    store.pass(2 * TTL);
    let event = FilterEvent::Claim(claim(2, REEXECUTE));
    assert_eq!(store.apply(Event::Filter { void_after, event }), Reply::Void);
    assert_eq!(store.state(), "completed");
}

// --- what a restored record is ---

#[test]
fn a_restored_record_goes_on_where_its_execution_was() {
    let (mut store, _) = lost(REEXECUTE);
    let second = store.claimed(2, REEXECUTE);
    store.lose();
    store.renew(&second);
    assert_eq!(store.owner(), (execution(2), second.fence));
    store.pass(LEASE);
    let third = granted(store.claim(claim(3, REEXECUTE)));
    assert!(third.fence > second.fence);
    assert_eq!((third.attempt, third.sent), (3, 3));
    let State::InProgress { .. } = store.the_record().state else { panic!("{store:?}") };
}

#[test]
fn an_operator_who_looked_before_the_record_was_lost_is_out_of_date() {
    let (mut store, first) = live(REEXECUTE);
    let seen = store.seen();
    store.lose();
    store.complete(&first);
    assert_eq!(store.seen().fence, seen.fence);
    assert_eq!(store.operator(seen, OperatorEvent::Forget), OperatorReply::Changed);
    assert_eq!(store.state(), "completed");
}
