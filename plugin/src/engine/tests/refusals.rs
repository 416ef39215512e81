//! Claims that are answered otherwise than with leave.

use latchkey_core::operation::{FailKind, Verdict};
use latchkey_core::record::{Outcome, Response};

use super::fixture::{Fixture, LEASE, MS, TIMEOUT};
use super::replies::*;
use crate::engine::Metric;

#[test]
fn each_verdict_is_told_and_nothing_is_executed() {
    let response = Response { status: 201, headers: vec![], body: b"paid".to_vec() };
    let verdicts = [
        (Verdict::InProgress { age_us: 1, lease_left_us: 1 }, 409, Metric::Conflicts),
        (Verdict::Completed(Outcome::Response(response)), 201, Metric::Replays),
        (
            Verdict::Completed(Outcome::Tombstone { status: 201, location: None }),
            409,
            Metric::Replays,
        ),
        (Verdict::RetryLater { after_us: 1 }, 503, Metric::RetryLater),
        (Verdict::Exhausted { last_status: None }, 409, Metric::Exhausted),
        (Verdict::Held { last_status: None }, 409, Metric::Held),
        (Verdict::Mismatch, 422, Metric::Mismatches),
    ];
    for (verdict, status, metric) in verdicts {
        let mut it = Fixture::greeted();
        let stream = it.submit("k1");
        let claim = it.call();
        it.reply(&claim, vec![refused(verdict)]);
        assert_eq!(it.told(stream).status, status);
        assert_eq!(it.counts, [metric]);
        it.pass(5 * TIMEOUT);
        it.assert_idle();
    }
}

#[test]
fn a_replay_is_the_stored_response() {
    let mut it = Fixture::greeted();
    let stream = it.submit("k1");
    let claim = it.call();
    let headers = vec![("location".to_owned(), b"/payments/1".to_vec())];
    let response = Response { status: 201, headers: headers.clone(), body: b"paid".to_vec() };
    it.reply(&claim, vec![refused(Verdict::Completed(Outcome::Response(response)))]);
    let answer = it.told(stream);
    assert_eq!(answer.body, b"paid");
    assert_eq!(answer.headers[0], headers[0]);
    assert_eq!(answer.headers[1], ("idempotent-replayed".to_owned(), b"true".to_vec()));
}

#[test]
fn an_execution_that_is_spent_is_withdrawn_until_that_is_heard() {
    let mut it = Fixture::greeted();
    let stream = it.submit("k1");
    let claim = it.call();
    let execution = claim.claim().execution;
    it.reply(&claim, vec![refused(Verdict::Spent)]);
    let answer = it.told(stream);
    assert_eq!((answer.status, answer.outcome), (503, "retry_later"));
    for _ in 0..5 {
        let call = it.call();
        let fail = call.fail();
        assert_eq!((fail.execution, fail.fence), (execution, None));
        assert_eq!(fail.kind, FailKind::NeverSent);
        it.end(&call, timed_out());
        it.pass(2 * TIMEOUT);
    }
    let heard = it.call();
    it.reply(&heard, vec![settled()]);
    it.assert_idle();
}

#[test]
fn a_withdrawal_is_heard_by_any_answer_but_void_and_failed() {
    let heard = [settled(), gone(), fenced(Verdict::Spent), fenced(Verdict::Mismatch)];
    for answer in heard {
        let mut it = Fixture::greeted();
        it.submit("k1");
        let claim = it.call();
        it.reply(&claim, vec![refused(Verdict::Spent)]);
        let call = it.call();
        it.reply(&call, vec![void()]);
        assert!(it.is_quiet(), "after a pause");
        it.pass(TIMEOUT);
        let call = it.call();
        it.reply(&call, vec![failed()]);
        it.pass(TIMEOUT);
        let call = it.call();
        it.reply(&call, vec![answer]);
        it.pass(5 * TIMEOUT);
        it.assert_idle();
    }
}

#[test]
fn a_verdict_that_comes_after_the_client_was_told_ends_the_execution() {
    let mut it = Fixture::greeted();
    let stream = it.submit("k1");
    let claim = it.call();
    it.pass(3 * TIMEOUT);
    assert_eq!(it.told(stream).outcome, "state_unavailable");
    it.reply(&claim, vec![refused(Verdict::Mismatch)]);
    assert_eq!(it.counted(Metric::Mismatches), 0, "nobody was told that");
    it.assert_idle();
}

#[test]
fn a_result_that_has_to_come_alone_is_asked_for_in_a_batch_of_its_own() {
    let mut it = Fixture::greeted();
    let inputs = vec![it.submission("k1", b""), it.submission("k2", b""), it.submission("k3", b"")];
    it.feed_all(inputs);
    let all = it.call();
    assert_eq!(all.keys(), ["k1", "k2", "k3"]);
    let mut blocker = vec![it.submission("k4", b"")];
    it.feed_all(std::mem::take(&mut blocker));
    let other = it.call();
    it.reply(&all, vec![claimed_at(&all, 0, LEASE), alone(), alone()]);
    it.sent();
    let first = it.call();
    assert_eq!(first.keys(), ["k2"]);
    it.reply(&other, vec![claimed(&other, LEASE)]);
    let second = it.call();
    assert_eq!(second.keys(), ["k3"]);
    it.reply(&second, vec![claimed(&second, LEASE)]);
    it.reply(&first, vec![claimed(&first, LEASE)]);
    for _ in 0..3 {
        it.sent();
    }
    assert!(it.is_quiet());
}

#[test]
fn a_record_that_cannot_be_understood_is_not_executed_over() {
    let mut it = Fixture::greeted();
    let stream = it.submit("k1");
    let claim = it.call();
    it.reply(&claim, vec![unreadable()]);
    let answer = it.told(stream);
    assert_eq!((answer.status, answer.outcome), (503, "state_unavailable"));
    assert_eq!(it.warnings, ["a record cannot be understood: version 9"]);
    it.pass(5 * TIMEOUT);
    it.assert_idle();
}

#[test]
fn people_are_warned_once_a_second() {
    let mut it = Fixture::greeted();
    for _ in 0..200 {
        it.submit("k1");
        for call in it.calls() {
            it.end(&call, connection_refused());
        }
        it.pass(10 * MS);
    }
    assert_eq!(it.warnings.len(), 2, "{:?}", it.warnings);
    assert!(it.warnings[0].starts_with("a call to the state failed: status 503"));
}
