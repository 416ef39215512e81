//! Whatever is given as a configuration, it is read or refused, and a refusal says where.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{documented, read};
use crate::config::Config;

/// Any JSON, with names and texts that a configuration has.
fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        Just("off".to_owned()),
        Just("POST".to_owned()),
        Just("/payments".to_owned()),
        Just("attached".to_owned()),
        Just("/(".to_owned()),
        Just("*.".to_owned()),
        ".{0,12}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0u32..1000).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let name = prop_oneof![
            Just("rules".to_owned()),
            Just("match".to_owned()),
            Just("secrets".to_owned()),
            Just("wait".to_owned()),
            "[a-z_]{0,8}",
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((name, inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// Everything within a value, and the value itself.
fn pointers(value: &Value, pointer: &str, out: &mut Vec<String>) {
    out.push(pointer.to_owned());
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                pointers(value, &format!("{pointer}/{name}"), out);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                pointers(item, &format!("{pointer}/{at}"), out);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A refusal names a field that is there, or one that is missing from something that is there,
/// and what is wrong.
fn check(config: &Value) -> Result<(), TestCaseError> {
    if let Err(error) = Config::from_json(config.to_string().as_bytes()) {
        prop_assert!(!error.path.is_empty() && !error.reason.is_empty(), "{error:?}");
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        prop_assert!(Config::from_json(&bytes).is_err());
    }

    #[test]
    fn any_json_is_read_or_refused(value in any_json()) {
        check(&value)?;
    }

    #[test]
    fn a_part_of_a_configuration_may_be_anything(
        part in any::<proptest::sample::Index>(),
        value in any_json(),
        remove in any::<bool>(),
    ) {
        let mut config = documented();
        let mut all = Vec::new();
        pointers(&config, "", &mut all);
        let pointer = &all[part.index(all.len())];
        match (remove, pointer.rsplit_once('/')) {
            (true, Some((parent, name))) => {
                match config.pointer_mut(parent).unwrap() {
                    Value::Object(object) => drop(object.remove(name)),
                    Value::Array(items) => drop(items.remove(name.parse().unwrap())),
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                        panic!("{parent} has no parts")
                    }
                }
            }
            (_, _) => *config.pointer_mut(pointer).unwrap() = value,
        }
        check(&config)?;
    }

    /// A range that is left out would be a worker without bounds.
    #[test]
    fn what_was_read_is_within_its_bounds(lease_ms: u64, ttl_s: u64, timeout_ms: u32) {
        let mut config = documented();
        config["rules"][0]["lease_ms"] = json!(lease_ms);
        config["rules"][0]["ttl_s"] = json!(ttl_s);
        config["state"]["timeout_ms"] = json!(timeout_ms);
        if let Ok(config) = read(&config) {
            let terms = config.rules[0].terms;
            prop_assert!(terms.lease_us <= terms.ttl_us && terms.ttl_us <= terms.held_ttl_us);
            prop_assert!(terms.lease_us >= u64::from(config.state.timeout_ms) * 6_000);
        }
    }
}
