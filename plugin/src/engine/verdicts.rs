//! What the state's answer to an operation does to its execution.

use latchkey_core::headers::ours;
use latchkey_core::operation::{Reply, Verdict};
use latchkey_core::wire::Answer;

use super::execution::{Execution, Need, Op, Request, Stage};
use super::{Call, Command, Engine, Metric, recount};

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
                if let Stage::Claiming { .. } = execution.stage {
                    self.send(id, now_us, out);
                }
            }
            Reply::Refused(Verdict::Spent) => execution.tell_spent(rule, out),
            Reply::Refused(verdict) | Reply::Fenced(verdict) => match execution.stage {
                // The client was answered; the verdict says that nothing is ours.
                Stage::Abandoning => execution.stage = Stage::Gone,
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
                    Stage::Claiming { .. } | Stage::Executing | Stage::Abandoning | Stage::Gone => {
                        execution.tries = 0
                    }
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
                execution.tell_fresh(false, out);
                execution.stage = Stage::Gone;
            }
            Reply::Fenced(verdict) | Reply::Refused(verdict) => {
                out.push(Command::Count(Metric::Fenced));
                execution.tell_verdict(verdict, rule, out);
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
        let Stage::Claiming { request, .. } = stage else {
            execution.stage = stage;
            return;
        };
        let first = execution.ticket().is_some_and(|ticket| ticket.attempt == 1);
        let metric = if first { Metric::FirstExecutions } else { Metric::Reexecutions };
        out.push(Command::Count(metric));
        let call = execution.call(request, rule.execute.timeout_ms);
        recount(&mut self.bytes_held, execution);
        out.push(Command::CallUpstream { execution: id, call });
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
    /// What to send: the client's request with our headers.
    fn call(&self, request: Request, timeout_ms: u32) -> Call {
        let Request { cluster, mut headers, body } = request;
        if let Some(ticket) = self.ticket() {
            let ours = [
                (ours::KEY, ticket.candidate.derived_key.clone()),
                (ours::ATTEMPT, ticket.attempt.to_string()),
                (ours::FENCE, ticket.fence.0.to_string()),
            ];
            headers.extend(ours.map(|(name, value)| (name.to_owned(), value)));
        }
        Call { cluster, headers, body, timeout_ms }
    }

    /// The record cannot be understood, and asking again will not help: nothing is executed,
    /// and an outcome that is there already is told as what it is.
    fn unreadable(&mut self, out: &mut Vec<Command>) {
        match self.stage {
            Stage::Claiming { .. } => self.give_up(out),
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
