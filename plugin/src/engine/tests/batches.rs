//! Group commit, and calls that fail for some or all of their operations.

use latchkey_core::operation::Verdict;
use latchkey_core::wire::{Message, encode_operation};

use super::fixture::{Fixture, LEASE, MS, TIMEOUT, answered};
use super::replies::*;
use crate::engine::{CallAnswer, Input, Metric};

/// Hands over a request for each key at one moment.
fn submit_all(it: &mut Fixture, keys: &[&str]) {
    let inputs = keys.iter().map(|key| it.submission(key, b"pay")).collect();
    it.feed_all(inputs);
}

#[test]
fn what_comes_together_goes_out_in_one_call() {
    let mut it = Fixture::greeted();
    submit_all(&mut it, &["k1", "k2", "k3"]);
    let call = it.call();
    assert_eq!(call.keys(), ["k1", "k2", "k3"]);
    assert_eq!(call.gateway.executions_in_flight, 3);
    assert!(it.is_quiet());
}

#[test]
fn while_two_calls_are_under_way_the_rest_gathers_for_the_next() {
    let mut it = Fixture::greeted();
    for key in ["k1", "k2", "k3", "k4", "k5"] {
        it.submit(key);
    }
    let (first, second) = (it.call(), it.call());
    assert_eq!((first.keys(), second.keys()), (vec!["k1".to_owned()], vec!["k2".to_owned()]));
    it.pass(100 * MS);
    assert!(it.is_quiet());
    it.reply(&second, vec![refused(Verdict::Mismatch)]);
    assert_eq!(it.call().keys(), ["k3", "k4", "k5"]);
    it.submit("k6");
    assert!(it.is_quiet(), "again two are under way");
    it.end(&first, connection_refused());
    assert_eq!(it.call().keys(), ["k6"], "what was refused waits a moment");
}

#[test]
fn a_call_carries_256_operations_at_most() {
    let mut it = Fixture::greeted();
    let inputs = (0..300).map(|at| it.submission(&format!("k{at}"), b"")).collect();
    it.feed_all(inputs);
    let sizes: Vec<_> = it.calls().iter().map(|call| call.operations.len()).collect();
    assert_eq!(sizes, [256, 44]);
}

#[test]
fn a_call_stays_below_the_servers_cap_however_large_the_responses_are() {
    const LARGEST: usize = 3 * 1024 * 1024;
    let mut it = Fixture::greeted_with(|json| {
        json["rules"][0]["store"]["response_body_max_bytes"] = LARGEST.into();
    });
    let sizes = [880_000, LARGEST, LARGEST];
    let running = ["k1", "k2", "k3"].map(|key| it.running(key).execution);
    let answers = running.iter().zip(sizes).map(|(execution, size)| Input::UpstreamAnswered {
        execution: *execution,
        answer: answered(201, &vec![b'a'; size]),
    });
    it.feed_all(answers.collect());
    let calls = it.calls();
    assert_eq!(calls.iter().map(|call| call.operations.len()).collect::<Vec<_>>(), [2, 1]);
    for call in calls {
        let operations = call.operations.iter().map(|it| encode_operation(it).unwrap());
        let bytes: usize = operations.map(|it| it.encoded_len()).sum();
        assert!(bytes < 4 * 1024 * 1024 - 4096, "{bytes}");
    }
}

#[test]
fn each_result_of_a_call_stands_alone() {
    let mut it = Fixture::greeted();
    submit_all(&mut it, &["k1", "k2", "k3", "k4"]);
    let call = it.call();
    let (one, three) = (claimed_at(&call, 0, LEASE), claimed_at(&call, 2, LEASE));
    it.reply(&call, vec![one, undecodable(), three]);
    it.sent();
    it.sent();
    assert!(it.is_quiet());
    it.pass(TIMEOUT);
    let again = it.call();
    assert_eq!(again.keys(), ["k2", "k4"], "the bad one and the missing one");
    let results = vec![claimed_at(&again, 0, LEASE), claimed_at(&again, 1, LEASE), settled()];
    it.reply(&again, results);
    it.sent();
    it.sent();
    assert!(it.is_quiet(), "one result too many is nobody's");
}

#[test]
fn a_call_that_may_have_landed_goes_out_again_in_halves_that_stay_by_themselves() {
    let mut it = Fixture::greeted();
    submit_all(&mut it, &["k1", "k2", "k3", "k4"]);
    let all = it.call();
    it.end(&all, timed_out());
    it.pass(TIMEOUT - 5 * MS);
    let _other = it.submit("k5");
    let other = it.call();
    it.pass(5 * MS);
    let first = it.call();
    assert_eq!(first.keys(), ["k1", "k2"]);
    assert!(it.is_quiet(), "two calls are under way");
    it.reply(&other, vec![refused(Verdict::Mismatch)]);
    let second = it.call();
    assert_eq!(second.keys(), ["k3", "k4"]);
    it.reply(&second, vec![refused(Verdict::Mismatch), refused(Verdict::Mismatch)]);
    it.end(&first, timed_out());
    it.pass(TIMEOUT);
    let (one, two) = (it.call(), it.call());
    assert_eq!((one.keys(), two.keys()), (vec!["k1".to_owned()], vec!["k2".to_owned()]));
    it.reply(&one, vec![refused(Verdict::Mismatch)]);
    assert_eq!(it.answers.len(), 4, "one bad operation does not take the others with it");
}

#[test]
fn an_operation_that_kills_its_calls_ends_alone_and_stays_alone() {
    let mut it = Fixture::greeted();
    let poisoned = it.running("bad").execution;
    let others: Vec<_> = ["k1", "k2", "k3"].map(|key| it.running(key).execution).into();
    let all = [vec![poisoned], others].concat();
    let answers = all.iter().map(|execution| Input::UpstreamAnswered {
        execution: *execution,
        answer: answered(201, b"paid"),
    });
    it.feed_all(answers.collect());
    let mut alone = 0;
    for _ in 0..2000 {
        for call in it.calls() {
            if call.operations.is_empty() || !call.keys().contains(&"bad".to_owned()) {
                it.reply(&call, call.operations.iter().map(|_| settled()).collect());
            } else {
                alone = if call.operations.len() == 1 { alone + 1 } else { 0 };
                it.end(&call, timed_out());
            }
        }
        it.pass(5 * MS);
    }
    assert_eq!(it.engine.executions_in_flight(), 1, "the others are settled");
    assert!(alone >= 5, "it goes on being tried: {alone}");
}

#[test]
fn a_call_that_did_not_reach_the_state_goes_out_again_as_a_whole() {
    for refused in [connection_refused(), CallAnswer::NotDispatched] {
        let mut it = Fixture::greeted();
        submit_all(&mut it, &["k1", "k2", "k3", "k4"]);
        let call = it.call();
        it.end(&call, refused);
        it.pass(TIMEOUT / 5);
        assert_eq!(it.call().keys(), ["k1", "k2", "k3", "k4"]);
        assert_eq!(it.counts, [Metric::StateCallsFailed]);
    }
}

#[test]
fn a_failed_call_says_why_to_people() {
    let token = "the state refuses our token; check `state.token_env`";
    let cases = [
        (CallAnswer::NotDispatched, "Envoy would not dispatch it; is the cluster there?"),
        (answered(401, b""), token),
        (answered(500, b""), "status 500"),
        (CallAnswer::Ended { status: None, headers: vec![], body: vec![] }, "no answer"),
        (answered(200, b"\xff"), "the answer cannot be read"),
    ];
    for (answer, why) in cases {
        let mut it = Fixture::greeted();
        it.submit("k1");
        let call = it.call();
        it.end(&call, answer);
        assert!(it.warnings[0].contains(why), "{:?}", it.warnings);
    }
}

#[test]
fn answers_to_calls_that_are_not_under_way_do_nothing() {
    let mut it = Fixture::greeted();
    let stream = it.submit("k1");
    let call = it.call();
    it.feed(Input::StateAnswered { batch: call.batch + 1000, answer: timed_out() });
    it.reply(&call, vec![claimed(&call, LEASE)]);
    let (execution, _) = it.sent();
    it.reply(&call, vec![refused(Verdict::Mismatch)]);
    it.upstream(execution + 1000, answered(201, b""));
    assert!(it.is_quiet() && it.waits(stream));
}

#[test]
fn an_upstreams_answer_to_what_was_not_sent_does_nothing() {
    let mut it = Fixture::greeted();
    let stream = it.submit("k1");
    let call = it.call();
    for execution in 0..10 {
        it.upstream(execution, answered(201, b"paid"));
    }
    it.reply(&call, vec![claimed(&call, LEASE)]);
    let (execution, _) = it.sent();
    it.upstream(execution, answered(201, b"paid"));
    let completion = it.call();
    it.upstream(execution, answered(500, b"twice"));
    it.reply(&completion, vec![settled()]);
    assert_eq!(it.told(stream).status, 201);
    it.assert_idle();
}
