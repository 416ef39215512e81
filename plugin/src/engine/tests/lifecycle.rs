//! Streams that go, gateways that wait for work, and gateways that are told to end.

use super::fixture::{Fixture, LEASE, MS, PATIENCE, TIMEOUT, answered};
use super::replies::*;
use crate::engine::Input;

const HEARTBEAT: u64 = 10_000 * MS;

#[test]
fn a_client_that_hangs_up_while_it_executes_loses_its_answer_and_nothing_else() {
    let mut it = Fixture::greeted();
    let running = it.running("k1");
    it.feed(Input::StreamGone { stream: running.stream });
    it.pass(LEASE / 3);
    let renewal = it.call();
    assert!(renewal.is_renewal(), "its lease is kept");
    it.reply(&renewal, vec![renewed()]);
    it.upstream(running.execution, answered(201, b"paid"));
    let completion = it.call();
    assert!(completion.is_completion(), "its outcome is stored");
    it.reply(&completion, vec![settled()]);
    assert!(it.waits(running.stream));
    it.assert_idle();
}

#[test]
fn a_client_that_hangs_up_while_it_claims_is_executed_all_the_same() {
    let mut it = Fixture::greeted();
    let stream = it.submit("k1");
    let claim = it.call();
    it.feed(Input::StreamGone { stream });
    it.reply(&claim, vec![claimed(&claim, LEASE)]);
    let (execution, _) = it.sent();
    it.upstream(execution, answered(201, b"paid"));
    let completion = it.call();
    it.feed(Input::StreamGone { stream });
    it.pass(PATIENCE);
    it.reply(&completion, vec![settled()]);
    assert!(it.answers.is_empty());
    it.assert_idle();
}

#[test]
fn a_gateway_without_work_greets_every_ten_seconds() {
    let mut it = Fixture::greeted();
    let mut greetings = Vec::new();
    let start = it.now;
    for _ in 0..4 {
        it.pass(HEARTBEAT - MS);
        assert!(it.is_quiet());
        it.pass(MS);
        let greeting = it.call();
        assert!(greeting.operations.is_empty());
        greetings.push(it.now - start);
        it.reply(&greeting, vec![]);
    }
    assert_eq!(greetings, [1, 2, 3, 4].map(|at| at * HEARTBEAT));
}

#[test]
fn other_calls_are_greetings_too() {
    let mut it = Fixture::greeted();
    it.pass(HEARTBEAT / 2);
    let (_, completion) = it.completing("k1");
    it.reply(&completion, vec![settled()]);
    it.pass(HEARTBEAT - MS);
    it.assert_idle();
}

#[test]
fn a_greeting_that_fails_does_not_lose_the_clock() {
    let mut it = Fixture::greeted();
    it.pass(HEARTBEAT);
    let greeting = it.call();
    it.end(&greeting, timed_out());
    it.running("k1");
}

#[test]
fn a_gateway_that_ends_greets_no_more() {
    let mut it = Fixture::greeted();
    it.engine.drain();
    it.pass(3 * HEARTBEAT);
    it.assert_idle();
}

#[test]
fn a_gateway_that_ends_is_idle_once_all_is_settled() {
    let mut it = Fixture::greeted();
    let running = it.running("k1");
    it.engine.drain();
    assert!(!it.engine.is_idle());
    it.pass(LEASE / 3);
    let renewal = it.call();
    it.reply(&renewal, vec![renewed()]);
    it.upstream(running.execution, answered(201, b"paid"));
    let completion = it.call();
    it.end(&completion, timed_out());
    it.pass(TIMEOUT);
    assert!(!it.engine.is_idle(), "an outcome that is not heard is something under way");
    let again = it.call();
    assert!(!it.engine.is_idle());
    it.reply(&again, vec![settled()]);
    it.told(running.stream);
    it.assert_idle();
}

#[test]
fn a_gateway_that_ends_before_it_heard_the_state_does_not_wait_for_it() {
    let mut it = Fixture::new(|_| {});
    it.feed(Input::Tick);
    let greeting = it.call();
    it.engine.drain();
    assert!(!it.engine.is_idle(), "its greeting is under way");
    it.pass(TIMEOUT);
    it.end(&greeting, timed_out());
    it.assert_idle();
    it.pass(HEARTBEAT);
    it.assert_idle();
}

#[test]
fn a_gateway_that_ends_before_it_heard_the_state_still_executes_for_who_waits() {
    let mut it = Fixture::new(|_| {});
    let stream = it.submit("k1");
    it.engine.drain();
    let greeting = it.call();
    it.end(&greeting, connection_refused());
    it.pass(TIMEOUT);
    let greeting = it.call();
    it.reply(&greeting, vec![]);
    let claim = it.call();
    it.reply(&claim, vec![claimed(&claim, LEASE)]);
    let (execution, _) = it.sent();
    it.upstream(execution, answered(201, b"paid"));
    let completion = it.call();
    it.reply(&completion, vec![settled()]);
    assert_eq!(it.told(stream).status, 201);
    it.assert_idle();
}

#[test]
fn a_gateway_that_ends_before_it_heard_the_state_still_answers_who_waits() {
    let mut it = Fixture::new(|_| {});
    let stream = it.submit("k1");
    it.engine.drain();
    while it.waits(stream) {
        for greeting in it.calls() {
            it.end(&greeting, timed_out());
        }
        it.pass(5 * MS);
    }
    assert_eq!(it.told(stream).outcome, "state_unavailable");
    for greeting in it.calls() {
        it.end(&greeting, timed_out());
    }
    it.assert_idle();
}
