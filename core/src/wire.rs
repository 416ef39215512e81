//! What filter and server say to each other, and how records are written down.
//!
//! The messages are protobuf (`proto/state.proto`, `proto/record.proto`); the modules
//! [`state_v1`] and [`record_v1`] are made from those files, and a test keeps them so. Here they
//! are turned into the core's types and back. What comes in is checked: ids and digests have
//! their lengths, a status is a status, and what is required is there.

mod convert;
mod stored;

#[expect(missing_docs, reason = "made from proto/record.proto, whose comments these are")]
#[rustfmt::skip]
pub mod record_v1;
#[expect(
    missing_docs,
    clippy::doc_markdown,
    reason = "made from proto/state.proto, whose comments these are"
)]
#[rustfmt::skip]
pub mod state_v1;

pub use convert::{
    decode_operation, decode_outcome, decode_result, encode_operation, encode_outcome, encode_reply,
};
pub use prost::Message;
pub use stored::{decode_record, encode_record};

use crate::operation::Reply;

/// The longest text that a subject, a secret's id or a gateway's name may have, in bytes. Keys
/// are the longest of them.
pub const TEXT_BYTES_MAX: usize = crate::key::KEY_LENGTH_MAX_BYTES;

/// The most candidates that a claim may carry: two fingerprint versions under four secrets.
pub const CANDIDATES_MAX: usize = 8;

/// Why a message is not one of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// It is not protobuf.
    #[error("not a protobuf message: {0}")]
    Undecodable(String),
    /// A field that is needed is not there.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// A field is there but cannot be what it says.
    #[error("`{0}` is out of range")]
    OutOfRange(&'static str),
}

/// A result as the filter reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What the store says.
    Reply(Reply),
    /// The record cannot be understood; nothing was changed, and asking again will not help.
    Unreadable(String),
    /// Too large for this reply: ask again in a batch of its own.
    Alone,
    /// Unknown: ask again.
    Failed(String),
}
