//! What things are called in Redis.
//!
//! Everything of a record lies in one of [`SHARDS`] shards, chosen by its identity. A shard's
//! names share a hash tag, so that a cluster keeps them in one slot and one script may change
//! them together.

use latchkey_core::identity::Identity;

/// How many shards there are: enough to spread over a cluster, few enough to ask all of them.
/// A number that is written into every key's name, and so can never change.
pub(super) const SHARDS: usize = 16;

/// The names that a shard's records share.
#[derive(Debug)]
pub(super) struct Shard {
    /// When the shard was last stamped.
    pub(super) clock: String,
    /// When it was last found to have resumed.
    pub(super) resumed: String,
    /// What was counted in it.
    pub(super) counts: String,
    /// Its unresolved records, by identity.
    pub(super) inflight: String,
    /// The same, by the end of their retention.
    pub(super) expiring: String,
    number: usize,
}

/// The first hexadecimal digit of `identity`: shards, one after the other, are in its order.
pub(super) fn shard_of(identity: &Identity) -> usize {
    identity.0.first().map_or(0, |byte| usize::from(byte >> 4))
}

/// All shards, in their order.
pub(super) fn shards() -> Vec<Shard> {
    (0..SHARDS).map(Shard::new).collect()
}

// === impl Shard ===

impl Shard {
    fn new(number: usize) -> Self {
        let name = |what: &str| format!("lk:{{{number}}}:{what}");
        Self {
            clock: name("clock"),
            resumed: name("resumed"),
            counts: name("counts"),
            inflight: name("inflight"),
            expiring: name("expiring"),
            number,
        }
    }

    /// The name of a record of this shard.
    pub(super) fn record(&self, identity: &Identity) -> String {
        format!("lk:{{{}}}:r:{}", self.number, identity.to_hex())
    }
}
