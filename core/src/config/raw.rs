//! The configuration as it is written, with its defaults. Nothing here is checked but shape.

use serde::{Deserialize, Serialize};

use super::MissingClient;
use crate::key::KeySyntax;
use crate::record::OnAmbiguous;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    pub(super) namespace: String,
    pub(super) secrets: Vec<Secret>,
    pub(super) state: State,
    #[serde(default)]
    pub(super) limits: Limits,
    pub(super) rules: Vec<Rule>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Secret {
    pub(super) id: String,
    pub(super) env: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    pub(super) cluster: String,
    pub(super) token_env: Option<String>,
    #[serde(default = "State::timeout_ms")]
    pub(super) timeout_ms: u32,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Limits {
    pub(super) executions_max: u32,
    pub(super) bytes_max: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    pub(super) name: String,
    #[serde(rename = "match")]
    pub(super) matches: Match,
    #[serde(default)]
    pub(super) key: Key,
    pub(super) client: Client,
    #[serde(default)]
    pub(super) fingerprint: Fingerprint,
    pub(super) execute: Execute,
    #[serde(default = "Rule::lease_ms")]
    pub(super) lease_ms: u64,
    #[serde(default = "Rule::ttl_s")]
    pub(super) ttl_s: u64,
    #[serde(default = "Rule::held_ttl_s")]
    pub(super) held_ttl_s: u64,
    #[serde(default)]
    pub(super) on_conflict: OnConflict,
    pub(super) on_ambiguous: OnAmbiguous,
    #[serde(default)]
    pub(super) on_state_failure: OnStateFailure,
    #[serde(default = "Rule::request_body_max_bytes")]
    pub(super) request_body_max_bytes: u32,
    #[serde(default)]
    pub(super) store: Store,
    #[serde(default)]
    pub(super) retry: Retry,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Match {
    #[serde(default = "Match::methods")]
    pub(super) methods: Vec<String>,
    pub(super) path_prefix: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Key {
    pub(super) header: String,
    pub(super) required: bool,
    pub(super) syntax: KeySyntax,
    pub(super) length_max: usize,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Client {
    pub(super) header: Option<String>,
    pub(super) fixed: Option<String>,
    pub(super) missing: Option<MissingClient>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Fingerprint {
    pub(super) body: FingerprintBody,
    pub(super) headers: Vec<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FingerprintBody {
    #[default]
    Raw,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Execute {
    #[serde(default)]
    pub(super) mode: Mode,
    pub(super) cluster: Option<String>,
    #[serde(default)]
    pub(super) direct: bool,
    #[serde(default = "Execute::timeout_ms")]
    pub(super) timeout_ms: u32,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    #[default]
    Detached,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnConflict {
    Reject(Reject),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reject {
    pub(super) retry_after_s: u32,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnStateFailure {
    #[default]
    Reject,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Store {
    pub(super) response_body_max_bytes: u32,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Retry {
    pub(super) attempts_max: u32,
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
        Self { executions_max: 4096, bytes_max: 128 * 1024 * 1024 }
    }
}

impl Rule {
    /// Renewed every third of it; long enough that a pause of a few seconds loses nothing.
    fn lease_ms() -> u64 {
        15_000
    }

    /// A day: the mode of the providers.
    fn ttl_s() -> u64 {
        24 * 60 * 60
    }

    /// 30 days: a person has to look at it, and month's end comes before.
    fn held_ttl_s() -> u64 {
        30 * 24 * 60 * 60
    }

    /// Envoy's own default for what a listener buffers.
    fn request_body_max_bytes() -> u32 {
        1024 * 1024
    }
}

impl Match {
    /// The methods that HTTP does not call idempotent (RFC 9110 §9.2.2, draft §1).
    fn methods() -> Vec<String> {
        vec!["POST".to_owned(), "PATCH".to_owned()]
    }
}

impl Default for Key {
    /// 255 is the most common limit of the providers.
    fn default() -> Self {
        Self {
            header: "idempotency-key".to_owned(),
            required: true,
            syntax: KeySyntax::Lenient,
            length_max: 255,
        }
    }
}

impl Execute {
    /// Twice Envoy's route default: what runs is not the client's to wait for.
    fn timeout_ms() -> u32 {
        30_000
    }
}

impl Default for OnConflict {
    fn default() -> Self {
        Self::Reject(Reject { retry_after_s: 1 })
    }
}

impl Default for Store {
    fn default() -> Self {
        Self { response_body_max_bytes: 1024 * 1024 }
    }
}

impl Default for Retry {
    /// gRPC's cap.
    fn default() -> Self {
        Self { attempts_max: 5 }
    }
}
