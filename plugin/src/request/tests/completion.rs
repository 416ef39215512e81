//! With the body: identity, fingerprint, and what the upstream will get.

use super::*;

/// The request's fingerprint under the preferred secret.
fn fingerprint(config: &Config, headers: &Headers, body: &[u8]) -> [u8; 32] {
    complete(config, headers, body).claim.candidates[0].fingerprint.digest
}

/// That no two of them are equal.
fn assert_all_differ(prints: &[[u8; 32]]) {
    for (at, print) in prints.iter().enumerate() {
        assert!(!prints[..at].contains(print), "number {at}");
    }
}

#[test]
fn each_part_of_a_request_counts_in_its_fingerprint() {
    let mut config = config(&json!({}));
    config.rules[0].matches.methods.push("PATCH".to_owned());
    let of = |lines: &[(&str, &[u8])]| fingerprint(&config, &request(lines), b"pay 1");
    assert_eq!(of(&[]), of(&[]));
    assert_all_differ(&[
        of(&[]),
        of(&[(":method", b"PATCH")]),
        of(&[(":path", b"/payments/2")]),
        of(&[(":path", b"/payments?a=1")]),
        of(&[(":authority", b"other.example")]),
        of(&[("content-type", b"text/plain")]),
        of(&[("content-encoding", b"gzip")]),
        fingerprint(&config, &request(&[]), b"pay 2"),
        fingerprint(&config, &request(&[]), b""),
    ]);
}

#[test]
fn headers_that_no_rule_chose_do_not_count() {
    let config = config(&json!({}));
    let retried = request(&[
        ("x-request-id", b"2"),
        ("traceparent", b"00-2"),
        ("authorization", b"Bearer rotated"),
        (":scheme", b"http"),
    ]);
    let first = fingerprint(&config, &request(&[]), b"pay 1");
    assert_eq!(first, fingerprint(&config, &retried, b"pay 1"));
}

#[test]
fn path_and_query_part_at_the_first_question_mark() {
    let config = config(&json!({}));
    let of = |path: &str| fingerprint(&config, &request(&[(":path", path.as_bytes())]), b"");
    assert_eq!(of("/payments"), of("/payments?"), "an empty query is none");
    assert_all_differ(&[
        of("/payments"),
        of("/payments?ab"),
        of("/payments?a?b"),
        of("/payments?a%3Fb"),
        of("/payments??ab"),
        of("/paymentsab"),
    ]);
}

#[test]
fn chosen_headers_count_with_each_of_their_lines_in_order() {
    let config = config(&json!({"fingerprint": {"headers": ["X-Version", "x-tenant"]}}));
    let of = |lines: &[(&str, &[u8])]| fingerprint(&config, &request(lines), b"pay 1");
    assert_all_differ(&[
        of(&[]),
        of(&[("x-version", b"1")]),
        of(&[("x-version", b"")]),
        of(&[("x-tenant", b"1")]),
        of(&[("x-version", b"1"), ("x-version", b"2")]),
        of(&[("x-version", b"2"), ("x-version", b"1")]),
        of(&[("x-version", b"1"), ("x-version", b"1")]),
        of(&[("x-version", b"1"), ("x-tenant", b"2")]),
    ]);
    let moved = of(&[("x-tenant", b"2"), ("x-version", b"1")]);
    assert_eq!(of(&[("x-version", b"1"), ("x-tenant", b"2")]), moved, "the rule orders names");
    assert_eq!(of(&[("x-version", b"1")]), of(&[("x-other", b"1"), ("x-version", b"1")]));
}

#[test]
fn a_candidate_is_made_under_each_secret_the_preferred_first() {
    let guarded = complete(&config(&json!({})), &request(&[]), b"pay 1");
    let candidates = &guarded.claim.candidates;
    let secrets: Vec<_> = candidates.iter().map(|it| it.fingerprint.secret.as_str()).collect();
    assert_eq!(secrets, ["new", "old"]);
    assert_ne!(candidates[0].derived_key, candidates[1].derived_key);
}

#[test]
fn quoted_and_bare_spellings_are_one_key_of_one_client() {
    let config = config(&json!({"client": {"header": "x-client"}}));
    let of = |client: &[u8], key: &[u8]| {
        complete(&config, &request(&[("x-client", client), ("idempotency-key", key)]), b"")
    };
    let (bare, quoted) = (of(b"acme", b"k1"), of(b"acme", b"\"k1\""));
    assert_eq!(bare.identity, quoted.identity);
    assert_eq!(bare.claim, quoted.claim);
    assert_ne!(bare.identity, of(b"acme", b"k2").identity);
    assert_ne!(bare.identity, of(b"other", b"k1").identity, "another client's key is another");
}

#[test]
fn the_claim_says_who_asks_for_what_on_which_terms() {
    let config = config(&json!({"lease_ms": 9000, "retry": {"attempts_max": 3}}));
    let guarded = complete(&config, &request(&[]), b"pay 1");
    let (rule, claim) = (guarded.rule, guarded.claim.clone());
    assert_eq!((rule, sent(guarded).1), (0, b"pay 1".to_vec()));
    assert_eq!(claim.execution, ExecutionId([7; 16]));
    assert_eq!(claim.gateway, "gateway-1");
    assert_eq!((claim.terms.lease_us, claim.terms.attempts_max), (9_000_000, 3));
    let subject = claim.subject;
    let names = [subject.namespace, subject.rule, subject.client, subject.key];
    assert_eq!(names, ["test", "payments", "acme", "k1"]);
}

#[test]
fn what_a_client_must_not_tell_the_upstream_is_taken_out_and_the_rest_goes_on() {
    let config = config(&json!({"key": {"header": "x-key"}}));
    let kept: [(&str, &[u8]); 5] = [
        ("authorization", b"Bearer 1"),
        ("content-type", b"application/json"),
        ("accept", b"text/html"),
        ("accept", b"text/plain"),
        ("x-forwarded-for", b"10.0.0.1"),
    ];
    let dropped: [(&str, &[u8]); 17] = [
        ("accept-encoding", b"gzip"),
        ("x-key", b"k1"),
        ("idempotency-key", b"mine"),
        ("idempotency-attempt", b"9"),
        ("idempotency-fence", b"9"),
        ("idempotency-outcome", b"final"),
        ("idempotency-status", b"a"),
        ("idempotent-replayed", b"true"),
        ("x-envoy-max-retries", b"9"),
        ("x-envoy-hedge-on-per-try-timeout", b"true"),
        ("x-latchkey-details", b"via_upstream"),
        ("x-latchkey-attempts", b"1"),
        ("content-length", b"5"),
        ("connection", b"close"),
        ("transfer-encoding", b"chunked"),
        ("expect", b"100-continue"),
        (":unheard-of", b"a"),
    ];
    let guarded = complete(&config, &request(&[&kept[..], &dropped].concat()), b"pay 1");
    let headers = sent(guarded).0;
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let pseudo: [(&str, &[u8]); 4] = [
        (":method", b"POST"),
        (":path", b"/payments"),
        (":authority", b"api.example"),
        (":scheme", b"https"),
    ];
    assert_eq!(headers, [&pseudo[..], &kept].concat());
}

#[test]
fn what_a_request_holds_is_its_body_and_its_headers() {
    let config = config(&json!({}));
    let small = complete(&config, &request(&[]), b"").bytes();
    let names_and_values = ":methodPOST:path/payments:authorityapi.example:schemehttps";
    assert_eq!(small, names_and_values.len() as u64);
    assert_eq!(complete(&config, &request(&[]), &[0; 1000]).bytes(), small + 1000);
    assert_eq!(complete(&config, &request(&[("x-a", &[b'a'; 97])]), b"").bytes(), small + 100);
}

#[test]
fn a_body_that_is_too_large_is_told_its_limit() {
    let config = config(&json!({"request_body_max_bytes": 77}));
    let problem = crate::request::too_large(&config.rules[0]);
    assert_eq!((problem.status, problem.kind), (413, Kind::PayloadTooLarge));
    assert!(problem.detail.contains("77 bytes"), "{}", problem.detail);
    assert!(!problem.retryable);
}

#[test]
fn an_attached_request_is_rid_of_what_is_not_the_clients_to_say_and_keeps_no_body() {
    let config = config(&json!({"execute": {"mode": "attached"}}));
    let lines: [(&str, &[u8]); 6] = [
        ("content-length", b"5"),
        ("x-envoy-max-retries", b"9"),
        ("idempotency-fence", b"9"),
        ("x-latchkey-details", b"via_upstream"),
        ("accept-encoding", b"gzip"),
        ("x-envoy-external-address", b"10.0.0.1"),
    ];
    let guarded = complete(&config, &request(&lines), b"pay 1");
    assert_eq!(guarded.bytes(), 0);
    let Send::Attached { remove } = guarded.send else { panic!("it is attached") };
    let removed = [
        "idempotency-key",
        "x-envoy-max-retries",
        "idempotency-fence",
        "x-latchkey-details",
        "accept-encoding",
    ];
    assert_eq!(remove, removed);
}

#[test]
fn a_rules_previous_fingerprints_are_candidates_behind_its_own() {
    let plain = config(&json!({}));
    let changed = config(&json!({"fingerprint": {"body": "json", "previous": [{"body": "raw"}]}}));
    let lines: [(&str, &[u8]); 1] = [("content-type", b"application/json")];
    let of = |config: &Config, body: &[u8]| {
        let claim = complete(config, &request(&lines), body).claim;
        claim.candidates.into_iter().map(|it| it.fingerprint).collect::<Vec<_>>()
    };
    let before = of(&plain, b"{\"a\":1,\"b\":2}");
    let after = of(&changed, b"{\"a\":1,\"b\":2}");
    assert_eq!(after.len(), 4);
    assert_eq!(after[2..], before, "what was made before is recognised");
    assert_eq!(after[0], of(&changed, b"{\"b\":2,\"a\":1}")[0]);
}
