//! The core's types and the state endpoint's messages.

use super::state_v1 as wire;
use super::{Answer, CANDIDATES_MAX, TEXT_BYTES_MAX, WireError};
use crate::fingerprint::{Candidate, Fingerprint};
use crate::identity::Identity;
use crate::operation::{
    Claim, Claimed, Event, Fail, FailKind, FilterEvent, Operation, Reply, Ticket, Verdict,
};
use crate::record::{ExecutionId, Fence, OnAmbiguous, Outcome, Response, Subject, Terms};
use crate::time::StoreTime;

type Decoded<T> = Result<T, WireError>;

// === operations ===

/// A filter's operation as a message. Operators' operations are not the endpoint's: `None`.
#[must_use]
pub fn encode_operation(operation: &Operation) -> Option<wire::Operation> {
    let Event::Filter { void_after, event } = &operation.event else { return None };
    let kind = match event {
        FilterEvent::Claim(claim) => wire::operation::Kind::Claim(encode_claim(claim)),
        FilterEvent::Renew(ticket) => {
            wire::operation::Kind::Renew(wire::Renew { ticket: Some(encode_ticket(ticket)) })
        }
        FilterEvent::Complete { ticket, outcome } => {
            wire::operation::Kind::Complete(wire::Complete {
                ticket: Some(encode_ticket(ticket)),
                outcome: Some(encode_outcome(outcome)),
            })
        }
        FilterEvent::Fail(fail) => wire::operation::Kind::Fail(encode_fail(fail)),
    };
    Some(wire::Operation {
        void_after_us: void_after.0,
        identity: operation.identity.0.to_vec(),
        kind: Some(kind),
    })
}

/// A message as a filter's operation.
///
/// # Errors
/// Where it is not one.
pub fn decode_operation(message: wire::Operation) -> Decoded<Operation> {
    let identity = Identity(fixed(&message.identity, "identity")?);
    let event = match message.kind.ok_or(WireError::Missing("kind"))? {
        wire::operation::Kind::Claim(claim) => FilterEvent::Claim(decode_claim(claim)?),
        wire::operation::Kind::Renew(renew) => FilterEvent::Renew(decode_ticket(renew.ticket)?),
        wire::operation::Kind::Complete(complete) => FilterEvent::Complete {
            ticket: decode_ticket(complete.ticket)?,
            outcome: decode_outcome(complete.outcome.ok_or(WireError::Missing("outcome"))?)?,
        },
        wire::operation::Kind::Fail(fail) => FilterEvent::Fail(decode_fail(fail)?),
    };
    let void_after = StoreTime(message.void_after_us);
    Ok(Operation { identity, event: Event::Filter { void_after, event } })
}

fn encode_claim(claim: &Claim) -> wire::Claim {
    wire::Claim {
        execution: claim.execution.0.to_vec(),
        candidates: claim.candidates.iter().map(encode_candidate).collect(),
        terms: Some(encode_terms(&claim.terms)),
        subject: Some(encode_subject(&claim.subject)),
        gateway: claim.gateway.clone(),
    }
}

fn decode_claim(claim: wire::Claim) -> Decoded<Claim> {
    if claim.candidates.is_empty() || claim.candidates.len() > CANDIDATES_MAX {
        return Err(WireError::OutOfRange("candidates"));
    }
    let candidates = claim.candidates.into_iter().map(|it| decode_candidate(Some(it)));
    Ok(Claim {
        execution: execution(&claim.execution)?,
        candidates: candidates.collect::<Decoded<_>>()?,
        terms: decode_terms(claim.terms)?,
        subject: decode_subject(claim.subject)?,
        gateway: text(claim.gateway, "gateway")?,
    })
}

pub(super) fn encode_ticket(ticket: &Ticket) -> wire::Ticket {
    wire::Ticket {
        execution: ticket.execution.0.to_vec(),
        fence: ticket.fence.0,
        attempt: ticket.attempt,
        sent: ticket.sent,
        candidate: Some(encode_candidate(&ticket.candidate)),
        terms: Some(encode_terms(&ticket.terms)),
        subject: Some(encode_subject(&ticket.subject)),
        gateway: ticket.gateway.clone(),
    }
}

fn decode_ticket(ticket: Option<wire::Ticket>) -> Decoded<Ticket> {
    let ticket = ticket.ok_or(WireError::Missing("ticket"))?;
    Ok(Ticket {
        execution: execution(&ticket.execution)?,
        fence: fence(ticket.fence)?.ok_or(WireError::Missing("fence"))?,
        attempt: ticket.attempt,
        sent: ticket.sent,
        candidate: decode_candidate(ticket.candidate)?,
        terms: decode_terms(ticket.terms)?,
        subject: decode_subject(ticket.subject)?,
        gateway: text(ticket.gateway, "gateway")?,
    })
}

fn encode_fail(fail: &Fail) -> wire::Fail {
    let kind = match fail.kind {
        FailKind::NeverSent => wire::FailKind::NeverSent,
        FailKind::Retryable => wire::FailKind::Retryable,
        FailKind::Ambiguous => wire::FailKind::Ambiguous,
    };
    wire::Fail {
        execution: fail.execution.0.to_vec(),
        fence: fail.fence.map_or(0, |fence| fence.0),
        fingerprint: fail.fingerprint.as_ref().map(encode_fingerprint),
        kind: kind.into(),
        status: fail.status.map_or(0, u32::from),
        retry_after_us: fail.retry_after_us,
    }
}

fn decode_fail(fail: wire::Fail) -> Decoded<Fail> {
    let kind = match fail.kind() {
        wire::FailKind::Unspecified => return Err(WireError::OutOfRange("kind")),
        wire::FailKind::NeverSent => FailKind::NeverSent,
        wire::FailKind::Retryable => FailKind::Retryable,
        wire::FailKind::Ambiguous => FailKind::Ambiguous,
    };
    Ok(Fail {
        execution: execution(&fail.execution)?,
        fence: fence(fail.fence)?,
        fingerprint: fail.fingerprint.map(decode_fingerprint).transpose()?,
        kind,
        status: optional_status(fail.status)?,
        retry_after_us: micros(fail.retry_after_us, "retry_after_us")?,
    })
}

// === parts ===

fn encode_fingerprint(fingerprint: &Fingerprint) -> wire::Fingerprint {
    wire::Fingerprint {
        version: fingerprint.version,
        secret: fingerprint.secret.clone(),
        digest: fingerprint.digest.to_vec(),
    }
}

fn decode_fingerprint(fingerprint: wire::Fingerprint) -> Decoded<Fingerprint> {
    Ok(Fingerprint {
        version: fingerprint.version,
        secret: text(fingerprint.secret, "secret")?,
        digest: fixed(&fingerprint.digest, "digest")?,
    })
}

pub(super) fn encode_candidate(candidate: &Candidate) -> wire::Candidate {
    wire::Candidate {
        fingerprint: Some(encode_fingerprint(&candidate.fingerprint)),
        derived_key: candidate.derived_key.clone(),
    }
}

pub(super) fn decode_candidate(candidate: Option<wire::Candidate>) -> Decoded<Candidate> {
    let candidate = candidate.ok_or(WireError::Missing("candidate"))?;
    let fingerprint = candidate.fingerprint.ok_or(WireError::Missing("fingerprint"))?;
    Ok(Candidate {
        fingerprint: decode_fingerprint(fingerprint)?,
        derived_key: text(candidate.derived_key, "derived_key")?,
    })
}

pub(super) fn encode_terms(terms: &Terms) -> wire::Terms {
    let on_ambiguous = match terms.on_ambiguous {
        OnAmbiguous::Reexecute => wire::OnAmbiguous::Reexecute,
        OnAmbiguous::Hold => wire::OnAmbiguous::Hold,
    };
    wire::Terms {
        on_ambiguous: on_ambiguous.into(),
        attempts_max: terms.attempts_max,
        lease_us: terms.lease_us,
        ttl_us: terms.ttl_us,
        held_ttl_us: terms.held_ttl_us,
    }
}

pub(super) fn decode_terms(terms: Option<wire::Terms>) -> Decoded<Terms> {
    let terms = terms.ok_or(WireError::Missing("terms"))?;
    let on_ambiguous = match terms.on_ambiguous() {
        wire::OnAmbiguous::Unspecified => return Err(WireError::OutOfRange("on_ambiguous")),
        wire::OnAmbiguous::Reexecute => OnAmbiguous::Reexecute,
        wire::OnAmbiguous::Hold => OnAmbiguous::Hold,
    };
    if terms.attempts_max == 0 || terms.lease_us == 0 {
        return Err(WireError::OutOfRange("terms"));
    }
    Ok(Terms {
        on_ambiguous,
        attempts_max: terms.attempts_max,
        lease_us: micros(terms.lease_us, "lease_us")?,
        ttl_us: micros(terms.ttl_us, "ttl_us")?,
        held_ttl_us: micros(terms.held_ttl_us, "held_ttl_us")?,
    })
}

pub(super) fn encode_subject(subject: &Subject) -> wire::Subject {
    wire::Subject {
        namespace: subject.namespace.clone(),
        rule: subject.rule.clone(),
        client: subject.client.clone(),
        key: subject.key.clone(),
    }
}

pub(super) fn decode_subject(subject: Option<wire::Subject>) -> Decoded<Subject> {
    let subject = subject.ok_or(WireError::Missing("subject"))?;
    Ok(Subject {
        namespace: text(subject.namespace, "namespace")?,
        rule: text(subject.rule, "rule")?,
        client: text(subject.client, "client")?,
        key: text(subject.key, "key")?,
    })
}

/// An outcome as a message.
#[must_use]
pub fn encode_outcome(outcome: &Outcome) -> wire::Outcome {
    outcome_message(outcome.clone())
}

fn outcome_message(outcome: Outcome) -> wire::Outcome {
    let kind = match outcome {
        Outcome::Response(response) => {
            let header = |(name, value)| wire::Header { name, value };
            wire::outcome::Kind::Response(wire::Response {
                status: response.status.into(),
                headers: response.headers.into_iter().map(header).collect(),
                body: response.body,
            })
        }
        Outcome::Tombstone { status, location } => {
            wire::outcome::Kind::Tombstone(wire::Tombstone {
                status: status.into(),
                location: location.unwrap_or_default(),
            })
        }
    };
    wire::Outcome { kind: Some(kind) }
}

/// A message as an outcome.
///
/// # Errors
/// Where it is not one.
pub fn decode_outcome(outcome: wire::Outcome) -> Decoded<Outcome> {
    Ok(match outcome.kind.ok_or(WireError::Missing("outcome"))? {
        wire::outcome::Kind::Response(response) => Outcome::Response(Response {
            status: status(response.status)?,
            headers: response.headers.into_iter().map(|it| (it.name, it.value)).collect(),
            body: response.body,
        }),
        wire::outcome::Kind::Tombstone(tombstone) => Outcome::Tombstone {
            status: status(tombstone.status)?,
            location: Some(tombstone.location).filter(|location| !location.is_empty()),
        },
    })
}

// === replies ===

/// A reply as a message. Operators' replies are not the endpoint's; they become `Failed`.
#[must_use]
pub fn encode_reply(reply: Reply) -> wire::Result {
    let kind = match reply {
        Reply::Claimed(claimed) => wire::result::Kind::Claimed(wire::Claimed {
            fence: claimed.fence.0,
            attempt: claimed.attempt,
            sent: claimed.sent,
            lease_left_us: claimed.lease_left_us,
            candidate: Some(encode_candidate(&claimed.candidate)),
            terms: Some(encode_terms(&claimed.terms)),
        }),
        Reply::Refused(verdict) => wire::result::Kind::Refused(encode_verdict(verdict)),
        Reply::Renewed { lease_left_us } => {
            wire::result::Kind::Renewed(wire::Renewed { lease_left_us })
        }
        Reply::Settled => wire::result::Kind::Settled(wire::Settled {}),
        Reply::Fenced(verdict) => wire::result::Kind::Fenced(encode_verdict(verdict)),
        Reply::Gone => wire::result::Kind::Gone(wire::Gone {}),
        Reply::Void => wire::result::Kind::Void(wire::Void {}),
        Reply::Operator(_) => wire::result::Kind::Failed(wire::Failed {
            why: "the state endpoint takes no operators' operations".to_owned(),
        }),
    };
    wire::Result { kind: Some(kind) }
}

/// A message as what the filter reads.
///
/// # Errors
/// Where it is none; the operation's fate is unknown then.
pub fn decode_result(result: wire::Result) -> Decoded<Answer> {
    let reply = match result.kind.ok_or(WireError::Missing("result"))? {
        wire::result::Kind::Claimed(claimed) => Reply::Claimed(Claimed {
            fence: fence(claimed.fence)?.ok_or(WireError::Missing("fence"))?,
            attempt: claimed.attempt,
            sent: claimed.sent,
            lease_left_us: micros(claimed.lease_left_us, "lease_left_us")?,
            candidate: decode_candidate(claimed.candidate)?,
            terms: decode_terms(claimed.terms)?,
        }),
        wire::result::Kind::Refused(verdict) => Reply::Refused(decode_verdict(verdict)?),
        wire::result::Kind::Renewed(renewed) => {
            Reply::Renewed { lease_left_us: micros(renewed.lease_left_us, "lease_left_us")? }
        }
        wire::result::Kind::Settled(_) => Reply::Settled,
        wire::result::Kind::Fenced(verdict) => Reply::Fenced(decode_verdict(verdict)?),
        wire::result::Kind::Gone(_) => Reply::Gone,
        wire::result::Kind::Void(_) => Reply::Void,
        wire::result::Kind::Unreadable(it) => return Ok(Answer::Unreadable(it.why)),
        wire::result::Kind::Alone(_) => return Ok(Answer::Alone),
        wire::result::Kind::Failed(it) => return Ok(Answer::Failed(it.why)),
    };
    Ok(Answer::Reply(reply))
}

fn encode_verdict(verdict: Verdict) -> wire::Verdict {
    let status = |status: Option<u16>| status.map_or(0, u32::from);
    let kind = match verdict {
        Verdict::InProgress { age_us, lease_left_us } => {
            wire::verdict::Kind::InProgress(wire::InProgress { age_us, lease_left_us })
        }
        Verdict::Completed(outcome) => wire::verdict::Kind::Completed(outcome_message(outcome)),
        Verdict::RetryLater { after_us } => {
            wire::verdict::Kind::RetryLater(wire::RetryLater { after_us })
        }
        Verdict::Exhausted { last_status } => {
            wire::verdict::Kind::Exhausted(wire::Exhausted { last_status: status(last_status) })
        }
        Verdict::Held { last_status } => {
            wire::verdict::Kind::Held(wire::Held { last_status: status(last_status) })
        }
        Verdict::Mismatch => wire::verdict::Kind::Mismatch(wire::Mismatch {}),
        Verdict::Spent => wire::verdict::Kind::Spent(wire::Spent {}),
    };
    wire::Verdict { kind: Some(kind) }
}

fn decode_verdict(verdict: wire::Verdict) -> Decoded<Verdict> {
    Ok(match verdict.kind.ok_or(WireError::Missing("verdict"))? {
        wire::verdict::Kind::InProgress(it) => {
            Verdict::InProgress { age_us: it.age_us, lease_left_us: it.lease_left_us }
        }
        wire::verdict::Kind::Completed(outcome) => Verdict::Completed(decode_outcome(outcome)?),
        wire::verdict::Kind::RetryLater(it) => Verdict::RetryLater { after_us: it.after_us },
        wire::verdict::Kind::Exhausted(it) => {
            Verdict::Exhausted { last_status: optional_status(it.last_status)? }
        }
        wire::verdict::Kind::Held(it) => {
            Verdict::Held { last_status: optional_status(it.last_status)? }
        }
        wire::verdict::Kind::Mismatch(_) => Verdict::Mismatch,
        wire::verdict::Kind::Spent(_) => Verdict::Spent,
    })
}

// === checks ===

pub(super) fn execution(bytes: &[u8]) -> Decoded<ExecutionId> {
    Ok(ExecutionId(fixed(bytes, "execution")?))
}

pub(super) fn fixed<const N: usize>(bytes: &[u8], field: &'static str) -> Decoded<[u8; N]> {
    bytes.try_into().map_err(|_| WireError::OutOfRange(field))
}

fn text(text: String, field: &'static str) -> Decoded<String> {
    if text.len() > TEXT_BYTES_MAX { Err(WireError::OutOfRange(field)) } else { Ok(text) }
}

/// Stores whose scripts reckon in doubles are exact up to here: the year 2255.
const MICROS_MAX: u64 = 1 << 53;

fn micros(us: u64, field: &'static str) -> Decoded<u64> {
    if us > MICROS_MAX { Err(WireError::OutOfRange(field)) } else { Ok(us) }
}

fn fence(fence: u64) -> Decoded<Option<Fence>> {
    Ok(Some(micros(fence, "fence")?).filter(|fence| *fence > 0).map(Fence))
}

/// The status of an outcome, which clients will be told.
fn status(status: u32) -> Decoded<u16> {
    match optional_status(status)?.ok_or(WireError::Missing("status"))? {
        status @ 200..=599 => Ok(status),
        _ => Err(WireError::OutOfRange("status")),
    }
}

pub(super) fn optional_status(status: u32) -> Decoded<Option<u16>> {
    match u16::try_from(status) {
        Ok(0) => Ok(None),
        Ok(status @ 100..=599) => Ok(Some(status)),
        _ => Err(WireError::OutOfRange("status")),
    }
}
