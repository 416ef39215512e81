//! A record as `get.lua` returns it. The fields and the head are described in `prelude.lua`.

use latchkey_core::fingerprint::Candidate;
use latchkey_core::record::{
    CompletedBy, ExecutionId, Fence, History, Past, Record, State, Subject,
};
use latchkey_core::time::StoreTime;
use latchkey_core::wire::{Message, state_v1};

use super::decode::{self, Malformed, Words};

/// The version of the fields and of the head's words.
const VERSION: &str = "1";

/// The head, in order.
struct Head<'h> {
    state: &'h str,
    execution: ExecutionId,
    fence: u64,
    attempt: u32,
    sent: u32,
    revision: u64,
    changed_at: u64,
    tail: [&'h str; 3],
}

/// Reads a record, `None` where there is none.
pub(super) fn read(words: &mut Words) -> Result<Option<Record>, Malformed> {
    let mut optional = || words.value().and_then(decode::text);
    let (head, terms, created_at, fingerprint) = (optional(), optional(), optional(), optional());
    if head.is_none() && fingerprint.is_none() {
        return Ok(None);
    }
    let head = head.ok_or(Malformed("head"))?;
    let head = Head::parse(&head).ok_or(Malformed("head"))?;
    let terms = decode::terms(&terms.ok_or(Malformed("terms"))?)?;
    let created_at = number(&created_at.ok_or(Malformed("created_at"))?)?;
    let fingerprint = decode::fingerprint(&fingerprint.ok_or(Malformed("fingerprint"))?)?;
    let derived_key = words.text("derived_key")?;
    let past = words.value().and_then(decode::text).unwrap_or_default();
    let subject = subject(&words.bytes("subject")?)?;
    let gateway = words.value().and_then(decode::text);
    let outcome = words.value().and_then(decode::bytes);
    Ok(Some(Record {
        subject,
        candidate: Candidate { fingerprint, derived_key },
        terms,
        execution: head.execution,
        fence: Fence(head.fence),
        attempt: head.attempt,
        sent: head.sent,
        revision: head.revision,
        created_at: StoreTime(created_at),
        changed_at: StoreTime(head.changed_at),
        history: history(&past)?,
        state: head.state(gateway, outcome.as_deref())?,
    }))
}

fn subject(bytes: &[u8]) -> Result<Subject, Malformed> {
    let state_v1::Subject { namespace, rule, client, key } =
        state_v1::Subject::decode(bytes).map_err(|_| Malformed("subject"))?;
    Ok(Subject { namespace, rule, client, key })
}

fn history(text: &str) -> Result<History, Malformed> {
    let past = |entry: &str| {
        let mut parts = entry.split(':');
        let mut part = || parts.next().ok_or(Malformed("past"));
        Ok(Past {
            execution: decode::execution(part()?)?,
            fence: Fence(number(part()?)?),
            suspected: flag(part()?)?,
        })
    };
    let entries: Result<_, _> = text.split_terminator(';').map(past).collect();
    Ok(History::restore(entries?))
}

fn number(word: &str) -> Result<u64, Malformed> {
    word.parse().map_err(|_| Malformed("head"))
}

fn flag(word: &str) -> Result<bool, Malformed> {
    match word {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(Malformed("head")),
    }
}

// === impl Head ===

impl<'h> Head<'h> {
    fn parse(head: &'h str) -> Option<Self> {
        let mut words = head.split(' ');
        if words.next()? != VERSION {
            return None;
        }
        let parsed = Self {
            state: words.next()?,
            execution: decode::execution(words.next()?).ok()?,
            fence: words.next()?.parse().ok()?,
            attempt: words.next()?.parse().ok()?,
            sent: words.next()?.parse().ok()?,
            revision: words.next()?.parse().ok()?,
            changed_at: words.next()?.parse().ok()?,
            tail: [words.next()?, words.next()?, words.next()?],
        };
        words.next().is_none().then_some(parsed)
    }

    fn state(&self, gateway: Option<String>, outcome: Option<&[u8]>) -> Result<State, Malformed> {
        let [a, b, c] = self.tail;
        Ok(match self.state {
            "p" => State::InProgress {
                claimed_at: StoreTime(number(a)?),
                lease_until: match number(b)? {
                    0 => return Err(Malformed("lease_until")),
                    us => StoreTime(us),
                },
                gateway: gateway.ok_or(Malformed("gateway"))?,
            },
            "c" => State::Completed {
                outcome: decode::outcome(outcome.ok_or(Malformed("outcome"))?)?,
                by: match a {
                    "operator" => CompletedBy::Operator,
                    execution => CompletedBy::Execution(decode::execution(execution)?),
                },
            },
            "r" => {
                let (unknown, released) = c.split_at_checked(1).ok_or(Malformed("head"))?;
                State::Retryable {
                    last_status: decode::status(number(a)?)?,
                    not_before: StoreTime(number(b)?),
                    unknown: flag(unknown)?,
                    released: flag(released)?,
                }
            }
            "h" => State::Held { last_status: decode::status(number(a)?)?, lost_lease: flag(b)? },
            _ => return Err(Malformed("state")),
        })
    }
}
