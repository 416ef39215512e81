//! What a configuration may say, and what is said of one that may not.

mod properties;
mod refusals;
mod rules;
mod shape;

use serde_json::{Value, json};

use super::*;
use crate::classify::Statuses;
use crate::fingerprint::Recipe;
use crate::key::KeySyntax;

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

/// What is read where the field at `pointer` is `value` instead.
fn changed(pointer: &str, value: Value) -> Result<Config, String> {
    let mut config = example();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let parent = config.pointer_mut(parent).unwrap();
    parent.as_object_mut().unwrap().insert(field.to_owned(), value);
    read(&config)
}

/// The example of the documentation.
fn documented() -> Value {
    let docs = include_str!("../../../docs/configuration.md");
    let filter = docs.split_once("## The filter").unwrap().1;
    let example = filter.split_once("```json\n").unwrap().1.split_once("```").unwrap().0;
    serde_json::from_str(example).unwrap()
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
    assert_eq!(rule.key.headers, ["idempotency-key"]);
    assert_eq!((rule.key.syntax, rule.key.upstream), (KeySyntax::Lenient, UpstreamKey::Derived));
    assert_eq!(rule.fingerprints, [Recipe::default()]);
    let to = ExecuteTo::Cluster("latchkey_execute".to_owned());
    assert_eq!(rule.execute, Execute::Detached { to, timeout_ms: 30_000 });
    assert_eq!(rule.on_conflict, OnConflict { wait_ms: 0, retry_after_s: 1 });
    assert_eq!((rule.mismatch_status, rule.on_state_failure), (422, OnStateFailure::Reject));
    assert_eq!(rule.statuses, Statuses::default());
    assert_eq!((rule.store.set_cookie, rule.store.no_store), (false, NoStore::Ignore));
    assert_eq!(config.state.timeout_ms, 500);
    let Limits { executions_max, bytes_max, waiters_max } = config.limits;
    assert_eq!((executions_max, bytes_max, waiters_max), (4096, 134_217_728, 1024));
}

#[test]
fn a_schema_may_be_named_for_editors() {
    assert_eq!(changed("/$schema", json!("filter.schema.json")), read(&example()));
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

#[test]
fn what_is_no_json_is_wrong_as_a_whole() {
    for text in ["", "rules:", "{", "{rules", "[]"] {
        let error = Config::from_json(text.as_bytes()).unwrap_err();
        assert_eq!(error.path, ".", "{text}: {error}");
    }
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
    let example = documented();
    read(&example).unwrap();
    let mut there = std::collections::BTreeSet::new();
    fields(&example, "", &mut there);
    let docs =
        include_str!("../../../docs/configuration.md").split_once("## The filter").unwrap().1;
    let documented: std::collections::BTreeSet<String> = docs
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(field, _)| field.to_owned())
        .collect();
    assert_eq!(documented, there);
}
