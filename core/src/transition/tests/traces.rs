//! Runs that once went wrong: counterexamples that an exhaustive model found in an earlier
//! wording of the record. Each is replayed here on the shipped transitions, with the senders
//! keeping to their rules, and has to end right.
//!
//! A message that an earlier wording let arrive at any time is sent here as the model had it:
//! in time where it can be in time, void where its sender had moved on.

use super::fixture::*;
use super::sender::{Told, good_until, told};
use crate::operation::{
    Event, FailKind, FilterEvent, OperatorEvent, OperatorReply, Reply, Verdict,
};
use crate::record::{CompletedBy, State};

const HELD: Verdict = Verdict::Held { last_status: None };

fn spent() -> Reply {
    Reply::Refused(Verdict::Spent)
}

/// A copy of `event` that was sent `ago` and arrives now.
fn sent_before(store: &mut Store, ago: u64, event: FilterEvent) -> Reply {
    let void_after = crate::time::StoreTime(store.env.now.0 - ago + VOID);
    store.apply(Event::Filter { void_after, event })
}

/// Nobody owns it, and the next claim executes.
fn is_free(store: &Store, next: u8, attempt: u32) {
    let claimed = granted(store.clone().claim(claim(next, HOLD)));
    assert_eq!(claimed.attempt, attempt);
}

#[test]
fn a1_a_delayed_copy_of_a_claim_leaves_no_claim_that_nobody_owns() {
    let mut store = Store::new();
    let first = store.claimed(1, REEXECUTE);
    assert_eq!(store.fail(&first, FailKind::Retryable), Reply::Settled);
    assert_eq!(store.claim(claim(1, REEXECUTE)), spent(), "also while it is not void");
    is_free(&store, 2, 2);
}

#[test]
fn a2_a_copy_of_its_own_claim_does_not_hold_a_key_whose_outcome_is_known() {
    let mut store = Store::new();
    let first = store.claimed(1, HOLD);
    store.pass(LEASE);
    granted(store.claim(claim(1, HOLD)));
    assert_eq!(store.fail(&first, FailKind::Retryable), Reply::Settled);
    is_free(&store, 2, 2);
}

#[test]
fn a2_a_copy_of_its_own_claim_does_not_hold_a_key_that_never_ran() {
    let mut store = Store::new();
    store.claimed(1, HOLD);
    store.pass(LEASE);
    granted(store.claim(claim(1, HOLD)));
    assert_eq!(store.state(), "in progress");
    assert_eq!(store.filter(FilterEvent::Fail(unheard(1))), Reply::Settled);
    is_free(&store, 2, 2);
}

#[test]
fn a3_a_claim_whose_sender_gave_up_is_void() {
    let mut store = Store::new();
    // The sender gives up when its operation is void, says so, and the claim arrives only now.
    store.pass(VOID);
    assert_eq!(store.filter(FilterEvent::Fail(unheard(1))), Reply::Gone);
    let late = FilterEvent::Claim(claim(1, REEXECUTE));
    assert_eq!(sent_before(&mut store, VOID, late), Reply::Void);
    assert_eq!(store.state(), "absent");
}

#[test]
fn a3_a_claim_whose_answer_was_lost_is_ended_by_its_sender() {
    let mut store = Store::new();
    granted(store.claim(claim(1, REEXECUTE)));
    store.pass(VOID);
    assert_eq!(store.filter(FilterEvent::Fail(unheard(1))), Reply::Settled);
    assert_eq!(store.the_record().sent, 0);
    is_free(&store, 2, 2);
}

#[test]
fn a3_a_claim_whose_answer_was_lost_does_not_hold_the_key_for_good() {
    let mut store = Store::new();
    granted(store.claim(claim(2, HOLD)));
    store.pass(LEASE);
    assert_eq!(store.claim(claim(1, HOLD)), Reply::Refused(HELD));
    assert_eq!(store.filter(FilterEvent::Fail(unheard(2))), Reply::Settled);
    is_free(&store, 1, 2);
}

#[test]
fn a4_a_late_answer_to_a_claim_is_no_leave_to_execute() {
    let mut store = Store::new();
    let dispatched = store.env.now;
    let claimed = granted(store.claim(claim(1, REEXECUTE)));
    store.pass(LEASE);
    let second = store.claimed(2, REEXECUTE);
    assert!(store.env.now >= good_until(dispatched, &claimed), "it has to renew first");
    let reply = store.renew(&ticket(1, &claimed));
    assert!(matches!(reply, Reply::Fenced(Verdict::InProgress { .. })), "{reply:?}");
    assert_eq!(store.owner(), (execution(2), second.fence));
}

#[test]
fn a4b_the_owner_that_repeats_its_claim_after_its_lease_gets_the_same_fence() {
    let mut store = Store::new();
    let dispatched = store.env.now;
    let claimed = granted(store.claim(claim(1, REEXECUTE)));
    store.pass(LEASE);
    let again = granted(store.claim(claim(1, REEXECUTE)));
    assert_eq!((again.fence, again.attempt), (claimed.fence, 1), "one execution, one fence");
    assert!(store.env.now >= good_until(dispatched, &claimed));
    assert_eq!(again.lease_left_us, LEASE, "and the second answer is one to execute on");
}

#[test]
fn a4b_the_fence_at_the_upstream_does_not_fall() {
    let mut store = Store::new();
    let dispatched = store.env.now;
    let claimed = granted(store.claim(claim(1, REEXECUTE)));
    store.pass(LEASE);
    let second = store.claimed(2, REEXECUTE);
    // Execution 2 is forwarded. Execution 1 may not be: its claim is not good any more.
    assert!(second.fence > claimed.fence);
    assert!(store.env.now >= good_until(dispatched, &claimed));
    assert!(matches!(store.renew(&ticket(1, &claimed)), Reply::Fenced(_)));
    let again = store.claim(claim(1, REEXECUTE));
    assert!(matches!(again, Reply::Refused(Verdict::InProgress { .. })), "{again:?}");
}

/// Execution 1 has succeeded and the store is away for longer than its lease.
fn success_in_an_outage() -> (Store, crate::operation::Ticket) {
    let mut store = Store::new();
    let first = store.claimed(1, REEXECUTE);
    store.outage(2 * LEASE);
    (store, first)
}

#[test]
fn a5_a_known_success_is_not_executed_again_after_an_outage() {
    let (mut store, first) = success_in_an_outage();
    let refused = store.claim(claim(2, REEXECUTE));
    assert!(matches!(refused, Reply::Refused(Verdict::InProgress { .. })), "{refused:?}");
    assert_eq!(store.complete(&first), Reply::Settled);
    assert_eq!(store.claim(claim(2, REEXECUTE)), Reply::Refused(replay(1)));
}

#[test]
fn a5_what_was_told_unstored_is_what_is_stored_after_the_outage() {
    let (mut store, first) = success_in_an_outage();
    let unstored = outcome(1);
    let refused = store.claim(claim(2, REEXECUTE));
    assert!(matches!(refused, Reply::Refused(Verdict::InProgress { .. })), "{refused:?}");
    // Storing goes on, also after the client was answered.
    store.pass(LEASE / 2);
    let reply = store.complete(&first);
    assert_eq!(told(unstored.clone(), &reply), Told::Own(unstored.clone()));
    let replayed = Reply::Refused(Verdict::Completed(unstored));
    assert_eq!(store.claim(claim(2, REEXECUTE)), replayed);
}

#[test]
fn a5_one_outcome_is_told_after_an_outage() {
    let (mut store, first) = success_in_an_outage();
    assert!(matches!(store.claim(claim(2, REEXECUTE)), Reply::Refused(_)), "not executed");
    let reply = store.complete(&first);
    assert_eq!(told(outcome(1), &reply), Told::Own(outcome(1)));
    assert_eq!(store.counts.suspected_duplicates, 0);
}

#[test]
fn a6_what_an_operator_resolved_is_told_to_the_execution_too() {
    let mut store = Store::new();
    let first = store.claimed(1, REEXECUTE);
    assert_eq!(store.resolve(true), OperatorReply::Resolved);
    let reply = store.complete(&first);
    assert_eq!(told(outcome(1), &reply), Told::Record(replay(99)));
    assert_eq!(store.claim(claim(2, REEXECUTE)), Reply::Refused(replay(99)));
}

#[test]
fn a6b_who_is_fenced_tells_its_client_what_the_record_says() {
    let mut store = Store::new();
    let first = store.claimed(1, REEXECUTE);
    store.pass(LEASE);
    let second = store.claimed(2, REEXECUTE);
    let reply = store.complete(&first);
    let Told::Record(Verdict::InProgress { .. }) = told(outcome(1), &reply) else {
        panic!("{reply:?}")
    };
    let reply = store.complete(&second);
    assert_eq!(told(outcome(2), &reply), Told::Own(outcome(2)));
    let reply = store.complete(&first);
    assert_eq!(told(outcome(1), &reply), Told::Record(replay(2)));
    assert_eq!(store.counts.suspected_duplicates, 1);
}

#[test]
fn a7_the_fence_at_the_upstream_rises_over_forget() {
    let mut store = Store::new();
    let first = store.claimed(1, REEXECUTE);
    store.fail(&first, FailKind::Ambiguous);
    assert_eq!(store.forget(), OperatorReply::Forgotten);
    assert!(store.claimed(2, REEXECUTE).fence > first.fence);
}

#[test]
fn a7_attempts_that_begin_anew_after_forget_are_told_apart_by_their_fence() {
    let mut store = Store::new();
    let first = store.claimed(1, REEXECUTE);
    store.fail(&first, FailKind::Ambiguous);
    store.forget();
    let second = store.claimed(2, REEXECUTE);
    assert_eq!(second.attempt, 1);
    assert_ne!((second.fence, second.attempt), (first.fence, first.attempt));
    assert!(matches!(store.renew(&first), Reply::Fenced(_)), "the old attempt 1 owns nothing");
}

#[test]
fn a8_an_operator_with_a_view_from_before_retention_ended_changes_nothing() {
    let mut store = Store::new();
    let first = store.claimed(1, REEXECUTE);
    store.complete(&first);
    let seen = store.seen();
    store.pass(TTL + 1);
    let second = store.claimed(2, REEXECUTE);
    let release = OperatorEvent::Release { force: true };
    assert_eq!(store.operator(seen, release), OperatorReply::Changed);
    assert_eq!(store.owner(), (execution(2), second.fence));
    assert_eq!(store.state(), "in progress");
}

#[test]
fn a8b_an_operator_who_saw_it_lost_does_not_release_it_held() {
    let mut store = Store::new();
    store.claimed(2, HOLD);
    store.pass(LEASE);
    let seen = store.seen();
    assert_eq!(store.claim(claim(1, HOLD)), Reply::Refused(HELD));
    let release = OperatorEvent::Release { force: false };
    assert_eq!(store.operator(seen, release), OperatorReply::Changed);
    assert_eq!(store.state(), "held");
}

#[test]
fn a9_a_rule_that_reexecutes_does_not_break_another_rules_hold() {
    let mut store = Store::new();
    let first = store.claimed(1, HOLD);
    store.pass(LEASE);
    assert_eq!(store.claim(claim(2, REEXECUTE)), Reply::Refused(HELD));
    assert_eq!(store.owner(), (execution(1), first.fence));
}

#[test]
fn a10_a_key_whose_leases_are_lost_is_not_executed_more_often_than_allowed() {
    let mut store = Store::new();
    for number in 1..=4 {
        let mut next = claim(number, REEXECUTE);
        next.terms.attempts_max = 3;
        let reply = store.claim(next);
        if number <= 3 {
            assert_eq!(granted(reply).attempt, u32::from(number));
        } else {
            assert_eq!(reply, Reply::Refused(Verdict::Exhausted { last_status: None }));
        }
        store.pass(LEASE);
    }
}

#[test]
fn a11_a_success_that_comes_after_its_successor_failed_is_kept() {
    let mut store = Store::new();
    let first = store.claimed(1, REEXECUTE);
    store.pass(LEASE);
    let second = store.claimed(2, REEXECUTE);
    store.fail(&second, FailKind::Retryable);
    let reply = store.complete(&first);
    assert_eq!(told(outcome(1), &reply), Told::Own(outcome(1)));
    let State::Completed { by, .. } = store.the_record().state else { panic!("{store:?}") };
    assert_eq!(by, CompletedBy::Execution(execution(1)));
    assert_eq!(store.claim(claim(3, REEXECUTE)), Reply::Refused(replay(1)));
}

#[test]
fn a12_an_execution_that_renews_after_it_was_held_is_not_released_without_force() {
    let mut store = Store::new();
    let second = store.claimed(2, HOLD);
    store.pass(LEASE);
    assert_eq!(store.claim(claim(1, HOLD)), Reply::Refused(HELD));
    let seen = store.seen();
    assert_eq!(store.renew(&second), Reply::Renewed { lease_left_us: LEASE });
    let release = OperatorEvent::Release { force: false };
    assert_eq!(store.operator(seen, release), OperatorReply::Changed);
    assert_eq!(store.release(false), OperatorReply::Live, "nor by an operator who looks again");
    assert_eq!(store.owner(), (execution(2), second.fence));
}

#[test]
fn a13_a_key_held_for_a_lost_lease_is_freed_by_the_refusal_that_its_owner_brings() {
    let mut store = Store::new();
    let second = store.claimed(2, HOLD);
    store.pass(LEASE);
    assert_eq!(store.claim(claim(1, HOLD)), Reply::Refused(HELD));
    assert_eq!(store.fail(&second, FailKind::Retryable), Reply::Settled);
    is_free(&store, 1, 2);
}
