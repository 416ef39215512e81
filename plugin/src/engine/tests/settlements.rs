//! An outcome that is known is brought to the state, however long that takes, and the client
//! is told the truth in time.

use latchkey_core::operation::{FailKind, FilterEvent, Verdict};
use latchkey_core::record::{Outcome, Response};

use super::fixture::{Fixture, MS, PATIENCE, StateCall, TIMEOUT, answered};
use super::replies::*;
use crate::answer::Answer;
use crate::engine::Metric;

fn is_unstored(answer: &Answer) -> bool {
    answer.headers.contains(&("idempotency-status".to_owned(), b"unstored".to_vec()))
}

/// With a lease so long that no renewal comes between.
fn long_lease() -> Fixture {
    Fixture::greeted_with(|json| json["rules"][0]["lease_ms"] = 60_000.into())
}

fn stored_body(call: &StateCall) -> &[u8] {
    let FilterEvent::Complete { outcome: Outcome::Response(response), .. } = call.event() else {
        panic!("a completion with a response")
    };
    &response.body
}

#[test]
fn a_completion_that_is_not_heard_in_time_is_told_as_unstored_and_stored_later() {
    let mut it = long_lease();
    let (running, mut completion) = it.completing("k1");
    let start = it.now;
    for _ in 0..4 {
        it.end(&completion, timed_out());
        it.pass(PATIENCE / 2);
        completion = it.call();
        assert!(completion.is_completion());
        assert_eq!(it.waits(running.stream), it.now < start + PATIENCE);
    }
    let answer = it.told(running.stream);
    assert_eq!((answer.status, answer.body.as_slice()), (201, &b"paid"[..]));
    assert!(is_unstored(answer));
    assert_eq!(stored_body(&completion), b"paid", "the body is still there to be stored");
    assert_eq!(it.counted(Metric::Unstored), 1);
    it.reply(&completion, vec![settled()]);
    it.told(running.stream);
    it.assert_idle();
}

#[test]
fn a_client_waits_for_exactly_as_long_as_for_three_calls() {
    let mut it = Fixture::greeted();
    let (running, completion) = it.completing("k1");
    it.pass(PATIENCE - MS);
    assert!(it.waits(running.stream));
    it.pass(MS);
    assert!(is_unstored(it.told(running.stream)));
    it.reply(&completion, vec![settled()]);
    it.assert_idle();
}

#[test]
fn a_completion_that_is_heard_late_but_in_time_is_told_without_a_mark() {
    let mut it = Fixture::greeted();
    let (running, completion) = it.completing("k1");
    it.end(&completion, connection_refused());
    it.pass(TIMEOUT);
    let again = it.call();
    assert_eq!(stored_body(&again), b"paid");
    it.reply(&again, vec![settled()]);
    assert!(!is_unstored(it.told(running.stream)));
    assert_eq!(it.told(running.stream).body, b"paid");
    it.assert_idle();
}

#[test]
fn a_failure_is_brought_to_the_state_with_the_same_patience() {
    let mut it = long_lease();
    let running = it.running("k1");
    it.upstream(running.execution, answered(429, b"slow down"));
    for _ in 0..4 {
        let call = it.call();
        assert_eq!(call.fail().kind, FailKind::Retryable);
        it.end(&call, timed_out());
        it.pass(PATIENCE / 2);
    }
    let answer = it.told(running.stream);
    assert_eq!((answer.status, answer.body.as_slice()), (429, &b"slow down"[..]));
    let call = it.call();
    it.reply(&call, vec![settled()]);
    it.assert_idle();
}

#[test]
fn a_void_completion_is_offered_again_after_a_pause() {
    let mut it = Fixture::greeted();
    let (running, completion) = it.completing("k1");
    it.reply(&completion, vec![void()]);
    assert!(it.is_quiet());
    it.pass(100 * MS);
    let again = it.call();
    assert_eq!(stored_body(&again), b"paid");
    assert!(it.waits(running.stream));
}

#[test]
fn who_was_fenced_tells_what_the_record_says_and_not_its_own_outcome() {
    let response = Response { status: 200, headers: vec![], body: b"the other's".to_vec() };
    let verdicts = [
        (Verdict::Completed(Outcome::Response(response)), 200, Metric::Replays),
        (Verdict::Held { last_status: None }, 409, Metric::Held),
        (Verdict::InProgress { age_us: 1, lease_left_us: 1 }, 409, Metric::Conflicts),
        (Verdict::Mismatch, 422, Metric::Mismatches),
        (Verdict::Spent, 503, Metric::RetryLater),
    ];
    for (verdict, status, metric) in verdicts {
        for result in [fenced(verdict.clone()), refused(verdict)] {
            let mut it = Fixture::greeted();
            let (running, completion) = it.completing("k1");
            it.reply(&completion, vec![result]);
            let answer = it.told(running.stream);
            assert_eq!(answer.status, status);
            assert_ne!(answer.body, b"paid");
            assert_eq!((it.counted(Metric::Fenced), it.counted(metric)), (1, 1));
            it.assert_idle();
        }
    }
}

#[test]
fn a_record_that_is_gone_leaves_the_clients_own_outcome() {
    let mut it = Fixture::greeted();
    let running = it.running("k1");
    it.upstream(running.execution, answered(429, b"slow down"));
    let call = it.call();
    it.reply(&call, vec![gone()]);
    let answer = it.told(running.stream);
    assert_eq!(answer.status, 429);
    assert!(!is_unstored(answer));
    it.assert_idle();
}

#[test]
fn a_record_that_cannot_be_understood_leaves_the_truth_marked_as_unstored() {
    let mut it = Fixture::greeted();
    let (running, completion) = it.completing("k1");
    it.reply(&completion, vec![unreadable()]);
    let answer = it.told(running.stream);
    assert_eq!((answer.status, answer.body.as_slice()), (201, &b"paid"[..]));
    assert!(is_unstored(answer));
    it.pass(5 * TIMEOUT);
    it.assert_idle();
}

#[test]
fn an_answer_is_counted_as_unstored_once() {
    let mut it = Fixture::greeted();
    let (running, completion) = it.completing("k1");
    it.pass(PATIENCE);
    it.told(running.stream);
    it.reply(&completion, vec![unreadable()]);
    assert_eq!(it.counted(Metric::Unstored), 1);
    it.assert_idle();
}
