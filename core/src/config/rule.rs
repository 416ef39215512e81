//! What a rule says, once it was checked.

use serde::{Deserialize, Serialize};

use super::matching::Match;
use crate::classify::Statuses;
use crate::fingerprint::Recipe;
use crate::key::KeySyntax;
use crate::record::Terms;

/// How the requests that match are guarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name for operators, and for the metadata of Envoy's routes.
    pub name: String,
    /// Which requests.
    pub matches: Match,
    /// How the key is read.
    pub key: KeyRule,
    /// How the client is named.
    pub client: ClientRule,
    /// What makes a request the one it is: the preferred recipe, then others that are still
    /// recognised.
    pub fingerprints: Vec<Recipe>,
    /// How the upstream is called.
    pub execute: Execute,
    /// What the record holds to.
    pub terms: Terms,
    /// What a duplicate of a running request gets.
    pub on_conflict: OnConflict,
    /// The status for a key that belongs to another request: 422, 409 or 400.
    pub mismatch_status: u16,
    /// What happens when the state cannot be asked.
    pub on_state_failure: OnStateFailure,
    /// Statuses that do not mean what they usually do.
    pub statuses: Statuses,
    /// Larger requests are refused, in bytes.
    pub request_body_max_bytes: u32,
    /// What is kept of an answer.
    pub store: StoreRule,
}

/// How a rule reads keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRule {
    /// The fields that may hold the key, in lower case; a request has at most one line of all of
    /// them together. Errors name the first.
    pub headers: Vec<String>,
    /// Whether a request without a key is refused; it passes unguarded otherwise.
    pub required: bool,
    /// How strictly the key is read.
    pub syntax: KeySyntax,
    /// The longest key, in bytes.
    pub length_max: usize,
    /// What the upstream gets.
    pub upstream: UpstreamKey,
}

/// The key that the upstream gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum UpstreamKey {
    /// The derived key, in `Idempotency-Key`: one namespace for all clients.
    #[default]
    Derived,
    /// The client's own, in the field and the spelling that it came in.
    Client,
}

/// How a rule names clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRule {
    /// Where the name is.
    pub name: ClientName,
    /// Where there is none.
    pub missing: MissingClient,
}

/// Where a client's name is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientName {
    /// In a header that only an authentication filter can set, in lower case.
    Header(String),
    /// In a claim of the token that Envoy's `jwt_authn` has verified and put into metadata.
    JwtClaim {
        /// The provider's `payload_in_metadata`.
        payload: String,
        /// The claim, a string.
        claim: String,
    },
    /// The first URI among the subject alternative names of the client's certificate.
    UriSan,
    /// All are one client.
    Fixed(String),
}

/// What happens to a request whose client has no name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MissingClient {
    /// It is refused.
    #[default]
    Reject,
    /// All clients without a name are one.
    Anonymous,
    /// It passes unguarded, and its answer says so.
    Bypass,
}

/// How a rule calls the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Execute {
    /// By a call of the gateway's own, which outlives the client's connection.
    Detached {
        /// Where the call goes.
        to: ExecuteTo,
        /// For the whole answer, in ms.
        timeout_ms: u32,
    },
    /// By Envoy's router, as without a filter: the client's hanging up ends it.
    Attached,
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

/// What a duplicate of a running request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnConflict {
    /// How long it waits for the outcome, in ms; 0 where it is refused at once.
    pub wait_ms: u32,
    /// When it is refused: what it is told to wait, in s.
    pub retry_after_s: u32,
}

/// What happens when the state cannot be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnStateFailure {
    /// The request is refused.
    #[default]
    Reject,
    /// It passes unguarded, and its answer says so. Only where keys are optional.
    Pass,
}

/// What is kept of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreRule {
    /// The body of a larger response is not stored, in bytes.
    pub response_body_max_bytes: u32,
    /// Whether cookies are stored and replayed.
    pub set_cookie: bool,
    /// What becomes of answers that say `Cache-Control: no-store`.
    pub no_store: NoStore,
}

/// What becomes of answers that say `Cache-Control: no-store` (RFC 9111 §5.2.2.5). It is meant
/// for caches; payment interfaces send it with everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NoStore {
    /// They are stored like others: a replay is the upstream's answer, not a cache's.
    #[default]
    Ignore,
    /// Only their status and `Location` are.
    Tombstone,
}

// === impl Rule ===

impl Rule {
    /// Whether a request without a known outcome may be passed on unguarded.
    #[must_use]
    pub fn passes_without_state(&self) -> bool {
        match self.on_state_failure {
            OnStateFailure::Reject => false,
            OnStateFailure::Pass => true,
        }
    }
}
