//! A lease is kept for as long as the execution is its key's owner.

use latchkey_core::operation::{FilterEvent, Verdict};
use latchkey_core::record::Fence;

use super::fixture::{Fixture, LEASE, MS, StateCall, TIMEOUT, answered};
use super::replies::*;

/// The renewals that go out while `us` pass, all answered at once; other calls are greetings.
fn renewals(it: &mut Fixture, us: u64) -> Vec<u64> {
    let until = it.now + us;
    let mut at = Vec::new();
    while it.now < until {
        it.pass((until - it.now).min(5 * MS));
        for call in it.calls() {
            if call.operations.is_empty() {
                it.reply(&call, vec![]);
            } else {
                assert!(call.is_renewal());
                at.push(it.now);
                it.reply(&call, vec![renewed()]);
            }
        }
    }
    at
}

/// The next call that asks something, after greetings are answered.
fn next_call(it: &mut Fixture, within_us: u64) -> StateCall {
    let until = it.now + within_us;
    loop {
        for call in it.calls() {
            if !call.operations.is_empty() {
                return call;
            }
            it.reply(&call, vec![]);
        }
        assert!(it.now < until, "the state was called in time");
        it.pass(5 * MS);
    }
}

#[test]
fn a_lease_is_renewed_every_third_of_it_and_no_more_often() {
    let mut it = Fixture::greeted();
    let start = it.now;
    it.running("k1");
    let at = renewals(&mut it, 3 * LEASE);
    let expected: Vec<_> = (1..=9).map(|third| start + third * LEASE / 3).collect();
    assert_eq!(at, expected);
}

#[test]
fn a_renewal_carries_what_the_claim_gave() {
    let mut it = Fixture::greeted();
    it.running("k1");
    let call = next_call(&mut it, LEASE);
    let FilterEvent::Renew(ticket) = call.event() else { panic!("a renewal") };
    assert_eq!((ticket.fence, ticket.subject.key.as_str()), (Fence(FENCE), "k1"));
}

#[test]
fn a_lease_with_little_left_is_renewed_when_it_runs_out_at_the_latest() {
    let mut it = Fixture::greeted();
    it.submit("k1");
    let claim = it.call();
    it.reply(&claim, vec![claimed(&claim, LEASE / 10)]);
    it.sent();
    it.pass(LEASE / 10 - MS);
    assert!(it.is_quiet());
    it.pass(MS);
    assert!(it.call().is_renewal());
}

#[test]
fn all_leases_that_are_due_are_renewed_in_one_call() {
    let mut it = Fixture::greeted();
    let inputs = vec![it.submission("k1", b""), it.submission("k2", b"")];
    it.feed_all(inputs);
    let claims = it.call();
    it.reply(&claims, vec![claimed_at(&claims, 0, LEASE), claimed_at(&claims, 1, LEASE)]);
    it.pass(LEASE / 3);
    assert_eq!(it.call().keys(), ["k1", "k2"]);
}

#[test]
fn a_renewal_that_is_lost_is_tried_again_when_it_is_void() {
    let mut it = Fixture::greeted();
    it.running("k1");
    for call in [timed_out(), answered(200, b"\xff"), timed_out()] {
        let lost = next_call(&mut it, LEASE);
        assert!(lost.is_renewal());
        it.end(&lost, call);
        it.pass(TIMEOUT - MS);
        assert!(it.is_quiet());
    }
    let lost = next_call(&mut it, TIMEOUT);
    it.reply(&lost, vec![void()]);
    assert!(it.is_quiet(), "after a pause");
    let again = next_call(&mut it, TIMEOUT);
    it.reply(&again, vec![renewed()]);
    assert_eq!(renewals(&mut it, LEASE / 3 - MS).len(), 0);
    assert_eq!(renewals(&mut it, MS).len(), 1);
}

#[test]
fn a_renewal_that_is_answered_as_something_else_is_tried_again() {
    for answer in [settled(), gone(), failed(), undecodable()] {
        let mut it = Fixture::greeted();
        it.running("k1");
        let call = next_call(&mut it, LEASE);
        it.reply(&call, vec![answer]);
        assert!(next_call(&mut it, 2 * TIMEOUT).is_renewal());
    }
}

#[test]
fn an_execution_that_is_fenced_stops_renewing_and_still_reports_its_end() {
    for answer in
        [fenced(Verdict::Held { last_status: None }), refused(Verdict::Spent), unreadable()]
    {
        let mut it = Fixture::greeted();
        let running = it.running("k1");
        let call = next_call(&mut it, LEASE);
        it.reply(&call, vec![answer]);
        assert!(it.waits(running.stream), "its outcome is not known yet");
        assert_eq!(renewals(&mut it, 3 * LEASE).len(), 0);
        it.upstream(running.execution, answered(201, b"paid"));
        let completion = it.call();
        it.reply(&completion, vec![fenced(Verdict::Held { last_status: None })]);
        assert_eq!(it.told(running.stream).status, 409);
        it.assert_idle();
    }
}

#[test]
fn a_settlement_waits_while_a_renewal_is_under_way() {
    let mut it = Fixture::greeted();
    let running = it.running("k1");
    let renewal = next_call(&mut it, LEASE);
    it.upstream(running.execution, answered(201, b"paid"));
    it.pass(100 * MS);
    assert!(it.is_quiet(), "one operation at a time");
    it.reply(&renewal, vec![renewed()]);
    let completion = it.call();
    it.reply(&completion, vec![settled()]);
    assert_eq!(it.told(running.stream).status, 201);
    it.assert_idle();
}

#[test]
fn a_settlement_waits_until_a_lost_renewal_is_void() {
    let mut it = Fixture::greeted();
    let running = it.running("k1");
    for _ in 0..3 {
        let renewal = next_call(&mut it, LEASE);
        assert!(renewal.is_renewal());
        it.end(&renewal, timed_out());
    }
    it.upstream(running.execution, answered(201, b"paid"));
    it.pass(TIMEOUT - MS);
    assert!(it.is_quiet());
    it.pass(MS);
    assert!(it.call().is_completion());
}

#[test]
fn an_outcome_that_the_state_will_not_take_does_not_cost_the_lease() {
    let mut it = Fixture::greeted();
    let running = it.running("k1");
    it.upstream(running.execution, answered(201, b"paid"));
    let (mut completions, mut renewals, start) = (0, 0, it.now);
    while it.now < start + 3 * LEASE + LEASE / 6 {
        for call in it.calls() {
            if call.is_renewal() {
                renewals += 1;
                it.reply(&call, vec![renewed()]);
            } else {
                assert!(call.is_completion());
                completions += 1;
                it.reply(&call, vec![failed()]);
            }
        }
        it.pass(5 * MS);
    }
    assert!((8..=9).contains(&renewals), "one each third of a lease: {renewals}");
    assert!((15..=25).contains(&completions), "with a second between them: {completions}");
    let last = next_call(&mut it, 3 * TIMEOUT);
    assert!(last.is_completion());
    it.reply(&last, vec![settled()]);
    it.assert_idle();
}

#[test]
fn fenced_while_its_outcome_is_not_taken_it_offers_the_outcome_alone() {
    let mut it = Fixture::greeted();
    let running = it.running("k1");
    it.upstream(running.execution, answered(201, b"paid"));
    let mut fenced_at = None;
    let start = it.now;
    while it.now < start + 3 * LEASE {
        for call in it.calls() {
            if call.is_renewal() {
                assert_eq!(fenced_at, None, "there is nothing more to renew");
                fenced_at = Some(it.now);
                it.reply(&call, vec![fenced(Verdict::Held { last_status: None })]);
            } else {
                it.reply(&call, vec![failed()]);
            }
        }
        it.pass(5 * MS);
    }
    assert!(fenced_at.is_some());
    assert!(next_call(&mut it, 3 * TIMEOUT).is_completion());
}
