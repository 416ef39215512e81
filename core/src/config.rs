//! The filter's configuration: read, checked, and in types that cannot hold nonsense.
//!
//! One schema for the filter and for whoever checks it beforehand. Unknown fields are errors,
//! every number has a range and a reason, and an error names the field's path. Secrets are not
//! in it: the configuration shows in Envoy's config dump, so it names environment variables.

mod bounds;
mod matching;
mod raw;
mod rule;
#[cfg(feature = "schema")]
mod schema;
mod validate;

pub use matching::{Host, Match, PathMatch, PathRegex};
pub use rule::{
    ClientName, ClientRule, Execute, ExecuteTo, KeyRule, MissingClient, NoStore, OnConflict,
    OnStateFailure, Rule, StoreRule, UpstreamKey,
};

/// What a route's metadata say to have no rule: `{"latchkey": {"rule": "off"}}`.
pub const NO_RULE: &str = "off";

/// A configuration that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Part of every identity: deployments that share a store do not share keys.
    pub namespace: String,
    /// The preferred secret first.
    pub secrets: Vec<SecretRef>,
    /// How the state is reached.
    pub state: StateEndpoint,
    /// Bounds per worker.
    pub limits: Limits,
    /// The first that matches holds.
    pub rules: Vec<Rule>,
}

/// Where a secret is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretRef {
    /// Its public name, kept beside every fingerprint.
    pub id: String,
    /// The environment variable, handed to the VM, that holds it.
    pub env: String,
}

/// How the state is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateEndpoint {
    /// Envoy's cluster of `latchkey` servers.
    pub cluster: String,
    /// The environment variable that holds the bearer token, if one is needed.
    pub token_env: Option<String>,
    /// For one call, in ms.
    pub timeout_ms: u32,
}

/// Bounds per worker. A detached execution has no connection that Envoy's own limits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests that are claimed, executed or settled at one time.
    pub executions_max: u32,
    /// Bodies held at one time, in bytes.
    pub bytes_max: u64,
    /// Duplicates that wait for an outcome at one time.
    pub waiters_max: u32,
}

/// The path of what is wrong with no field in particular.
const WHOLE: &str = ".";

/// The path that `serde_path_to_error` gives where the text is no JSON from its beginning.
const UNKNOWN: &str = "?";

/// What is wrong with a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct ConfigError {
    /// The field, as `rules[0].lease_ms`; `.` for the whole.
    pub path: String,
    /// What is wrong, and what would be right.
    pub reason: String,
}

// === impl Config ===

impl Config {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn from_json(json: &[u8]) -> Result<Self, ConfigError> {
        let mut reader = serde_json::Deserializer::from_slice(json);
        let raw: raw::Config = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let known = |path: &String| !matches!(path.as_str(), "" | UNKNOWN);
            let path = Some(error.path().to_string()).filter(known);
            let path = path.unwrap_or_else(|| WHOLE.to_owned());
            ConfigError { path, reason: error.inner().to_string() }
        })?;
        reader
            .end()
            .map_err(|error| ConfigError { path: WHOLE.to_owned(), reason: error.to_string() })?;
        validate::config(raw)
    }

    /// The rule that guards a request by `:method`, `:authority` and `:path`, and its index.
    #[must_use]
    pub fn rule_for(&self, method: &[u8], authority: &[u8], path: &[u8]) -> Option<(usize, &Rule)> {
        let mut rules = self.rules.iter().enumerate();
        rules.find(|(_, rule)| rule.matches.matches(method, authority, path))
    }

    /// The rule of this name, and its index.
    #[must_use]
    pub fn rule_named(&self, name: &[u8]) -> Option<(usize, &Rule)> {
        self.rules.iter().enumerate().find(|(_, rule)| rule.name.as_bytes() == name)
    }
}

#[cfg(test)]
mod tests;
