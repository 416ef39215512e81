//! From a request's bytes to operations, and from results to a reply's bytes.

use axum::body::Bytes;
use latchkey_core::operation::{Operation, Reply};
use latchkey_core::wire::state_v1::{Alone, BatchReply, Failed, Gateway, Unreadable, result};
use latchkey_core::wire::state_v1::{Operation as OperationMessage, Result as ResultMessage};
use latchkey_core::wire::{Message, WireError, decode_operation, encode_reply};

use super::{Meters, OPERATIONS_MAX, OperationKind, REPLY_BYTES_MAX, Refusal, ResultKind};
use crate::{Applied, StoreError};

/// `BatchRequest` with its operations still in bytes. Each is then decoded by itself, so that
/// one which is no message fails alone, and only after they were counted, since an empty
/// operation of two bytes would grow a hundredfold.
#[derive(Clone, PartialEq, prost::Message)]
struct Envelope {
    #[prost(message, optional, tag = "1")]
    gateway: Option<Gateway>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    operations: Vec<Bytes>,
}

/// A batch as it was received.
pub(super) struct Batch {
    operations: Vec<Result<Operation, WireError>>,
}

/// What is remembered of a batch while the store applies it: for each operation what it is, or
/// why it is none.
pub(super) struct Pending(Vec<Result<OperationKind, WireError>>);

/// A result's frame in the reply: its field's number, and its length in up to four bytes, which
/// is enough for everything under [`REPLY_BYTES_MAX`].
const FRAME_BYTES: usize = 5;

// === impl Batch ===

impl Batch {
    /// Reads a request.
    pub(super) fn decode(body: Bytes) -> Result<(Self, Option<Gateway>), Refusal> {
        let envelope =
            Envelope::decode(body).map_err(|error| Refusal::Undecodable(error.to_string()))?;
        if envelope.operations.len() > OPERATIONS_MAX {
            return Err(Refusal::TooMany);
        }
        let operations = envelope.operations.into_iter().map(decode_one).collect();
        Ok((Self { operations }, envelope.gateway))
    }

    /// What the store is to apply, and what is remembered meanwhile.
    pub(super) fn split(self) -> (Pending, Vec<Operation>) {
        let mut good = Vec::with_capacity(self.operations.len());
        let remember = |operation: Result<Operation, WireError>| {
            operation.map(|operation| {
                let kind = OperationKind::of(&operation);
                good.push(operation);
                kind
            })
        };
        let pending = self.operations.into_iter().map(remember).collect();
        (Pending(pending), good)
    }
}

fn decode_one(bytes: Bytes) -> Result<Operation, WireError> {
    let message = OperationMessage::decode(bytes)
        .map_err(|error| WireError::Undecodable(error.to_string()))?;
    decode_operation(message)
}

// === impl Pending ===

impl Pending {
    /// The reply to the batch, in which the store's results take the places of their
    /// operations. Of several results, those that the reply has no room for are `Alone`.
    pub(super) fn encode(self, applied: Applied, meters: &Meters) -> Vec<u8> {
        let count = self.0.len();
        let room = if count > 1 { REPLY_BYTES_MAX } else { usize::MAX };
        let mut used = 0;
        let mut applied_results = applied.results.into_iter();
        let mut results = Vec::with_capacity(count);
        for (at, pending) in self.0.into_iter().enumerate() {
            let kind = *pending.as_ref().unwrap_or(&OperationKind::Invalid);
            let (result_kind, message) = match pending {
                Ok(_) => encode_result(applied_results.next()),
                Err(error) => failed(format!("not an operation: {error}")),
            };
            // What comes after has room to be Alone at least.
            let kept = (count - at) * FRAME_BYTES;
            let length = FRAME_BYTES + message.encoded_len();
            let (result_kind, message) = if used + length + kept > room {
                (ResultKind::Alone, message_of(result::Kind::Alone(Alone {})))
            } else {
                (result_kind, message)
            };
            used += FRAME_BYTES + message.encoded_len();
            meters.operation(kind, result_kind);
            results.push(message);
        }
        BatchReply { now_us: applied.now.0, results }.encode_to_vec()
    }
}

fn encode_result(result: Option<Result<Reply, StoreError>>) -> (ResultKind, ResultMessage) {
    match result {
        Some(Ok(reply)) => (ResultKind::of(&reply), encode_reply(reply)),
        Some(Err(StoreError::Unreadable(why))) => {
            (ResultKind::Unreadable, message_of(result::Kind::Unreadable(Unreadable { why })))
        }
        Some(Err(StoreError::Unavailable(why) | StoreError::Unfit(why))) => failed(why),
        None => failed("the store gave no result".to_owned()),
    }
}

fn failed(why: String) -> (ResultKind, ResultMessage) {
    (ResultKind::Failed, message_of(result::Kind::Failed(Failed { why })))
}

fn message_of(kind: result::Kind) -> ResultMessage {
    ResultMessage { kind: Some(kind) }
}
