//! Duplicates that wait for the outcome of a running execution.

use latchkey_core::operation::{FailKind, Verdict};
use latchkey_core::record::{Outcome, Response};
use serde_json::json;

use super::fixture::{Fixture, LEASE, MS, TIMEOUT, answered};
use super::replies::*;
use crate::engine::{Input, Metric};

/// How long a duplicate waits.
const WAIT: u64 = 5_000 * MS;

fn fixture() -> Fixture {
    Fixture::greeted_with(|config| {
        config["rules"][0]["on_conflict"] = json!({"wait": {"timeout_ms": WAIT / MS}});
        config["limits"]["waiters_max"] = json!(3);
    })
}

fn in_progress() -> Verdict {
    Verdict::InProgress { age_us: 1, lease_left_us: LEASE }
}

fn paid() -> Verdict {
    let response = Response { status: 201, headers: vec![], body: b"paid".to_vec() };
    Verdict::Completed(Outcome::Response(response))
}

/// A duplicate of an execution elsewhere, which waits.
fn waiting(it: &mut Fixture) -> u32 {
    let stream = it.submit("k1");
    let claim = it.call();
    it.reply(&claim, vec![refused(in_progress())]);
    assert!(it.waits(stream) && it.is_quiet());
    stream
}

/// The leader's next claim.
fn asked(it: &mut Fixture) -> super::fixture::StateCall {
    for _ in 0..300 {
        it.pass(5 * MS);
        if let Some(call) = it.calls().into_iter().find(|call| !call.operations.is_empty()) {
            return call;
        }
    }
    panic!("the leader asks again");
}

#[test]
fn two_hundred_duplicates_ask_no_more_often_than_one_and_are_all_told_the_outcome() {
    let mut it = Fixture::greeted_with(|config| {
        config["rules"][0]["on_conflict"] = json!({"wait": {"timeout_ms": WAIT / MS}});
    });
    let leader = waiting(&mut it);
    let others: Vec<_> = (0..199).map(|_| it.submit("k1")).collect();
    assert!(it.is_quiet(), "who joins does not ask");
    let claim = asked(&mut it);
    assert_eq!(claim.keys(), ["k1"]);
    it.reply(&claim, vec![refused(paid())]);
    for stream in others.into_iter().chain([leader]) {
        assert_eq!((it.told(stream).status, it.told(stream).outcome), (201, "replayed"));
    }
    assert_eq!((it.counted(Metric::Waits), it.counted(Metric::Replays)), (200, 200));
    it.assert_idle();
}

#[test]
fn a_leader_asks_again_with_growing_pauses_until_its_time_is_over() {
    let mut it = fixture();
    let stream = waiting(&mut it);
    let mut asks = 0;
    while it.waits(stream) {
        it.pass(5 * MS);
        for call in it.calls() {
            if !call.operations.is_empty() {
                asks += 1;
                it.reply(&call, vec![refused(in_progress())]);
            } else {
                it.reply(&call, vec![]);
            }
        }
    }
    assert!((5..20).contains(&asks), "asked {asks} times in {WAIT} µs");
    assert_eq!(it.told(stream).outcome, "request_in_progress");
    assert_eq!(it.counted(Metric::Conflicts), 1);
    it.assert_idle();
}

#[test]
fn an_outcome_on_the_same_worker_is_told_at_once() {
    let mut it = fixture();
    let running = it.running("k1");
    let first = waiting(&mut it);
    let second = it.submit("k1");
    it.upstream(running.execution, answered(201, b"paid"));
    let completion = it.call();
    assert!(completion.is_completion() && it.waits(first));
    it.reply(&completion, vec![settled()]);
    assert_eq!(it.told(running.stream).outcome, "executed");
    for stream in [first, second] {
        assert_eq!(
            (it.told(stream).outcome, &it.told(stream).body[..]),
            ("replayed", &b"paid"[..])
        );
    }
    it.assert_idle();
}

#[test]
fn when_an_execution_on_the_same_worker_fails_one_waiter_executes_at_once_for_all() {
    let mut it = fixture();
    let running = it.running("k1");
    let leader = waiting(&mut it);
    let other = it.submit("k1");
    it.upstream(running.execution, answered(429, b""));
    let fail = it.call();
    assert_eq!(fail.fail().kind, FailKind::Retryable);
    it.reply(&fail, vec![settled()]);
    let claim = it.call();
    assert!(it.waits(leader) && it.waits(other));
    it.reply(&claim, vec![claimed(&claim, LEASE)]);
    let (execution, _) = it.sent();
    assert!(it.nothing_sent(), "only one executes");
    it.upstream(execution, answered(201, b"paid"));
    let completion = it.call();
    it.reply(&completion, vec![settled()]);
    assert_eq!(it.told(leader).outcome, "executed");
    assert_eq!(it.told(other).outcome, "replayed");
    it.assert_idle();
}

#[test]
fn another_request_with_the_key_does_not_join_but_asks() {
    let mut it = fixture();
    let first = waiting(&mut it);
    let input = it.submission("k1", b"another body");
    it.feed(input);
    let claim = it.call();
    it.reply(&claim, vec![refused(Verdict::Mismatch)]);
    assert!(it.waits(first));
    assert_eq!(it.counted(Metric::Mismatches), 1);
}

#[test]
fn more_than_may_wait_are_refused_at_once() {
    let mut it = fixture();
    waiting(&mut it);
    let (second, third) = (it.submit("k1"), it.submit("k1"));
    let fourth = it.submit("k1");
    assert!(it.waits(second) && it.waits(third));
    assert_eq!(it.told(fourth).outcome, "request_in_progress");
    assert_eq!(it.counted(Metric::Waits), 3);
}

#[test]
fn when_the_leaders_client_hangs_up_the_next_one_leads() {
    let mut it = fixture();
    let leader = waiting(&mut it);
    let other = it.submit("k1");
    it.feed(Input::StreamGone { stream: leader });
    let claim = asked(&mut it);
    it.reply(&claim, vec![refused(paid())]);
    assert_eq!(it.told(other).status, 201);
    it.assert_idle();
}

#[test]
fn a_leader_that_leaves_while_its_claim_is_under_way_gives_back_what_it_gets() {
    let mut it = fixture();
    let leader = waiting(&mut it);
    let claim = asked(&mut it);
    it.feed(Input::StreamGone { stream: leader });
    it.reply(&claim, vec![claimed(&claim, LEASE)]);
    let fail = it.call();
    assert_eq!(fail.fail().kind, FailKind::NeverSent);
    assert!(it.nothing_sent(), "nobody waits for it");
    it.reply(&fail, vec![settled()]);
    it.assert_idle();
}

#[test]
fn a_claim_that_was_lost_keeps_its_leader_until_it_is_answered() {
    let mut it = fixture();
    let leader = waiting(&mut it);
    let claim = asked(&mut it);
    it.end(&claim, timed_out());
    it.pass(WAIT);
    assert_eq!(it.told(leader).outcome, "request_in_progress");
    let fail = it.calls().into_iter().next_back().expect("the end is told");
    it.reply(&fail, vec![settled()]);
    it.pass(2 * TIMEOUT);
    assert!(it.nothing_sent());
}
