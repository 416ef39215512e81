//! Telling one request from another.
//!
//! A fingerprint is SHA-256 over a version byte and the length-framed parts of a request, then
//! HMAC with the deployment's secret: whoever reads the store cannot confirm a guess at a
//! body of low entropy. Bodies are hashed raw, which can only err towards a false "reused key",
//! never towards replaying one request's answer to another.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::hex;
use crate::identity::Identity;

/// The version of the parts and framing below. A change of either needs a new number, and a
/// gateway that sends candidates of both for as long as old records live.
pub const VERSION: u32 = 1;

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

/// The parts of a request that make it the one it is.
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
    /// `content-encoding`, as sent: the body is hashed coded.
    pub content_encoding: &'a [u8],
    /// Chosen headers, by lower-case name, in the rule's order.
    pub headers: &'a [(&'a [u8], &'a [u8])],
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
pub struct RequestDigest([u8; 32]);

impl RequestDigest {
    /// Hashes `parts`.
    #[must_use]
    pub fn new(parts: &Parts<'_>) -> Self {
        let mut hash = Sha256::new();
        hash.update([VERSION as u8]);
        let mut framed = |part: &[u8]| {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        };
        framed(parts.method);
        framed(parts.authority);
        framed(parts.path);
        framed(parts.query);
        framed(parts.content_type);
        framed(parts.content_encoding);
        framed(&(parts.headers.len() as u64).to_be_bytes());
        for (name, value) in parts.headers {
            framed(name);
            framed(value);
        }
        framed(parts.body);
        Self(hash.finalize().into())
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
            version: VERSION,
            secret: self.id.clone(),
            digest: self.keyed(b"fingerprint", &digest.0),
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
mod tests {
    use super::*;

    const BASE: Parts<'_> = Parts {
        method: b"POST",
        authority: b"api.example",
        path: b"/payments",
        query: b"a=1",
        content_type: b"application/json",
        content_encoding: b"",
        headers: &[],
        body: b"{\"amount\":1}",
    };

    fn digest(parts: &Parts<'_>) -> RequestDigest {
        RequestDigest::new(parts)
    }

    #[test]
    fn every_part_counts() {
        let others = [
            Parts { method: b"PATCH", ..BASE },
            Parts { authority: b"api.example:1", ..BASE },
            Parts { path: b"/payment", ..BASE },
            Parts { query: b"", ..BASE },
            Parts { content_type: b"text/plain", ..BASE },
            Parts { content_encoding: b"gzip", ..BASE },
            Parts { headers: &[(b"x-version", b"1")], ..BASE },
            Parts { headers: &[(b"x-version", b"")], ..BASE },
            Parts { body: b"{\"amount\":1.0}", ..BASE },
            Parts { body: b"", ..BASE },
        ];
        for (at, other) in others.iter().enumerate() {
            assert_ne!(digest(&BASE), digest(other), "part {at}");
        }
        assert_eq!(digest(&BASE), digest(&BASE.clone()));
    }

    #[test]
    fn parts_cannot_shift_into_each_other() {
        let left = Parts { path: b"/a", query: b"bc", ..BASE };
        let right = Parts { path: b"/ab", query: b"c", ..BASE };
        assert_ne!(digest(&left), digest(&right));
    }

    #[test]
    fn secrets_give_different_fingerprints_and_derived_keys() {
        let identity = Identity([7; 32]);
        let one = Secret::new("a".into(), b"one").candidate(&identity, &digest(&BASE));
        let two = Secret::new("b".into(), b"two").candidate(&identity, &digest(&BASE));
        assert_ne!(one.fingerprint.digest, two.fingerprint.digest);
        assert_ne!(one.derived_key, two.derived_key);
        let again = Secret::new("a".into(), b"one").candidate(&identity, &digest(&BASE));
        assert_eq!(one, again);
    }

    #[test]
    fn the_derived_key_is_a_uuid_of_version_8() {
        let key = Secret::new("a".into(), b"one")
            .candidate(&Identity([7; 32]), &digest(&BASE))
            .derived_key;
        assert_eq!(key.len(), 36);
        assert_eq!(key.as_bytes()[14], b'8');
        assert!(b"89ab".contains(&key.as_bytes()[19]));
    }

    #[test]
    fn the_framing_of_version_1_never_changes() {
        let made = Secret::new("a".into(), b"one").candidate(&Identity([7; 32]), &digest(&BASE));
        insta::assert_snapshot!(
            format!("{} {}", hex::encode(&made.fingerprint.digest), made.derived_key),
            @r#"885b21c565098604e2fbbcc7d637ac19b8e6ca29329f32bd30fa4463d584e7b5 7bc7d77c-ae23-8ff9-8d5f-75eae6a0c5a3"#
        );
    }

    #[test]
    fn a_secret_does_not_print_itself() {
        assert_eq!(format!("{:?}", Secret::new("a".into(), b"hunter2")), "Secret(a)");
    }
}
