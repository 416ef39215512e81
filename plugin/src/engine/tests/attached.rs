//! Executions that Envoy's router makes, and requests that pass without the state.

use latchkey_core::classify::{ATTEMPTS_HEADER, DETAILS_HEADER};
use latchkey_core::operation::FailKind;
use serde_json::json;

use super::fixture::{Fixture, LEASE, PATIENCE, TIMEOUT};
use super::replies::*;
use crate::engine::{CallAnswer, Input, Metric};

fn fixture() -> Fixture {
    Fixture::greeted_with(|config| config["rules"][0]["execute"] = json!({"mode": "attached"}))
}

/// A request that was claimed and sent on: its stream and execution.
fn sent_on(it: &mut Fixture) -> (u32, u64) {
    let stream = it.submit("k1");
    let claim = it.call();
    it.reply(&claim, vec![claimed(&claim, LEASE)]);
    let (to, execution, forward) = it.forwards.pop().expect("it was sent on");
    assert_eq!(to, stream);
    assert!(forward.remove.contains(&"idempotency-key".to_owned()));
    let names: Vec<_> = forward.set.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["idempotency-attempt", "idempotency-fence", "idempotency-key"]);
    (stream, execution)
}

fn answer(status: u16, details: &str) -> CallAnswer {
    let header = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
    CallAnswer::Ended {
        status: Some(status),
        headers: vec![header(DETAILS_HEADER, details), header(ATTEMPTS_HEADER, "1")],
        body: b"paid".to_vec(),
    }
}

fn lost() -> CallAnswer {
    CallAnswer::Ended { status: None, headers: vec![], body: vec![] }
}

#[test]
fn an_answer_is_let_go_once_it_is_stored() {
    let mut it = fixture();
    let (stream, execution) = sent_on(&mut it);
    let answer = answer(201, "via_upstream");
    it.feed(Input::Responded { execution, answer, whole: true, held: true });
    let completion = it.call();
    assert!(completion.is_completion() && it.releases.is_empty());
    it.reply(&completion, vec![settled()]);
    assert_eq!(it.releases, [(stream, false)]);
    it.assert_idle();
}

#[test]
fn an_answer_that_cannot_be_stored_is_let_go_marked_and_stored_later() {
    let mut it = fixture();
    let (stream, execution) = sent_on(&mut it);
    let answer = answer(201, "via_upstream");
    it.feed(Input::Responded { execution, answer, whole: true, held: true });
    for _ in 0..20 {
        it.pass(TIMEOUT / 2);
        for call in it.calls() {
            it.end(&call, timed_out());
        }
    }
    assert_eq!(it.releases, [(stream, true)]);
    assert_eq!(it.counted(Metric::Unstored), 1);
    let mut stored = false;
    while !stored {
        it.pass(TIMEOUT / 2);
        for call in it.calls() {
            stored |= call.is_completion();
            let reply = if call.is_completion() { settled() } else { renewed() };
            it.reply(&call, vec![reply]);
        }
    }
    assert_eq!(it.releases.len(), 1);
}

#[test]
fn who_is_fenced_gets_what_the_record_says_in_place_of_its_answer() {
    let mut it = fixture();
    let (stream, execution) = sent_on(&mut it);
    let answer = answer(201, "via_upstream");
    it.feed(Input::Responded { execution, answer, whole: true, held: true });
    let completion = it.call();
    let verdict = latchkey_core::operation::Verdict::Held { last_status: None };
    it.reply(&completion, vec![fenced(verdict)]);
    assert_eq!(it.told(stream).outcome, "outcome_unknown");
    assert!(it.releases.is_empty());
    it.assert_idle();
}

#[test]
fn what_envoy_answers_in_the_upstreams_place_is_not_its_answer() {
    let reset = "upstream_reset_before_response_started";
    for (details, kind, told) in [
        ("no_healthy_upstream", FailKind::NeverSent, "upstream_unavailable"),
        (&format!("{reset}{{connection_termination}}"), FailKind::Ambiguous, "outcome_unknown"),
        ("response_timeout", FailKind::Ambiguous, "outcome_unknown"),
        ("", FailKind::Ambiguous, "outcome_unknown"),
    ] {
        let mut it = fixture();
        let (stream, execution) = sent_on(&mut it);
        let answer = answer(503, details);
        it.feed(Input::Responded { execution, answer, whole: true, held: true });
        let fail = it.call();
        assert_eq!(fail.fail().kind, kind, "{details}");
        it.reply(&fail, vec![settled()]);
        assert_eq!(it.told(stream).outcome, told, "{details}");
        it.assert_idle();
    }
}

#[test]
fn a_client_that_hangs_up_leaves_the_outcome_unknown() {
    let mut it = fixture();
    let (_, execution) = sent_on(&mut it);
    it.feed(Input::Responded { execution, answer: lost(), whole: true, held: false });
    let fail = it.call();
    assert_eq!(fail.fail().kind, FailKind::Ambiguous);
    it.reply(&fail, vec![settled()]);
    assert!(it.answers.is_empty() && it.releases.is_empty());
    it.assert_idle();
}

#[test]
fn leave_that_comes_after_the_client_has_gone_is_given_back() {
    let mut it = fixture();
    let stream = it.submit("k1");
    let claim = it.call();
    it.feed(Input::StreamGone { stream });
    it.reply(&claim, vec![claimed(&claim, LEASE)]);
    assert!(it.forwards.is_empty());
    let fail = it.call();
    assert_eq!(fail.fail().kind, FailKind::NeverSent);
    it.reply(&fail, vec![settled()]);
    it.assert_idle();
}

#[test]
fn what_was_not_sent_on_after_all_was_never_sent() {
    let mut it = fixture();
    let (_, execution) = sent_on(&mut it);
    it.feed(Input::NotForwarded { execution });
    let fail = it.call();
    assert_eq!(fail.fail().kind, FailKind::NeverSent);
    it.reply(&fail, vec![settled()]);
    assert!(it.answers.is_empty());
    it.assert_idle();
}

#[test]
fn an_answer_that_streams_through_leaves_a_tombstone() {
    let mut it = fixture();
    let (_, execution) = sent_on(&mut it);
    let answer = answer(201, "via_upstream");
    it.feed(Input::Responded { execution, answer, whole: false, held: false });
    let completion = it.call();
    let latchkey_core::operation::FilterEvent::Complete { outcome, .. } = completion.event() else {
        panic!("a completion")
    };
    assert!(matches!(outcome, latchkey_core::record::Outcome::Tombstone { status: 201, .. }));
    it.reply(&completion, vec![settled()]);
    it.assert_idle();
}

#[test]
fn a_redirected_request_goes_on_as_another_stream_of_the_same_execution() {
    let mut it = fixture();
    let (_, execution) = sent_on(&mut it);
    it.feed_all(vec![Input::Redirected { execution }, Input::Adopted { execution, stream: 99 }]);
    it.pass(1_500_000);
    let answer = answer(201, "via_upstream");
    it.feed(Input::Responded { execution, answer, whole: true, held: true });
    let completion = it.calls().pop().expect("a completion");
    it.reply(&completion, vec![settled()]);
    assert_eq!(it.releases, [(99, false)]);
}

#[test]
fn a_redirected_request_that_reaches_nobody_is_unknown_since_it_reached_somebody_before() {
    for status in [503, 404] {
        let mut it = fixture();
        let (_, execution) = sent_on(&mut it);
        it.feed_all(vec![Input::Redirected { execution }, Input::Adopted { execution, stream: 9 }]);
        let answer = answer(status, "no_healthy_upstream");
        it.feed(Input::Responded { execution, answer, whole: true, held: true });
        let fail = it.call();
        assert_eq!(fail.fail().kind, FailKind::Ambiguous);
        it.reply(&fail, vec![settled()]);
        assert_eq!(it.told(9).outcome, "outcome_unknown");
        it.assert_idle();
    }
}

#[test]
fn a_redirected_request_that_does_not_come_back_is_unknown() {
    let mut it = fixture();
    let (_, execution) = sent_on(&mut it);
    it.feed(Input::Redirected { execution });
    it.pass(1_500_000);
    let fail = it.call();
    assert_eq!(fail.fail().kind, FailKind::Ambiguous);
}

#[test]
fn without_the_state_a_request_passes_where_its_rule_lets_it_and_its_claim_is_given_back() {
    let mut it = Fixture::greeted_with(|config| {
        config["rules"][0]["key"] = json!({"required": false});
        config["rules"][0]["on_state_failure"] = json!("pass");
    });
    let stream = it.submit("k1");
    for _ in 0..20 {
        it.pass(PATIENCE / 10);
        for call in it.calls() {
            it.end(&call, timed_out());
        }
    }
    assert_eq!(it.passes, [stream]);
    assert!(it.answers.is_empty() && it.nothing_sent());
    assert_eq!((it.counted(Metric::StateFailures), it.counted(Metric::Bypassed)), (1, 1));
    it.pass(2 * TIMEOUT);
    let fail = it.call();
    assert_eq!(fail.fail().kind, FailKind::NeverSent);
    it.reply(&fail, vec![settled()]);
    it.assert_idle();
}
