//! Calls to the state: gathering operations into them, and reading their answers.

use latchkey_core::classify::{Origin, Route, origin};
use latchkey_core::operation::{Event, Operation};
use latchkey_core::time::StoreTime;
use latchkey_core::wire::{Message, decode_result, encode_operation, state_v1 as wire};

use super::execution::{Need, Op, Stage};
use super::{BATCHES_MAX, CallAnswer, Command, Engine, GREETING_AGAIN_US, HEARTBEAT_US, Metric};

/// The most operations in one call: a reply to as many claims, each with a small response, stays
/// far below its cap.
const OPERATIONS_MAX: usize = 256;

/// A call is closed once its body is this large, in bytes: with one more operation of the
/// largest kind it stays below the server's cap of 4 MiB.
const BATCH_BYTES_MAX: usize = 900_000;

/// An operation that waits to go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ready {
    pub(super) execution: u64,
    /// Operations of one group go out together and with no others: a call that failed is tried
    /// again in halves, so that one bad operation cannot take the others with it for ever.
    pub(super) group: Option<u64>,
}

/// A call that is under way.
#[derive(Debug)]
pub(super) struct Batch {
    executions: Vec<u64>,
    sent_us: u64,
}

/// What is known of a call whose operations were not answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    /// It did not reach the state: a copy may go out at once.
    NeverSent,
    /// It may have, and may still.
    Unknown,
}

impl Engine {
    /// Sends what is ready, as far as calls are free.
    pub(super) fn flush(&mut self, now_us: u64, out: &mut Vec<Command>) {
        if self.clock.at(now_us).is_none() || self.ready.is_empty() {
            self.greet(now_us, out);
            return;
        }
        while self.batches.len() < BATCHES_MAX && !self.ready.is_empty() {
            let (executions, operations) = self.gather(now_us);
            if !executions.is_empty() {
                self.call(executions, operations, now_us, out);
            }
        }
    }

    /// An empty call: it tells the state that we are here, and us the store's clock.
    fn greet(&mut self, now_us: u64, out: &mut Vec<Command>) {
        let known = self.clock.at(now_us).is_some();
        // Who ends greets only for those who still wait to claim.
        let over = self.draining && (known || self.executions.is_empty());
        if !self.batches.is_empty() || over {
            return;
        }
        let pause_us = if known { HEARTBEAT_US } else { GREETING_AGAIN_US };
        let due = self.last_call_us.is_none_or(|at| now_us.saturating_sub(at) >= pause_us);
        if due {
            self.call(Vec::new(), Vec::new(), now_us, out);
        }
    }

    fn gather(&mut self, now_us: u64) -> (Vec<u64>, Vec<wire::Operation>) {
        let timeout_us = self.timeout_us();
        let void_after = StoreTime(self.clock.at(now_us).unwrap_or(0).saturating_add(timeout_us));
        let (mut executions, mut operations, mut bytes) = (Vec::new(), Vec::new(), 0_usize);
        let group = self.ready.front().and_then(|ready| ready.group);
        while let Some(ready) = self.ready.front().copied() {
            if ready.group != group || executions.len() >= OPERATIONS_MAX || bytes > BATCH_BYTES_MAX
            {
                break;
            }
            self.ready.pop_front();
            let Some(execution) = self.executions.get_mut(&ready.execution) else { continue };
            if execution.op != Op::Queued {
                continue;
            }
            let need = execution.needs(now_us);
            let Some(event) = execution.event(need) else {
                execution.op = Op::Idle;
                continue;
            };
            let event = Event::Filter { void_after, event };
            let operation = Operation { identity: execution.identity, event };
            let Some(message) = encode_operation(&operation) else { continue };
            execution.op = Op::Sent { need, at_us: now_us };
            bytes = bytes.saturating_add(message.encoded_len());
            executions.push(ready.execution);
            operations.push(message);
        }
        (executions, operations)
    }

    fn call(
        &mut self,
        executions: Vec<u64>,
        operations: Vec<wire::Operation>,
        now_us: u64,
        out: &mut Vec<Command>,
    ) {
        let in_flight = u32::try_from(self.executions.len()).unwrap_or(u32::MAX);
        let gateway = wire::Gateway { executions_in_flight: in_flight, ..self.gateway.clone() };
        let body = wire::BatchRequest { gateway: Some(gateway), operations }.encode_to_vec();
        let batch = self.fresh_id();
        self.batches.insert(batch, Batch { executions, sent_us: now_us });
        self.last_call_us = Some(now_us);
        out.push(Command::CallState { batch, body, timeout_ms: self.config.state.timeout_ms });
    }

    /// A call to the state has ended.
    pub(super) fn state_answered(
        &mut self,
        batch: u64,
        answer: CallAnswer,
        now_us: u64,
        out: &mut Vec<Command>,
    ) {
        let Some(batch) = self.batches.remove(&batch) else { return };
        match read(answer) {
            Ok(reply) => {
                self.clock.observe(reply.now_us, now_us, self.timeout_us());
                let mut results = reply.results.into_iter();
                for id in batch.executions {
                    let answer = results.next().map(decode_result);
                    match answer {
                        Some(Ok(answer)) => self.operation_answered(id, answer, now_us, out),
                        Some(Err(_)) | None => {
                            self.failed(id, batch.sent_us, now_us);
                        }
                    }
                    self.drop_if_over(id);
                }
            }
            Err((lost, why)) => {
                out.push(Command::Count(Metric::StateCallsFailed));
                self.warn(now_us, &format!("a call to the state failed: {why}"), out);
                // It is tried again in halves; one that was alone stays alone.
                let (first, second) = match lost {
                    Lost::NeverSent => (None, None),
                    Lost::Unknown => (Some(self.fresh_id()), Some(self.fresh_id())),
                };
                let half = batch.executions.len() / 2;
                for (at, id) in batch.executions.into_iter().enumerate() {
                    let group = if at < half { first } else { second };
                    self.again(id, batch.sent_us, lost, group, now_us);
                    self.drop_if_over(id);
                }
            }
        }
    }

    /// An operation was not answered: a copy goes out, when none before it can act any more.
    fn again(&mut self, id: u64, sent_us: u64, lost: Lost, group: Option<u64>, now_us: u64) {
        let timeout_us = self.timeout_us();
        let Some(execution) = self.executions.get_mut(&id) else { return };
        if matches!(execution.op, Op::Sent { need: Need::Claim, .. }) && lost == Lost::Unknown {
            execution.claim_may_have_landed = true;
        }
        if execution.has_nothing_to_say() {
            execution.stage = Stage::Gone;
            return;
        }
        execution.tries = execution.tries.saturating_add(1);
        let paused_us = now_us.saturating_add(execution.pause_us());
        let until_us = match lost {
            Lost::NeverSent => paused_us,
            Lost::Unknown => paused_us.max(sent_us.saturating_add(timeout_us)),
        };
        execution.op = Op::Waiting { until_us, group };
    }

    /// Answers that ask for a copy by themselves: nothing is under way any more.
    pub(super) fn at_once(&mut self, id: u64, group: Option<u64>) {
        if let Some(execution) = self.executions.get_mut(&id) {
            execution.op = Op::Queued;
            self.ready.push_back(Ready { execution: id, group });
        }
    }

    /// The operation came too late and did nothing: a copy goes out after a pause, since a
    /// store whose clock never agrees would be asked for ever.
    pub(super) fn voided(&mut self, id: u64, sent_us: u64, now_us: u64) {
        self.again(id, sent_us, Lost::NeverSent, None, now_us);
    }

    /// The store could not say: a copy goes out after a pause.
    pub(super) fn failed(&mut self, id: u64, sent_us: u64, now_us: u64) {
        self.again(id, sent_us, Lost::Unknown, None, now_us);
    }
}

fn read(answer: CallAnswer) -> Result<wire::BatchReply, (Lost, String)> {
    let lost = match origin(Route::Direct, &answer.classified()) {
        Origin::NeverSent => Lost::NeverSent,
        Origin::Upstream(_) | Origin::Unknown => Lost::Unknown,
    };
    match answer {
        CallAnswer::NotDispatched => {
            Err((Lost::NeverSent, "Envoy would not dispatch it; is the cluster there?".to_owned()))
        }
        CallAnswer::Ended { status: Some(200), body, .. } => wire::BatchReply::decode(&*body)
            .map_err(|error| (Lost::Unknown, format!("the answer cannot be read: {error}"))),
        CallAnswer::Ended { status: Some(401), .. } => {
            Err((lost, "the state refuses our token; check `state.token_env`".to_owned()))
        }
        CallAnswer::Ended { status: Some(status), .. } => Err((lost, format!("status {status}"))),
        CallAnswer::Ended { status: None, .. } => Err((lost, "no answer".to_owned())),
    }
}
