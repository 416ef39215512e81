use serde_json::{Value, json};

use super::*;

fn example() -> Value {
    json!({
        "namespace": "prod",
        "secrets": [{"id": "2026-12", "env": "LATCHKEY_SECRET"}],
        "state": {"cluster": "latchkey"},
        "rules": [{
            "name": "payments",
            "match": {"methods": ["POST"], "path_prefix": "/payments"},
            "client": {"header": "X-Client-Id"},
            "execute": {"mode": "detached", "cluster": "latchkey_execute"},
            "on_ambiguous": "hold"
        }]
    })
}

fn read(value: &Value) -> Result<Config, String> {
    Config::from_json(value.to_string().as_bytes()).map_err(|error| error.to_string())
}

/// The error where the field at `pointer` is `value` instead.
fn with(pointer: &str, value: Value) -> String {
    let mut config = example();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let parent = config.pointer_mut(parent).unwrap();
    parent.as_object_mut().unwrap().insert(field.to_owned(), value);
    read(&config).unwrap_err()
}

#[test]
fn the_least_configuration_has_defaults_for_the_rest() {
    let config = read(&example()).unwrap();
    let rule = &config.rules[0];
    assert_eq!(
        rule.client,
        ClientRule {
            name: ClientName::Header("x-client-id".to_owned()),
            missing: MissingClient::Reject,
        }
    );
    assert_eq!((rule.terms.lease_us, rule.terms.ttl_us), (15_000_000, 86_400_000_000));
    assert_eq!((rule.key.length_max, rule.key.required), (255, true));
    assert_eq!(config.state.timeout_ms, 500);
}

#[test]
fn the_first_rule_that_matches_holds_by_method_and_prefix() {
    let config = read(&example()).unwrap();
    assert!(config.rule_for(b"POST", b"", b"/payments/1?x").is_some());
    assert!(config.rule_for(b"GET", b"", b"/payments").is_none());
    assert!(config.rule_for(b"POST", b"", b"/payment").is_none());
    assert!(config.rule_for(b"post", b"", b"/payments").is_none());
}

#[test]
fn on_ambiguous_has_no_default() {
    let mut config = example();
    config["rules"][0].as_object_mut().unwrap().remove("on_ambiguous");
    assert!(read(&config).unwrap_err().starts_with("rules[0]: missing field `on_ambiguous`"));
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
fn names_are_not_given_twice() {
    let mut config = example();
    let rule = config["rules"][0].clone();
    config["rules"].as_array_mut().unwrap().push(rule);
    assert_eq!(read(&config).unwrap_err(), "rules[1].name: `payments` is there twice");
}

#[test]
fn what_follows_the_configuration_is_an_error() {
    assert!(Config::from_json(format!("{} x", example()).as_bytes()).is_err());
}

/// The paths of all fields of a configuration, indices left out.
fn fields(value: &Value, path: &str, out: &mut std::collections::BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                let dot = if path.is_empty() { "" } else { "." };
                fields(value, &format!("{path}{dot}{name}"), out);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for item in items {
                fields(item, &format!("{path}[]"), out);
            }
        }
        Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.insert(path.to_owned());
        }
    }
}

#[test]
fn the_documentation_names_every_field_and_its_example_is_valid() {
    let docs = include_str!("../../../docs/configuration.md");
    let filter = docs.split_once("## The filter").unwrap().1;
    let example = filter.split_once("```json\n").unwrap().1.split_once("```").unwrap().0;
    Config::from_json(example.as_bytes()).unwrap();
    let raw: raw::Config = serde_json::from_str(example).unwrap();
    let mut there = std::collections::BTreeSet::new();
    fields(&serde_json::to_value(raw).unwrap(), "", &mut there);
    let documented: std::collections::BTreeSet<String> = filter
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(field, _)| field.to_owned())
        .collect();
    assert_eq!(documented, there);
}
