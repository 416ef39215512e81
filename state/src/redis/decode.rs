//! What scripts return, and what records look like in Redis.

use latchkey_core::fingerprint::{Candidate, Fingerprint};
use latchkey_core::hex;
use latchkey_core::identity::Identity;
use latchkey_core::operation::{Claimed, OperatorReply, Reply, Verdict};
use latchkey_core::record::{ExecutionId, Fence, OnAmbiguous, Outcome, Terms};
use latchkey_core::time::StoreTime;
use latchkey_core::wire::{self, Message, state_v1};
use redis::Value;

use super::StoreError;

/// Why a value is not what it should be. The word says which it is.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is missing or malformed")]
pub(super) struct Malformed(pub(super) &'static str);

/// A script's reply, read word by word.
pub(super) struct Words {
    /// The store's clock.
    pub(super) now: StoreTime,
    /// What kind of reply it is.
    pub(super) what: String,
    rest: std::vec::IntoIter<Value>,
}

/// Reads what is asked of operations: unreadable records are the only error.
pub(super) fn reply(words: &mut Words) -> Result<Reply, StoreError> {
    // What our own scripts return is understood, unless a record was damaged.
    let malformed = |error: Malformed| StoreError::Unreadable(error.to_string());
    Ok(match words.what.as_str() {
        "claimed" => Reply::Claimed(claimed(words).map_err(malformed)?),
        "refused" => Reply::Refused(verdict(words).map_err(malformed)?),
        "fenced" => Reply::Fenced(verdict(words).map_err(malformed)?),
        "renewed" => Reply::Renewed { lease_left_us: words.number("lease").map_err(malformed)? },
        "settled" => Reply::Settled,
        "gone" => Reply::Gone,
        "void" => Reply::Void,
        "operator" => Reply::Operator(operator(words).map_err(malformed)?),
        "unreadable" => {
            return Err(StoreError::Unreadable(words.text("why").map_err(malformed)?));
        }
        other => return Err(malformed_reply(other)),
    })
}

/// A reply that no script of ours gives.
pub(super) fn malformed_reply(what: &str) -> StoreError {
    StoreError::Unavailable(format!("Redis: a script returned `{what}`"))
}

fn claimed(words: &mut Words) -> Result<Claimed, Malformed> {
    Ok(Claimed {
        fence: Fence(words.number("fence")?),
        attempt: words.small("attempt")?,
        sent: words.small("sent")?,
        lease_left_us: words.number("lease left")?,
        candidate: Candidate {
            fingerprint: fingerprint(&words.text("fingerprint")?)?,
            derived_key: words.text("derived key")?,
        },
        terms: terms(&words.text("terms")?)?,
    })
}

fn verdict(words: &mut Words) -> Result<Verdict, Malformed> {
    Ok(match words.text("verdict")?.as_str() {
        "in_progress" => Verdict::InProgress {
            age_us: words.number("age")?,
            lease_left_us: words.number("lease left")?,
        },
        "completed" => Verdict::Completed(outcome(&words.bytes("outcome")?)?),
        "retry_later" => Verdict::RetryLater { after_us: words.number("after")? },
        "exhausted" => Verdict::Exhausted { last_status: status(words.number("status")?)? },
        "held" => Verdict::Held { last_status: status(words.number("status")?)? },
        "mismatch" => Verdict::Mismatch,
        "spent" => Verdict::Spent,
        _ => return Err(Malformed("verdict")),
    })
}

fn operator(words: &mut Words) -> Result<OperatorReply, Malformed> {
    Ok(match words.text("reply")?.as_str() {
        "released" => OperatorReply::Released,
        "already_released" => OperatorReply::AlreadyReleased,
        "resolved" => OperatorReply::Resolved,
        "already_completed" => OperatorReply::AlreadyCompleted,
        "forgotten" => OperatorReply::Forgotten,
        "live" => OperatorReply::Live,
        "refused" => OperatorReply::Refused,
        "changed" => OperatorReply::Changed,
        "not_found" => OperatorReply::NotFound,
        _ => return Err(Malformed("reply")),
    })
}

/// The identities that a script or command lists.
pub(super) fn identities(value: Value) -> Vec<Identity> {
    let Value::Array(values) = value else { return Vec::new() };
    let identity = |value| Identity::from_hex(&text(value)?);
    values.into_iter().filter_map(identity).collect()
}

// === parts, which records have too ===

pub(super) fn fingerprint(text: &str) -> Result<Fingerprint, Malformed> {
    let read = || {
        let mut parts = text.splitn(3, ':');
        let version = parts.next()?.parse().ok()?;
        let digest = hex::decode(parts.next()?)?.try_into().ok()?;
        Some(Fingerprint { version, digest, secret: parts.next()?.to_owned() })
    };
    read().ok_or(Malformed("fingerprint"))
}

pub(super) fn terms(text: &str) -> Result<Terms, Malformed> {
    let read = || {
        let mut words = text.split(' ');
        let terms = Terms {
            on_ambiguous: match words.next()? {
                "r" => OnAmbiguous::Reexecute,
                "h" => OnAmbiguous::Hold,
                _ => return None,
            },
            attempts_max: words.next()?.parse().ok()?,
            lease_us: words.next()?.parse().ok()?,
            ttl_us: words.next()?.parse().ok()?,
            held_ttl_us: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(terms)
    };
    read().ok_or(Malformed("terms"))
}

pub(super) fn execution(text: &str) -> Result<ExecutionId, Malformed> {
    let bytes = hex::decode(text).and_then(|bytes| bytes.try_into().ok());
    bytes.map(ExecutionId).ok_or(Malformed("execution"))
}

pub(super) fn outcome(bytes: &[u8]) -> Result<Outcome, Malformed> {
    let message = state_v1::Outcome::decode(bytes).map_err(|_| Malformed("outcome"))?;
    wire::decode_outcome(message).map_err(|_| Malformed("outcome"))
}

/// 0 stands for none.
pub(super) fn status(number: u64) -> Result<Option<u16>, Malformed> {
    let status = u16::try_from(number).map_err(|_| Malformed("status"))?;
    Ok(Some(status).filter(|status| *status > 0))
}

pub(super) fn bytes(value: Value) -> Option<Vec<u8>> {
    let Value::BulkString(bytes) = value else { return None };
    Some(bytes)
}

pub(super) fn text(value: Value) -> Option<String> {
    String::from_utf8(bytes(value)?).ok()
}

// === impl Words ===

impl Words {
    /// Begins to read `value`.
    pub(super) fn new(value: Value) -> Result<Self, StoreError> {
        let read = || {
            let Value::Array(values) = value else { return None };
            let mut rest = values.into_iter();
            let Some(Value::Int(now)) = rest.next() else { return None };
            let now = StoreTime(u64::try_from(now).ok()?);
            Some(Self { now, what: text(rest.next()?)?, rest })
        };
        read().ok_or_else(|| malformed_reply("nothing that it should"))
    }

    /// The next word; nil and the end are none.
    pub(super) fn value(&mut self) -> Option<Value> {
        self.rest.next().filter(|value| *value != Value::Nil)
    }

    pub(super) fn bytes(&mut self, name: &'static str) -> Result<Vec<u8>, Malformed> {
        self.value().and_then(bytes).ok_or(Malformed(name))
    }

    pub(super) fn text(&mut self, name: &'static str) -> Result<String, Malformed> {
        self.value().and_then(text).ok_or(Malformed(name))
    }

    /// A number, which scripts return as one or as the text that it is kept as.
    pub(super) fn number(&mut self, name: &'static str) -> Result<u64, Malformed> {
        let value = self.value().ok_or(Malformed(name))?;
        let number = if let Value::Int(number) = value {
            u64::try_from(number).ok()
        } else {
            text(value).and_then(|text| text.parse().ok())
        };
        number.ok_or(Malformed(name))
    }

    fn small(&mut self, name: &'static str) -> Result<u32, Malformed> {
        u32::try_from(self.number(name)?).map_err(|_| Malformed(name))
    }
}
