//! The table's row *Claim*, cell by cell.

use super::fixture::*;
use crate::operation::{FailKind, Reply, Verdict};
use crate::record::{Fence, State};

fn in_progress(age_us: u64, lease_left_us: u64) -> Reply {
    Reply::Refused(Verdict::InProgress { age_us, lease_left_us })
}

#[test]
fn an_unseen_key_is_claimed_as_attempt_1_with_the_clock_as_its_fence() {
    let mut store = Store::new();
    let claimed = granted(store.claim(claim(1, REEXECUTE)));
    assert_eq!(claimed.fence, Fence(START.0 + 1));
    assert_eq!((claimed.attempt, claimed.sent), (1, 1));
    assert_eq!(claimed.lease_left_us, LEASE);
    assert_eq!(claimed.candidate, candidate(1));
    assert_eq!(claimed.terms, terms(REEXECUTE));
    let record = store.the_record();
    assert_eq!((record.execution, record.revision), (execution(1), 1));
    assert_eq!(record.subject, subject());
    let State::InProgress { gateway, .. } = &record.state else { panic!("{record:?}") };
    assert_eq!(gateway, "gateway-1");
}

#[test]
fn a_claim_without_any_fingerprint_cannot_open_a_record() {
    let mut store = Store::new();
    let mut bare = claim(1, REEXECUTE);
    bare.candidates.clear();
    assert_eq!(store.claim(bare), Reply::Refused(Verdict::Mismatch));
    assert_eq!(store.state(), "absent");
}

#[test]
fn the_owner_of_a_live_lease_gets_the_same_claim_again_and_nothing_changes() {
    let (mut store, ticket) = live(REEXECUTE);
    store.pass(SECOND);
    let again = granted(store.claim(claim(1, REEXECUTE)));
    assert_eq!((again.fence, again.attempt, again.sent), (ticket.fence, 1, 1));
    assert_eq!(again.lease_left_us, LEASE - SECOND - 1, "a repeat does not prolong the lease");
    assert!(!store.changed);
}

#[test]
fn another_claim_on_a_live_lease_is_told_its_age_and_what_is_left() {
    for policy in [REEXECUTE, HOLD] {
        let (mut store, _) = live(policy);
        store.pass(4 * SECOND - 1);
        let told = store.claim(claim(2, policy));
        assert_eq!(told, in_progress(4 * SECOND, LEASE - 4 * SECOND));
        assert!(!store.changed);
    }
}

#[test]
fn the_owner_of_a_lost_lease_gets_its_claim_back_with_a_new_lease() {
    for policy in [REEXECUTE, HOLD] {
        let (mut store, ticket) = lost(policy);
        let again = granted(store.claim(claim(1, policy)));
        assert_eq!((again.fence, again.attempt, again.sent), (ticket.fence, 1, 1));
        assert_eq!(again.lease_left_us, LEASE);
        assert_eq!(store.seen().revision, 1, "as after a renewal");
        assert_eq!(store.claim(claim(2, policy)), in_progress(LEASE + 2, LEASE - 1));
    }
}

#[test]
fn a_lost_lease_is_taken_over_under_reexecute_and_the_loser_is_suspected() {
    let (mut store, ticket) = lost(REEXECUTE);
    let next = granted(store.claim(claim(2, REEXECUTE)));
    assert!(next.fence > ticket.fence);
    assert_eq!((next.attempt, next.sent), (2, 2));
    assert_eq!(next.lease_left_us, LEASE);
    assert_eq!(store.owner(), (execution(2), next.fence));
    assert_eq!((store.counts.take_overs, store.counts.suspected_duplicates), (1, 1));
}

#[test]
fn a_lost_lease_is_held_under_hold() {
    let (mut store, ticket) = held_by_lost_lease();
    assert_eq!(store.the_record().state, State::Held { last_status: None, lost_lease: true });
    assert_eq!(store.owner(), (execution(1), ticket.fence), "the owner may still come back");
    assert_eq!((store.counts.holds, store.counts.suspected_duplicates), (1, 0));
    let again = store.claim(claim(3, HOLD));
    assert_eq!(again, Reply::Refused(Verdict::Held { last_status: None }));
    assert_eq!(store.counts.holds, 1, "counted as it happens, not as it is told");
}

#[test]
fn a_completed_key_is_replayed_to_everybody_also_to_its_execution() {
    let (mut store, _) = completed();
    for number in [1, 2] {
        assert_eq!(store.claim(claim(number, REEXECUTE)), Reply::Refused(replay(1)));
        assert!(!store.changed);
    }
}

#[test]
fn an_execution_that_ended_never_executes_again() {
    let (mut store, _) = retryable(REEXECUTE);
    assert_eq!(store.claim(claim(1, REEXECUTE)), Reply::Refused(Verdict::Spent));
    assert!(!store.changed);
    for (mut store, _) in [held(), held_by_lost_lease()] {
        assert_eq!(store.claim(claim(1, HOLD)), Reply::Refused(Verdict::Spent));
        assert!(!store.changed);
    }
}

#[test]
fn a_retry_before_its_time_is_told_how_long_to_wait() {
    let (mut store, ticket) = live(REEXECUTE);
    let fail = crate::operation::Fail {
        retry_after_us: 5 * SECOND,
        ..failure(&ticket, FailKind::Retryable)
    };
    store.filter(crate::operation::FilterEvent::Fail(fail));
    store.pass(2 * SECOND - 1);
    let later = Verdict::RetryLater { after_us: 3 * SECOND };
    assert_eq!(store.claim(claim(2, REEXECUTE)), Reply::Refused(later));
    assert!(!store.changed);
    store.pass(3 * SECOND - 1);
    granted(store.claim(claim(2, REEXECUTE)));
}

#[test]
fn a_retryable_key_is_claimed_as_the_next_attempt() {
    for policy in [REEXECUTE, HOLD] {
        let (mut store, ticket) = retryable(policy);
        let next = granted(store.claim(claim(2, policy)));
        assert!(next.fence > ticket.fence);
        assert_eq!((next.attempt, next.sent), (2, 2));
        assert_eq!(store.counts.suspected_duplicates, 0, "the upstream said that it did nothing");
        assert_eq!(store.counts.take_overs, 0, "nothing was taken from anybody");
    }
}

#[test]
fn a_key_that_was_sent_often_enough_is_exhausted() {
    let mut store = Store::new();
    let mut once = claim(1, REEXECUTE);
    once.terms.attempts_max = 1;
    let first = ticket(1, &granted(store.claim(once)));
    let fail = crate::operation::Fail { status: Some(503), ..failure(&first, FailKind::Retryable) };
    store.filter(crate::operation::FilterEvent::Fail(fail));
    let exhausted = Reply::Refused(Verdict::Exhausted { last_status: Some(503) });
    assert_eq!(store.claim(claim(2, REEXECUTE)), exhausted);
    assert!(!store.changed);
}

#[test]
fn a_lost_lease_that_was_sent_often_enough_is_exhausted_too() {
    let mut store = Store::new();
    let mut once = claim(1, REEXECUTE);
    once.terms.attempts_max = 1;
    granted(store.claim(once));
    store.pass(LEASE);
    let exhausted = Reply::Refused(Verdict::Exhausted { last_status: None });
    assert_eq!(store.claim(claim(2, REEXECUTE)), exhausted);
    assert_eq!(store.state(), "in progress", "its owner may still bring the outcome");
}

#[test]
fn a_held_key_stays_held() {
    for (mut store, _) in [held(), held_by_lost_lease()] {
        for number in [2, 3] {
            let told = store.claim(claim(number, HOLD));
            assert_eq!(told, Reply::Refused(Verdict::Held { last_status: None }));
            assert!(!store.changed);
        }
    }
}
