//! What is refused, in the words that operators get.

use serde_json::{Value, json};

use super::*;

/// The error where the field at `pointer` is `value` instead.
fn with(pointer: &str, value: Value) -> String {
    changed(pointer, value).unwrap_err()
}

/// The errors where the rule's `field` is each of `values` instead.
fn each(field: &str, values: impl IntoIterator<Item = Value>) -> String {
    let pointer = format!("/rules/0/{field}");
    values.into_iter().map(|value| with(&pointer, value)).collect::<Vec<_>>().join("\n")
}

#[test]
fn an_error_names_the_field_and_says_what_would_be_right() {
    let cases = [
        with("/rules/0/lease_ms", json!(0)),
        with("/rules/0/lease_ms", json!(-1)),
        with("/rules/0/ttl_s", json!(3)),
        with("/state/timeout_ms", json!(3000)),
        with("/rules/0/held_ttl_s", json!(60)),
        with("/rules/0/leese_ms", json!(5000)),
        with("/rules/0/on_ambiguous", json!("guess")),
        with("/rules/0/execute", json!({"mode": "detached"})),
        with("/rules/0/execute", json!({"cluster": "a", "direct": true})),
        with("/rules/0/client", json!({})),
        with("/rules/0/match", json!({"methods": ["post"], "path_prefix": "/"})),
        with("/rules/0/key", json!({"length_max": 2000})),
        with("/rules/0/key", json!({"header": "bad header"})),
        with("/rules/0/retry", json!({"attempts_max": 0})),
        with("/rules/0/store", json!({"response_body_max_bytes": 33_554_432})),
        with("/state/timeout_ms", json!(5)),
        with("/secrets", json!([])),
        with("/namespace", json!("")),
    ];
    insta::assert_snapshot!(cases.join("\n"), @r#"
rules[0].lease_ms: 0 is out of range; it must be from 4000 to 3600000
rules[0].lease_ms: invalid value: integer `-1`, expected u64 at line 1 column 136
rules[0].lease_ms: a lease of 15000 ms is longer than the retention of 3 s; make lease_ms smaller or ttl_s larger
rules[0].lease_ms: a lease of 15000 ms is lost with one call to the state that times out; make it at least 18000 ms, six times state.timeout_ms
rules[0].held_ttl_s: 60 s is less than ttl_s (86400 s); a held key must not be forgotten before others
rules[0].leese_ms: unknown field `leese_ms`, expected one of `name`, `match`, `key`, `client`, `fingerprint`, `execute`, `lease_ms`, `ttl_s`, `held_ttl_s`, `on_conflict`, `on_mismatch`, `on_ambiguous`, `on_state_failure`, `outcomes`, `request_body_max_bytes`, `store`, `retry` at line 1 column 133
rules[0].on_ambiguous: unknown variant `guess`, expected `reexecute` or `hold` at line 1 column 218
rules[0].execute: a detached call skips what stands between this filter and the upstream: name the `cluster` that leads to it, or say `direct: true` where nothing stands there
rules[0].execute: a detached call skips what stands between this filter and the upstream: name the `cluster` that leads to it, or say `direct: true` where nothing stands there
rules[0].client: give exactly one of `header`, `jwt_claim`, `uri_san` and `fixed`
rules[0].match.methods: methods are written in capitals, as in ["POST"]
rules[0].key.length_max: 2000 is out of range; it must be from 1 to 1024
rules[0].key.header: must be printable ASCII without spaces
rules[0].retry.attempts_max: 0 is out of range; it must be from 1 to 100
rules[0].store.response_body_max_bytes: 33554432 is out of range; it must be from 0 to 3145728
state.timeout_ms: 5 is out of range; it must be from 10 to 3000
secrets: has 0 entries; it must have from 1 to 8
namespace: is empty
"#);
}

#[test]
fn a_match_that_cannot_be_meant() {
    let errors = each(
        "match",
        [
            json!({"path_prefix": "/a", "path_exact": "/b"}),
            json!({"path_exact": "/a", "path_regex": "/b"}),
            json!({"path_prefix": "/a", "path_exact": "/b", "path_regex": "/c"}),
            json!({"hosts": ["api.example"]}),
            json!({"path_prefix": ""}),
            json!({"path_prefix": "payments"}),
            json!({"path_prefix": "/payments?x=1"}),
            json!({"path_exact": "/payments#1"}),
            json!({"path_exact": format!("/{}", "x".repeat(8192))}),
            json!({"path_regex": "/("}),
            json!({"path_regex": "/(?=x)"}),
            json!({"path_regex": ""}),
            json!({"path_regex": "x".repeat(1025)}),
            json!({"path_prefix": "/", "methods": []}),
            json!({"path_prefix": "/", "methods": ["POST", ""]}),
            json!({"path_prefix": "/", "methods": ["POST", "CONNECT"]}),
            json!({"path_prefix": "/", "methods": ["OPTIONS"]}),
            json!({"path_prefix": "/", "methods": ["TRACE"]}),
        ],
    );
    insta::assert_snapshot!(errors, @r#"
rules[0].match: give at most one of `path_prefix`, `path_exact` and `path_regex`
rules[0].match: give at most one of `path_prefix`, `path_exact` and `path_regex`
rules[0].match: give at most one of `path_prefix`, `path_exact` and `path_regex`
rules[0].match: hosts alone match nothing; say `"path_prefix": "/"` for all paths
rules[0].match.path_prefix: a path begins with `/`
rules[0].match.path_prefix: a path begins with `/`
rules[0].match.path_prefix: the query is no part of what is matched; end it before `?`
rules[0].match.path_exact: the query is no part of what is matched; end it before `?`
rules[0].match.path_exact: is longer than 8192 bytes
rules[0].match.path_regex: is not a regular expression: found open group without closing ')'
rules[0].match.path_regex: is not a regular expression: look-around is not supported
rules[0].match.path_regex: has 0 bytes; 1 to 1024 are allowed
rules[0].match.path_regex: has 1025 bytes; 1 to 1024 are allowed
rules[0].match.methods: has 0 entries; it must have from 1 to 16
rules[0].match.methods: methods are written in capitals, as in ["POST"]
rules[0].match.methods: CONNECT cannot be guarded
rules[0].match.methods: OPTIONS cannot be guarded
rules[0].match.methods: TRACE cannot be guarded
"#);
}

#[test]
fn a_host_that_is_none() {
    let hosts = ["api.example:443", "*", "*.", "a*.example", "*.*.example", "", "a b", "::1"];
    let hosts = hosts.into_iter().chain(["https://api.example", "me@api.example", "*.example:1"]);
    let matches = hosts.map(|host| json!({"path_prefix": "/", "hosts": ["a.example", host]}));
    let many = json!({"path_prefix": "/", "hosts": vec!["a.example"; 65]});
    insta::assert_snapshot!(each("match", matches.chain([many])), @r#"
rules[0].match.hosts[1]: a host is written `api.example`, or `*.example` for all below it, without a port
rules[0].match.hosts[1]: a host is written `api.example`, or `*.example` for all below it, without a port
rules[0].match.hosts[1]: a host is written `api.example`, or `*.example` for all below it, without a port
rules[0].match.hosts[1]: a host is written `api.example`, or `*.example` for all below it, without a port
rules[0].match.hosts[1]: a host is written `api.example`, or `*.example` for all below it, without a port
rules[0].match.hosts[1]: is empty
rules[0].match.hosts[1]: must be printable ASCII without spaces
rules[0].match.hosts[1]: a host is written `api.example`, or `*.example` for all below it, without a port
rules[0].match.hosts[1]: a host is written `api.example`, or `*.example` for all below it, without a port
rules[0].match.hosts[1]: a host is written `api.example`, or `*.example` for all below it, without a port
rules[0].match.hosts[1]: a host is written `api.example`, or `*.example` for all below it, without a port
rules[0].match.hosts: has 65 entries; at most 64 are allowed
"#);
}

#[test]
fn a_key_that_is_read_from_no_field_or_twice_from_one() {
    let errors = each(
        "key",
        [
            json!({"also": ["Idempotency-Key"]}),
            json!({"also": ["x-key", "request-id", "X-Key"]}),
            json!({"also": ["x-key", "x key"]}),
            json!({"also": ["x-key:"]}),
            json!({"also": [""]}),
            json!({"also": vec!["x-key"; 33]}),
            json!({"length_max": 0}),
            json!({"header": "x".repeat(129)}),
            json!({"upstream": "both"}),
            json!({"syntax": "any"}),
        ],
    );
    insta::assert_snapshot!(errors, @r#"
rules[0].key.also[0]: `idempotency-key` is there twice
rules[0].key.also[2]: `x-key` is there twice
rules[0].key.also[1]: must be printable ASCII without spaces
rules[0].key.also[0]: is not a header's name (RFC 9110 §5.1)
rules[0].key.also[0]: is empty
rules[0].key.also: has 33 entries; at most 32 are allowed
rules[0].key.length_max: 0 is out of range; it must be from 1 to 1024
rules[0].key.header: has 129 bytes; at most 128 are allowed
rules[0].key.upstream: unknown variant `both`, expected `derived` or `client` at line 1 column 147
rules[0].key.syntax: unknown variant `any`, expected `strict` or `lenient` at line 1 column 144
"#);
}

#[test]
fn a_client_that_is_named_in_no_way_or_in_two() {
    let errors = each(
        "client",
        [
            json!({"missing": "reject"}),
            json!({"uri_san": false}),
            json!({"header": "x-client", "fixed": "a"}),
            json!({"header": "x-client", "jwt_claim": "sub"}),
            json!({"jwt_claim": "sub", "uri_san": true}),
            json!({"uri_san": true, "fixed": "a"}),
            json!({"header": "x-client", "jwt_payload": "p"}),
            json!({"jwt_payload": "p"}),
            json!({"jwt_claim": ""}),
            json!({"jwt_claim": "sub", "jwt_payload": "a b"}),
            json!({"fixed": "a", "missing": "anonymous"}),
            json!({"fixed": ""}),
            json!({"header": "x client"}),
            json!({"header": "x-client", "missing": "pass"}),
        ],
    );
    insta::assert_snapshot!(errors, @r#"
rules[0].client: give exactly one of `header`, `jwt_claim`, `uri_san` and `fixed`
rules[0].client: give exactly one of `header`, `jwt_claim`, `uri_san` and `fixed`
rules[0].client: give exactly one of `header`, `jwt_claim`, `uri_san` and `fixed`
rules[0].client: give exactly one of `header`, `jwt_claim`, `uri_san` and `fixed`
rules[0].client: give exactly one of `header`, `jwt_claim`, `uri_san` and `fixed`
rules[0].client: give exactly one of `header`, `jwt_claim`, `uri_san` and `fixed`
rules[0].client.jwt_payload: belongs to `jwt_claim`, which is not there
rules[0].client.jwt_payload: belongs to `jwt_claim`, which is not there
rules[0].client.jwt_claim: is empty
rules[0].client.jwt_payload: must be printable ASCII without spaces
rules[0].client.missing: a fixed client is never missing; leave `missing` out
rules[0].client.fixed: is empty
rules[0].client.header: must be printable ASCII without spaces
rules[0].client.missing: unknown variant `pass`, expected one of `reject`, `anonymous`, `bypass` at line 1 column 76
"#);
}

#[test]
fn a_fingerprint_of_what_is_not_there() {
    let errors = each(
        "fingerprint",
        [
            json!({"body": "yaml"}),
            json!({"headers": ["x-version", "x version"]}),
            json!({"headers": vec!["x-version"; 33]}),
            json!({"query_exclude": ["sig", ""]}),
            json!({"query_exclude": vec!["sig"; 33]}),
            json!({"previous": [{}, {"headers": ["x version"]}]}),
            json!({"previous": [{"query_exclude": [""]}]}),
            json!({"previous": vec![json!({}); 8]}),
        ],
    );
    insta::assert_snapshot!(errors, @r#"
rules[0].fingerprint.body: unknown variant `yaml`, expected `raw` or `json` at line 1 column 151
rules[0].fingerprint.headers[1]: must be printable ASCII without spaces
rules[0].fingerprint.headers: has 33 entries; at most 32 are allowed
rules[0].fingerprint.query_exclude[1]: is empty
rules[0].fingerprint.query_exclude: has 33 entries; at most 32 are allowed
rules[0].fingerprint.previous[1].headers[0]: must be printable ASCII without spaces
rules[0].fingerprint.previous[0].query_exclude[0]: is empty
rules[0].fingerprint.previous: 9 fingerprints, 9 for each secret; at most 8 are recognised at once, so take away what no key within retention was made with
"#);
}

#[test]
fn an_execution_that_goes_nowhere_or_two_ways() {
    let errors = each(
        "execute",
        [
            json!({}),
            json!({"mode": "attached", "cluster": "a"}),
            json!({"mode": "attached", "direct": true}),
            json!({"mode": "attached", "timeout_ms": 1000}),
            json!({"cluster": "a", "timeout_ms": 0}),
            json!({"cluster": "a", "timeout_ms": 3_600_001}),
            json!({"cluster": ""}),
            json!({"mode": "half", "cluster": "a"}),
        ],
    );
    insta::assert_snapshot!(errors, @r#"
rules[0].execute: a detached call skips what stands between this filter and the upstream: name the `cluster` that leads to it, or say `direct: true` where nothing stands there
rules[0].execute: an attached execution goes where the route says; leave `cluster` and `direct` out
rules[0].execute: an attached execution goes where the route says; leave `cluster` and `direct` out
rules[0].execute.timeout_ms: belongs to the route where execution is attached: set its `timeout`
rules[0].execute.timeout_ms: 0 is out of range; it must be from 1 to 3600000
rules[0].execute.timeout_ms: 3600001 is out of range; it must be from 1 to 3600000
rules[0].execute.cluster: is empty
rules[0].execute.mode: unknown variant `half`, expected `detached` or `attached` at line 1 column 102
"#);
}

#[test]
fn what_is_done_in_trouble() {
    let errors = [
        each(
            "on_conflict",
            [
                json!({}),
                json!("wait"),
                json!({"wait": {}, "reject": {}}),
                json!({"queue": {}}),
                json!({"wait": {"timeout_ms": 0}}),
                json!({"wait": {"timeout_ms": 300_001}}),
                json!({"wait": {"retry_after_s": 0}}),
                json!({"reject": {"retry_after_s": 3601}}),
            ],
        ),
        each("on_mismatch", [json!({"status": 200}), json!({"status": 404})]),
        each("on_state_failure", [json!("pass"), json!("ignore")]),
        each(
            "outcomes",
            [
                json!({"retryable": [200]}),
                json!({"ambiguous": [409, 299]}),
                json!({"final": [199]}),
                json!({"final": [600]}),
                json!({"final": [409], "retryable": [503, 409]}),
                json!({"ambiguous": [500, 500]}),
            ],
        ),
        each("store", [json!({"no_store": "keep"}), json!({"set_cookie": 1})]),
        each("name", [json!("off"), json!(""), json!("a b"), json!("ä")]),
    ];
    insta::assert_snapshot!(errors.join("\n"), @r#"
rules[0].on_conflict: give exactly one of `reject` and `wait`
rules[0].on_conflict: invalid type: string "wait", expected struct OnConflict at line 1 column 238
rules[0].on_conflict: give exactly one of `reject` and `wait`
rules[0].on_conflict.queue: unknown field `queue`, expected `reject` or `wait` at line 1 column 240
rules[0].on_conflict.wait.timeout_ms: 0 is out of range; it must be from 1 to 300000
rules[0].on_conflict.wait.timeout_ms: 300001 is out of range; it must be from 1 to 300000
rules[0].on_conflict.wait.retry_after_s: 0 is out of range; it must be from 1 to 3600
rules[0].on_conflict.reject.retry_after_s: 3601 is out of range; it must be from 1 to 3600
rules[0].on_mismatch.status: 200 is not one of 422, 409 and 400
rules[0].on_mismatch.status: 404 is not one of 422, 409 and 400
rules[0].on_state_failure: `pass` lets requests through unguarded, which a required key forbids; say `reject`, or set key.required to false
rules[0].on_state_failure: unknown variant `ignore`, expected `reject` or `pass` at line 1 column 245
rules[0].outcomes.retryable[0]: 200 is out of range; it must be from 300 to 599
rules[0].outcomes.ambiguous[1]: 299 is out of range; it must be from 300 to 599
rules[0].outcomes.final[0]: 199 is out of range; it must be from 200 to 599
rules[0].outcomes.final[0]: 600 is out of range; it must be from 200 to 599
rules[0].outcomes.retryable[1]: 409 is there twice
rules[0].outcomes.ambiguous[1]: 500 is there twice
rules[0].store.no_store: unknown variant `keep`, expected `ignore` or `tombstone` at line 1 column 244
rules[0].store.set_cookie: invalid type: integer `1`, expected a boolean at line 1 column 241
rules[0].name: `off` is what routes without a rule say
rules[0].name: is empty
rules[0].name: must be printable ASCII without spaces
rules[0].name: must be printable ASCII without spaces
"#);
}

#[test]
fn bounds_and_names_of_the_whole() {
    let errors = [
        with("/limits", json!({"executions_max": 0})),
        with("/limits", json!({"bytes_max": 536_870_913})),
        with("/limits", json!({"waiters_max": 65_537})),
        with("/rules", json!([])),
        with("/secrets", json!(vec![json!({"id": "a", "env": "A"}); 9])),
        with("/secrets", json!([{"id": "a", "env": "A"}, {"id": "a", "env": "B"}])),
        with("/secrets", json!([{"id": "a", "env": ""}])),
        with("/state", json!({"cluster": "latchkey", "token_env": "A B"})),
        with("/namespace", json!("x".repeat(129))),
    ];
    insta::assert_snapshot!(errors.join("\n"), @r#"
limits.executions_max: 0 is out of range; it must be from 1 to 65536
limits.bytes_max: 536870913 is out of range; it must be from 1 to 536870912
limits.waiters_max: 65537 is out of range; it must be from 0 to 65536
rules: has 0 entries; it must have from 1 to 256
secrets: has 9 entries; it must have from 1 to 8
secrets[1].id: `a` is there twice
secrets[0].env: is empty
state.token_env: must be printable ASCII without spaces
namespace: has 129 bytes; at most 128 are allowed
"#);
}
