//! A rule as it is written.

use serde::{Deserialize, Serialize};

use crate::config::{MissingClient, NoStore, OnStateFailure, UpstreamKey};
#[cfg(feature = "schema")]
use crate::config::{NO_RULE, bounds::*, schema::*};
use crate::fingerprint::BodyMode;
#[cfg(feature = "schema")]
use crate::key::KEY_LENGTH_MAX_BYTES;
use crate::key::KeySyntax;
use crate::record::OnAmbiguous;
#[cfg(feature = "schema")]
use crate::wire::CANDIDATES_MAX;

/// How the requests that match are guarded.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Rule {
    /// Its name: for operators, and for routes that name it in their metadata.
    #[cfg_attr(feature = "schema", schemars(with = "Name", extend("not" = { "const": NO_RULE })))]
    pub(in crate::config) name: String,
    /// Which requests it guards.
    #[serde(rename = "match", default)]
    pub(in crate::config) matches: Match,
    /// How the key is read.
    #[serde(default)]
    pub(in crate::config) key: Key,
    /// Whose keys they are.
    pub(in crate::config) client: Client,
    /// What makes a request the one it is.
    #[serde(default)]
    pub(in crate::config) fingerprint: Fingerprint,
    /// How the upstream is called.
    pub(in crate::config) execute: Execute,
    /// How long an execution counts without a renewal, in ms, 4,000 to 3,600,000, and at least
    /// six times `state.timeout_ms`.
    #[serde(default = "Rule::lease_ms")]
    #[cfg_attr(feature = "schema", schemars(range(min = LEASE_MIN_MS, max = LEASE_MAX_MS)))]
    pub(in crate::config) lease_ms: u64,
    /// How long an outcome is kept, in s, up to 90 days.
    #[serde(default = "Rule::ttl_s")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = TTL_MAX_S)))]
    pub(in crate::config) ttl_s: u64,
    /// How long a key whose outcome is unknown is kept, in s, at least `ttl_s`, up to 90 days.
    #[serde(default = "Rule::held_ttl_s")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = TTL_MAX_S)))]
    pub(in crate::config) held_ttl_s: u64,
    /// What a duplicate of a running request gets.
    #[serde(default)]
    pub(in crate::config) on_conflict: OnConflict,
    /// What a key that belongs to another request gets.
    #[serde(default)]
    pub(in crate::config) on_mismatch: OnMismatch,
    /// Whether a request whose outcome is unknown may be executed again.
    pub(in crate::config) on_ambiguous: OnAmbiguous,
    /// What happens when the state cannot be asked. `pass` only where keys are optional.
    #[serde(default)]
    pub(in crate::config) on_state_failure: OnStateFailure,
    /// Statuses that do not mean what they usually do.
    #[serde(default)]
    pub(in crate::config) outcomes: Outcomes,
    /// Larger requests are refused, in bytes, up to 32 MiB.
    #[serde(default = "Rule::request_body_max_bytes")]
    #[cfg_attr(feature = "schema", schemars(range(max = REQUEST_BODY_MAX_BYTES)))]
    pub(in crate::config) request_body_max_bytes: u32,
    /// What is kept of an answer.
    #[serde(default)]
    pub(in crate::config) store: Store,
    /// How often a key is tried.
    #[serde(default)]
    pub(in crate::config) retry: Retry,
}

/// Which requests a rule guards: those that every field agrees to. Without a path, only those of
/// routes that name the rule in their metadata.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("oneOf" = at_most_one_path())))]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Match {
    /// In capitals.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Method>", length(min = 1, max = METHODS_MAX)))]
    pub(in crate::config) methods: Vec<String>,
    /// `api.example`, or `*.example` for all below it; without a port. All where there are none.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Name>", length(max = HOSTS_MAX)))]
    pub(in crate::config) hosts: Vec<String>,
    /// The path begins with it, as in Envoy's `prefix`: `/payments` also matches
    /// `/payments-old`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Path>"))]
    pub(in crate::config) path_prefix: Option<String>,
    /// The path is it, as in Envoy's `path`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Path>"))]
    pub(in crate::config) path_exact: Option<String>,
    /// The whole path fits it, as in Envoy's `safe_regex`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Pattern>"))]
    pub(in crate::config) path_regex: Option<String>,
}

/// How the key is read.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Key {
    /// The field that holds the key.
    #[cfg_attr(feature = "schema", schemars(with = "Header"))]
    pub(in crate::config) header: String,
    /// Other fields that may hold it instead. A request has one line of one of them.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Header>", length(max = HEADERS_MAX)))]
    pub(in crate::config) also: Vec<String>,
    /// Whether a request without a key is refused, or passes unguarded.
    pub(in crate::config) required: bool,
    /// Whether a bare key is one too.
    pub(in crate::config) syntax: KeySyntax,
    /// In bytes, without quotes, 1 to 1024.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = KEY_LENGTH_MAX_BYTES)))]
    pub(in crate::config) length_max: usize,
    /// Which key the upstream gets.
    pub(in crate::config) upstream: UpstreamKey,
}

/// Whose keys they are: exactly one of `header`, `jwt_claim`, `uri_san` and `fixed`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("oneOf" = one_name())))]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Client {
    /// A header that only an authentication filter can set.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Header>"))]
    pub(in crate::config) header: Option<String>,
    /// A claim, a string, of the token that Envoy's `jwt_authn` has verified.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Name>"))]
    pub(in crate::config) jwt_claim: Option<String>,
    /// The `payload_in_metadata` of the provider in `jwt_authn`; by default `jwt_payload`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Name>"))]
    pub(in crate::config) jwt_payload: Option<String>,
    /// True: the first URI among the subject alternative names of the client's certificate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::config) uri_san: bool,
    /// All are one client, of this name.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Name>"))]
    pub(in crate::config) fixed: Option<String>,
    /// What happens to a request without a name.
    pub(in crate::config) missing: Option<MissingClient>,
}

/// What makes a request the one it is, beside method, authority, path, query, content type and
/// content encoding.
#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Fingerprint {
    /// How the body is compared.
    pub(in crate::config) body: BodyMode,
    /// Headers that count.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Header>", length(max = HEADERS_MAX)))]
    pub(in crate::config) headers: Vec<String>,
    /// Parameters of the query that do not count.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Name>", length(max = HEADERS_MAX)))]
    pub(in crate::config) query_exclude: Vec<String>,
    /// What this rule's fingerprint was before, for keys that were made then.
    #[cfg_attr(feature = "schema", schemars(length(max = CANDIDATES_MAX - 1)))]
    pub(in crate::config) previous: Vec<Recipe>,
}

/// What a fingerprint was before.
#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Recipe {
    /// As `body` above.
    pub(in crate::config) body: BodyMode,
    /// As `headers` above.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Header>", length(max = HEADERS_MAX)))]
    pub(in crate::config) headers: Vec<String>,
    /// As `query_exclude` above.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Name>", length(max = HEADERS_MAX)))]
    pub(in crate::config) query_exclude: Vec<String>,
}

/// How the upstream is called. Detached: exactly one of `cluster` and `direct`. Attached:
/// nothing more.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("oneOf" = one_way())))]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Execute {
    /// Whether the execution outlives the client's connection.
    #[serde(default)]
    pub(in crate::config) mode: Mode,
    /// A cluster that leads to an internal listener with the remaining filters and routes.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Name>"))]
    pub(in crate::config) cluster: Option<String>,
    /// The call goes to the cluster that the route chose. Only where this filter is the last and
    /// the route changes nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::config) direct: bool,
    /// For the whole answer, in ms, up to an hour. By default 30,000.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = EXECUTE_TIMEOUT_MAX_MS)))]
    pub(in crate::config) timeout_ms: Option<u32>,
}

/// Whose call it is.
#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum Mode {
    /// The gateway's: it outlives the client's connection.
    #[default]
    Detached,
    /// The client's, through Envoy's router, as without a filter.
    Attached,
}

/// What a duplicate of a running request gets: exactly one of `reject` and `wait`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("oneOf" = one_answer())))]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct OnConflict {
    /// 409 at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) reject: Option<Reject>,
    /// The outcome, or 409 where it comes too late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::config) wait: Option<Wait>,
}

/// A duplicate is refused.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Reject {
    /// Its `Retry-After`, in s, 1 to 3,600.
    #[serde(default = "Reject::retry_after_s")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = RETRY_AFTER_MAX_S)))]
    pub(in crate::config) retry_after_s: u32,
}

/// A duplicate waits.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Wait {
    /// For how long, in ms, 1 to 300,000.
    #[serde(default = "Wait::timeout_ms")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = WAIT_MAX_MS)))]
    pub(in crate::config) timeout_ms: u32,
    /// Its `Retry-After` after that, in s, 1 to 3,600.
    #[serde(default = "Reject::retry_after_s")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = RETRY_AFTER_MAX_S)))]
    pub(in crate::config) retry_after_s: u32,
}

/// What a key that belongs to another request gets.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct OnMismatch {
    /// 422, 409 or 400.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = MISMATCH_STATUSES)))]
    pub(in crate::config) status: u16,
}

/// Statuses, 200 to 599, that do not mean what they usually do.
#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Outcomes {
    /// Stored and replayed.
    #[serde(rename = "final")]
    #[cfg_attr(feature = "schema", schemars(inner(range(min = STATUS_MIN, max = STATUS_MAX))))]
    pub(in crate::config) final_: Vec<u16>,
    /// Nothing was done: a retry executes. Not 2xx.
    #[cfg_attr(feature = "schema", schemars(inner(range(min = STATUS_AGAIN_MIN, max = STATUS_MAX))))]
    pub(in crate::config) retryable: Vec<u16>,
    /// What was done is unknown: `on_ambiguous` says what a retry gets. Not 2xx.
    #[cfg_attr(feature = "schema", schemars(inner(range(min = STATUS_AGAIN_MIN, max = STATUS_MAX))))]
    pub(in crate::config) ambiguous: Vec<u16>,
}

/// What is kept of an answer.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Store {
    /// Of a larger answer only status and `Location` are kept, in bytes, up to 3 MiB.
    #[cfg_attr(feature = "schema", schemars(range(max = RESPONSE_BODY_MAX_BYTES)))]
    pub(in crate::config) response_body_max_bytes: u32,
    /// Whether cookies are kept and replayed.
    pub(in crate::config) set_cookie: bool,
    /// What becomes of answers with `Cache-Control: no-store`.
    pub(in crate::config) no_store: NoStore,
}

/// How often a key is tried.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct Retry {
    /// Executions that may reach the upstream, 1 to 100.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = ATTEMPTS_MAX)))]
    pub(in crate::config) attempts_max: u32,
}

// === defaults ===

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

impl Default for Match {
    /// The methods that HTTP does not call idempotent (RFC 9110 §9.2.2, draft §1).
    fn default() -> Self {
        Self {
            methods: vec!["POST".to_owned(), "PATCH".to_owned()],
            hosts: Vec::new(),
            path_prefix: None,
            path_exact: None,
            path_regex: None,
        }
    }
}

impl Default for Key {
    /// 255 is the most common limit of the providers.
    fn default() -> Self {
        Self {
            header: "idempotency-key".to_owned(),
            also: Vec::new(),
            required: true,
            syntax: KeySyntax::Lenient,
            length_max: 255,
            upstream: UpstreamKey::Derived,
        }
    }
}

impl Default for OnConflict {
    fn default() -> Self {
        Self { reject: Some(Reject { retry_after_s: Reject::retry_after_s() }), wait: None }
    }
}

impl Reject {
    fn retry_after_s() -> u32 {
        1
    }
}

impl Wait {
    /// What the one provider that waits does; below what clients' own time-outs usually are.
    fn timeout_ms() -> u32 {
        10_000
    }
}

impl Default for OnMismatch {
    /// Draft §2.7.
    fn default() -> Self {
        Self { status: 422 }
    }
}

impl Default for Store {
    fn default() -> Self {
        Self { response_body_max_bytes: 1024 * 1024, set_cookie: false, no_store: NoStore::Ignore }
    }
}

impl Default for Retry {
    /// gRPC's cap.
    fn default() -> Self {
        Self { attempts_max: 5 }
    }
}
