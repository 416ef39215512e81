//! What the state's answer to an operation does to its execution.

use latchkey_core::config::{Execute, Rule};
use latchkey_core::headers::ours;
use latchkey_core::operation::{Reply, Verdict};
use latchkey_core::wire::Answer;

use super::execution::{Execution, Need, Op, Request, Stage};
use super::{Call, Command, Engine, Forward, Metric, recount};
use crate::request::{Send, derives_key};

impl Engine {
    /// One operation was answered.
    pub(super) fn operation_answered(
        &mut self,
        id: u64,
        answer: Answer,
        now_us: u64,
        out: &mut Vec<Command>,
    ) {
        let Some(execution) = self.executions.get_mut(&id) else { return };
        let Op::Sent { need, at_us } = execution.op else { return };
        let reply = match answer {
            Answer::Reply(reply) => reply,
            Answer::Alone => {
                let group = self.fresh_id();
                return self.at_once(id, Some(group));
            }
            Answer::Failed(why) => {
                self.warn(now_us, &format!("the state could not apply an operation: {why}"), out);
                return self.failed(id, at_us, now_us);
            }
            Answer::Unreadable(why) => {
                execution.unreadable(out);
                self.leave(id, now_us);
                self.warn(now_us, &format!("a record cannot be understood: {why}"), out);
                return;
            }
        };
        execution.op = Op::Idle;
        match need {
            Need::Claim => self.claim_answered(id, reply, at_us, now_us, out),
            Need::Renew => self.renewal_answered(id, &reply, at_us, now_us),
            Need::Settle => self.settlement_answered(id, reply, at_us, now_us, out),
            Need::Abandon => match reply {
                Reply::Void => self.voided(id, at_us, now_us),
                Reply::Settled
                | Reply::Gone
                | Reply::Fenced(_)
                | Reply::Claimed(_)
                | Reply::Refused(_)
                | Reply::Renewed { .. }
                | Reply::Operator(_) => execution.stage = Stage::Gone,
            },
            Need::Nothing => {}
        }
        self.go_on(id, now_us);
    }

    fn claim_answered(
        &mut self,
        id: u64,
        reply: Reply,
        sent_us: u64,
        now_us: u64,
        out: &mut Vec<Command>,
    ) {
        let Some(execution) = self.executions.get_mut(&id) else { return };
        let Some(rule) = self.config.rules.get(execution.rule) else { return };
        match reply {
            Reply::Claimed(claimed) => {
                execution.granted(claimed, sent_us);
                execution.tries = 0;
                match execution.stage {
                    Stage::Claiming { .. } => self.send(id, now_us, out),
                    Stage::Waiting { .. } => {
                        self.leave(id, now_us);
                        self.send(id, now_us, out);
                    }
                    Stage::Executing | Stage::Settling { .. } | Stage::Abandoning | Stage::Gone => {
                    }
                }
            }
            Reply::Refused(Verdict::Spent) => {
                execution.tell_spent(rule, out);
                self.leave(id, now_us);
            }
            Reply::Refused(verdict @ Verdict::InProgress { .. })
                if execution.may_wait() && rule.on_conflict.wait_ms > 0 =>
            {
                self.wait(id, verdict, now_us, out);
            }
            Reply::Refused(verdict) | Reply::Fenced(verdict) => match execution.stage {
                // The client was answered; the verdict says that nothing is ours.
                Stage::Abandoning => execution.stage = Stage::Gone,
                Stage::Waiting { .. } => self.tell_all(id, &verdict, out),
                Stage::Claiming { .. }
                | Stage::Executing
                | Stage::Settling { .. }
                | Stage::Gone => execution.tell_verdict(verdict, rule, out),
            },
            Reply::Void => self.voided(id, sent_us, now_us),
            // No answer to a claim: what became of it is as unknown as without one.
            Reply::Renewed { .. } | Reply::Settled | Reply::Gone | Reply::Operator(_) => {
                execution.claim_may_have_landed = true;
                self.failed(id, sent_us, now_us);
            }
        }
    }

    fn renewal_answered(&mut self, id: u64, reply: &Reply, sent_us: u64, now_us: u64) {
        let Some(execution) = self.executions.get_mut(&id) else { return };
        match reply {
            Reply::Renewed { lease_left_us } => {
                execution.renewed(*lease_left_us, sent_us);
                match execution.stage {
                    // The settlement's tries go on counting: it is still not taken.
                    Stage::Settling { .. } => {}
                    Stage::Claiming { .. }
                    | Stage::Waiting { .. }
                    | Stage::Executing
                    | Stage::Abandoning
                    | Stage::Gone => execution.tries = 0,
                }
            }
            Reply::Fenced(_) | Reply::Refused(_) => execution.stop_renewing(),
            Reply::Void => self.voided(id, sent_us, now_us),
            Reply::Claimed(_) | Reply::Settled | Reply::Gone | Reply::Operator(_) => {
                self.failed(id, sent_us, now_us);
            }
        }
    }

    fn settlement_answered(
        &mut self,
        id: u64,
        reply: Reply,
        sent_us: u64,
        now_us: u64,
        out: &mut Vec<Command>,
    ) {
        let Some(execution) = self.executions.get_mut(&id) else { return };
        let Some(rule) = self.config.rules.get(execution.rule) else { return };
        match reply {
            Reply::Settled | Reply::Gone => {
                self.wake(id, out);
                if let Some(execution) = self.executions.get_mut(&id) {
                    execution.tell_fresh(false, out);
                    execution.stage = Stage::Gone;
                }
            }
            Reply::Fenced(verdict) | Reply::Refused(verdict) => {
                out.push(Command::Count(Metric::Fenced));
                execution.tell_verdict(verdict, rule, out);
                self.wake(id, out);
            }
            Reply::Void | Reply::Claimed(_) | Reply::Renewed { .. } | Reply::Operator(_) => {
                self.voided(id, sent_us, now_us);
            }
        }
    }

    /// Sends the request to the upstream, if the claim is still good.
    fn send(&mut self, id: u64, now_us: u64, out: &mut Vec<Command>) {
        let Some(execution) = self.executions.get_mut(&id) else { return };
        let Some(rule) = self.config.rules.get(execution.rule) else { return };
        if !execution.may_send(now_us) {
            return;
        }
        let stage = std::mem::replace(&mut execution.stage, Stage::Executing);
        let (Stage::Claiming { request, .. } | Stage::Waiting { request, .. }) = stage else {
            execution.stage = stage;
            return;
        };
        match execution.sent(request, rule, id) {
            Some(command) => {
                let first = execution.ticket().is_some_and(|ticket| ticket.attempt == 1);
                let metric = if first { Metric::FirstExecutions } else { Metric::Reexecutions };
                out.push(Command::Count(metric));
                out.push(command);
            }
            // Envoy's router has nothing to send any more: the client is gone.
            None => execution.abandon(),
        }
        recount(&mut self.bytes_held, execution);
    }

    /// An execution that has nothing under way may have something to ask at once.
    fn go_on(&mut self, id: u64, now_us: u64) {
        let Some(execution) = self.executions.get_mut(&id) else { return };
        recount(&mut self.bytes_held, execution);
        if execution.op == Op::Idle && execution.needs(now_us) != Need::Nothing {
            self.at_once(id, None);
        }
    }
}

impl Execution {
    /// How to send the client's request, with our headers.
    fn sent(&self, request: Request, rule: &Rule, id: u64) -> Option<Command> {
        let ticket = self.ticket()?;
        let mut ours = vec![
            (ours::ATTEMPT.to_owned(), ticket.attempt.to_string()),
            (ours::FENCE.to_owned(), ticket.fence.0.to_string()),
        ];
        if derives_key(rule) {
            ours.push((ours::KEY.to_owned(), ticket.candidate.derived_key.clone()));
        }
        let Request { cluster, send } = request;
        match (send, &rule.execute) {
            (Send::Detached { mut headers, body }, Execute::Detached { timeout_ms, .. }) => {
                headers.extend(ours);
                let call = Call { cluster, headers, body, timeout_ms: *timeout_ms };
                Some(Command::CallUpstream { execution: id, call })
            }
            (Send::Attached { remove }, Execute::Attached) => {
                let response_body_max_bytes = rule.store.response_body_max_bytes;
                let attempt = ticket.attempt;
                let forward = Forward { remove, set: ours, attempt, response_body_max_bytes };
                Some(Command::Forward { stream: self.stream?, execution: id, forward })
            }
            (Send::Detached { .. }, Execute::Attached)
            | (Send::Attached { .. }, Execute::Detached { .. }) => None,
        }
    }

    /// Whether its client would be there for an outcome.
    fn may_wait(&self) -> bool {
        let asks = matches!(self.stage, Stage::Claiming { .. } | Stage::Waiting { .. });
        asks && self.stream.is_some()
    }

    /// The record cannot be understood, and asking again will not help: nothing is executed,
    /// and an outcome that is there already is told as what it is.
    fn unreadable(&mut self, out: &mut Vec<Command>) {
        match self.stage {
            Stage::Claiming { .. } | Stage::Waiting { .. } => self.give_up(false, out),
            Stage::Settling { .. } => self.tell_fresh(true, out),
            Stage::Executing => {
                self.stop_renewing();
                self.op = Op::Idle;
                return;
            }
            Stage::Abandoning | Stage::Gone => {}
        }
        self.stage = Stage::Gone;
        self.op = Op::Idle;
    }
}
