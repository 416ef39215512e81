//! From the upstream's answer to what the state and the client are told.

use latchkey_core::classify::{Meaning, Origin, meaning, origin};
use latchkey_core::config::{Execute, Rule};
use latchkey_core::operation::FailKind;
use latchkey_core::record::OnAmbiguous;

use super::execution::{Execution, Fresh, Settlement, Stage};
use super::{CallAnswer, Command, Metric, route};
use crate::answer::{self, Answer};

/// Where an upstream's answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whereabouts {
    /// Whether its body is here, whole: it was not too large to be held.
    pub(super) whole: bool,
    /// Whether there is room to keep it until it is stored.
    pub(super) room: bool,
}

impl Execution {
    /// The upstream call has ended. Without `room` for its body the client is told at once, and
    /// a tombstone is stored: what is known must not be lost for its size.
    pub(super) fn settle(
        &mut self,
        rule: &Rule,
        answer: CallAnswer,
        at: Whereabouts,
        answer_by_us: u64,
        out: &mut Vec<Command>,
    ) {
        // The record's policy holds, which may be stricter than the rule's.
        let on_ambiguous =
            self.ticket().map_or(rule.terms.on_ambiguous, |ticket| ticket.terms.on_ambiguous);
        let classified = answer.classified();
        let origin = match answer {
            CallAnswer::NotDispatched => Origin::NeverSent,
            CallAnswer::Ended { .. } => origin(route(rule), &classified),
        };
        let origin = match origin {
            // What could not be sent on may have been done where it was sent before.
            Origin::NeverSent if self.redirected => Origin::Unknown,
            Origin::NeverSent | Origin::Upstream(_) | Origin::Unknown => origin,
        };
        let meaning = meaning(origin, classified.outcome, on_ambiguous, &rule.statuses);
        let (status, headers, body) = match answer {
            CallAnswer::NotDispatched => (None, Vec::new(), Vec::new()),
            CallAnswer::Ended { status, headers, body } => (status, headers, body),
        };
        let (settlement, fresh) = match (meaning, status) {
            (Meaning::Final, Some(status)) => completed(status, &headers, body, rule, at),
            (Meaning::Final, None) => unknown(None, on_ambiguous),
            (Meaning::Failed(kind), status) => match (origin, status) {
                (Origin::Upstream(status), _) => passed_on(kind, status, &headers, body, rule),
                (Origin::NeverSent, Some(status)) if status != 503 => {
                    passed_on(kind, status, &headers, body, rule)
                }
                (Origin::NeverSent, _) => {
                    let fresh = own(Answer::problem(&answer::unreachable()));
                    (Settlement::Fail { kind, status: None }, fresh)
                }
                (Origin::Unknown, status) => unknown(status, on_ambiguous),
            },
        };
        if let Settlement::Fail { kind: FailKind::Ambiguous, .. } = settlement {
            out.push(Command::Count(Metric::Ambiguous));
        }
        self.stage = Stage::Settling { settlement, answer: Some(fresh), answer_by_us };
        self.tries = 0;
        if !at.room {
            self.tell_fresh(true, out);
        }
    }
}

fn completed(
    status: u16,
    headers: &[(String, Vec<u8>)],
    body: Vec<u8>,
    rule: &Rule,
    at: Whereabouts,
) -> (Settlement, Fresh) {
    let kept = (at.whole && at.room).then_some(body.as_slice());
    let outcome = answer::outcome(status, headers, kept, &rule.store);
    let fresh = match rule.execute {
        Execute::Attached => Fresh::Release,
        Execute::Detached { .. } => {
            let body_is_outcomes = matches!(outcome, latchkey_core::record::Outcome::Response(_));
            let own_body = if body_is_outcomes { Vec::new() } else { body };
            Fresh::Tell { answer: Answer::fresh(status, headers, own_body), body_is_outcomes }
        }
    };
    (Settlement::Complete(outcome), fresh)
}

/// A failure whose answer the client gets as it is.
fn passed_on(
    kind: FailKind,
    status: u16,
    headers: &[(String, Vec<u8>)],
    body: Vec<u8>,
    rule: &Rule,
) -> (Settlement, Fresh) {
    let fresh = match rule.execute {
        Execute::Attached => Fresh::Release,
        Execute::Detached { .. } => own(Answer::fresh(status, headers, body)),
    };
    let status = match kind {
        FailKind::NeverSent => None,
        FailKind::Retryable | FailKind::Ambiguous => Some(status),
    };
    (Settlement::Fail { kind, status }, fresh)
}

fn unknown(status: Option<u16>, on_ambiguous: OnAmbiguous) -> (Settlement, Fresh) {
    let reexecute = on_ambiguous == OnAmbiguous::Reexecute;
    let problem = answer::unknown(status == Some(504), reexecute);
    let fresh = own(Answer::problem(&problem));
    (Settlement::Fail { kind: FailKind::Ambiguous, status: None }, fresh)
}

fn own(answer: Answer) -> Fresh {
    Fresh::Tell { answer, body_is_outcomes: false }
}
