//! By the headers alone.

use latchkey_core::config::PathMatch;

use super::*;

const PASSES: Result<bool, (u16, Kind)> = Ok(false);
const GUARDED: Result<bool, (u16, Kind)> = Ok(true);

fn of_a_plain_rule(headers: &Headers) -> Result<bool, (u16, Kind)> {
    admitted(&config(&json!({})), headers)
}

#[test]
fn a_keyed_request_that_a_rule_matches_is_guarded() {
    assert_eq!(of_a_plain_rule(&request(&[])), GUARDED);
}

#[test]
fn what_no_rule_matches_passes_whatever_its_headers_are() {
    assert_eq!(of_a_plain_rule(&request(&[(":method", b"GET")])), PASSES);
    assert_eq!(of_a_plain_rule(&request(&[(":method", b"post")])), PASSES);
    assert_eq!(of_a_plain_rule(&request(&[(":path", b"/refunds")])), PASSES);
    let broken = request(&[(":path", b"/refunds"), ("idempotency-key", b""), ("x-a", b"\xff")]);
    assert_eq!(of_a_plain_rule(&broken), PASSES);
}

#[test]
fn the_first_rule_that_matches_holds() {
    let mut config = config(&json!({}));
    let mut wider = config.rules[0].clone();
    wider.matches.path = Some(PathMatch::Prefix("/".to_owned()));
    config.rules.push(wider);
    assert_eq!(plan(&config, &request(&[])).rule, 0);
    assert_eq!(plan(&config, &request(&[(":path", b"/refunds")])).rule, 1);
}

#[test]
fn without_a_key_a_request_is_refused_where_the_rule_requires_one_and_passes_elsewhere() {
    let keyless = without("idempotency-key", &[]);
    assert_eq!(of_a_plain_rule(&keyless), Err((400, Kind::KeyMissing)));
    let optional = config(&json!({"key": {"required": false}}));
    assert_eq!(admitted(&optional, &keyless), PASSES);
    assert_eq!(admitted(&optional, &request(&[])), GUARDED);
}

#[test]
fn a_rule_reads_the_key_from_its_own_header() {
    let config = config(&json!({"key": {"header": "PayPal-Request-Id"}}));
    assert_eq!(admitted(&config, &request(&[])), Err((400, Kind::KeyMissing)));
    assert_eq!(admitted(&config, &request(&[("paypal-request-id", b"k1")])), GUARDED);
}

#[test]
fn a_key_that_is_there_but_not_valid_is_refused_even_where_none_is_required() {
    let long = [b'k'; 300];
    let quoted = [&b"\""[..], &long, b"\""].concat();
    let values: [&[u8]; 9] =
        [b"", b" \t", b"\"\"", &long, &quoted, b"a\x00b", b"a\x7fb", b"a\nb", b"\xff\xfe"];
    for required in [true, false] {
        let config = config(&json!({"key": {"required": required}}));
        for value in values {
            let refused = admitted(&config, &request(&[("idempotency-key", value)]));
            assert_eq!(refused, Err((400, Kind::KeyInvalid)), "{}", value.escape_ascii());
        }
        let lines: [(&str, &[u8]); 2] = [("idempotency-key", b"k1"), ("idempotency-key", b"k1")];
        assert_eq!(admitted(&config, &request(&lines)), Err((400, Kind::KeyInvalid)));
    }
}

#[test]
fn a_strict_rule_takes_quoted_keys_only() {
    let config = config(&json!({"key": {"syntax": "strict"}}));
    assert_eq!(admitted(&config, &request(&[])), Err((400, Kind::KeyInvalid)));
    assert_eq!(admitted(&config, &request(&[("idempotency-key", b"\"k1\"")])), GUARDED);
}

#[test]
fn a_refused_key_is_not_repeated_in_the_answer() {
    let headers = request(&[("idempotency-key", b"<secret key>")]);
    let Decision::Refuse(problem) = admit(&config(&json!({})), &headers, &()).decision else {
        panic!("it is refused")
    };
    assert!(!problem.detail.contains("secret"), "{}", problem.detail);
}

#[test]
fn a_client_without_a_name_is_refused_or_bypassed_as_the_rule_says() {
    let reject = config(&json!({"client": {"header": "X-Client"}}));
    let bypass = config(&json!({"client": {"header": "x-client", "missing": "bypass"}}));
    for nameless in [request(&[]), request(&[("x-client", b"")])] {
        assert_eq!(admitted(&reject, &nameless), Err((400, Kind::ClientUnknown)));
        assert_eq!(admitted(&bypass, &nameless), PASSES);
    }
    let named = request(&[("x-client", b"acme")]);
    assert_eq!(admitted(&reject, &named), GUARDED);
    assert_eq!(admitted(&bypass, &named), GUARDED);
}

#[test]
fn a_client_whose_name_is_unclear_is_refused_and_never_bypassed() {
    let long = [b'a'; 513];
    let unclear = [
        request(&[("x-client", b"acme"), ("x-client", b"acme")]),
        request(&[("x-client", b""), ("x-client", b"acme")]),
        request(&[("x-client", &long)]),
        request(&[("x-client", b"caf\xe9")]),
    ];
    for missing in ["reject", "bypass"] {
        let config = config(&json!({"client": {"header": "x-client", "missing": missing}}));
        for headers in &unclear {
            assert_eq!(admitted(&config, headers), Err((400, Kind::ClientUnknown)), "{headers:?}");
        }
        assert_eq!(admitted(&config, &request(&[("x-client", &long[..512])])), GUARDED);
    }
}

#[test]
fn a_header_that_is_not_text_anywhere_is_refused_since_it_could_not_be_passed_on() {
    let refused = Err((400, Kind::HeaderInvalid));
    for value in [&b"\xff"[..], b"caf\xe9", b"\xed\xa0\x80"] {
        assert_eq!(of_a_plain_rule(&request(&[("x-note", value)])), refused);
    }
    assert_eq!(of_a_plain_rule(&request(&[(":path", b"/payments/\xff")])), refused);
    let mut name = request(&[]);
    name.0.push((b"x-\xff".to_vec(), b"a".to_vec()));
    assert_eq!(of_a_plain_rule(&name), refused);
    assert_eq!(of_a_plain_rule(&request(&[("x-note", "café".as_bytes())])), GUARDED);
}

#[test]
fn grpc_passes_by_exactly_the_media_types_that_envoy_takes_for_it() {
    let of = |value: &str| of_a_plain_rule(&request(&[("content-type", value.as_bytes())]));
    for value in ["application/grpc", "application/grpc+proto", "application/grpc;v=1"] {
        assert_eq!(of(value), PASSES, "{value}");
    }
    for value in ["application/grpcx", "application/grpc-web", "Application/grpc", "text/grpc"] {
        assert_eq!(of(value), GUARDED, "{value}");
    }
}

#[test]
fn an_upgrade_passes_only_where_connection_asks_for_it_too() {
    let upgrade = |connection: &[&'static [u8]]| {
        let mut lines: Vec<(&str, &[u8])> = vec![("upgrade", b"websocket")];
        lines.extend(connection.iter().map(|value| ("connection", *value)));
        of_a_plain_rule(&request(&lines))
    };
    assert_eq!(upgrade(&[]), GUARDED);
    assert_eq!(upgrade(&[b"keep-alive"]), GUARDED);
    assert_eq!(upgrade(&[b"upgraded"]), GUARDED);
    assert_eq!(upgrade(&[b"Upgrade"]), PASSES);
    assert_eq!(upgrade(&[b"keep-alive, UPGRADE"]), PASSES);
    assert_eq!(upgrade(&[b"keep-alive", b"upgrade"]), PASSES);
    assert_eq!(of_a_plain_rule(&request(&[("connection", b"upgrade")])), GUARDED);
}

#[test]
fn connect_passes_in_both_its_forms() {
    let mut config = config(&json!({}));
    config.rules[0].matches.methods.push("CONNECT".to_owned());
    assert_eq!(admitted(&config, &without(":path", &[(":method", b"CONNECT")])), PASSES);
    assert_eq!(admitted(&config, &request(&[(":method", b"CONNECT")])), PASSES);
    let extended = request(&[(":protocol", b"websocket")]);
    assert_eq!(admitted(&config, &extended), PASSES);
}

#[test]
fn a_request_whose_method_or_path_cannot_be_read_does_not_go_unguarded() {
    let refused = Err((400, Kind::HeaderInvalid));
    assert_eq!(of_a_plain_rule(&without(":method", &[])), refused);
    assert_eq!(of_a_plain_rule(&without(":path", &[])), refused);
    assert_eq!(of_a_plain_rule(&Headers::default()), refused);
}

#[test]
fn the_texts_of_all_refusals() {
    let config = config(&json!({"client": {"header": "x-client"}}));
    let refused = [
        without("idempotency-key", &[]),
        request(&[("idempotency-key", b"a"), ("idempotency-key", b"b")]),
        request(&[("idempotency-key", b"")]),
        request(&[("idempotency-key", &[b'k'; 256])]),
        request(&[("idempotency-key", b"\"a")]),
        request(&[("idempotency-key", b"a b")]),
        request(&[]),
        request(&[("x-client", b"a"), ("x-client", b"b")]),
        request(&[("x-client", &[b'a'; 513])]),
        request(&[("x-client", b"\xff")]),
        request(&[("x-client", b"a"), ("x-note", b"\xff")]),
        without(":path", &[]),
    ];
    let bodies = refused.iter().map(|headers| {
        let Decision::Refuse(problem) = admit(&config, headers, &()).decision else {
            panic!("it is refused")
        };
        assert!(problem.status == 400 && !problem.retryable && problem.retry_after_s.is_none());
        format!("{}: {}", problem.kind.slug(), problem.detail)
    });
    insta::assert_snapshot!(bodies.collect::<Vec<_>>().join("\n"), @r#"
    idempotency-key-missing: This operation requires a key. Send a new, unique `idempotency-key` with each operation, and the same one with each retry of it.
    idempotency-key-invalid: `idempotency-key` is not valid: the request has 2 lines of the key's field; send exactly one. It was not executed.
    idempotency-key-invalid: `idempotency-key` is not valid: the key is empty. It was not executed.
    idempotency-key-invalid: `idempotency-key` is not valid: the key has 256 bytes; at most 255 are allowed. It was not executed.
    idempotency-key-invalid: `idempotency-key` is not valid: the key is not a Structured Field String: write it in double quotes. It was not executed.
    idempotency-key-invalid: `idempotency-key` is not valid: the key has a character that may not stand outside quotes: use letters, digits and . _ : ~ + / = @ -, or write the key in double quotes. It was not executed.
    idempotency-client-unknown: Keys are kept by client, and this request has none. Authenticate.
    idempotency-client-unknown: The request names its client more than once.
    idempotency-client-unknown: The client's name is too long.
    idempotency-client-unknown: The client's name is not valid UTF-8.
    idempotency-header-invalid: A header of the request is not valid UTF-8, so that the request cannot be passed on. It was not executed.
    idempotency-header-invalid: The request's method or path cannot be read. It was not executed.
    "#);
}

#[test]
fn a_rule_reads_one_line_of_one_of_its_headers() {
    let config = config(&json!({"key": {"also": ["PayPal-Request-Id"]}}));
    let other = without("idempotency-key", &[("paypal-request-id", b"k1")]);
    assert_eq!(admitted(&config, &other), GUARDED);
    assert_eq!(admitted(&config, &request(&[])), GUARDED);
    let both = request(&[("paypal-request-id", b"k1")]);
    assert_eq!(admitted(&config, &both), Err((400, Kind::KeyInvalid)));
    let missing = without("idempotency-key", &[]);
    assert_eq!(admitted(&config, &missing), Err((400, Kind::KeyMissing)));
}

/// Where a route names its rule.
const ROUTE: &str = "xds/route_metadata/filter_metadata/latchkey/rule";

#[test]
fn a_route_names_its_rule_and_the_path_does_not_matter_then() {
    let config = config(&json!({"match": {"methods": ["POST"]}}));
    assert_eq!(admitted(&config, &request(&[])), PASSES, "no path matches");
    let named = Known(&[(ROUTE, b"payments")]);
    assert_eq!(admitted_with(&config, &request(&[(":path", b"/any")]), &named), GUARDED);
    assert_eq!(admitted_with(&config, &request(&[(":method", b"GET")]), &named), PASSES);
}

#[test]
fn a_route_may_have_no_rule() {
    let off = Known(&[(ROUTE, b"off")]);
    assert_eq!(admitted_with(&config(&json!({})), &request(&[]), &off), PASSES);
    let empty = Known(&[(ROUTE, b"")]);
    assert_eq!(admitted_with(&config(&json!({})), &request(&[]), &empty), GUARDED);
}

#[test]
fn a_route_that_names_an_unknown_rule_does_not_go_unguarded() {
    let unknown = Known(&[(ROUTE, b"paymnets")]);
    let refused = Err((500, Kind::RuleUnknown));
    assert_eq!(admitted_with(&config(&json!({})), &request(&[]), &unknown), refused);
}
