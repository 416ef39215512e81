//! One execution: its stage, and the operation that it has under way.

use latchkey_core::config::Rule;
use latchkey_core::fingerprint::Fingerprint;
use latchkey_core::identity::Identity;
use latchkey_core::operation::{Claim, Claimed, Fail, FailKind, FilterEvent, Ticket, Verdict};
use latchkey_core::record::Outcome;

use super::{Command, Metric, STATE_TRIES};
use crate::answer::{self, Answer};
use crate::request::{Guarded, Send, size_of};

/// The longest pause before an operation is tried again, in µs: a quarter of the shortest
/// lease, so that an owner is heard in time when the state comes back.
const PAUSE_MAX_US: u64 = 1_000_000;

/// The first pause, in µs; it doubles with each try.
const PAUSE_MIN_US: u64 = 25_000;

/// From claim to settlement.
#[derive(Debug)]
pub(super) struct Execution {
    /// Who waits for the answer, if anybody still does.
    pub(super) stream: Option<u32>,
    pub(super) rule: usize,
    pub(super) identity: Identity,
    pub(super) stage: Stage,
    pub(super) op: Op,
    /// Tries of the present need that were not answered.
    pub(super) tries: u32,
    /// Whether a claim went out whose fate is unknown.
    pub(super) claim_may_have_landed: bool,
    /// Bytes held for it, as counted.
    pub(super) bytes: u64,
    /// Whether its answer is let read by scripts of other origins.
    pub(super) cross_origin: bool,
    /// Where Envoy handed the request on to another stream of its own making (an internal
    /// redirect): until when that has to come forward.
    pub(super) adopt_by_us: Option<u64>,
    /// Whether it ever did: an upstream has answered, whatever becomes of the rest.
    pub(super) redirected: bool,
    claim: Claim,
    ticket: Option<Ticket>,
    /// Until when the lease surely holds, on our clock.
    lease_until_us: u64,
    /// When the lease is to be renewed, on our clock; never where another execution counts.
    renew_at_us: u64,
}

/// How far an execution has come.
#[derive(Debug)]
pub(super) enum Stage {
    /// Asking for leave.
    Claiming {
        /// When the client stops waiting.
        give_up_us: u64,
        /// What to send once it is granted.
        request: Request,
    },
    /// Another execution of the key is running; its outcome is waited for.
    Waiting {
        /// When the client stops waiting.
        until_us: u64,
        /// What to send if it comes to that.
        request: Request,
        /// Whether it asks for all who wait for this key.
        leads: bool,
    },
    /// The upstream has the request.
    Executing,
    /// The outcome is known and has to be told to the state.
    Settling {
        settlement: Settlement,
        /// The client's answer, until it is told.
        answer: Option<Fresh>,
        /// When the client stops waiting for the state.
        answer_by_us: u64,
    },
    /// Ended without sending anything; the state has to hear it.
    Abandoning,
    /// Over.
    Gone,
}

/// What the upstream will get.
#[derive(Debug)]
pub(super) struct Request {
    /// For a call of the gateway's own.
    pub(super) cluster: String,
    pub(super) send: Send,
}

/// What the state has to be told of the end.
#[derive(Debug)]
pub(super) enum Settlement {
    Complete(Outcome),
    Fail { kind: FailKind, status: Option<u16> },
}

/// The answer to the client that caused the execution.
#[derive(Debug)]
pub(super) enum Fresh {
    /// This. The body is the outcome's where that has one: it is held once.
    Tell { answer: Answer, body_is_outcomes: bool },
    /// What Envoy holds back.
    Release,
}

/// The operation that an execution has under way: one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// None.
    Idle,
    /// To go out with the next batch; which one is decided then.
    Queued,
    /// Under way since `at_us`.
    Sent { need: Need, at_us: u64 },
    /// Not answered; again after `until_us`, when no copy of it can act any more.
    Waiting { until_us: u64, group: Option<u64> },
}

/// What an execution has to ask of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Claim,
    Renew,
    Settle,
    Abandon,
    Nothing,
}

// === impl Execution ===

impl Execution {
    pub(super) fn new(
        stream: u32,
        guarded: Guarded,
        bytes: u64,
        cluster: String,
        give_up_us: u64,
    ) -> Self {
        let Guarded { rule, identity, claim, send, cross_origin } = guarded;
        let request = Request { cluster, send };
        Self {
            stream: Some(stream),
            rule,
            identity,
            stage: Stage::Claiming { give_up_us, request },
            op: Op::Queued,
            tries: 0,
            claim_may_have_landed: false,
            bytes,
            cross_origin,
            adopt_by_us: None,
            redirected: false,
            claim,
            ticket: None,
            lease_until_us: 0,
            renew_at_us: u64::MAX,
        }
    }

    /// What it holds of memory, in bytes.
    pub(super) fn held(&self) -> u64 {
        match &self.stage {
            // Only ever dropped whole.
            Stage::Claiming { .. } | Stage::Waiting { .. } => self.bytes,
            Stage::Settling { settlement, answer, .. } => {
                let stored = match settlement {
                    Settlement::Complete(Outcome::Response(response)) => {
                        size_of(&response.headers).saturating_add(response.body.len())
                    }
                    Settlement::Complete(Outcome::Tombstone { .. }) | Settlement::Fail { .. } => 0,
                };
                let told = match answer {
                    Some(Fresh::Tell { answer, .. }) => {
                        size_of(&answer.headers).saturating_add(answer.body.len())
                    }
                    Some(Fresh::Release) | None => 0,
                };
                stored.saturating_add(told) as u64
            }
            Stage::Executing | Stage::Abandoning | Stage::Gone => 0,
        }
    }

    /// What to ask now.
    pub(super) fn needs(&self, now_us: u64) -> Need {
        match &self.stage {
            Stage::Claiming { .. } | Stage::Waiting { leads: true, .. } => Need::Claim,
            Stage::Waiting { leads: false, .. } => Need::Nothing,
            Stage::Executing if now_us >= self.renew_at_us => Need::Renew,
            Stage::Executing => Need::Nothing,
            // An outcome that the state will not take must not cost the lease.
            Stage::Settling { .. } if self.tries >= STATE_TRIES && now_us >= self.renew_at_us => {
                Need::Renew
            }
            Stage::Settling { .. } => Need::Settle,
            Stage::Abandoning => Need::Abandon,
            Stage::Gone => Need::Nothing,
        }
    }

    /// The operation for `need`.
    pub(super) fn event(&self, need: Need) -> Option<FilterEvent> {
        match need {
            Need::Claim => Some(FilterEvent::Claim(self.claim.clone())),
            Need::Renew => self.ticket.clone().map(FilterEvent::Renew),
            Need::Settle => self.settlement(),
            Need::Abandon => Some(FilterEvent::Fail(self.fail(FailKind::NeverSent, None))),
            Need::Nothing => None,
        }
    }

    fn settlement(&self) -> Option<FilterEvent> {
        let Stage::Settling { settlement, .. } = &self.stage else { return None };
        match settlement {
            Settlement::Complete(outcome) => {
                let ticket = self.ticket.clone()?;
                Some(FilterEvent::Complete { ticket, outcome: outcome.clone() })
            }
            Settlement::Fail { kind, status } => Some(FilterEvent::Fail(self.fail(*kind, *status))),
        }
    }

    fn fail(&self, kind: FailKind, status: Option<u16>) -> Fail {
        let ticket = self.ticket.as_ref();
        Fail {
            execution: self.claim.execution,
            fence: ticket.map(|ticket| ticket.fence),
            fingerprint: ticket.map(|ticket| ticket.candidate.fingerprint.clone()),
            kind,
            status,
            retry_after_us: 0,
        }
    }

    /// Leave was given to an execution that asked at `sent_us`.
    pub(super) fn granted(&mut self, claimed: Claimed, sent_us: u64) {
        self.claim_may_have_landed = true;
        self.lease(claimed.lease_left_us, claimed.terms.lease_us, sent_us);
        self.ticket = Some(Ticket {
            execution: self.claim.execution,
            fence: claimed.fence,
            attempt: claimed.attempt,
            sent: claimed.sent,
            candidate: claimed.candidate,
            terms: claimed.terms,
            subject: self.claim.subject.clone(),
            gateway: self.claim.gateway.clone(),
        });
    }

    /// The lease was renewed by a request sent at `sent_us`.
    pub(super) fn renewed(&mut self, lease_left_us: u64, sent_us: u64) {
        self.lease(lease_left_us, lease_left_us, sent_us);
    }

    fn lease(&mut self, left_us: u64, whole_us: u64, sent_us: u64) {
        self.lease_until_us = sent_us.saturating_add(left_us);
        self.renew_at_us = sent_us.saturating_add(left_us.min(whole_us / 3));
    }

    /// There is no lease of ours to renew any more.
    pub(super) fn stop_renewing(&mut self) {
        self.renew_at_us = u64::MAX;
    }

    /// Whether it ended without sending anything and no claim of it can be anywhere.
    pub(super) fn has_nothing_to_say(&self) -> bool {
        matches!(self.stage, Stage::Abandoning)
            && self.ticket.is_none()
            && !self.claim_may_have_landed
    }

    /// Whether the claim is still good to send anything by. One that came too late is as if it
    /// had not been answered, and is asked for again: renewing it instead could bring back a
    /// record that was forgotten in between, under a fence that is no longer the highest.
    pub(super) fn may_send(&mut self, now_us: u64) -> bool {
        let good = now_us < self.lease_until_us;
        if !good {
            self.ticket = None;
        }
        good
    }

    /// Whether its request has this fingerprint, under any recipe and secret.
    pub(super) fn has_fingerprint(&self, fingerprint: &Fingerprint) -> bool {
        self.claim.candidates.iter().any(|candidate| candidate.fingerprint == *fingerprint)
    }

    /// Its request's preferred fingerprint.
    pub(super) fn fingerprint(&self) -> Option<&Fingerprint> {
        self.claim.candidates.first().map(|candidate| &candidate.fingerprint)
    }

    /// A number that no other execution has, to spread things by.
    pub(super) fn lot(&self) -> u64 {
        let mut lot = [0; 8];
        for (to, from) in lot.iter_mut().zip(self.claim.execution.0) {
            *to = from;
        }
        u64::from_be_bytes(lot)
    }

    /// What the claim gave.
    pub(super) fn ticket(&self) -> Option<&Ticket> {
        self.ticket.as_ref()
    }

    /// Tells the waiting client, if there is one.
    pub(super) fn tell(&mut self, answer: Answer, out: &mut Vec<Command>) {
        if let Some(stream) = self.stream.take() {
            let answer = if self.cross_origin { answer.exposed() } else { answer };
            let attempt = self.ticket().map(|ticket| ticket.attempt);
            out.push(Command::Answer { stream, answer, attempt });
        }
    }

    /// Tells what the record says, and ends. Only what is told is counted.
    pub(super) fn tell_verdict(&mut self, verdict: Verdict, rule: &Rule, out: &mut Vec<Command>) {
        let (answer, metric) = Answer::verdict(verdict, rule);
        if self.stream.is_some() {
            out.push(Command::Count(metric));
        }
        self.tell(answer, out);
        self.stage = Stage::Gone;
    }

    /// This execution has claimed and ended, says the state; it has sent nothing. Its claim was
    /// granted and the answer lost, so the state hears that nothing was sent.
    pub(super) fn tell_spent(&mut self, rule: &Rule, out: &mut Vec<Command>) {
        self.tell_verdict(Verdict::Spent, rule, out);
        self.stage = Stage::Abandoning;
        self.claim_may_have_landed = true;
    }

    /// The client's patience with the state has an end; the execution's has not.
    pub(super) fn lose_patience(&mut self, now_us: u64, pass: bool, out: &mut Vec<Command>) {
        match &mut self.stage {
            Stage::Claiming { give_up_us, .. } if now_us >= *give_up_us => self.give_up(pass, out),
            Stage::Settling { answer_by_us, .. } if now_us >= *answer_by_us => {
                self.tell_fresh(true, out);
            }
            Stage::Claiming { .. }
            | Stage::Waiting { .. }
            | Stage::Executing
            | Stage::Settling { .. }
            | Stage::Abandoning
            | Stage::Gone => {}
        }
    }

    /// Without leave in time nothing is sent under the key, and the state hears so. Where the
    /// rule lets it `pass`, the request goes on unguarded.
    pub(super) fn give_up(&mut self, pass: bool, out: &mut Vec<Command>) {
        out.push(Command::Count(Metric::StateFailures));
        if pass {
            if let Some(stream) = self.stream.take() {
                out.push(Command::Count(Metric::Bypassed));
                out.push(Command::Pass { stream });
            }
        } else {
            self.tell(Answer::problem(&answer::state_unavailable()), out);
        }
        self.abandon();
    }

    /// It ends without having sent anything, and the state hears so if it could think otherwise.
    pub(super) fn abandon(&mut self) {
        self.stage = Stage::Abandoning;
        self.tries = 0;
        if self.has_nothing_to_say() && !matches!(self.op, Op::Sent { .. }) {
            self.stage = Stage::Gone;
        }
    }

    /// Tells the client its own outcome, unless that was told before.
    pub(super) fn tell_fresh(&mut self, unstored: bool, out: &mut Vec<Command>) {
        let Stage::Settling { settlement, answer, .. } = &mut self.stage else { return };
        let Some(fresh) = answer.take() else { return };
        if unstored {
            out.push(Command::Count(Metric::Unstored));
        }
        match fresh {
            Fresh::Tell { mut answer, body_is_outcomes } => {
                if body_is_outcomes
                    && let Settlement::Complete(Outcome::Response(response)) = settlement
                {
                    // After this the body is needed only if it has still to be stored.
                    answer.body = if unstored {
                        response.body.clone()
                    } else {
                        std::mem::take(&mut response.body)
                    };
                }
                let answer = if unstored { answer.unstored() } else { answer };
                self.tell(answer, out);
            }
            Fresh::Release => {
                if let Some(stream) = self.stream.take() {
                    let expose = self.cross_origin;
                    out.push(Command::Release { stream, unstored, expose });
                }
            }
        }
    }

    /// How long to pause after the present number of tries.
    pub(super) fn pause_us(&self) -> u64 {
        let doublings = self.tries.min(10);
        PAUSE_MIN_US.saturating_mul(1 << doublings).min(PAUSE_MAX_US)
    }
}
