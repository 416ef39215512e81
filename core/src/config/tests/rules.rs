//! What a rule says, in the types that the filter works with.

use serde_json::{Value, json};

use super::*;
use crate::fingerprint::BodyMode;

/// The only rule of what is read where its `field` is `value` instead.
fn rule(field: &str, value: Value) -> Rule {
    changed(&format!("/rules/0/{field}"), value).unwrap().rules.remove(0)
}

#[test]
fn methods_are_those_that_http_does_not_call_idempotent() {
    assert_eq!(rule("match", json!({"path_exact": "/x"})).matches.methods, ["POST", "PATCH"]);
}

#[test]
fn a_rule_without_a_path_is_found_by_its_name_alone() {
    for matches in [json!({}), json!({"methods": ["PUT"]})] {
        let config = changed("/rules/0/match", matches).unwrap();
        assert_eq!(config.rules[0].matches.path, None);
        for method in [b"POST".as_slice(), b"PUT"] {
            assert!(config.rule_for(method, b"api.example", b"/payments").is_none());
        }
        assert_eq!(config.rule_named(b"payments").map(|(at, _)| at), Some(0));
        assert!(config.rule_named(b"Payments").is_none());
    }
    let mut config = example();
    config["rules"][0].as_object_mut().unwrap().remove("match");
    assert_eq!(read(&config).unwrap().rules[0].matches.path, None);
}

#[test]
fn hosts_paths_and_methods_decide_together() {
    let matches = json!({"methods": ["PUT"], "hosts": ["*.Example"], "path_regex": "/p/[0-9]+"});
    let config = changed("/rules/0/match", matches).unwrap();
    let guarded = |method: &str, host: &str, path: &str| {
        config.rule_for(method.as_bytes(), host.as_bytes(), path.as_bytes()).is_some()
    };
    assert!(guarded("PUT", "api.example:443", "/p/1?x"));
    assert!(!guarded("POST", "api.example", "/p/1"));
    assert!(!guarded("PUT", "example", "/p/1"));
    assert!(!guarded("PUT", "api.example", "/p/x"));
}

#[test]
fn the_fields_of_a_key_are_in_lower_case_and_the_preferred_one_first() {
    let key = json!({"header": "Request-Id", "also": ["X-Key"], "upstream": "client"});
    let key = rule("key", key).key;
    assert_eq!(key.headers, ["request-id", "x-key"]);
    assert_eq!(key.upstream, UpstreamKey::Client);
}

#[test]
fn a_client_is_named_in_one_of_four_ways() {
    let named = |client: Value| rule("client", client).client;
    let claim = |payload: &str| {
        let claim = "sub".to_owned();
        ClientName::JwtClaim { payload: payload.to_owned(), claim }
    };
    assert_eq!(named(json!({"jwt_claim": "sub"})).name, claim("jwt_payload"));
    assert_eq!(named(json!({"jwt_claim": "sub", "jwt_payload": "p"})).name, claim("p"));
    assert_eq!(named(json!({"uri_san": true})).name, ClientName::UriSan);
    assert_eq!(named(json!({"fixed": "a"})).name, ClientName::Fixed("a".to_owned()));
    for (written, missing) in [
        ("reject", MissingClient::Reject),
        ("anonymous", MissingClient::Anonymous),
        ("bypass", MissingClient::Bypass),
    ] {
        assert_eq!(named(json!({"uri_san": true, "missing": written})).missing, missing);
    }
}

#[test]
fn fingerprints_are_the_present_one_and_then_those_before() {
    let fingerprint = json!({
        "body": "json",
        "headers": ["X-Version"],
        "previous": [{"query_exclude": ["Sig"]}, {}]
    });
    let present = Recipe {
        body: BodyMode::Json,
        headers: vec!["x-version".to_owned()],
        query_exclude: Vec::new(),
    };
    let before = Recipe { query_exclude: vec!["Sig".to_owned()], ..Recipe::default() };
    assert_eq!(rule("fingerprint", fingerprint).fingerprints, [present, before, Recipe::default()]);
}

#[test]
fn eight_fingerprints_and_secrets_together_are_recognised_and_no_more() {
    let mut config = example();
    config["secrets"] = json!([{"id": "1", "env": "A"}, {"id": "2", "env": "B"}]);
    config["rules"][0]["fingerprint"] = json!({"previous": [{}, {}, {}]});
    assert_eq!(read(&config).unwrap().rules[0].fingerprints.len(), 4);
    config["rules"][0]["fingerprint"] = json!({"previous": [{}, {}, {}, {}]});
    assert_eq!(
        read(&config).unwrap_err(),
        "rules[0].fingerprint.previous: 10 fingerprints, 5 for each secret; at most 8 are \
         recognised at once, so take away what no key within retention was made with"
    );
}

#[test]
fn execution_is_detached_unless_it_is_said_to_be_attached() {
    let execute = |value| rule("execute", value).execute;
    let to = ExecuteTo::Direct;
    assert_eq!(execute(json!({"direct": true})), Execute::Detached { to, timeout_ms: 30_000 });
    assert_eq!(execute(json!({"mode": "attached"})), Execute::Attached);
}

#[test]
fn a_duplicate_is_refused_at_once_or_waits() {
    let on_conflict = |value| {
        let OnConflict { wait_ms, retry_after_s } = rule("on_conflict", value).on_conflict;
        (wait_ms, retry_after_s)
    };
    assert_eq!(on_conflict(json!({"reject": {}})), (0, 1));
    assert_eq!(on_conflict(json!({"reject": {"retry_after_s": 7}})), (0, 7));
    assert_eq!(on_conflict(json!({"wait": {}})), (10_000, 1));
    assert_eq!(on_conflict(json!({"wait": {"timeout_ms": 5, "retry_after_s": 7}})), (5, 7));
}

#[test]
fn a_mismatch_may_be_told_as_providers_do() {
    for status in [422, 409, 400] {
        assert_eq!(rule("on_mismatch", json!({"status": status})).mismatch_status, status);
    }
}

#[test]
fn statuses_may_mean_something_else() {
    let outcomes = json!({"final": [200, 503], "retryable": [300, 409], "ambiguous": [599]});
    let Statuses { finals, retryable, ambiguous } = rule("outcomes", outcomes).statuses;
    assert_eq!((finals, retryable, ambiguous), (vec![200, 503], vec![300, 409], vec![599]));
}

#[test]
fn requests_pass_without_the_state_only_where_keys_are_optional() {
    let mut config = example();
    config["rules"][0]["on_state_failure"] = json!("pass");
    assert!(read(&config).is_err());
    config["rules"][0]["key"] = json!({"required": false});
    assert!(read(&config).unwrap().rules[0].passes_without_state());
}
