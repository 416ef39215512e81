//! What the configuration's schema says beyond its types, and the kinds of text in it.

#![expect(dead_code, reason = "the kinds of text are only described, never made")]

use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::bounds::{NAME_BYTES_MAX, PATH_BYTES_MAX, PATTERN_BYTES_MAX};
use super::{Config, raw};

/// Printable ASCII without spaces.
#[derive(JsonSchema)]
#[schemars(inline)]
pub(super) struct Name(
    #[schemars(length(min = 1, max = NAME_BYTES_MAX), regex(pattern = "^[!-~]+$"))] String,
);

/// The name of a header (RFC 9110 §5.1).
#[derive(JsonSchema)]
#[schemars(inline)]
pub(super) struct Header(
    #[schemars(
        length(min = 1, max = NAME_BYTES_MAX),
        regex(pattern = "^[0-9A-Za-z!#$%&'*+.^_`|~-]+$")
    )]
    String,
);

/// A method in capitals.
#[derive(JsonSchema)]
#[schemars(inline)]
pub(super) struct Method(
    #[schemars(
        regex(pattern = "^[A-Z-]+$"),
        extend("not" = { "enum": ["CONNECT", "OPTIONS", "TRACE"] })
    )]
    String,
);

/// A path without a query.
#[derive(JsonSchema)]
#[schemars(inline)]
pub(super) struct Path(
    #[schemars(length(max = PATH_BYTES_MAX), regex(pattern = "^/[^?#]*$"))] String,
);

/// A regular expression.
#[derive(JsonSchema)]
#[schemars(inline)]
pub(super) struct Pattern(#[schemars(length(min = 1, max = PATTERN_BYTES_MAX))] String);

/// Of a match: at most one of the paths.
pub(super) fn at_most_one_path() -> Value {
    let fields = ["path_prefix", "path_exact", "path_regex"];
    let one = fields.iter().map(|field| only(field, &fields));
    one.chain([json!({ "properties": absent(&fields) })]).collect()
}

/// Of a client: exactly one name.
pub(super) fn one_name() -> Value {
    let fields = ["header", "jwt_claim", "uri_san", "fixed"];
    fields.iter().map(|field| only(field, &fields)).collect()
}

/// Of a conflict: exactly one answer.
pub(super) fn one_answer() -> Value {
    let fields = ["reject", "wait"];
    fields.iter().map(|field| only(field, &fields)).collect()
}

/// Of an execution: one of the two ways of a detached one, or an attached one.
pub(super) fn one_way() -> Value {
    let mode = |mode| json!({ "properties": { "mode": { "const": mode } } });
    let ways = ["cluster", "direct"];
    let nowhere = absent(&["cluster", "direct", "timeout_ms"]);
    json!([
        { "allOf": [mode("detached"), only("cluster", &ways)] },
        { "allOf": [mode("detached"), only("direct", &ways)] },
        { "allOf": [mode("attached"), { "required": ["mode"], "properties": nowhere }] },
    ])
}

/// `field` is there and the other `fields` are not.
fn only(field: &str, fields: &[&str]) -> Value {
    let others: Vec<_> = fields.iter().copied().filter(|it| *it != field).collect();
    let mut properties = absent(&others);
    properties.insert(field.to_owned(), json!({ "not": nothing() }));
    json!({ "required": [field], "properties": properties })
}

/// None of `fields` is there, or it says as much.
fn absent(fields: &[&str]) -> Map<String, Value> {
    fields.iter().map(|field| ((*field).to_owned(), nothing())).collect()
}

fn nothing() -> Value {
    json!({ "enum": [null, false] })
}

// === impl Config ===

impl Config {
    /// The JSON Schema (draft 2020-12) of what [`Config::from_json`] reads. It allows whatever
    /// that takes, and also some of what that refuses: what fields must be to each other.
    #[must_use]
    pub fn json_schema() -> Value {
        schemars::schema_for!(raw::Config).to_value()
    }
}
