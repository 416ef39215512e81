//! The table's rows *Release*, *Resolve* and *Forget*, cell by cell.

use super::fixture::*;
use crate::operation::{FailKind, OperatorEvent, OperatorReply, Reply, Seen, Verdict};
use crate::record::{CompletedBy, Fence, State};
use crate::time::StoreTime;

fn every_event() -> [OperatorEvent; 5] {
    [
        OperatorEvent::Release { force: false },
        OperatorEvent::Release { force: true },
        OperatorEvent::Resolve { outcome: outcome(99), force: false },
        OperatorEvent::Resolve { outcome: outcome(99), force: true },
        OperatorEvent::Forget,
    ]
}

fn is_released(store: &Store) -> bool {
    matches!(store.the_record().state, State::Retryable { released: true, .. })
}

fn is_resolved(store: &Store) -> bool {
    let resolved = State::Completed { outcome: outcome(99), by: CompletedBy::Operator };
    store.the_record().state == resolved
}

#[test]
fn nothing_can_be_done_to_a_key_that_is_not_there() {
    for event in every_event() {
        let mut store = Store::new();
        let seen = Seen { fence: Fence(1), revision: 1 };
        assert_eq!(store.operator(seen, event), OperatorReply::NotFound);
    }
}

#[test]
fn a_running_execution_is_released_or_resolved_only_by_force() {
    for policy in [REEXECUTE, HOLD] {
        let (mut store, _) = live(policy);
        assert_eq!(store.release(false), OperatorReply::Live);
        assert_eq!(store.resolve(false), OperatorReply::Live);
        assert_eq!(store.state(), "in progress");
        let mut other = store.clone();
        assert_eq!(store.release(true), OperatorReply::Released);
        assert!(is_released(&store));
        assert_eq!(other.resolve(true), OperatorReply::Resolved);
        assert!(is_resolved(&other));
    }
}

#[test]
fn a_lost_lease_is_released_or_resolved_without_force() {
    for policy in [REEXECUTE, HOLD] {
        let (mut store, _) = lost(policy);
        let mut other = store.clone();
        assert_eq!(store.release(false), OperatorReply::Released);
        assert!(is_released(&store));
        assert_eq!(other.resolve(false), OperatorReply::Resolved);
        assert!(is_resolved(&other));
    }
}

#[test]
fn a_released_key_executes_again_and_the_released_execution_is_suspected() {
    let (mut store, first) = held();
    assert_eq!(store.release(false), OperatorReply::Released);
    assert_eq!(store.counts.suspected_duplicates, 0);
    let next = granted(store.claim(claim(2, HOLD)));
    assert_eq!(next.attempt, 2);
    assert!(next.fence > first.fence);
    assert_eq!(store.counts.suspected_duplicates, 1);
}

#[test]
fn a_completed_key_is_neither_released_nor_resolved() {
    let (mut store, _) = completed();
    for force in [false, true] {
        assert_eq!(store.release(force), OperatorReply::AlreadyCompleted);
        assert_eq!(store.resolve(force), OperatorReply::AlreadyCompleted);
        assert!(!store.changed);
    }
    assert_eq!(store.claim(claim(2, REEXECUTE)), Reply::Refused(replay(1)));
}

#[test]
fn releasing_a_retryable_key_clears_its_wait_and_its_count() {
    let (mut store, ticket) = live(REEXECUTE);
    let fail = crate::operation::Fail {
        retry_after_us: 600 * SECOND,
        ..failure(&ticket, FailKind::Ambiguous)
    };
    store.filter(crate::operation::FilterEvent::Fail(fail));
    assert_eq!(store.release(false), OperatorReply::Released);
    assert_eq!(store.the_record().sent, 0);
    let State::Retryable { not_before, unknown, .. } = store.the_record().state else {
        panic!("{store:?}")
    };
    assert_eq!(not_before, StoreTime(0));
    assert!(unknown, "a release does not make the outcome known");
    granted(store.claim(claim(2, REEXECUTE)));
}

#[test]
fn an_exhausted_key_executes_again_once_released() {
    let mut store = Store::new();
    let mut once = claim(1, REEXECUTE);
    once.terms.attempts_max = 1;
    let first = ticket(1, &granted(store.claim(once)));
    store.fail(&first, FailKind::Retryable);
    assert!(matches!(store.claim(claim(2, REEXECUTE)), Reply::Refused(Verdict::Exhausted { .. })));
    assert_eq!(store.release(false), OperatorReply::Released);
    assert_eq!(granted(store.claim(claim(2, REEXECUTE))).sent, 1);
}

#[test]
fn a_release_that_is_repeated_says_so_and_changes_nothing() {
    let (mut store, _) = held();
    let seen = store.seen();
    let release = OperatorEvent::Release { force: false };
    assert_eq!(store.operator(seen, release.clone()), OperatorReply::Released);
    assert_eq!(store.operator(seen, release), OperatorReply::AlreadyReleased);
    assert!(!store.changed);
}

#[test]
fn a_retryable_or_held_key_is_resolved() {
    for (mut store, _) in [retryable(REEXECUTE), held(), held_by_lost_lease()] {
        assert_eq!(store.resolve(false), OperatorReply::Resolved);
        assert!(is_resolved(&store));
        assert_eq!(store.claim(claim(3, HOLD)), Reply::Refused(replay(99)));
    }
}

#[test]
fn a_held_key_is_released() {
    for (mut store, _) in [held(), held_by_lost_lease()] {
        assert_eq!(store.release(false), OperatorReply::Released);
        assert!(is_released(&store));
    }
}

#[test]
fn what_is_over_can_be_forgotten() {
    for (mut store, _) in [completed(), retryable(REEXECUTE)] {
        assert_eq!(store.forget(), OperatorReply::Forgotten);
        assert_eq!(store.state(), "absent");
        granted(store.claim(claim(2, REEXECUTE)));
    }
}

#[test]
fn what_is_not_over_cannot_be_forgotten() {
    for (mut store, _) in [live(HOLD), lost(HOLD), lost(REEXECUTE), held(), held_by_lost_lease()] {
        assert_eq!(store.forget(), OperatorReply::Refused);
        assert!(!store.changed);
    }
}
