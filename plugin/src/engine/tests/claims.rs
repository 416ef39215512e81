//! Until the claim is granted nothing is sent, and what may be claimed is never left behind.

use latchkey_core::operation::{Event, FailKind};
use latchkey_core::time::StoreTime;

use super::fixture::{AHEAD, Fixture, LEASE, MS, PATIENCE, TIMEOUT, answered};
use super::replies::*;
use crate::engine::{CallAnswer, Metric};

const STATE_UNAVAILABLE: &str = "state_unavailable";

#[test]
fn a_claim_is_not_sent_before_the_stores_clock_is_known() {
    let mut it = Fixture::new(|_| {});
    let stream = it.submit("k1");
    let greeting = it.call();
    assert!(greeting.operations.is_empty(), "a greeting asks for nothing");
    assert_eq!(
        (greeting.gateway.node.as_str(), greeting.gateway.executions_in_flight),
        ("gateway-1", 1)
    );
    it.pass(100 * MS);
    assert!(it.is_quiet());
    it.reply(&greeting, vec![]);
    let claim = it.call();
    assert_eq!(claim.claim().subject.key, "k1");
    let Event::Filter { void_after, .. } = claim.operations[0].event else { panic!("a filter's") };
    assert_eq!(void_after, StoreTime(AHEAD + it.now + TIMEOUT), "void when the call times out");
    assert!(it.waits(stream) && it.is_quiet());
}

#[test]
fn without_the_stores_clock_greetings_go_on_and_the_client_is_told_in_the_end() {
    let mut it = Fixture::new(|_| {});
    let stream = it.submit("k1");
    let mut greetings = 0;
    while it.waits(stream) {
        for call in it.calls() {
            assert!(call.operations.is_empty());
            greetings += 1;
            it.end(&call, connection_refused());
        }
        it.pass(5 * MS);
    }
    assert!((5..=7).contains(&greetings), "one each quarter of a second: {greetings}");
    assert_eq!(it.now, 1_000 + PATIENCE);
    assert_eq!(it.told(stream).outcome, STATE_UNAVAILABLE);
    assert_eq!(it.engine.executions_in_flight(), 0, "nothing was claimed, nothing is to be said");
    assert_eq!(it.engine.bytes_held(), 0);
}

#[test]
fn nothing_is_sent_before_its_claim_is_granted() {
    let mut it = Fixture::greeted();
    it.submit("k1");
    let claim = it.call();
    it.pass(TIMEOUT - MS);
    assert!(it.is_quiet(), "neither the upstream nor the state again");
    it.reply(&claim, vec![claimed(&claim, LEASE)]);
    it.sent();
    assert!(it.is_quiet());
}

#[test]
fn a_claim_that_is_granted_after_its_lease_is_asked_for_again_and_sends_nothing() {
    let mut it = Fixture::greeted();
    let stream = it.submit("k1");
    let first = it.call();
    it.pass(200 * MS);
    it.reply(&first, vec![claimed(&first, 200 * MS)]);
    assert!(it.nothing_sent(), "the lease is over at this very moment");
    let second = it.call();
    assert_eq!(second.claim(), first.claim(), "the same execution asks again");
    it.pass(200 * MS);
    it.reply(&second, vec![claimed(&second, 200 * MS + 1)]);
    it.sent();
    assert!(it.is_quiet() && it.waits(stream));
    assert_eq!(it.counted(Metric::FirstExecutions), 1, "counted when it was started");
}

#[test]
fn an_execution_that_never_gets_leave_in_time_gives_up_and_says_so() {
    let mut it = Fixture::greeted();
    let stream = it.submit("k1");
    let id = loop {
        let claim = it.call();
        it.pass(100 * MS);
        if !it.waits(stream) {
            break claim;
        }
        it.reply(&claim, vec![claimed(&claim, MS)]);
    };
    assert_eq!(it.told(stream).outcome, STATE_UNAVAILABLE);
    it.reply(&id, vec![claimed(&id, LEASE)]);
    assert!(it.nothing_sent(), "also with leave, since the client was told otherwise");
    let fail = it.call();
    assert_eq!(fail.fail().kind, FailKind::NeverSent);
    it.reply(&fail, vec![settled()]);
    it.assert_idle();
}

#[test]
fn leave_that_came_too_late_is_as_if_it_had_not_come() {
    let mut it = Fixture::greeted();
    it.submit("k1");
    let late = it.call();
    it.pass(MS);
    it.reply(&late, vec![claimed(&late, MS)]);
    let again = it.call();
    it.end(&again, timed_out());
    it.pass(PATIENCE);
    let claim = it.call();
    claim.claim();
    it.end(&claim, timed_out());
    it.pass(TIMEOUT);
    assert_eq!(it.call().fail().fence, None, "its fence may not be the highest any more");
}

#[test]
fn a_void_claim_is_asked_for_again_after_a_pause() {
    let mut it = Fixture::greeted();
    it.submit("k1");
    let claim = it.call();
    it.reply(&claim, vec![void()]);
    assert!(it.is_quiet(), "a store whose clock never agrees is not asked for ever");
    it.pass(100 * MS);
    assert_eq!(it.call().claim(), claim.claim());
}

#[test]
fn a_claim_without_a_usable_answer_is_asked_for_again_only_when_it_is_void() {
    let results = [
        vec![failed()],
        vec![],
        vec![undecodable()],
        vec![settled()],
        vec![renewed()],
        vec![gone()],
    ];
    for results in results {
        let case = format!("{results:?}");
        let mut it = Fixture::greeted();
        it.submit("k1");
        let claim = it.call();
        it.pass(10 * MS);
        it.reply(&claim, results);
        it.pass(TIMEOUT - 11 * MS);
        assert!(it.is_quiet(), "a copy could still act: {case}");
        it.pass(MS);
        let again = it.call();
        assert_eq!(again.claim(), claim.claim(), "{case}");
        it.reply(&again, vec![claimed(&again, LEASE)]);
        it.sent();
    }
}

#[test]
fn a_claim_that_may_have_landed_is_withdrawn_until_that_is_heard() {
    let garbage = answered(200, b"\xff\xff\xff");
    let nothing = CallAnswer::Ended { status: None, headers: vec![], body: vec![] };
    let ambiguous = [timed_out(), garbage, nothing, answered(500, b""), answered(401, b"")];
    for first in ambiguous {
        let mut it = Fixture::greeted();
        let stream = it.submit("k1");
        let claim = it.call();
        let execution = claim.claim().execution;
        it.end(&claim, first);
        it.pass(PATIENCE);
        assert_eq!(it.told(stream).outcome, STATE_UNAVAILABLE);
        let second = it.call();
        it.end(&second, timed_out());
        for _ in 0..5 {
            it.pass(2 * TIMEOUT);
            let call = it.call();
            let fail = call.fail();
            assert_eq!((fail.execution, fail.kind), (execution, FailKind::NeverSent));
            assert_eq!((fail.fence, fail.status), (None, None));
            it.end(&call, timed_out());
        }
        it.pass(2 * TIMEOUT);
        let heard = it.call();
        it.reply(&heard, vec![gone()]);
        assert_eq!(it.counted(Metric::StateFailures), 1);
        it.assert_idle();
    }
}

#[test]
fn what_was_never_dispatched_is_tried_soon_given_up_in_time_and_then_forgotten() {
    for refused in
        [connection_refused, || local(503, "no healthy upstream"), || CallAnswer::NotDispatched]
    {
        let mut it = Fixture::greeted();
        let stream = it.submit("k1");
        let (mut tries, start) = (0, it.now);
        while it.waits(stream) {
            for call in it.calls() {
                call.claim();
                tries += 1;
                it.end(&call, refused());
            }
            it.pass(5 * MS);
        }
        assert_eq!(it.now - start, PATIENCE);
        assert!((5..=8).contains(&tries), "soon, with pauses that double: {tries}");
        let answer = it.told(stream);
        assert_eq!((answer.status, answer.outcome), (503, STATE_UNAVAILABLE));
        assert!(answer.headers.contains(&("retry-after".to_owned(), b"1".to_vec())));
        assert_eq!(it.counted(Metric::StateCallsFailed), tries);
        it.pass(5 * TIMEOUT);
        it.assert_idle();
    }
}

#[test]
fn a_claim_under_way_when_the_client_is_told_is_withdrawn_only_if_it_may_have_landed() {
    let mut it = Fixture::greeted();
    it.submit("k1");
    let claim = it.call();
    it.pass(PATIENCE);
    it.end(&claim, connection_refused());
    it.pass(5 * TIMEOUT);
    it.assert_idle();

    it.submit("k2");
    let claim = it.call();
    it.pass(PATIENCE);
    it.reply(&claim, vec![claimed(&claim, LEASE)]);
    let call = it.call();
    assert_eq!(call.fail().fence.map(|fence| fence.0), Some(FENCE), "granted after all");
    assert!(call.fail().fingerprint.is_some());
    it.reply(&call, vec![settled()]);
    assert!(it.nothing_sent());
    it.assert_idle();
}

#[test]
fn a_claim_that_was_answered_as_something_else_may_have_landed() {
    let mut it = Fixture::greeted();
    it.submit("k1");
    it.pass(PATIENCE - 10 * MS);
    let claim = it.call();
    it.reply(&claim, vec![renewed()]);
    it.pass(2 * TIMEOUT);
    let call = it.call();
    assert_eq!((call.fail().kind, call.fail().fence), (FailKind::NeverSent, None));
    it.reply(&call, vec![gone()]);
    it.assert_idle();
}
