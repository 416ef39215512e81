//! What each answer of the upstream means for the record and for the client.

use latchkey_core::operation::{Claimed, FailKind, FilterEvent, Reply};
use latchkey_core::record::{Fence, OnAmbiguous, Outcome};
use latchkey_core::wire::encode_reply;

use super::fixture::{Fixture, LEASE, answered};
use super::replies::*;
use crate::answer::Answer;
use crate::engine::{CallAnswer, Metric};

/// What is settled and told for one answer of the upstream.
fn failure(policy: &str, answer: CallAnswer) -> (FailKind, Option<u16>, Answer, Vec<Metric>) {
    let mut it = Fixture::greeted_with(|json| json["rules"][0]["on_ambiguous"] = policy.into());
    let running = it.running("k1");
    it.counts.clear();
    it.upstream(running.execution, answer);
    let call = it.call();
    let fail = call.fail();
    assert_eq!(fail.fence, Some(Fence(FENCE)));
    let (kind, status) = (fail.kind, fail.status);
    assert!(it.waits(running.stream), "told only once it is settled");
    it.reply(&call, vec![settled()]);
    let answer = it.told(running.stream).clone();
    it.assert_idle();
    (kind, status, answer, it.counts)
}

fn upstream_says(status: u16, outcome: &str) -> CallAnswer {
    let headers = [("x-envoy-upstream-service-time", "1"), ("idempotency-outcome", outcome)];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
    CallAnswer::Ended { status: Some(status), headers: headers.into(), body: b"body".to_vec() }
}

#[test]
fn a_final_answer_is_stored_before_it_is_told() {
    let mut it = Fixture::greeted();
    let (running, call) = it.completing("k1");
    let FilterEvent::Complete { ticket, outcome } = call.event() else { panic!("a completion") };
    assert_eq!((ticket.fence, ticket.attempt, ticket.sent), (Fence(FENCE), 1, 1));
    assert_eq!((ticket.subject.key.as_str(), ticket.gateway.as_str()), ("k1", "gateway-1"));
    let Outcome::Response(response) = outcome else { panic!("a response") };
    assert_eq!((response.status, response.body.as_slice()), (201, &b"paid"[..]));
    assert!(it.waits(running.stream));
    it.reply(&call, vec![settled()]);
    let answer = it.told(running.stream);
    assert_eq!((answer.status, answer.body.as_slice()), (201, &b"paid"[..]));
    assert_eq!(answer.headers, [("idempotent-replayed".to_owned(), b"false".to_vec())]);
    it.assert_idle();
}

#[test]
fn a_body_over_the_rules_limit_is_told_whole_and_stored_as_a_tombstone() {
    let mut it = Fixture::greeted();
    let running = it.running("k1");
    it.upstream(running.execution, answered(200, &[b'a'; 1001]));
    let call = it.call();
    let FilterEvent::Complete { outcome, .. } = call.event() else { panic!("a completion") };
    assert_eq!(*outcome, Outcome::Tombstone { status: 200, location: None });
    it.reply(&call, vec![settled()]);
    assert_eq!(it.told(running.stream).body, [b'a'; 1001]);
    it.assert_idle();
}

#[test]
fn a_failure_of_the_upstream_is_passed_on_as_it_is() {
    use FailKind::{Ambiguous, Retryable};
    let cases = [
        ("hold", 500, Ambiguous),
        ("hold", 503, Ambiguous),
        ("hold", 429, Retryable),
        ("reexecute", 503, Retryable),
        ("reexecute", 502, Ambiguous),
    ];
    for (policy, status, kind) in cases {
        let (failed, seen, answer, counts) = failure(policy, answered(status, b"sorry"));
        assert_eq!((failed, seen), (kind, Some(status)));
        assert_eq!((answer.status, answer.body.as_slice()), (status, &b"sorry"[..]));
        assert_eq!(answer.headers, [("idempotent-replayed".to_owned(), b"false".to_vec())]);
        let ambiguous = if kind == Ambiguous { vec![Metric::Ambiguous] } else { vec![] };
        assert_eq!(counts, ambiguous);
    }
}

#[test]
fn the_upstream_has_the_last_word_which_the_client_does_not_hear() {
    let (kind, status, answer, _) = failure("hold", upstream_says(200, "retryable"));
    assert_eq!((kind, status), (FailKind::Retryable, Some(200)));
    assert_eq!((answer.status, answer.body.as_slice()), (200, &b"body"[..]));
    assert_eq!(answer.headers.len(), 1);
    let (kind, ..) = failure("hold", upstream_says(201, "ambiguous"));
    assert_eq!(kind, FailKind::Ambiguous);
    let mut it = Fixture::greeted();
    let running = it.running("k1");
    it.upstream(running.execution, upstream_says(500, "final"));
    assert!(it.call().is_completion());
}

#[test]
fn what_was_never_sent_is_told_as_unreachable() {
    for never in
        [CallAnswer::NotDispatched, connection_refused(), local(503, "no healthy upstream")]
    {
        let (kind, status, answer, counts) = failure("hold", never);
        assert_eq!((kind, status), (FailKind::NeverSent, None));
        assert_eq!((answer.status, answer.outcome), (503, "upstream_unavailable"));
        assert!(counts.is_empty());
    }
}

#[test]
fn what_nobody_knows_is_ambiguous_and_told_as_unknown() {
    let nothing = CallAnswer::Ended { status: None, headers: vec![], body: vec![] };
    let unknown = [
        (nothing, 502),
        (timed_out(), 504),
        (local(503, "upstream connect error, of a new kind"), 502),
        (local(201, "not the upstream's"), 502),
        (answered(100, b""), 502),
        (answered(600, b""), 502),
    ];
    for (answer, told) in unknown {
        let (kind, status, answer, counts) = failure("hold", answer);
        assert_eq!((kind, status), (FailKind::Ambiguous, None));
        assert_eq!((answer.status, answer.outcome), (told, "outcome_unknown"));
        assert_eq!(counts, [Metric::Ambiguous]);
        assert!(answer.headers.iter().all(|(name, _)| name != "retry-after"));
    }
    let (_, _, answer, _) = failure("reexecute", timed_out());
    assert!(answer.headers.contains(&("retry-after".to_owned(), b"1".to_vec())));
}

#[test]
fn the_records_policy_holds_where_it_is_stricter_than_the_rules() {
    let mut it =
        Fixture::greeted_with(|json| json["rules"][0]["on_ambiguous"] = "reexecute".into());
    it.submit("k1");
    let claim = it.call();
    let mut terms = claim.claim().terms;
    terms.on_ambiguous = OnAmbiguous::Hold;
    let candidate = claim.claim().candidates[0].clone();
    let (fence, attempt, sent) = (Fence(FENCE), 1, 1);
    let claimed = Claimed { fence, attempt, sent, lease_left_us: LEASE, candidate, terms };
    it.reply(&claim, vec![encode_reply(Reply::Claimed(claimed))]);
    let (execution, _) = it.sent();
    it.upstream(execution, answered(503, b""));
    assert_eq!(it.call().fail().kind, FailKind::Ambiguous);
}

/// An answer through an internal listener, whose headers are for the filter only.
fn inner(status: u16, details: &str, attempts: &str) -> CallAnswer {
    let headers = [
        ("x-envoy-upstream-service-time", "1"),
        ("x-latchkey-details", details),
        ("x-latchkey-attempts", attempts),
        ("location", "/payments/1"),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
    CallAnswer::Ended { status: Some(status), headers: headers.into(), body: b"paid".to_vec() }
}

fn internal() -> Fixture {
    Fixture::greeted_with(|json| {
        json["rules"][0]["execute"] = serde_json::json!({"cluster": "latchkey_execute"});
    })
}

#[test]
fn what_the_internal_listener_says_reaches_neither_the_client_nor_the_store() {
    let mut it = internal();
    let running = it.running("k1");
    it.upstream(running.execution, inner(201, "via_upstream", "1"));
    let call = it.call();
    let FilterEvent::Complete { outcome: Outcome::Response(response), .. } = call.event() else {
        panic!("a completion")
    };
    let location = ("location".to_owned(), b"/payments/1".to_vec());
    assert_eq!(response.headers, std::slice::from_ref(&location));
    it.reply(&call, vec![settled()]);
    let replayed = ("idempotent-replayed".to_owned(), b"false".to_vec());
    assert_eq!(it.told(running.stream).headers, [location, replayed]);
}

#[test]
fn through_an_internal_listener_its_details_decide() {
    use FailKind::{Ambiguous, NeverSent};
    let terminated = "upstream_reset_before_response_started{connection_termination}";
    let cases = [
        (inner(503, "no_healthy_upstream", "1"), NeverSent, None, 503),
        (inner(404, "route_not_found", "0"), NeverSent, None, 404),
        (inner(503, terminated, "1"), Ambiguous, None, 502),
        (inner(201, "something_new", "1"), Ambiguous, None, 502),
        (answered(201, b"without details"), Ambiguous, None, 502),
        (inner(500, "via_upstream", "1"), Ambiguous, Some(500), 500),
    ];
    for (answer, kind, status, told) in cases {
        let case = format!("{answer:?}");
        let mut it = internal();
        let running = it.running("k1");
        it.upstream(running.execution, answer);
        let call = it.call();
        assert_eq!((call.fail().kind, call.fail().status), (kind, status), "{case}");
        it.reply(&call, vec![settled()]);
        let answer = it.told(running.stream);
        assert_eq!(answer.status, told, "{case}");
        assert!(answer.headers.iter().all(|(name, _)| !name.starts_with("x-latchkey-")));
        it.assert_idle();
    }
}
