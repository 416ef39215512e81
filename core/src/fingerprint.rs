//! Telling one request from another.
//!
//! A fingerprint is SHA-256 over a version byte and the length-framed parts of a request, then
//! HMAC with the deployment's secret: whoever reads the store cannot confirm a guess at a
//! body of low entropy. Bodies are hashed raw, which can only err towards a false "reused key",
//! never towards replaying one request's answer to another; a rule may ask for JSON to be
//! compared by value instead ([`json`]).
//!
//! What counts is a [`Recipe`]. A rule has several: the first is what new keys are made with, the
//! others are recognised, so that a rule can change without telling retries that their key was
//! used for another request.

mod json;
mod query;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::hex;
use crate::identity::Identity;

/// The version of a fingerprint with the body's bytes in it. A change of parts or framing needs
/// a new number.
const VERSION_RAW: u32 = 1;

/// The version of a fingerprint with the body's JSON value in it.
const VERSION_JSON: u32 = 2;

/// What says whether two requests are the same one.
#[derive(Clone, Debug)]
pub struct Fingerprint {
    /// Which parts and framing it was made with.
    pub version: u32,
    /// The id of the secret it was made with.
    pub secret: String,
    /// The keyed digest.
    pub digest: [u8; 32],
}

/// Digests are compared in constant time.
impl PartialEq for Fingerprint {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version
            && self.secret == other.secret
            && bool::from(self.digest.ct_eq(&other.digest))
    }
}

impl Eq for Fingerprint {}

/// A fingerprint, and the derived key that goes with its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The request's fingerprint.
    pub fingerprint: Fingerprint,
    /// What every execution of the key sends to the upstream as `Idempotency-Key`.
    pub derived_key: String,
}

/// How bodies are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BodyMode {
    /// By their bytes.
    #[default]
    Raw,
    /// JSON by its value, where the order of an object's members does not count; numbers count as
    /// they are written. What is no JSON, by its bytes.
    Json,
}

/// What makes a request the one it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    /// How the body counts.
    pub body: BodyMode,
    /// Headers that count, in lower case.
    pub headers: Vec<String>,
    /// Parameters of the query that do not count.
    pub query_exclude: Vec<String>,
}

/// A request, as far as a recipe may look.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// `:method`.
    pub method: &'a [u8],
    /// `:authority`.
    pub authority: &'a [u8],
    /// `:path` up to the first `?`.
    pub path: &'a [u8],
    /// `:path` after the first `?`; empty without one.
    pub query: &'a [u8],
    /// `content-type`, as sent.
    pub content_type: &'a [u8],
    /// `content-encoding`, as sent: a coded body is hashed coded.
    pub content_encoding: &'a [u8],
    /// All headers, names in lower case.
    pub headers: &'a [(String, String)],
    /// The whole body. Never a prefix of it.
    pub body: &'a [u8],
}

/// A deployment's secret, known by its id.
#[derive(Clone)]
pub struct Secret {
    id: String,
    mac: Hmac<Sha256>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret({})", self.id)
    }
}

/// The SHA-256 of a request, before any secret: one for all secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestDigest {
    version: u32,
    digest: [u8; 32],
}

// === impl Recipe ===

impl Recipe {
    /// Hashes what counts of a request.
    ///
    /// Under [`BodyMode::Json`] a body that is not plain JSON, or has a content coding, or is too
    /// large or too deep, is hashed raw, under the version of raw bodies: two bodies are then
    /// equal only if their bytes are, and never to one that was understood.
    #[must_use]
    pub fn digest(&self, request: &Parts<'_>) -> RequestDigest {
        match self.body {
            BodyMode::Raw => self.hash(request, VERSION_RAW, request.body),
            BodyMode::Json => match json::value_digest(request) {
                Some(value) => self.hash(request, VERSION_JSON, &value),
                None => self.hash(request, VERSION_RAW, request.body),
            },
        }
    }

    fn hash(&self, request: &Parts<'_>, version: u32, body: &[u8]) -> RequestDigest {
        let chosen: Vec<_> = self
            .headers
            .iter()
            .flat_map(|wanted| request.headers.iter().filter(move |(name, _)| name == wanted))
            .collect();
        let mut hash = Sha256::new();
        hash.update([version as u8]);
        let mut framed = |part: &[u8]| {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        };
        framed(request.method);
        framed(request.authority);
        framed(request.path);
        framed(&query::without(request.query, &self.query_exclude));
        framed(request.content_type);
        framed(request.content_encoding);
        framed(&(chosen.len() as u64).to_be_bytes());
        for (name, value) in chosen {
            framed(name.as_bytes());
            framed(value.as_bytes());
        }
        framed(body);
        RequestDigest { version, digest: hash.finalize().into() }
    }
}

impl Secret {
    /// A secret of any length by its public id.
    #[must_use]
    pub fn new(id: String, secret: &[u8]) -> Self {
        // Hashed first, so that a secret of any length fills HMAC's fixed block (RFC 2104 §2).
        let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
        for (to, from) in block.iter_mut().zip(Sha256::digest(secret)) {
            *to = from;
        }
        let mac = Hmac::<Sha256>::new(&block);
        Self { id, mac }
    }

    /// The secret's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The fingerprint and derived key of a request under this secret.
    #[must_use]
    pub fn candidate(&self, identity: &Identity, digest: &RequestDigest) -> Candidate {
        let fingerprint = Fingerprint {
            version: digest.version,
            secret: self.id.clone(),
            digest: self.keyed(b"fingerprint", &digest.digest),
        };
        Candidate { fingerprint, derived_key: self.derived_key(identity) }
    }

    /// A UUID of version 8 (RFC 9562 §5.8) out of the identity: the same for every execution
    /// of a key, of a form and length that providers accept, and not to be guessed from
    /// outside.
    fn derived_key(&self, identity: &Identity) -> String {
        let digest = self.keyed(b"derived key", &identity.0);
        let mut uuid = [0u8; 16];
        for (to, from) in uuid.iter_mut().zip(digest) {
            *to = from;
        }
        if let Some(byte) = uuid.get_mut(6) {
            *byte = (*byte & 0x0f) | 0x80;
        }
        if let Some(byte) = uuid.get_mut(8) {
            *byte = (*byte & 0x3f) | 0x80;
        }
        let text = hex::encode(&uuid);
        let part = |from, to| text.get(from..to).unwrap_or_default();
        format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
    }

    fn keyed(&self, purpose: &[u8], message: &[u8]) -> [u8; 32] {
        let mut mac = self.mac.clone();
        mac.update(&(purpose.len() as u64).to_be_bytes());
        mac.update(purpose);
        mac.update(message);
        mac.finalize().into_bytes().into()
    }
}

#[cfg(test)]
mod tests;
