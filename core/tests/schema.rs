//! The published schema is made from the configuration's types: this test makes it again and
//! compares. `LATCHKEY_UPDATE=1 cargo test -p latchkey-core --test schema` writes what it made.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

use latchkey_core::config::Config;
use serde_json::Value;

/// A field that holds no others: its path, and what the schema says of it.
#[derive(Debug)]
struct Leaf {
    path: String,
    schema: Value,
}

/// The schema that `schema` means: a reference is followed, and "or null" left out.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    if let Some(name) = schema["$ref"].as_str() {
        return resolved(root, root.pointer(&name[1..]).unwrap());
    }
    let either = schema["anyOf"].as_array().into_iter().flatten();
    match either.into_iter().find(|it| it["type"] != "null") {
        Some(it) => resolved(root, it),
        None => schema,
    }
}

/// All fields of `schema` that hold no others, with `[]` for the items of arrays.
fn leaves(root: &Value, schema: &Value, path: &str, out: &mut Vec<Leaf>) {
    let target = resolved(root, schema);
    let before = out.len();
    for (name, field) in target["properties"].as_object().into_iter().flatten() {
        let dot = if path.is_empty() { "" } else { "." };
        leaves(root, field, &format!("{path}{dot}{name}"), out);
    }
    let items = &target["items"];
    if items.is_object() && resolved(root, items)["type"] == "object" {
        leaves(root, items, &format!("{path}[]"), out);
    }
    if out.len() == before {
        out.push(Leaf { path: path.to_owned(), schema: target.clone() });
    }
}

fn all_leaves() -> Vec<Leaf> {
    let schema = Config::json_schema();
    let mut out = Vec::new();
    leaves(&schema, &schema, "", &mut out);
    out
}

/// The documentation of the filter's configuration.
fn filter_docs() -> &'static str {
    include_str!("../../docs/configuration.md").split_once("## The filter").unwrap().1
}

fn example() -> Value {
    let example = filter_docs().split_once("```json\n").unwrap().1.split_once("```").unwrap().0;
    serde_json::from_str(example).unwrap()
}

/// The values at `path`, in which `[]` is each item of an array.
fn at<'a>(value: &'a mut Value, path: &str) -> Vec<&'a mut Value> {
    let mut found = vec![value];
    for part in path.split('.') {
        let (name, is_array) = part.strip_suffix("[]").map_or((part, false), |name| (name, true));
        found = found.into_iter().filter_map(|it| it.get_mut(name)).collect();
        if is_array {
            found = found.into_iter().flat_map(|it| it.as_array_mut().unwrap()).collect();
        }
    }
    found
}

#[test]
fn the_published_schema_is_that_of_the_types() {
    let mut made = serde_json::to_string_pretty(&Config::json_schema()).unwrap();
    made.push('\n');
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/filter.schema.json");
    if env::var_os("LATCHKEY_UPDATE").is_some() {
        fs::write(&published, &made).unwrap();
    }
    assert!(
        fs::read_to_string(&published).unwrap_or_default() == made,
        "{} is not what the types say: run this test with LATCHKEY_UPDATE=1",
        published.display()
    );
}

#[test]
fn the_documentation_names_every_field_of_the_schema() {
    let fields: BTreeSet<String> = all_leaves().into_iter().map(|leaf| leaf.path).collect();
    let documented: BTreeSet<String> = filter_docs()
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(field, _)| field.to_owned())
        .collect();
    assert_eq!(documented, fields);
}

#[test]
fn every_object_of_the_schema_is_closed_and_every_field_described() {
    let schema = Config::json_schema();
    let definitions = schema["$defs"].as_object().unwrap();
    for (name, object) in definitions.iter().chain([(&"the root".to_owned(), &schema)]) {
        assert!(object["description"].is_string(), "{name}");
        let Some(fields) = object["properties"].as_object() else { continue };
        assert_eq!(object["additionalProperties"], false, "{name}");
        for (field, schema) in fields {
            assert!(schema["description"].is_string(), "{name}.{field}");
        }
    }
}

/// Whether the filter refuses the documentation's example with `value` at `path` as out of range.
fn out_of_range(path: &str, value: i64, array: bool) -> bool {
    let mut config = example();
    let there = at(&mut config, path);
    assert!(!there.is_empty(), "{path} is not in the example");
    for it in there {
        *it = if array { Value::from(vec![value]) } else { value.into() };
    }
    match Config::from_json(config.to_string().as_bytes()) {
        Ok(_) => false,
        Err(error) => {
            error.reason.contains("out of range")
                || error.reason.starts_with("invalid value: integer")
        }
    }
}

#[test]
fn the_schema_and_the_filter_have_the_same_ranges() {
    let mut numbers = 0;
    for Leaf { path, schema } in all_leaves() {
        let array = schema["type"] == "array";
        let number = if array { &schema["items"] } else { &schema };
        let integer = number["type"] == "integer" || number["type"][0] == "integer";
        if !integer || number["enum"].is_array() {
            continue;
        }
        numbers += 1;
        let bound = |name: &str| {
            number[name].as_i64().unwrap_or_else(|| panic!("{path} has no {name}: {number}"))
        };
        let (min, max) = (bound("minimum"), bound("maximum"));
        for (value, refused) in [(min - 1, true), (min, false), (max, false), (max + 1, true)] {
            assert_eq!(out_of_range(&path, value, array), refused, "{path}: {value}");
        }
    }
    assert!(numbers > 15, "{numbers} numbers were tried");
}
