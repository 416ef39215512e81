//! What a key is called in the store.

use sha2::{Digest, Sha256};

use crate::hex;
use crate::key::Key;

/// The name of one client's key: SHA-256 over the length-framed namespace, client and raw key.
///
/// The client is part of it, so that one client can never see another's response. Method, path
/// and body are not: the same key on another request is a mistake to report, not a new
/// operation, and they are in the fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(pub [u8; 32]);

impl Identity {
    /// The identity of `client`'s `key` in `namespace`.
    #[must_use]
    pub fn new(namespace: &str, client: &str, key: &Key) -> Self {
        let mut hash = Sha256::new();
        for part in [namespace, client, key.as_str()] {
            // Framed, so that no two different triples are one byte string.
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        Self(hash.finalize().into())
    }

    /// In hexadecimal, as operators see it.
    #[must_use]
    pub fn to_hex(&self) -> String {
        hex::encode(&self.0)
    }

    /// From 64 hexadecimal digits, or `None`.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        hex::decode(text)?.try_into().ok().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{KeySyntax, parse};

    fn key(text: &str) -> Key {
        parse(&[text.as_bytes()], KeySyntax::Lenient, 255).unwrap().unwrap()
    }

    #[test]
    fn every_part_counts_and_parts_cannot_shift_into_each_other() {
        let base = Identity::new("prod", "acme", &key("k1"));
        assert_eq!(base, Identity::new("prod", "acme", &key("\"k1\"")));
        assert_ne!(base, Identity::new("prod", "acme", &key("k2")));
        assert_ne!(base, Identity::new("prod", "acm", &key("ek1")));
        assert_ne!(base, Identity::new("proda", "cme", &key("k1")));
    }

    #[test]
    fn hexadecimal_goes_both_ways() {
        let identity = Identity::new("prod", "acme", &key("k1"));
        assert_eq!(Identity::from_hex(&identity.to_hex()), Some(identity));
        assert_eq!(Identity::from_hex("ab"), None);
    }
}
