//! The rules round the table.

use super::fixture::*;
use crate::fingerprint::Candidate;
use crate::operation::{
    Claim, Event, Fail, FailKind, FilterEvent, OperatorEvent, OperatorReply, Reply, Verdict,
};
use crate::record::{Fence, HISTORY_MAX, OnAmbiguous};
use crate::transition::verdict;

fn mismatch() -> Reply {
    Reply::Refused(Verdict::Mismatch)
}

/// Another request under the same key, with stricter terms.
fn other_request(number: u8) -> Claim {
    let mut other = claim(number, HOLD);
    other.candidates = vec![candidate(2)];
    other.terms.attempts_max = 1;
    other
}

// --- mismatch first ---

#[test]
fn another_request_under_the_key_is_a_mismatch_in_every_state_and_changes_nothing() {
    let stores = [
        live(REEXECUTE),
        lost(REEXECUTE),
        lost(HOLD),
        completed(),
        retryable(REEXECUTE),
        held(),
        held_by_lost_lease(),
    ];
    for (mut store, _) in stores {
        assert_eq!(store.claim(other_request(3)), mismatch());
        assert!(!store.changed, "neither the state nor the terms: {store:?}");
        assert_eq!(store.claim(other_request(1)), mismatch(), "also to the owner's own id");
        assert!(!store.changed);
    }
}

#[test]
fn a_claim_without_any_fingerprint_matches_nothing() {
    let (mut store, _) = completed();
    let mut bare = claim(2, REEXECUTE);
    bare.candidates.clear();
    assert_eq!(store.claim(bare), mismatch());
}

#[test]
fn a_record_is_matched_by_any_of_the_secrets_that_a_gateway_knows_and_keeps_its_own() {
    let of = |secret: &str, request: u8| {
        let mut candidate = candidate(request);
        secret.clone_into(&mut candidate.fingerprint.secret);
        candidate.derived_key = format!("derived-{secret}");
        candidate
    };
    let rotating = |number: u8, candidates: Vec<Candidate>| {
        let mut claim = claim(number, REEXECUTE);
        claim.candidates = candidates;
        claim
    };
    let mut store = Store::new();
    let first = granted(store.claim(rotating(1, vec![of("old", 1)])));
    store.fail(&ticket(1, &first), FailKind::Retryable);
    let next = granted(store.claim(rotating(2, vec![of("new", 1), of("old", 1)])));
    assert_eq!(next.candidate, of("old", 1), "every execution carries the same derived key");
    assert_eq!(store.claim(rotating(3, vec![of("new", 1)])), mismatch());
}

// --- void_after ---

#[test]
fn what_arrives_after_its_time_does_nothing() {
    let (mut store, first) = held_by_lost_lease();
    let void_after = store.env.now;
    let complete = FilterEvent::Complete { ticket: first.clone(), outcome: outcome(1) };
    let late = [
        FilterEvent::Claim(claim(3, HOLD)),
        FilterEvent::Renew(first.clone()),
        complete,
        FilterEvent::Fail(failure(&first, FailKind::NeverSent)),
    ];
    for event in late {
        let reply = store.apply(Event::Filter { void_after, event });
        assert_eq!(reply, Reply::Void);
        assert!(!store.changed);
    }
}

#[test]
fn an_operation_counts_up_to_the_microsecond_of_its_void_after() {
    let mut store = Store::new();
    let void_after = store.env.now.plus(1);
    let event = FilterEvent::Claim(claim(1, HOLD));
    granted(store.apply(Event::Filter { void_after, event }));
}

// --- claims once ---

#[test]
fn an_execution_that_lost_its_place_never_claims_again() {
    let (mut store, _) = lost(REEXECUTE);
    let second = store.claimed(2, REEXECUTE);
    store.pass(LEASE);
    assert_eq!(store.claim(claim(1, REEXECUTE)), Reply::Refused(Verdict::Spent));
    store.fail(&second, FailKind::Retryable);
    assert_eq!(store.claim(claim(1, REEXECUTE)), Reply::Refused(Verdict::Spent));
    assert_eq!(store.owner(), (execution(2), second.fence));
}

#[test]
fn an_execution_that_was_refused_may_ask_again() {
    let (mut store, first) = live(REEXECUTE);
    store.claim(claim(2, REEXECUTE));
    store.fail(&first, FailKind::Retryable);
    assert_eq!(granted(store.claim(claim(2, REEXECUTE))).attempt, 2);
}

#[test]
fn the_last_executions_are_remembered_in_a_bounded_history() {
    let mut store = Store::new();
    for number in 0..40 {
        let mut next = claim(number, REEXECUTE);
        next.terms.attempts_max = 100;
        let claimed = granted(store.claim(next));
        store.fail(&ticket(number, &claimed), FailKind::Retryable);
    }
    assert_eq!(store.the_record().history.iter().len(), HISTORY_MAX);
    for number in 40 - HISTORY_MAX as u8..40 {
        assert_eq!(store.claim(claim(number, REEXECUTE)), Reply::Refused(Verdict::Spent));
    }
}

// --- the fence never restarts ---

#[test]
fn the_fence_rises_over_forget() {
    let (mut store, first) = retryable(REEXECUTE);
    assert_eq!(store.forget(), OperatorReply::Forgotten);
    let next = granted(store.claim(claim(2, REEXECUTE)));
    assert!(next.fence > first.fence);
    assert_eq!((next.attempt, next.sent), (1, 1), "it is another operation now");
}

#[test]
fn the_fence_rises_over_retention() {
    let (mut store, first) = completed();
    store.pass(TTL + 2);
    assert!(store.claimed(2, REEXECUTE).fence > first.fence);
}

#[test]
fn the_fence_rises_where_the_clock_stands_still_or_goes_back() {
    let (mut store, first) = retryable(REEXECUTE);
    store.release(false);
    store.env.now.0 -= 3_600 * SECOND;
    assert_eq!(store.claimed(2, REEXECUTE).fence, Fence(first.fence.0 + 1));
}

// --- operators compare what they saw ---

#[test]
fn an_operator_who_saw_another_fence_is_told_changed() {
    let (mut store, _) = lost(REEXECUTE);
    let seen = store.seen();
    store.claimed(2, REEXECUTE);
    store.pass(LEASE);
    for force in [false, true] {
        let release = OperatorEvent::Release { force };
        assert_eq!(store.operator(seen, release), OperatorReply::Changed);
        let resolve = OperatorEvent::Resolve { outcome: outcome(99), force };
        assert_eq!(store.operator(seen, resolve), OperatorReply::Changed);
    }
    assert_eq!(store.operator(seen, OperatorEvent::Forget), OperatorReply::Changed);
    assert!(!store.changed);
}

#[test]
fn an_operator_who_saw_another_state_of_the_same_execution_is_told_changed() {
    let (mut store, first) = live(HOLD);
    let seen = store.seen();
    store.fail(&first, FailKind::Ambiguous);
    assert_eq!(store.seen().fence, seen.fence);
    let release = OperatorEvent::Release { force: true };
    assert_eq!(store.operator(seen, release), OperatorReply::Changed);
}

#[test]
fn every_transition_but_a_renewal_raises_the_revision() {
    let (mut store, first) = live(REEXECUTE);
    assert_eq!(store.seen().revision, 1);
    store.renew(&first);
    assert_eq!(store.seen().revision, 1);
    store.claim(claim(2, HOLD));
    assert_eq!(store.seen().revision, 2, "stricter terms");
    store.pass(LEASE);
    store.claim(claim(2, HOLD));
    assert_eq!(store.seen().revision, 3, "held");
    store.renew(&first);
    assert_eq!(store.seen().revision, 4, "back in progress");
    store.fail(&first, FailKind::Retryable);
    assert_eq!(store.seen().revision, 5, "retryable");
    store.claimed(3, HOLD);
    assert_eq!(store.seen().revision, 6, "claimed");
    store.release(true);
    assert_eq!(store.seen().revision, 7, "released");
    store.resolve(false);
    assert_eq!(store.seen().revision, 8, "resolved");
}

// --- strictest terms ---

#[test]
fn later_claims_only_make_the_terms_stricter() {
    let (mut store, _) = live(REEXECUTE);
    let of = |on_ambiguous: OnAmbiguous, attempts_max: u32| {
        let mut claim = claim(2, on_ambiguous);
        claim.terms.attempts_max = attempts_max;
        claim
    };
    let in_force = |store: &Store| {
        let terms = store.the_record().terms;
        (terms.on_ambiguous, terms.attempts_max)
    };
    store.claim(of(REEXECUTE, 9));
    assert_eq!(in_force(&store), (REEXECUTE, 5));
    store.claim(of(HOLD, 9));
    assert_eq!(in_force(&store), (HOLD, 5));
    store.claim(of(REEXECUTE, 2));
    assert_eq!(in_force(&store), (HOLD, 2));
    store.pass(LEASE);
    assert_eq!(store.claim(of(REEXECUTE, 9)), Reply::Refused(Verdict::Held { last_status: None }));
}

#[test]
fn a_claim_that_brings_hold_holds_a_lease_that_was_lost_under_reexecute() {
    let (mut store, _) = lost(REEXECUTE);
    let held = Reply::Refused(Verdict::Held { last_status: None });
    assert_eq!(store.claim(claim(2, HOLD)), held);
    assert_eq!(store.claim(claim(3, REEXECUTE)), held);
}

#[test]
fn a_claim_that_brings_hold_holds_an_unknown_outcome_that_was_left_to_be_repeated() {
    let (mut store, first) = live(REEXECUTE);
    let fail =
        Fail { status: Some(504), retry_after_us: SECOND, ..failure(&first, FailKind::Ambiguous) };
    store.filter(FilterEvent::Fail(fail));
    let held = Reply::Refused(Verdict::Held { last_status: Some(504) });
    assert_eq!(store.claim(claim(2, HOLD)), held);
    assert_eq!(store.claim(claim(3, REEXECUTE)), held);
    assert_eq!(store.counts.holds, 1);
    assert_eq!(store.complete(&first), Reply::Settled, "its outcome is still welcome");
}

#[test]
fn a_claim_that_brings_hold_does_not_ask_a_person_twice() {
    let (mut store, first) = live(REEXECUTE);
    store.fail(&first, FailKind::Ambiguous);
    store.release(false);
    assert_eq!(granted(store.claim(claim(2, HOLD))).attempt, 2);
}

#[test]
fn terms_of_what_is_completed_stay_as_they_are() {
    let (mut store, _) = completed();
    store.claim(claim(2, HOLD));
    assert!(!store.changed);
}

#[test]
fn how_long_things_last_is_up_to_the_latest_claim() {
    let (mut store, _) = retryable(REEXECUTE);
    let mut shorter = claim(2, REEXECUTE);
    shorter.terms.lease_us = SECOND;
    shorter.terms.ttl_us = 60 * SECOND;
    assert_eq!(granted(store.claim(shorter)).lease_left_us, SECOND);
    assert_eq!(store.the_record().terms.ttl_us, 60 * SECOND);
}

// --- an outage is not a lost lease ---

#[test]
fn after_an_outage_nothing_is_taken_over_until_a_whole_lease_has_gone_by() {
    for policy in [REEXECUTE, HOLD] {
        let (mut store, first) = live(policy);
        store.outage(10 * LEASE);
        let Reply::Refused(Verdict::InProgress { lease_left_us, .. }) =
            store.claim(claim(2, policy))
        else {
            panic!("taken over")
        };
        assert_eq!(lease_left_us, LEASE - 1);
        assert_eq!(store.release(false), OperatorReply::Live, "nor by an operator");
        let mut other = store.clone();
        assert_eq!(store.complete(&first), Reply::Settled, "its owner is back");
        other.pass(LEASE);
        let late = other.claim(claim(2, policy));
        assert!(!matches!(late, Reply::Refused(Verdict::InProgress { .. })), "{late:?}");
    }
}

#[test]
fn an_outage_does_not_shorten_a_lease() {
    let (mut store, _) = live(REEXECUTE);
    store.outage(SECOND);
    let left = store.the_record().lease_until(store.env.resumed_at);
    assert_eq!(left, Some(store.env.now.plus(LEASE)));
    let (mut store, first) = live(REEXECUTE);
    store.outage(SECOND);
    store.pass(SECOND);
    store.renew(&first);
    let left = store.the_record().lease_until(store.env.resumed_at);
    assert_eq!(left, Some(store.env.now.plus(LEASE)));
}

// --- Fenced carries the present verdict ---

#[test]
fn who_is_fenced_is_told_what_a_claim_would_be_told() {
    let (mut store, first) = lost(REEXECUTE);
    let second = store.claimed(2, REEXECUTE);
    for settle in [FailKind::Retryable, FailKind::Ambiguous] {
        let mut store = store.clone();
        store.fail(&second, settle);
        let Reply::Fenced(told) = store.renew(&first) else { panic!("not fenced") };
        assert_eq!(told, verdict(store.the_record(), &store.env));
    }
    store.complete(&second);
    assert_eq!(store.renew(&first), Reply::Fenced(replay(2)));
    assert_eq!(store.fail(&first, FailKind::Ambiguous), Reply::Fenced(replay(2)));
}

#[test]
fn a_late_completion_of_another_request_after_forget_neither_settles_nor_sees_the_answer() {
    // Execution 2 took over from 1; the key was forgotten and another request has it now.
    let (mut store, first) = lost(REEXECUTE);
    let second = store.claimed(2, REEXECUTE);
    store.fail(&second, FailKind::Retryable);
    store.forget();
    let other = other_request(3);
    let third = ticket(3, &granted(store.claim(other)));
    let fenced = Reply::Fenced(Verdict::Mismatch);
    assert_eq!(store.complete(&first), fenced);
    assert_eq!(store.renew(&first), fenced);
    assert_eq!(store.fail(&first, FailKind::Ambiguous), fenced);
    store.complete(&third);
    assert_eq!(store.complete(&first), fenced, "not the other request's response");
    assert_eq!(store.counts.suspected_duplicates, 1, "by the take-over before");
    assert_eq!(store.claim(other_request(4)), Reply::Refused(replay(3)));
}

#[test]
fn a_failure_without_a_fingerprint_is_never_told_a_response() {
    let (mut store, _) = completed();
    let fenced = Reply::Fenced(Verdict::Mismatch);
    assert_eq!(store.filter(FilterEvent::Fail(unheard(2))), fenced);
}
