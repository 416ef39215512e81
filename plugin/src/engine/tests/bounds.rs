//! What is held is counted, bounded, and given back.

use latchkey_core::operation::{FilterEvent, Verdict};
use latchkey_core::record::Outcome;

use super::fixture::{Fixture, LEASE, PATIENCE, answered};
use super::replies::*;
use crate::engine::{Input, Metric};

const OVERLOADED: &str = "gateway_overloaded";

/// What `bytes` of a request's body hold with its headers.
fn whole(it: &Fixture, bytes: usize) -> u64 {
    it.request("k1", &vec![b'a'; bytes]).bytes()
}

fn bounded(bytes_max: u64) -> Fixture {
    Fixture::greeted_with(|json| {
        json["limits"]["bytes_max"] = bytes_max.into();
        json["rules"][0]["store"]["response_body_max_bytes"] = 1_000_000.into();
    })
}

#[test]
fn more_executions_than_allowed_are_refused_before_they_claim() {
    let mut it = Fixture::greeted_with(|json| json["limits"]["executions_max"] = 2.into());
    let (running, _) = (it.running("k1"), it.running("k2"));
    let third = it.submit("k3");
    let answer = it.told(third);
    assert_eq!((answer.status, answer.outcome), (503, OVERLOADED));
    assert!(answer.headers.contains(&("retry-after".to_owned(), b"1".to_vec())));
    assert!(it.is_quiet());
    assert_eq!(it.counted(Metric::Overloads), 1);
    it.upstream(running.execution, answered(201, b"paid"));
    let completion = it.call();
    let fourth = it.submit("k4");
    assert_eq!(it.told(fourth).outcome, OVERLOADED, "one that is not settled counts too");
    it.reply(&completion, vec![settled()]);
    it.running("k5");
}

#[test]
fn bodies_and_headers_that_do_not_fit_are_refused_before_they_claim() {
    let room = 2 * whole(&Fixture::greeted(), 1000);
    for (bytes_max, fits) in [(room, true), (room - 1, false)] {
        let mut it = bounded(bytes_max);
        let (one, two) = (it.submission("k1", &[b'a'; 1000]), it.submission("k2", &[b'a'; 1000]));
        it.feed_all(vec![one, two]);
        assert!(it.waits(1));
        assert_eq!(it.waits(2), fits);
        assert_eq!(it.call().operations.len(), if fits { 2 } else { 1 });
        assert_eq!(it.engine.bytes_held(), if fits { room } else { room / 2 });
    }
}

/// `idempotent-replayed: false`, which every answer to an execution bears.
const REPLAYED_MARK_BYTES: u64 = 24;

#[test]
fn a_request_that_was_sent_holds_nothing_here() {
    let mut it = bounded(1_000_000);
    let input = it.submission("k1", &[b'a'; 1000]);
    it.feed(input);
    assert_eq!(it.engine.bytes_held(), whole(&it, 1000));
    let claim = it.call();
    it.reply(&claim, vec![claimed(&claim, LEASE)]);
    let (execution, _) = it.sent();
    assert_eq!(it.engine.bytes_held(), 0);
    it.upstream(execution, answered(201, &[b'a'; 500]));
    let once = 500 + REPLAYED_MARK_BYTES;
    assert_eq!(it.engine.bytes_held(), once, "the answer is held once, to store and to tell");
    let completion = it.call();
    it.reply(&completion, vec![settled()]);
    it.assert_idle();
}

#[test]
fn every_way_out_gives_back_what_was_held() {
    let mut it = bounded(1_000_000);
    it.submit("refused");
    let claim = it.call();
    it.reply(&claim, vec![refused(Verdict::Mismatch)]);
    it.assert_idle();

    it.submit("unreadable");
    let claim = it.call();
    it.reply(&claim, vec![unreadable()]);
    it.assert_idle();

    it.submit("given-up");
    let claim = it.call();
    it.pass(PATIENCE);
    assert_eq!(it.engine.bytes_held(), 0, "nothing of it will be sent any more");
    it.end(&claim, connection_refused());
    it.assert_idle();

    let running = it.running("unstored");
    it.upstream(running.execution, answered(201, &[b'a'; 500]));
    let completion = it.call();
    it.pass(PATIENCE);
    assert_eq!(it.engine.bytes_held(), 500, "still to be stored");
    it.reply(&completion, vec![fenced(Verdict::Mismatch)]);
    it.assert_idle();

    let running = it.running("failed");
    it.upstream(running.execution, answered(429, &[b'a'; 500]));
    assert_eq!(it.engine.bytes_held(), 500 + REPLAYED_MARK_BYTES);
    let fail = it.call();
    it.pass(PATIENCE);
    assert_eq!(it.engine.bytes_held(), 0, "told, and not to be stored");
    it.reply(&fail, vec![settled()]);
    it.assert_idle();
}

#[test]
fn an_answer_without_room_is_told_at_once_and_leaves_a_tombstone() {
    let mut it = bounded(10_000);
    let (first, second) = (it.running("k1"), it.running("k2"));
    it.upstream(first.execution, answered(200, &[b'a'; 6_000]));
    let completion = it.call();
    assert!(it.waits(first.stream), "there is room for one");
    it.upstream(second.execution, answered(201, &[b'b'; 6_000]));
    let answer = it.told(second.stream);
    assert_eq!((answer.status, answer.body.len()), (201, 6_000));
    assert!(answer.headers.contains(&("idempotency-status".to_owned(), b"unstored".to_vec())));
    assert_eq!(it.engine.bytes_held(), 6_000 + REPLAYED_MARK_BYTES);
    let tombstone = it.call();
    let FilterEvent::Complete { outcome, .. } = tombstone.event() else { panic!("a completion") };
    assert_eq!(*outcome, Outcome::Tombstone { status: 201, location: None });
    it.reply(&tombstone, vec![settled()]);
    it.reply(&completion, vec![settled()]);
    assert_eq!(it.told(first.stream).body.len(), 6_000);
    assert_eq!(it.counted(Metric::Unstored), 1);
    it.assert_idle();
}

#[test]
fn a_failure_without_room_is_told_at_once_and_still_settled() {
    let mut it = bounded(1_000);
    let running = it.running("k1");
    it.upstream(running.execution, answered(429, &[b'a'; 1_001]));
    assert_eq!(it.told(running.stream).status, 429);
    assert_eq!(it.engine.bytes_held(), 0);
    let fail = it.call();
    assert_eq!(fail.fail().status, Some(429));
    it.reply(&fail, vec![settled()]);
    it.assert_idle();
}

#[test]
fn what_the_shell_refuses_before_reading_is_counted() {
    let mut it = Fixture::greeted();
    it.feed(Input::Overloaded);
    assert_eq!(it.counts, [Metric::Overloads]);
}
