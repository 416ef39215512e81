//! What is refused for its shape, wherever it is.

use serde_json::{Value, json};

use super::*;

/// Every object of the documentation's example, by its path as errors write it.
fn objects(value: &Value, path: &str, pointer: &str, out: &mut Vec<(String, String)>) {
    match value {
        Value::Object(object) => {
            out.push((path.to_owned(), pointer.to_owned()));
            for (name, value) in object {
                let dot = if path.is_empty() { "" } else { "." };
                objects(value, &format!("{path}{dot}{name}"), &format!("{pointer}/{name}"), out);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                objects(item, &format!("{path}[{at}]"), &format!("{pointer}/{at}"), out);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn a_field_that_there_is_not_is_refused_at_every_level() {
    let mut all = Vec::new();
    objects(&documented(), "", "", &mut all);
    assert!(all.len() > 25, "{} objects", all.len());
    for (path, pointer) in all {
        let mut config = documented();
        config.pointer_mut(&pointer).unwrap()["typo"] = json!(1);
        let error = Config::from_json(config.to_string().as_bytes()).unwrap_err();
        let dot = if path.is_empty() { "" } else { "." };
        assert_eq!(error.path, format!("{path}{dot}typo"));
        assert!(error.reason.contains("unknown field `typo`"), "{error}");
    }
}

#[test]
fn a_number_is_a_whole_number_and_nothing_else() {
    let mut numbers = Vec::new();
    numbers_of(&documented(), "", "", &mut numbers);
    assert!(numbers.len() > 15, "{} numbers", numbers.len());
    for (path, pointer) in numbers {
        for wrong in [json!(1.5), json!(-1), json!("1"), json!(true), json!([1]), json!(u64::MAX)] {
            let mut config = documented();
            *config.pointer_mut(&pointer).unwrap() = wrong.clone();
            let error = Config::from_json(config.to_string().as_bytes()).unwrap_err();
            assert_eq!(error.path, path, "{wrong}: {error}");
        }
    }
}

/// Every number of a configuration, by its path as errors write it.
fn numbers_of(value: &Value, path: &str, pointer: &str, out: &mut Vec<(String, String)>) {
    match value {
        Value::Number(_) => out.push((path.to_owned(), pointer.to_owned())),
        Value::Object(object) => {
            for (name, value) in object {
                let dot = if path.is_empty() { "" } else { "." };
                numbers_of(value, &format!("{path}{dot}{name}"), &format!("{pointer}/{name}"), out);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                numbers_of(item, &format!("{path}[{at}]"), &format!("{pointer}/{at}"), out);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}
