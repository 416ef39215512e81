//! Duplicates that wait for the outcome of a running execution (`on_conflict: wait`).
//!
//! All who wait for one key on one worker stand behind one of them, the leader. It alone claims
//! again, through ordinary batches and with growing pauses: two hundred waiters ask no more often
//! than one. What ends the waiting:
//!
//! * an outcome of this worker: everybody is told at once;
//! * an execution of this worker that failed: the leader asks at once;
//! * any other verdict on the leader's claim: everybody is told;
//! * leave to execute: the leader does, and the next leads the others;
//! * its own time is over, or its client is gone: it alone leaves.
//!
//! Who waits has the fingerprint of the request that it waits for: either the store has said
//! "in progress" and not "another request", or it was compared with one who was told so.

use std::collections::{BTreeMap, VecDeque};

use latchkey_core::fingerprint::Fingerprint;
use latchkey_core::identity::Identity;
use latchkey_core::operation::Verdict;
use latchkey_core::record::Outcome;

use super::execution::{Execution, Op, Settlement, Stage};
use super::{Command, Engine, Metric};
use crate::answer::{self, Answer};
use crate::request::Guarded;

/// The first pause of a leader, in µs: a quick execution is over then.
const PAUSE_MIN_US: u64 = 50_000;

/// The longest pause, in µs: what a waiter may learn late of an outcome elsewhere.
const PAUSE_MAX_US: u64 = 1_000_000;

/// Everybody who waits on this worker.
#[derive(Debug, Default)]
pub(super) struct Waits {
    by_key: BTreeMap<Identity, Wait>,
    waiters: usize,
}

/// Those who wait for one key.
#[derive(Debug)]
struct Wait {
    rule: usize,
    fingerprint: Fingerprint,
    /// The leader first.
    members: VecDeque<u64>,
    /// How often its leaders have asked in vain.
    tries: u32,
}

impl Engine {
    /// Whether a new request can wait without asking first: others do who sent the same.
    pub(super) fn joins(&self, request: &Guarded) -> bool {
        let print = request.claim.candidates.first().map(|candidate| &candidate.fingerprint);
        self.waits
            .by_key
            .get(&request.identity)
            .is_some_and(|wait| wait.rule == request.rule && Some(&wait.fingerprint) == print)
    }

    /// An execution of the key is running elsewhere or here: its outcome is waited for.
    pub(super) fn wait(&mut self, id: u64, verdict: Verdict, now_us: u64, out: &mut Vec<Command>) {
        let full = self.waits.waiters >= self.config.limits.waiters_max as usize;
        let Some(execution) = self.executions.get_mut(&id) else { return };
        let Some(rule) = self.config.rules.get(execution.rule) else { return };
        if let Stage::Waiting { .. } = execution.stage {
            return self.pause(id, now_us);
        }
        let mismatched = self.waits.by_key.get(&execution.identity).is_some_and(|wait| {
            wait.rule != execution.rule || Some(&wait.fingerprint) != execution.fingerprint()
        });
        let print = execution.fingerprint().cloned();
        let (false, false, Some(fingerprint)) = (full, mismatched, print) else {
            return execution.tell_verdict(verdict, rule, out);
        };
        execution.begin_waiting(now_us.saturating_add(u64::from(rule.on_conflict.wait_ms) * 1_000));
        out.push(Command::Count(Metric::Waits));
        let members = VecDeque::new();
        let new = Wait { rule: execution.rule, fingerprint, members, tries: 0 };
        let wait = self.waits.by_key.entry(execution.identity).or_insert(new);
        wait.members.push_back(id);
        self.waits.waiters = self.waits.waiters.saturating_add(1);
        if wait.members.len() == 1 {
            self.lead(id, now_us);
        }
    }

    fn lead(&mut self, id: u64, now_us: u64) {
        if let Some(execution) = self.executions.get_mut(&id)
            && let Stage::Waiting { leads, .. } = &mut execution.stage
        {
            *leads = true;
            self.pause(id, now_us);
        }
    }

    /// The leader asks again after a pause, which grows; its lot spreads the leaders of a fleet.
    fn pause(&mut self, id: u64, now_us: u64) {
        let Some(execution) = self.executions.get_mut(&id) else { return };
        let Some(wait) = self.waits.by_key.get_mut(&execution.identity) else { return };
        let whole = PAUSE_MIN_US.saturating_mul(1 << wait.tries.min(10)).min(PAUSE_MAX_US);
        wait.tries = wait.tries.saturating_add(1);
        let half = whole / 2;
        let spread = execution.lot().checked_rem(half.max(1)).unwrap_or(0);
        let until_us = now_us.saturating_add(half).saturating_add(spread);
        execution.op = Op::Waiting { until_us, group: None };
    }

    /// It waits no more; if it led, the next one does.
    pub(super) fn leave(&mut self, id: u64, now_us: u64) {
        let Some(execution) = self.executions.get(&id) else { return };
        let identity = execution.identity;
        let Some(wait) = self.waits.by_key.get_mut(&identity) else { return };
        let Some(at) = wait.members.iter().position(|member| *member == id) else { return };
        wait.members.remove(at);
        self.waits.waiters = self.waits.waiters.saturating_sub(1);
        match wait.members.front().copied() {
            None => {
                self.waits.by_key.remove(&identity);
            }
            Some(next) if at == 0 => self.lead(next, now_us),
            Some(_) => {}
        }
    }

    /// The client of a waiter has gone.
    pub(super) fn waiter_gone(&mut self, id: u64, now_us: u64) {
        self.leave(id, now_us);
        if let Some(execution) = self.executions.get_mut(&id) {
            execution.stop_waiting();
        }
        self.drop_if_over(id);
    }

    /// Those whose time is over are told that the request is still being executed.
    pub(super) fn end_waits(&mut self, now_us: u64, out: &mut Vec<Command>) {
        let due = |execution: &Execution| match execution.stage {
            Stage::Waiting { until_us, .. } => now_us >= until_us,
            Stage::Claiming { .. }
            | Stage::Executing
            | Stage::Settling { .. }
            | Stage::Abandoning
            | Stage::Gone => false,
        };
        if self.waits.by_key.is_empty() {
            return;
        }
        let over: Vec<_> =
            self.executions.iter().filter(|(_, it)| due(it)).map(|(id, _)| *id).collect();
        for id in over {
            if let Some(execution) = self.executions.get_mut(&id)
                && let Some(rule) = self.config.rules.get(execution.rule)
            {
                out.push(Command::Count(Metric::Conflicts));
                execution.tell(Answer::problem(&answer::in_progress(rule)), out);
            }
            self.waiter_gone(id, now_us);
        }
    }

    /// An execution of this worker has settled: what those get who wait for its key.
    pub(super) fn wake(&mut self, id: u64, out: &mut Vec<Command>) {
        let Some(execution) = self.executions.get(&id) else { return };
        let Some(wait) = self.waits.by_key.get(&execution.identity) else { return };
        let Some(leader) = wait.members.front().copied() else { return };
        let print = execution.ticket().map(|ticket| &ticket.candidate.fingerprint);
        let same = print.zip(self.executions.get(&leader));
        let same = same.is_some_and(|(print, leader)| leader.has_fingerprint(print));
        match execution.settlement_for(same) {
            Some(outcome) => self.tell_all(leader, &Verdict::Completed(outcome), out),
            None => {
                if let Some(execution) = self.executions.get(&leader)
                    && let Op::Waiting { .. } = execution.op
                {
                    self.at_once(leader, None);
                }
            }
        }
    }

    /// Tells everybody who stands behind `leader`, and the leader.
    pub(super) fn tell_all(&mut self, leader: u64, verdict: &Verdict, out: &mut Vec<Command>) {
        let Some(execution) = self.executions.get(&leader) else { return };
        let Some(rule) = self.config.rules.get(execution.rule) else { return };
        let Some(wait) = self.waits.by_key.remove(&execution.identity) else { return };
        let (answer, metric) = Answer::verdict(verdict.clone(), rule);
        let mut streams = Vec::new();
        self.waits.waiters = self.waits.waiters.saturating_sub(wait.members.len());
        for id in wait.members {
            if let Some(execution) = self.executions.get_mut(&id) {
                if let Some(stream) = execution.stream.take() {
                    streams.push(stream);
                    out.push(Command::Count(metric));
                }
                execution.stop_waiting();
            }
            self.drop_if_over(id);
        }
        out.push(Command::AnswerAll { streams, answer: answer.exposed() });
    }
}

impl Execution {
    fn begin_waiting(&mut self, until_us: u64) {
        let stage = std::mem::replace(&mut self.stage, Stage::Gone);
        self.stage = match stage {
            Stage::Claiming { request, .. } => Stage::Waiting { until_us, request, leads: false },
            Stage::Waiting { .. }
            | Stage::Executing
            | Stage::Settling { .. }
            | Stage::Abandoning
            | Stage::Gone => stage,
        };
        self.tries = 0;
    }

    /// Ends without having sent anything. A claim of it may be under way, or may still arrive:
    /// what is said of the end then waits its turn behind it.
    fn stop_waiting(&mut self) {
        if let Op::Sent { .. } = self.op {
            self.claim_may_have_landed = true;
        }
        self.abandon();
    }

    /// The outcome that those get who wait for this execution, if they sent the same request.
    fn settlement_for(&self, same: bool) -> Option<Outcome> {
        let Stage::Settling { settlement, .. } = &self.stage else { return None };
        match settlement {
            Settlement::Complete(outcome) if same => Some(outcome.clone()),
            Settlement::Complete(_) | Settlement::Fail { .. } => None,
        }
    }
}
