//! The configuration as it is written, with its defaults. Nothing here is checked but shape.
//!
//! What a field means is said here: the published schema takes its descriptions from these
//! comments.

mod rule;

use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::{bounds::*, schema::Name};
#[cfg(feature = "schema")]
use crate::wire::CANDIDATES_MAX;

pub(super) use rule::{
    Client, Execute, Fingerprint, Key, Match, Mode, OnConflict, Outcomes, Recipe, Rule, Store,
};

/// The configuration of Latchkey's filter.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(title = "Latchkey's filter"))]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// Where this schema is, for editors. The filter does not look at it.
    #[serde(rename = "$schema", default, skip_serializing)]
    #[expect(dead_code, reason = "read by editors")]
    pub(super) schema: Option<String>,
    /// Part of every key's identity: deployments that share a store do not share keys.
    #[cfg_attr(feature = "schema", schemars(with = "Name"))]
    pub(super) namespace: String,
    /// The deployment's secrets. The first is used for new keys; the others only to recognise
    /// keys that were made with them. 1 to 8.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = CANDIDATES_MAX)))]
    pub(super) secrets: Vec<Secret>,
    /// How the state is reached.
    pub(super) state: State,
    /// Bounds for each worker.
    #[serde(default)]
    pub(super) limits: Limits,
    /// The first rule that matches a request holds. 1 to 256.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = RULES_MAX)))]
    pub(super) rules: Vec<Rule>,
}

/// A secret, by the variable that holds it.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Secret {
    /// Its public name, kept beside every fingerprint.
    #[cfg_attr(feature = "schema", schemars(with = "Name"))]
    pub(super) id: String,
    /// The environment variable, handed to the VM, that holds it. At least 16 bytes.
    #[cfg_attr(feature = "schema", schemars(with = "Name"))]
    pub(super) env: String,
}

/// How the state is reached.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    /// Envoy's cluster of `latchkey` servers.
    #[cfg_attr(feature = "schema", schemars(with = "Name"))]
    pub(super) cluster: String,
    /// The environment variable with the token that the server asks for.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Name>"))]
    pub(super) token_env: Option<String>,
    /// For one call, in ms, 10 to 3,000. A client waits for at most three.
    #[serde(default = "State::timeout_ms")]
    #[cfg_attr(feature = "schema", schemars(range(min = STATE_TIMEOUT_MIN_MS, max = STATE_TIMEOUT_MAX_MS)))]
    pub(super) timeout_ms: u32,
}

/// Bounds for each worker.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(super) struct Limits {
    /// Requests claimed, executed or settled at once, 1 to 65,536.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = EXECUTIONS_MAX)))]
    pub(super) executions_max: u32,
    /// Bodies held at once, in bytes, up to 512 MiB.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = BYTES_MAX)))]
    pub(super) bytes_max: u64,
    /// Duplicates that wait for an outcome at once, 0 to 65,536.
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = WAITERS_MAX)))]
    pub(super) waiters_max: u32,
}

// === defaults ===

impl State {
    /// A healthy store answers in a few ms; a client waits for this at most three times.
    fn timeout_ms() -> u32 {
        500
    }
}

impl Default for Limits {
    /// A worker of a busy gateway: some thousand slow payments, and an eighth of the memory
    /// that Envoy's VM may have.
    fn default() -> Self {
        Self { executions_max: 4096, bytes_max: 128 * 1024 * 1024, waiters_max: 1024 }
    }
}
