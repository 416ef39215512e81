//! A record as `get.lua` returns it. The fields and the head are described in `prelude.lua`.

use latchkey_core::fingerprint::Candidate;
use latchkey_core::record::{
    CompletedBy, Fence, History, OnAmbiguous, Past, Record, State, Subject, Terms,
};
use latchkey_core::time::StoreTime;
use latchkey_core::wire::{Message, state_v1};

use super::decode::{self, Malformed, Words};

/// The version of the fields and of the head's words.
const VERSION: &str = "1";

/// The head, in order.
struct Head<'h> {
    state: &'h str,
    execution: &'h str,
    numbers: [u64; 6],
    on_ambiguous: OnAmbiguous,
    limits: [u64; 4],
    tail: [&'h str; 4],
}

/// Reads a record, `None` where there is none.
pub(super) fn read(words: &mut Words) -> Result<Option<Record>, Malformed> {
    let head = words.value().map(|value| decode::text(value).ok_or(Malformed("head")));
    let fingerprint =
        words.value().map(|value| decode::text(value).ok_or(Malformed("fingerprint")));
    if head.is_none() && fingerprint.is_none() {
        return Ok(None);
    }
    let head = head.ok_or(Malformed("head"))??;
    let fingerprint = decode::fingerprint(&fingerprint.ok_or(Malformed("fingerprint"))??)?;
    let derived_key = words.text("derived key")?;
    let past = words.value().and_then(decode::text).unwrap_or_default();
    let subject = subject(&words.bytes("subject")?)?;
    let gateway = words.value().and_then(decode::text);
    let outcome = words.value().and_then(decode::bytes);
    let head = Head::parse(&head).ok_or(Malformed("head"))?;
    let [fence, attempt, sent, revision, created_at, changed_at] = head.numbers;
    let [attempts_max, lease_us, ttl_us, held_ttl_us] = head.limits;
    Ok(Some(Record {
        subject,
        candidate: Candidate { fingerprint, derived_key },
        terms: Terms {
            on_ambiguous: head.on_ambiguous,
            attempts_max: small(attempts_max)?,
            lease_us,
            ttl_us,
            held_ttl_us,
        },
        execution: decode::execution(head.execution)?,
        fence: Fence(fence),
        attempt: small(attempt)?,
        sent: small(sent)?,
        revision,
        created_at: StoreTime(created_at),
        changed_at: StoreTime(changed_at),
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

fn small(number: u64) -> Result<u32, Malformed> {
    u32::try_from(number).map_err(|_| Malformed("head"))
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
            execution: words.next()?,
            numbers: numbers(&mut words)?,
            on_ambiguous: decode::on_ambiguous(words.next()?).ok()?,
            limits: numbers(&mut words)?,
            tail: [words.next()?, words.next()?, words.next()?, words.next()?],
        };
        words.next().is_none().then_some(parsed)
    }

    fn state(&self, gateway: Option<String>, outcome: Option<&[u8]>) -> Result<State, Malformed> {
        let [a, b, c, d] = self.tail;
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
            "r" => State::Retryable {
                last_status: decode::status(number(a)?)?,
                not_before: StoreTime(number(b)?),
                unknown: flag(c)?,
                released: flag(d)?,
            },
            "h" => State::Held { last_status: decode::status(number(a)?)?, lost_lease: flag(b)? },
            _ => return Err(Malformed("state")),
        })
    }
}

fn numbers<'h, const N: usize>(words: &mut impl Iterator<Item = &'h str>) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    for slot in &mut numbers {
        *slot = words.next()?.parse().ok()?;
    }
    Some(numbers)
}
