//! What clients read.

use latchkey_core::config::Config;

use super::*;

fn rule() -> Rule {
    let json = r#"{
        "namespace": "test",
        "secrets": [{"id": "s", "env": "S"}],
        "state": {"cluster": "latchkey"},
        "rules": [{
            "name": "payments",
            "match": {"path_prefix": "/payments"},
            "client": {"fixed": "acme"},
            "execute": {"direct": true},
            "on_conflict": {"reject": {"retry_after_s": 7}},
            "on_ambiguous": "hold"
        }]
    }"#;
    Config::from_json(json.as_bytes()).unwrap().rules.remove(0)
}

fn store(response_body_max_bytes: u32) -> StoreRule {
    StoreRule { response_body_max_bytes, set_cookie: false, no_store: NoStore::Ignore }
}

fn told(verdict: Verdict) -> (Answer, Metric) {
    Answer::verdict(verdict, &rule())
}

fn text(answer: &Answer, name: &str) -> Option<String> {
    let mut values = answer.headers.iter().filter(|(it, _)| it == name);
    let value = values.next().map(|(_, value)| String::from_utf8(value.clone()).unwrap());
    assert!(values.next().is_none(), "{name} is there once at most");
    value
}

fn lines(headers: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
    headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect()
}

fn names(headers: &[(String, Vec<u8>)]) -> Vec<&str> {
    headers.iter().map(|(name, _)| name.as_str()).collect()
}

/// Of an answer that keeps, drops for everybody, and drops on replay.
const UPSTREAM: [(&str, &str); 18] = [
    (":status", "201"),
    ("content-type", "application/json"),
    ("location", "/payments/1"),
    ("etag", "\"1\""),
    ("set-cookie", "a=1"),
    ("set-cookie", "b=2"),
    ("retry-after", "1"),
    ("x-request-id", "1"),
    ("access-control-allow-origin", "https://a.example"),
    ("content-length", "5"),
    ("date", "Tue, 01 Dec 2026 00:00:00 GMT"),
    ("server", "nginx"),
    ("connection", "X-Hop, close"),
    ("x-hop", "1"),
    ("keep-alive", "timeout=5"),
    ("idempotent-replayed", "maybe"),
    ("x-latchkey-details", "via_upstream"),
    ("x-envoy-upstream-service-time", "3"),
];

#[test]
fn a_stored_response_is_replayed_as_it_is_and_says_so() {
    let headers = lines(&[("location", "/payments/1"), ("link", "<a>"), ("link", "<b>")]);
    let response = Response { status: 201, headers: headers.clone(), body: b"paid".to_vec() };
    let (answer, metric) = told(Verdict::Completed(Outcome::Response(response)));
    assert_eq!(metric, Metric::Replays);
    assert_eq!((answer.status, answer.body.as_slice()), (201, &b"paid"[..]));
    assert_eq!(answer.headers[..3], headers);
    assert_eq!(text(&answer, "idempotent-replayed").as_deref(), Some("true"));
    assert_eq!(answer.headers.len(), 4);
    assert_eq!(answer.outcome, "replayed");
}

#[test]
fn a_tombstone_says_that_it_was_executed_and_where_to_look() {
    let location = Some(b"/payments/1".to_vec());
    let (answer, metric) = told(Verdict::Completed(Outcome::Tombstone { status: 201, location }));
    assert_eq!((answer.status, metric), (409, Metric::Replays));
    assert_eq!(text(&answer, "location").as_deref(), Some("/payments/1"));
    assert_eq!(text(&answer, "idempotent-replayed").as_deref(), Some("true"));
    assert_eq!(text(&answer, "retry-after"), None);
    let (answer, _) = told(Verdict::Completed(Outcome::Tombstone { status: 204, location: None }));
    assert_eq!(text(&answer, "location"), None);
}

#[test]
fn each_verdict_has_its_status_type_wait_and_metric() {
    let expected = [
        (
            Verdict::InProgress { age_us: 1, lease_left_us: 90_000_000 },
            (409, Kind::RequestInProgress, Some("7"), Metric::Conflicts),
        ),
        (
            Verdict::RetryLater { after_us: 2_000_001 },
            (503, Kind::RetryLater, Some("3"), Metric::RetryLater),
        ),
        (
            Verdict::RetryLater { after_us: 0 },
            (503, Kind::RetryLater, Some("1"), Metric::RetryLater),
        ),
        (Verdict::Spent, (503, Kind::RetryLater, Some("1"), Metric::RetryLater)),
        (
            Verdict::Exhausted { last_status: Some(503) },
            (409, Kind::AttemptsExhausted, None, Metric::Exhausted),
        ),
        (Verdict::Held { last_status: None }, (409, Kind::OutcomeUnknown, None, Metric::Held)),
        (Verdict::Mismatch, (422, Kind::KeyReused, None, Metric::Mismatches)),
    ];
    for (verdict, (status, kind, wait, counted)) in expected {
        let (answer, metric) = told(verdict.clone());
        assert_eq!((answer.status, answer.outcome, metric), (status, kind.outcome(), counted));
        assert_eq!(text(&answer, "retry-after").as_deref(), wait, "{verdict:?}");
        assert_eq!(text(&answer, "content-type").as_deref(), Some("application/problem+json"));
        assert_eq!(text(&answer, "cache-control").as_deref(), Some("no-store"));
        assert_eq!(text(&answer, "idempotent-replayed"), None, "nothing is replayed");
        let body = String::from_utf8(answer.body).unwrap();
        assert!(body.contains(&format!("\"type\":\"{}\"", kind.uri())), "{body}");
        assert!(body.contains(&format!("\"status\":{status},")), "{body}");
    }
}

#[test]
fn a_wait_that_has_no_end_is_still_a_number() {
    let (answer, _) = told(Verdict::RetryLater { after_us: u64::MAX });
    assert_eq!(text(&answer, "retry-after").as_deref(), Some("4294967295"));
}

#[test]
fn the_texts_of_all_problems() {
    let tombstone = Outcome::Tombstone { status: 201, location: None };
    let verdicts = [
        Verdict::InProgress { age_us: 1, lease_left_us: 1 },
        Verdict::Completed(tombstone),
        Verdict::RetryLater { after_us: 1 },
        Verdict::Exhausted { last_status: Some(503) },
        Verdict::Exhausted { last_status: None },
        Verdict::Held { last_status: Some(500) },
        Verdict::Mismatch,
    ];
    let problems = [
        unknown(false, true),
        unknown(true, false),
        unreachable(),
        state_unavailable(),
        overloaded(),
    ];
    let answers = verdicts.into_iter().map(|verdict| told(verdict).0);
    let answers = answers.chain(problems.iter().map(Answer::problem));
    let bodies: Vec<_> = answers.map(|it| String::from_utf8(it.body).unwrap()).collect();
    insta::assert_snapshot!(bodies.join("\n"), @r#"
    {"type":"https://latchkey.dev/problems/idempotency-request-in-progress","title":"A request is outstanding for this Idempotency-Key","status":409,"detail":"A request with this key is being executed. Retry with the same key to get its answer.","retryable":true}
    {"type":"https://latchkey.dev/problems/idempotency-replay-unavailable","title":"The response was not kept","status":409,"detail":"The request was executed and answered with status 201, but the response was not kept. Read the resource to learn more; do not send the request again.","retryable":false}
    {"type":"https://latchkey.dev/problems/idempotency-retry-later","title":"The request may be retried later","status":503,"detail":"The last execution failed in a way that may be retried, but not yet. Retry with the same key.","retryable":true}
    {"type":"https://latchkey.dev/problems/idempotency-attempts-exhausted","title":"The request was tried too often","status":409,"detail":"The request was executed as often as it may be; it last answered with status 503. It will not be executed again under this key.","retryable":false}
    {"type":"https://latchkey.dev/problems/idempotency-attempts-exhausted","title":"The request was tried too often","status":409,"detail":"The request was executed as often as it may be; its outcome is unknown. It will not be executed again under this key.","retryable":false}
    {"type":"https://latchkey.dev/problems/idempotency-outcome-unknown","title":"The outcome of the request is unknown","status":409,"detail":"A request with this key may have been executed, but its outcome is not known. It will not be executed again under this key until somebody has looked. Check whether the operation took place before you send it under a new key.","retryable":false}
    {"type":"https://latchkey.dev/problems/idempotency-key-reused","title":"Idempotency-Key is already used","status":422,"detail":"This key was used for a different request. Use a new key for a new request, or send the first request unchanged.","retryable":false}
    {"type":"https://latchkey.dev/problems/idempotency-outcome-unknown","title":"The outcome of the request is unknown","status":502,"detail":"The service did not answer in full; the request may have been executed. Retry with the same key: it will be executed again as the next attempt.","retryable":true}
    {"type":"https://latchkey.dev/problems/idempotency-outcome-unknown","title":"The outcome of the request is unknown","status":504,"detail":"The service did not answer in full; the request may have been executed. It will not be executed again under this key until somebody has looked.","retryable":false}
    {"type":"https://latchkey.dev/problems/idempotency-upstream-unavailable","title":"The service cannot be reached","status":503,"detail":"The service cannot be reached; the request was not executed. Retry with the same key.","retryable":true}
    {"type":"https://latchkey.dev/problems/idempotency-state-unavailable","title":"Idempotency cannot be guaranteed now","status":503,"detail":"Whether this request was executed before cannot be determined now, so it was not executed. Retry with the same key.","retryable":true}
    {"type":"https://latchkey.dev/problems/idempotency-gateway-overloaded","title":"The gateway is overloaded","status":503,"detail":"The gateway is executing as many requests as it may; this one was not executed. Retry with the same key.","retryable":true}
    "#);
}

#[test]
fn an_unknown_outcome_says_whether_a_retry_executes() {
    let statuses = [(false, 502), (true, 504)];
    for (timed_out, status) in statuses {
        let reexecute = unknown(timed_out, true);
        assert_eq!((reexecute.status, reexecute.retryable), (status, true));
        assert_eq!(reexecute.retry_after_s, Some(1));
        let hold = unknown(timed_out, false);
        assert_eq!((hold.status, hold.retryable, hold.retry_after_s), (status, false, None));
    }
}

#[test]
fn the_first_client_gets_all_but_what_belongs_to_one_connection_or_to_us() {
    let answer = Answer::fresh(201, &lines(&UPSTREAM), b"paid".to_vec());
    assert_eq!((answer.status, answer.body.as_slice()), (201, &b"paid"[..]));
    let expected = [
        "content-type",
        "location",
        "etag",
        "set-cookie",
        "set-cookie",
        "retry-after",
        "x-request-id",
        "access-control-allow-origin",
        "idempotent-replayed",
    ];
    assert_eq!(names(&answer.headers), expected);
    assert_eq!(text(&answer, "idempotent-replayed").as_deref(), Some("false"));
    assert_eq!(answer.outcome, "executed");
}

#[test]
fn every_line_of_connection_names_headers_to_drop() {
    let headers =
        lines(&[("connection", "x-a"), ("connection", "X-B"), ("x-a", "1"), ("x-b", "1")]);
    assert_eq!(names(&Answer::fresh(200, &headers, Vec::new()).headers), ["idempotent-replayed"]);
}

#[test]
fn what_is_stored_leaves_out_cookies_dates_traces_and_cors_too() {
    let outcome = outcome(201, &lines(&UPSTREAM), Some(b"paid"), &store(4));
    let Outcome::Response(response) = outcome else { panic!("it fits") };
    assert_eq!((response.status, response.body.as_slice()), (201, &b"paid"[..]));
    assert_eq!(names(&response.headers), ["content-type", "location", "etag"]);
}

#[test]
fn a_body_over_the_rules_limit_leaves_a_tombstone_with_the_first_location() {
    let headers = lines(&[("location", "/a"), ("location", "/b"), ("etag", "1")]);
    let made = outcome(201, &headers, Some(b"paid!"), &store(4));
    assert_eq!(made, Outcome::Tombstone { status: 201, location: Some(b"/a".to_vec()) });
    let made = outcome(200, &[], Some(b"x"), &store(0));
    assert_eq!(made, Outcome::Tombstone { status: 200, location: None });
    assert!(
        matches!(outcome(204, &headers, Some(b""), &store(0)), Outcome::Response(_)),
        "nothing to leave out"
    );
}

#[test]
fn an_unstored_answer_is_marked_and_otherwise_the_same() {
    let fresh = Answer::fresh(201, &lines(&UPSTREAM), b"paid".to_vec());
    let mut marked = fresh.clone().unstored();
    assert_eq!(marked.headers.pop(), Some(("idempotency-status".to_owned(), b"unstored".to_vec())));
    assert_eq!(marked, fresh);
}

#[test]
fn a_stream_of_events_and_a_body_that_is_not_here_leave_a_tombstone() {
    let events = lines(&[("content-type", "Text/Event-Stream; charset=utf-8")]);
    for (headers, body) in [(&events, Some(&b"data: 1"[..])), (&lines(&UPSTREAM), None)] {
        let made = outcome(200, headers, body, &store(100));
        assert!(matches!(made, Outcome::Tombstone { status: 200, .. }), "{made:?}");
    }
}

#[test]
fn no_store_is_for_caches_unless_the_rule_takes_it_at_its_word() {
    let headers = lines(&[("cache-control", "private, No-Store"), ("location", "/payments/1")]);
    let kept = outcome(201, &headers, Some(b"paid"), &store(100));
    assert!(matches!(kept, Outcome::Response(_)));
    let strict = StoreRule { no_store: NoStore::Tombstone, ..store(100) };
    let made = outcome(201, &headers, Some(b"paid"), &strict);
    let location = Some(b"/payments/1".to_vec());
    assert_eq!(made, Outcome::Tombstone { status: 201, location });
}

#[test]
fn cookies_are_kept_where_the_rule_asks_for_it_each_on_its_line() {
    let keeps = StoreRule { set_cookie: true, ..store(100) };
    let Outcome::Response(kept) = outcome(201, &lines(&UPSTREAM), Some(b""), &keeps) else {
        panic!("it is kept")
    };
    assert_eq!(names(&kept.headers).iter().filter(|name| **name == "set-cookie").count(), 2);
}
