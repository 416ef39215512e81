//! The filter's configuration: read, checked, and in types that cannot hold nonsense.
//!
//! One schema for the filter and for whoever checks it beforehand. Unknown fields are errors,
//! every number has a range and a reason, and an error names the field's path. Secrets are not
//! in it: the configuration shows in Envoy's config dump, so it names environment variables.

mod raw;
mod validate;

use crate::key::KeySyntax;
use crate::record::Terms;

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
}

/// How the requests that match are guarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name in metrics and for operators.
    pub name: String,
    /// Which requests.
    pub matches: Match,
    /// How the key is read.
    pub key: KeyRule,
    /// How the client is named.
    pub client: Client,
    /// Headers, in lower case, that make a request the one it is, beside the usual parts.
    pub fingerprint_headers: Vec<String>,
    /// How the upstream is called.
    pub execute: Execute,
    /// What the record holds to.
    pub terms: Terms,
    /// What a duplicate of a running request is told to wait, in s.
    pub retry_after_s: u32,
    /// Larger requests are refused, in bytes.
    pub request_body_max_bytes: u32,
    /// The body of a larger response is not stored, in bytes.
    pub response_body_max_bytes: u32,
}

/// Which requests a rule guards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Exactly one of these methods.
    pub methods: Vec<String>,
    /// The path begins with this, as Envoy's `prefix`.
    pub path_prefix: String,
}

/// How a rule reads keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRule {
    /// The field, in lower case.
    pub header: String,
    /// Whether a request without a key is refused; it passes unguarded otherwise.
    pub required: bool,
    /// How strictly the key is read.
    pub syntax: KeySyntax,
    /// The longest key, in bytes.
    pub length_max: usize,
}

/// How a rule names clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Client {
    /// By a header that only an authentication filter can set, in lower case.
    Header {
        /// The header.
        name: String,
        /// Where it is missing.
        missing: MissingClient,
    },
    /// All are one client.
    Fixed(String),
}

/// What happens to a request whose client has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingClient {
    /// It is refused.
    Reject,
    /// It passes unguarded.
    Bypass,
}

/// How a rule calls the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execute {
    /// Where the call goes.
    pub to: ExecuteTo,
    /// For the whole answer, in ms.
    pub timeout_ms: u32,
}

/// Where a detached call goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecuteTo {
    /// To a cluster that leads to an internal listener with the remaining filters and routes.
    Cluster(String),
    /// To the cluster that the route chose: this filter is the last, and the route changes
    /// nothing.
    Direct,
}

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
            ConfigError { path: error.path().to_string(), reason: error.inner().to_string() }
        })?;
        reader
            .end()
            .map_err(|error| ConfigError { path: ".".to_owned(), reason: error.to_string() })?;
        validate::config(raw)
    }

    /// The rule that guards a request, and its index.
    #[must_use]
    pub fn rule_for(&self, method: &[u8], path: &[u8]) -> Option<(usize, &Rule)> {
        self.rules.iter().enumerate().find(|(_, rule)| rule.matches.matches(method, path))
    }
}

// === impl Match ===

impl Match {
    fn matches(&self, method: &[u8], path: &[u8]) -> bool {
        self.methods.iter().any(|it| it.as_bytes() == method)
            && path.starts_with(self.path_prefix.as_bytes())
    }
}

#[cfg(test)]
mod tests;
