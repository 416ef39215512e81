//! Operations as runs of scripts. What each argument is stands in the scripts' files.

use latchkey_core::fingerprint::{Candidate, Fingerprint};
use latchkey_core::hex;
use latchkey_core::operation::{
    Claim, Event, Fail, FailKind, FilterEvent, OperatorEvent, Seen, Ticket,
};
use latchkey_core::record::{OnAmbiguous, Outcome, Subject, Terms};
use latchkey_core::time::StoreTime;
use latchkey_core::wire::{self, Message, state_v1};

use super::scripts::Script;

/// A script's arguments, the first of which is the time (empty: Redis' own).
pub(super) struct Args(pub(super) Vec<Vec<u8>>);

/// The script that does `event`, and its arguments.
pub(super) fn event(time: Vec<u8>, event: Event) -> (Script, Args) {
    let mut args = Args(Vec::with_capacity(16));
    args.bytes(time);
    let script = match event {
        Event::Filter { void_after, event } => filter_event(&mut args, void_after, event),
        Event::Operator { seen, event } => operator_event(&mut args, seen, event),
    };
    (script, args)
}

fn filter_event(args: &mut Args, void_after: StoreTime, event: FilterEvent) -> Script {
    args.number(void_after.0);
    match event {
        FilterEvent::Claim(claim) => {
            args.claim(claim);
            Script::Claim
        }
        FilterEvent::Renew(ticket) => {
            args.ticket(ticket);
            Script::Renew
        }
        FilterEvent::Complete { ticket, outcome } => {
            args.ticket(ticket);
            args.outcome(&outcome);
            Script::Complete
        }
        FilterEvent::Fail(fail) => {
            args.fail(&fail);
            Script::Fail
        }
    }
}

fn operator_event(args: &mut Args, seen: Seen, event: OperatorEvent) -> Script {
    args.number(seen.fence.0);
    args.number(seen.revision);
    match event {
        OperatorEvent::Release { force } => {
            args.number(force);
            Script::Release
        }
        OperatorEvent::Resolve { outcome, force } => {
            args.number(force);
            args.outcome(&outcome);
            Script::Resolve
        }
        OperatorEvent::Forget => Script::Forget,
    }
}

/// A fingerprint in one field: they are equal where the fields are.
fn fingerprint(fingerprint: &Fingerprint) -> String {
    let Fingerprint { version, secret, digest } = fingerprint;
    format!("{version}:{}:{secret}", hex::encode(digest))
}

// === impl Args ===

impl Args {
    pub(super) fn bytes(&mut self, bytes: Vec<u8>) {
        self.0.push(bytes);
    }

    pub(super) fn number(&mut self, number: impl Into<u64>) {
        self.text(&number.into().to_string());
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes().to_vec());
    }

    fn claim(&mut self, claim: Claim) {
        self.text(&hex::encode(&claim.execution.0));
        self.terms(&claim.terms);
        self.subject(claim.subject);
        self.bytes(claim.gateway.into_bytes());
        for candidate in claim.candidates {
            self.candidate(candidate);
        }
    }

    fn ticket(&mut self, ticket: Ticket) {
        self.text(&hex::encode(&ticket.execution.0));
        self.number(ticket.fence.0);
        self.number(ticket.attempt);
        self.number(ticket.sent);
        self.candidate(ticket.candidate);
        self.terms(&ticket.terms);
        self.subject(ticket.subject);
        self.bytes(ticket.gateway.into_bytes());
    }

    fn fail(&mut self, fail: &Fail) {
        self.text(&hex::encode(&fail.execution.0));
        self.text(&fail.fence.map(|fence| fence.0.to_string()).unwrap_or_default());
        self.text(&fail.fingerprint.as_ref().map(fingerprint).unwrap_or_default());
        self.text(match fail.kind {
            FailKind::NeverSent => "never_sent",
            FailKind::Retryable => "retryable",
            FailKind::Ambiguous => "ambiguous",
        });
        self.number(fail.status.unwrap_or(0));
        self.number(fail.retry_after_us);
    }

    fn candidate(&mut self, candidate: Candidate) {
        self.text(&fingerprint(&candidate.fingerprint));
        self.bytes(candidate.derived_key.into_bytes());
    }

    fn terms(&mut self, terms: &Terms) {
        let Terms { on_ambiguous, attempts_max, lease_us, ttl_us, held_ttl_us } = terms;
        let on_ambiguous = match on_ambiguous {
            OnAmbiguous::Reexecute => 'r',
            OnAmbiguous::Hold => 'h',
        };
        self.text(&format!("{on_ambiguous} {attempts_max} {lease_us} {ttl_us} {held_ttl_us}"));
    }

    fn subject(&mut self, subject: Subject) {
        let Subject { namespace, rule, client, key } = subject;
        self.bytes(state_v1::Subject { namespace, rule, client, key }.encode_to_vec());
    }

    fn outcome(&mut self, outcome: &Outcome) {
        self.bytes(wire::encode_outcome(outcome).encode_to_vec());
    }
}
