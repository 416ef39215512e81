//! The table's rows *Renew*, *Complete* and *Fail*, cell by cell.

use super::fixture::*;
use crate::operation::{Fail, FailKind, FilterEvent, Reply, Ticket, Verdict};
use crate::record::{CompletedBy, Outcome, State};

const EVERY_KIND: [FailKind; 3] = [FailKind::NeverSent, FailKind::Retryable, FailKind::Ambiguous];

/// Execution 2 in the place of execution 1, whose ticket is returned with it.
fn taken_over() -> (Store, Ticket, Ticket) {
    let (mut store, first) = lost(REEXECUTE);
    let second = store.claimed(2, REEXECUTE);
    (store, first, second)
}

fn running(store: &Store) -> Reply {
    let record = store.the_record();
    let State::InProgress { claimed_at, lease_until, .. } = &record.state else {
        panic!("{record:?}")
    };
    Reply::Fenced(Verdict::InProgress {
        age_us: store.env.now.since(*claimed_at),
        lease_left_us: lease_until.since(store.env.now),
    })
}

fn completed_by(store: &Store) -> (&Outcome, CompletedBy) {
    let record = store.the_record();
    let State::Completed { outcome, by } = &record.state else { panic!("{record:?}") };
    (outcome, *by)
}

// --- Renew ---

#[test]
fn renewing_a_record_that_the_store_lost_restores_it() {
    let (mut store, first) = live(HOLD);
    store.lose();
    assert_eq!(store.renew(&first), Reply::Renewed { lease_left_us: LEASE });
    let record = store.the_record();
    assert_eq!((record.execution, record.fence), (first.execution, first.fence));
    assert_eq!((record.attempt, record.sent), (1, 1));
    assert_eq!((&record.candidate, record.terms), (&first.candidate, first.terms));
    assert_eq!(store.counts.restored, 1);
    let told = store.claim(claim(2, HOLD));
    assert_eq!(told, Reply::Refused(Verdict::InProgress { age_us: 1, lease_left_us: LEASE - 1 }));
}

#[test]
fn the_owner_renews_its_lease_live_or_lost_without_a_new_revision() {
    for (mut store, first) in [live(HOLD), lost(HOLD), live(REEXECUTE), lost(REEXECUTE)] {
        store.pass(SECOND);
        let seen = store.seen();
        assert_eq!(store.renew(&first), Reply::Renewed { lease_left_us: LEASE });
        assert_eq!(store.seen(), seen);
        store.pass(LEASE - 2);
        let told = store.claim(claim(2, HOLD));
        let age_us = store.env.now.since(store.the_record().created_at);
        assert_eq!(told, Reply::Refused(Verdict::InProgress { age_us, lease_left_us: 1 }));
    }
}

#[test]
fn who_lost_its_place_cannot_renew() {
    let (mut store, first, _) = taken_over();
    assert_eq!(store.renew(&first), running(&store));
    assert!(!store.changed);
    store.pass(LEASE);
    assert_eq!(store.renew(&first), running(&store), "a lost lease is still another's");
}

#[test]
fn an_owner_with_another_fence_is_not_the_owner() {
    let (mut store, mut first) = live(REEXECUTE);
    first.fence.0 -= 1;
    assert_eq!(store.renew(&first), running(&store));
    assert_eq!(store.complete(&first), running(&store));
    let (mut store, mut first) = live(REEXECUTE);
    first.fence.0 += 1;
    assert_eq!(store.fail(&first, FailKind::NeverSent), running(&store));
}

#[test]
fn what_is_over_cannot_be_renewed() {
    let (mut store, first) = completed();
    assert_eq!(store.renew(&first), Reply::Fenced(replay(1)));
    let (mut store, first) = retryable(REEXECUTE);
    assert_eq!(store.renew(&first), Reply::Fenced(Verdict::RetryLater { after_us: 0 }));
    let (mut store, first) = held();
    assert_eq!(store.renew(&first), Reply::Fenced(Verdict::Held { last_status: None }));
    assert!(!store.changed);
}

#[test]
fn the_owner_of_a_key_held_for_its_lost_lease_comes_back_by_renewing() {
    let (mut store, first) = held_by_lost_lease();
    let seen = store.seen();
    assert_eq!(store.renew(&first), Reply::Renewed { lease_left_us: LEASE });
    assert_eq!(store.state(), "in progress");
    assert_eq!(store.owner(), (execution(1), first.fence));
    assert!(store.seen().revision > seen.revision, "an operator who saw it held is out of date");
}

#[test]
fn nobody_else_comes_back_by_renewing() {
    let (mut store, mut other) = held_by_lost_lease();
    other.execution = execution(2);
    assert_eq!(store.renew(&other), Reply::Fenced(Verdict::Held { last_status: None }));
}

// --- Complete ---

#[test]
fn completing_a_record_that_the_store_lost_restores_it() {
    let (mut store, first) = live(REEXECUTE);
    store.lose();
    assert_eq!(store.complete(&first), Reply::Settled);
    assert_eq!(completed_by(&store), (&outcome(1), CompletedBy::Execution(execution(1))));
    assert_eq!(store.counts.restored, 1);
    assert_eq!(store.claim(claim(2, REEXECUTE)), Reply::Refused(replay(1)));
}

#[test]
fn the_owner_completes_live_or_lost() {
    for (mut store, first) in [live(HOLD), lost(HOLD), live(REEXECUTE), lost(REEXECUTE)] {
        assert_eq!(store.complete(&first), Reply::Settled);
        assert_eq!(completed_by(&store), (&outcome(1), CompletedBy::Execution(execution(1))));
        assert_eq!(store.counts.suspected_duplicates, 0);
    }
}

#[test]
fn a_tombstone_is_an_outcome_like_any_other() {
    let (mut store, ticket) = live(HOLD);
    let tombstone = Outcome::Tombstone { status: 201, location: Some(b"/payments/1".to_vec()) };
    let complete = FilterEvent::Complete { ticket, outcome: tombstone.clone() };
    assert_eq!(store.filter(complete), Reply::Settled);
    let told = store.claim(claim(2, HOLD));
    assert_eq!(told, Reply::Refused(Verdict::Completed(tombstone)));
}

#[test]
fn a_completion_while_another_runs_is_fenced_and_counted_once() {
    let (mut store, first, second) = taken_over();
    assert_eq!(store.counts.suspected_duplicates, 1, "by the take-over");
    assert_eq!(store.complete(&first), running(&store));
    assert_eq!(store.counts.suspected_duplicates, 1, "the same execution is counted once");
    assert_eq!(store.owner(), (execution(2), second.fence));
}

#[test]
fn a_completion_of_what_is_completed_is_ok_only_for_the_one_that_did_it() {
    let (mut store, first, second) = taken_over();
    assert_eq!(store.complete(&second), Reply::Settled);
    assert_eq!(store.complete(&second), Reply::Settled);
    assert!(!store.changed);
    assert_eq!(store.complete(&first), Reply::Fenced(replay(2)));
    assert_eq!(completed_by(&store), (&outcome(2), CompletedBy::Execution(execution(2))));
}

#[test]
fn a_repeated_completion_keeps_the_outcome_that_was_stored_first() {
    let (mut store, ticket) = completed();
    let complete = FilterEvent::Complete { ticket, outcome: outcome(7) };
    assert_eq!(store.filter(complete), Reply::Settled);
    assert_eq!(store.claim(claim(2, REEXECUTE)), Reply::Refused(replay(1)));
}

#[test]
fn a_success_after_an_operator_resolved_the_key_is_told_what_the_operator_said() {
    let (mut store, first) = held();
    store.resolve(false);
    assert_eq!(store.complete(&first), Reply::Fenced(replay(99)));
    assert_eq!(completed_by(&store), (&outcome(99), CompletedBy::Operator));
}

#[test]
fn a_late_success_of_the_last_execution_is_the_truth_and_no_duplicate() {
    for (mut store, first) in [retryable(REEXECUTE), held(), held_by_lost_lease()] {
        assert_eq!(store.complete(&first), Reply::Settled);
        assert_eq!(completed_by(&store), (&outcome(1), CompletedBy::Execution(execution(1))));
        assert_eq!(store.counts.suspected_duplicates, 0);
    }
}

#[test]
fn a_late_success_of_an_earlier_execution_is_the_truth_and_counted_once() {
    // Not unknown, so that the next claim does not suspect it already.
    let (mut store, first) = retryable(HOLD);
    let second = store.claimed(2, HOLD);
    for kind in [FailKind::Retryable, FailKind::Ambiguous] {
        let mut store = store.clone();
        assert_eq!(store.fail(&second, kind), Reply::Settled);
        assert_eq!(store.counts.suspected_duplicates, 0);
        assert_eq!(store.complete(&first), Reply::Settled);
        assert_eq!(store.complete(&first), Reply::Settled);
        assert_eq!(store.counts.suspected_duplicates, 1);
        assert_eq!(completed_by(&store), (&outcome(1), CompletedBy::Execution(execution(1))));
    }
}

// --- Fail ---

#[test]
fn failing_where_there_is_no_record_is_answered_gone() {
    let (mut store, first) = live(REEXECUTE);
    store.lose();
    for kind in EVERY_KIND {
        assert_eq!(store.fail(&first, kind), Reply::Gone);
        assert_eq!(store.state(), "absent");
    }
}

#[test]
fn an_owner_whose_upstream_did_nothing_makes_the_key_retryable_live_or_lost() {
    for (mut store, first) in [live(HOLD), lost(HOLD), live(REEXECUTE), lost(REEXECUTE)] {
        let fail = Fail {
            status: Some(429),
            retry_after_us: SECOND,
            ..failure(&first, FailKind::Retryable)
        };
        assert_eq!(store.filter(FilterEvent::Fail(fail)), Reply::Settled);
        let State::Retryable { last_status, not_before, unknown, released } =
            store.the_record().state
        else {
            panic!("{store:?}")
        };
        assert_eq!((last_status, unknown, released), (Some(429), false, false));
        assert_eq!(not_before, store.env.now.plus(SECOND));
        assert_eq!(store.the_record().sent, 1);
    }
}

#[test]
fn an_execution_that_was_never_sent_does_not_count_as_sent() {
    for (mut store, first) in [live(HOLD), lost(REEXECUTE)] {
        assert_eq!(store.fail(&first, FailKind::NeverSent), Reply::Settled);
        assert_eq!(store.fail(&first, FailKind::NeverSent), Reply::Settled);
        assert_eq!((store.state(), store.the_record().sent), ("retryable", 0));
        let next = granted(store.claim(claim(2, HOLD)));
        assert_eq!((next.attempt, next.sent), (2, 1), "attempts are numbered all the same");
    }
}

#[test]
fn an_unknown_outcome_is_retried_under_reexecute_and_suspected_then() {
    for (mut store, first) in [live(REEXECUTE), lost(REEXECUTE)] {
        assert_eq!(store.fail(&first, FailKind::Ambiguous), Reply::Settled);
        assert_eq!(store.state(), "retryable");
        assert_eq!(store.counts.suspected_duplicates, 0, "nothing was executed twice so far");
        granted(store.claim(claim(2, REEXECUTE)));
        assert_eq!((store.counts.suspected_duplicates, store.counts.take_overs), (1, 0));
    }
}

#[test]
fn an_unknown_outcome_is_held_under_hold() {
    for (mut store, first) in [live(HOLD), lost(HOLD)] {
        let fail = Fail { status: Some(504), ..failure(&first, FailKind::Ambiguous) };
        assert_eq!(store.filter(FilterEvent::Fail(fail)), Reply::Settled);
        let state = &store.the_record().state;
        assert_eq!(*state, State::Held { last_status: Some(504), lost_lease: false });
        assert_eq!(store.counts.holds, 1);
        let told = store.claim(claim(2, HOLD));
        assert_eq!(told, Reply::Refused(Verdict::Held { last_status: Some(504) }));
    }
}

#[test]
fn who_lost_its_place_cannot_fail_for_the_one_that_runs() {
    for kind in EVERY_KIND {
        let (mut store, first, _) = taken_over();
        assert_eq!(store.fail(&first, kind), running(&store));
        store.pass(LEASE);
        assert_eq!(store.fail(&first, kind), running(&store));
        assert!(!store.changed);
    }
}

#[test]
fn a_failure_does_not_undo_a_completion() {
    for kind in EVERY_KIND {
        let (mut store, first) = completed();
        assert_eq!(store.fail(&first, kind), Reply::Fenced(replay(1)));
        assert!(!store.changed);
    }
}

#[test]
fn a_repeated_failure_is_ok_and_changes_nothing() {
    for kind in EVERY_KIND {
        for policy in [REEXECUTE, HOLD] {
            let (mut store, first) = live(policy);
            assert_eq!(store.fail(&first, kind), Reply::Settled);
            store.pass(1);
            assert_eq!(store.fail(&first, kind), Reply::Settled);
            assert!(!store.changed);
        }
    }
}

#[test]
fn a_failure_of_an_earlier_execution_is_fenced_in_retryable_and_held() {
    for end in [FailKind::Retryable, FailKind::Ambiguous] {
        let (mut store, first) = retryable(HOLD);
        let second = store.claimed(2, HOLD);
        store.fail(&second, end);
        for kind in EVERY_KIND {
            let Reply::Fenced(verdict) = store.fail(&first, kind) else { panic!("not fenced") };
            match end {
                FailKind::Ambiguous => assert_eq!(verdict, Verdict::Held { last_status: None }),
                FailKind::Retryable | FailKind::NeverSent => {
                    assert_eq!(verdict, Verdict::RetryLater { after_us: 0 });
                }
            }
            assert!(!store.changed);
        }
    }
}

#[test]
fn a_key_held_for_its_lost_lease_is_retryable_once_its_owner_says_that_nothing_was_done() {
    for (kind, sent) in [(FailKind::NeverSent, 0), (FailKind::Retryable, 1)] {
        let (mut store, first) = held_by_lost_lease();
        assert_eq!(store.fail(&first, kind), Reply::Settled);
        assert_eq!((store.state(), store.the_record().sent), ("retryable", sent));
        granted(store.claim(claim(3, HOLD)));
        assert_eq!(store.counts.suspected_duplicates, 0);
    }
}

#[test]
fn a_key_held_for_its_lost_lease_stays_held_when_its_owner_does_not_know_either() {
    let (mut store, first) = held_by_lost_lease();
    assert_eq!(store.fail(&first, FailKind::Ambiguous), Reply::Settled);
    assert_eq!(store.state(), "held");
    assert_eq!(store.counts.holds, 1, "it was held already");
}

#[test]
fn a_key_held_for_what_its_owner_said_is_not_made_retryable_by_a_late_word() {
    for kind in EVERY_KIND {
        let (mut store, first) = held();
        assert_eq!(store.fail(&first, kind), Reply::Settled);
        assert_eq!(store.state(), "held");
        assert!(!store.changed);
    }
}

#[test]
fn only_never_sent_may_be_said_without_a_fence() {
    let (mut store, _) = live(HOLD);
    for kind in [FailKind::Retryable, FailKind::Ambiguous] {
        let fail = Fail { kind, ..unheard(1) };
        assert_eq!(store.filter(FilterEvent::Fail(fail)), Reply::Fenced(Verdict::Mismatch));
        assert_eq!(store.state(), "in progress");
    }
    assert_eq!(store.filter(FilterEvent::Fail(unheard(1))), Reply::Settled);
    assert_eq!(store.state(), "retryable");
}
