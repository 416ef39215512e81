//! Executions, from claim to settlement, for one worker.
//!
//! The upstream call of an execution belongs to the gateway, not to the client's connection:
//! the client may hang up, and the execution goes on, is settled, and its retry gets the
//! answer. So the engine owns every call, and streams only wait to be told.
//!
//! An execution is in one of these stages ([`execution::Stage`]):
//!
//! ```text
//!  claiming --Claimed--> executing --answer--> settling --acknowledged--> gone
//!     |  \                                        |
//!     |   Refused: answered, gone                 patience over: answered `unstored`, goes on
//!     |
//!     patience over: answered 503, abandoning --acknowledged--> gone
//! ```
//!
//! Calls to the state carry many operations (**group commit**): whatever waits goes out with
//! the next call, and while calls are under way the next batch gathers.
//!
//! Rules that the record's invariants rest on:
//! * one operation of an execution is under way at a time; a copy goes out only when the one
//!   before was answered or is void;
//! * an operation is void after the call's time-out, on the store's clock ([`clock`]);
//! * a claim is good only from the moment of its dispatch plus the lease left, on the monotonic
//!   clock; after that it is asked for again before anything is sent;
//! * an execution that is fenced tells its client what the record says, not its own outcome;
//! * an execution that ends without having sent anything says so until it is heard.
//!
//! Deliberately absent: hosts, threads, the real time, and any decision about a record.

mod batch;
pub mod clock;
mod execution;
mod metric;
mod settle;
mod verdicts;
mod waiting;

use std::collections::{BTreeMap, VecDeque};

use latchkey_core::classify::{Answer as Classified, Route};
use latchkey_core::config::{Config, Execute, ExecuteTo, Rule};
use latchkey_core::operation::Verdict;
use latchkey_core::wire::state_v1 as wire;

use crate::answer::{self, Answer};
use crate::request::{Guarded, size_of};
pub use metric::{EXECUTIONS_IN_FLIGHT, Metric};

use batch::Batch;
use clock::ClockEstimate;
use execution::{Execution, Need, Op, Stage};
use settle::Whereabouts;
use waiting::Waits;

/// How many calls to the state are under way at once. Two keep the state busy while answers
/// travel; more would only make batches smaller.
const BATCHES_MAX: usize = 2;

/// How many times an execution asks before its client stops waiting for the state.
pub const STATE_TRIES: u32 = 3;

/// Without any other call to the state, the gateway says that it is there this often, in µs.
const HEARTBEAT_US: u64 = 10_000_000;

/// A redirected request comes forward in the same turn of the worker; what has not by then, in
/// µs, was refused by a filter before this one.
const ADOPTION_US: u64 = 1_000_000;

/// After a first greeting failed, the next goes out after this, in µs.
const GREETING_AGAIN_US: u64 = 250_000;

/// What happens to an engine.
#[derive(Debug)]
pub enum Input {
    /// A request is to be guarded, for a stream that waits.
    Submit {
        /// The stream.
        stream: u32,
        /// The request.
        request: Box<Guarded>,
        /// The cluster that the route chose.
        cluster: Option<String>,
    },
    /// A call to the state has ended.
    StateAnswered {
        /// Which.
        batch: u64,
        /// How.
        answer: CallAnswer,
    },
    /// A call to the upstream has ended.
    UpstreamAnswered {
        /// Which.
        execution: u64,
        /// How.
        answer: CallAnswer,
    },
    /// Envoy's router has an answer to a request that was sent on, or knows that none will come.
    Responded {
        /// Which.
        execution: u64,
        /// What, with the headers that tell who answered.
        answer: CallAnswer,
        /// Whether the body is all of it; it was too large to be held otherwise.
        whole: bool,
        /// Whether it is held back until it is released or replaced.
        held: bool,
    },
    /// A request was not sent on, since its stream had gone.
    NotForwarded {
        /// Which.
        execution: u64,
    },
    /// A request that was sent on goes on as another stream (an internal redirect).
    Redirected {
        /// Which.
        execution: u64,
    },
    /// This is that stream.
    Adopted {
        /// Which execution.
        execution: u64,
        /// The stream.
        stream: u32,
    },
    /// A request was refused before it was read, since there is no room for it.
    Overloaded,
    /// A stream is gone; it cannot be answered any more.
    StreamGone {
        /// Which.
        stream: u32,
    },
    /// Time has passed.
    Tick,
}

/// How a call-out ended.
#[derive(Debug)]
pub enum CallAnswer {
    /// Envoy would not dispatch it: nothing was sent.
    NotDispatched,
    /// It was dispatched, and this came back; `status` is `None` where nothing did.
    Ended {
        /// `:status`.
        status: Option<u16>,
        /// Names in lower case, without pseudo headers.
        headers: Vec<(String, Vec<u8>)>,
        /// The body.
        body: Vec<u8>,
    },
}

/// What an engine wants done.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Call the state endpoint.
    CallState {
        /// To name the answer by.
        batch: u64,
        /// The request's body.
        body: Vec<u8>,
        /// In ms.
        timeout_ms: u32,
    },
    /// Call the upstream.
    CallUpstream {
        /// To name the answer by.
        execution: u64,
        /// What to send where.
        call: Call,
    },
    /// Answer a stream.
    Answer {
        /// Which.
        stream: u32,
        /// With what.
        answer: Answer,
        /// The number of the execution, where it had leave for one.
        attempt: Option<u32>,
    },
    /// Answer many streams alike.
    AnswerAll {
        /// Which.
        streams: Vec<u32>,
        /// With what.
        answer: Answer,
    },
    /// Let Envoy's router send a stream's request.
    Forward {
        /// Which.
        stream: u32,
        /// To name the answer by.
        execution: u64,
        /// What to change before.
        forward: Forward,
    },
    /// Let the answer go that is held back for a stream.
    Release {
        /// Which.
        stream: u32,
        /// Whether it could not be stored in time.
        unstored: bool,
        /// Whether scripts of other origins may read our fields.
        expose: bool,
    },
    /// Let a stream's request pass unguarded.
    Pass {
        /// Which.
        stream: u32,
    },
    /// Count something.
    Count(Metric),
    /// Tell the operator of this gateway.
    Warn(String),
}

/// A call to the upstream.
#[derive(Debug, PartialEq, Eq)]
pub struct Call {
    /// Envoy's cluster.
    pub cluster: String,
    /// With pseudo headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// In ms.
    pub timeout_ms: u32,
}

/// What to change of a request before Envoy's router sends it.
#[derive(Debug, PartialEq, Eq)]
pub struct Forward {
    /// Headers to take out.
    pub remove: Vec<String>,
    /// Headers to set.
    pub set: Vec<(String, String)>,
    /// The number of the execution.
    pub attempt: u32,
    /// The largest body of an answer that is held until it is stored, in bytes.
    pub response_body_max_bytes: u32,
}

/// All executions of one worker under one configuration.
#[derive(Debug)]
pub struct Engine {
    config: Config,
    gateway: wire::Gateway,
    clock: ClockEstimate,
    executions: BTreeMap<u64, Execution>,
    batches: BTreeMap<u64, Batch>,
    ready: VecDeque<batch::Ready>,
    waits: Waits,
    bytes_held: u64,
    next_id: u64,
    last_call_us: Option<u64>,
    last_warning_us: Option<u64>,
    draining: bool,
}

// === impl Engine ===

impl Engine {
    /// An engine with nothing to do yet.
    #[must_use]
    pub fn new(config: Config, gateway: wire::Gateway) -> Self {
        Self {
            config,
            gateway,
            clock: ClockEstimate::default(),
            executions: BTreeMap::new(),
            batches: BTreeMap::new(),
            ready: VecDeque::new(),
            waits: Waits::default(),
            bytes_held: 0,
            next_id: 0,
            last_call_us: None,
            last_warning_us: None,
            draining: false,
        }
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Requests that are claimed, executed or settled now.
    #[must_use]
    pub fn executions_in_flight(&self) -> usize {
        self.executions.len()
    }

    /// Bodies and headers held now, in bytes.
    #[must_use]
    pub fn bytes_held(&self) -> u64 {
        self.bytes_held
    }

    /// No new requests will come; greetings stop.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Whether nothing is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.executions.is_empty() && self.batches.is_empty()
    }

    /// Takes in what happened at `now_us`, on a monotonic clock, and says what to do.
    pub fn handle(&mut self, input: Input, now_us: u64) -> Vec<Command> {
        self.handle_all([input], now_us)
    }

    /// Takes in all of `inputs` before anything goes out, so that it goes out together.
    pub fn handle_all(
        &mut self,
        inputs: impl IntoIterator<Item = Input>,
        now_us: u64,
    ) -> Vec<Command> {
        let mut out = Vec::new();
        for input in inputs {
            match input {
                Input::Submit { stream, request, cluster } => {
                    self.submit(stream, *request, cluster, now_us, &mut out);
                }
                Input::StateAnswered { batch, answer } => {
                    self.state_answered(batch, answer, now_us, &mut out);
                }
                Input::UpstreamAnswered { execution, answer } => {
                    self.upstream_answered(execution, answer, true, now_us, &mut out);
                }
                Input::Responded { execution, answer, whole, held } => {
                    if !held {
                        self.forget_stream(execution);
                    }
                    self.upstream_answered(execution, answer, whole, now_us, &mut out);
                }
                Input::NotForwarded { execution } => {
                    self.forget_stream(execution);
                    let answer = CallAnswer::NotDispatched;
                    self.upstream_answered(execution, answer, true, now_us, &mut out);
                }
                Input::Redirected { execution } => self.redirected(execution, now_us),
                Input::Adopted { execution, stream } => self.adopted(execution, stream),
                Input::Overloaded => out.push(Command::Count(Metric::Overloads)),
                Input::StreamGone { stream } => self.stream_gone(stream, now_us),
                Input::Tick => self.tick(now_us, &mut out),
            }
        }
        self.flush(now_us, &mut out);
        out
    }

    fn submit(
        &mut self,
        stream: u32,
        request: Guarded,
        cluster: Option<String>,
        now_us: u64,
        out: &mut Vec<Command>,
    ) {
        let bytes = request.bytes();
        let limits = self.config.limits;
        let full = self.executions.len() >= limits.executions_max as usize
            || self.bytes_held.saturating_add(bytes) > limits.bytes_max;
        let Some(rule) = self.config.rules.get(request.rule) else { return };
        if full {
            out.push(Command::Count(Metric::Overloads));
            let answer = Answer::problem(&answer::overloaded());
            out.push(Command::Answer { stream, answer, attempt: None });
            return;
        }
        let cluster = match (&rule.execute, cluster) {
            (Execute::Detached { to: ExecuteTo::Cluster(cluster), .. }, _) => cluster.clone(),
            (Execute::Detached { to: ExecuteTo::Direct, .. } | Execute::Attached, chosen) => {
                chosen.unwrap_or_default()
            }
        };
        let joins = rule.on_conflict.wait_ms > 0 && self.joins(&request);
        let id = self.fresh_id();
        self.bytes_held = self.bytes_held.saturating_add(bytes);
        let give_up_us = now_us.saturating_add(self.patience_us());
        let execution = Execution::new(stream, request, bytes, cluster, give_up_us);
        self.executions.insert(id, execution);
        if joins {
            if let Some(execution) = self.executions.get_mut(&id) {
                execution.op = Op::Idle;
            }
            let verdict = Verdict::InProgress { age_us: 0, lease_left_us: 0 };
            self.wait(id, verdict, now_us, out);
            self.drop_if_over(id);
            return;
        }
        self.ready.push_back(batch::Ready { execution: id, group: None });
    }

    /// How long a client waits for the state.
    fn patience_us(&self) -> u64 {
        self.timeout_us().saturating_mul(u64::from(STATE_TRIES))
    }

    fn timeout_us(&self) -> u64 {
        u64::from(self.config.state.timeout_ms).saturating_mul(1_000)
    }

    fn upstream_answered(
        &mut self,
        id: u64,
        answer: CallAnswer,
        whole: bool,
        now_us: u64,
        out: &mut Vec<Command>,
    ) {
        let patience_us = self.patience_us();
        let Some(execution) = self.executions.get_mut(&id) else { return };
        // Whatever else may answer, only what was sent can have an outcome.
        let Stage::Executing = execution.stage else { return };
        let Some(rule) = self.config.rules.get(execution.rule) else { return };
        let answer_by_us = now_us.saturating_add(patience_us);
        let held = self.bytes_held.saturating_add(answer.bytes());
        let room = held <= self.config.limits.bytes_max;
        execution.settle(rule, answer, Whereabouts { whole, room }, answer_by_us, out);
        recount(&mut self.bytes_held, execution);
        if let Op::Idle = execution.op {
            self.at_once(id, None);
        }
    }

    fn stream_gone(&mut self, stream: u32, now_us: u64) {
        let mut waited = None;
        for (id, execution) in &mut self.executions {
            if execution.stream == Some(stream) {
                execution.stream = None;
                if let Stage::Waiting { .. } = execution.stage {
                    waited = Some(*id);
                }
            }
        }
        if let Some(id) = waited {
            self.waiter_gone(id, now_us);
        }
    }

    /// Its client gets, or has got, its answer from elsewhere.
    fn forget_stream(&mut self, id: u64) {
        if let Some(execution) = self.executions.get_mut(&id) {
            execution.stream = None;
        }
    }

    fn redirected(&mut self, id: u64, now_us: u64) {
        if let Some(execution) = self.executions.get_mut(&id) {
            execution.stream = None;
            execution.redirected = true;
            execution.adopt_by_us = Some(now_us.saturating_add(ADOPTION_US));
        }
    }

    fn adopted(&mut self, id: u64, stream: u32) {
        if let Some(execution) = self.executions.get_mut(&id) {
            execution.stream = Some(stream);
            execution.adopt_by_us = None;
        }
    }

    fn tick(&mut self, now_us: u64, out: &mut Vec<Command>) {
        self.end_waits(now_us, out);
        let (mut due, mut over, mut orphans) = (Vec::new(), Vec::new(), Vec::new());
        for (id, execution) in &mut self.executions {
            let rule = self.config.rules.get(execution.rule);
            let pass = rule.is_some_and(Rule::passes_without_state);
            execution.lose_patience(now_us, pass, out);
            recount(&mut self.bytes_held, execution);
            if let Stage::Gone = execution.stage {
                over.push(*id);
                continue;
            }
            if execution.adopt_by_us.is_some_and(|by_us| now_us >= by_us) {
                execution.adopt_by_us = None;
                orphans.push(*id);
            }
            match execution.op {
                Op::Waiting { until_us, group } if now_us >= until_us => {
                    execution.op = Op::Queued;
                    due.push(batch::Ready { execution: *id, group });
                }
                Op::Idle if execution.needs(now_us) != Need::Nothing => {
                    execution.op = Op::Queued;
                    due.push(batch::Ready { execution: *id, group: None });
                }
                Op::Idle | Op::Queued | Op::Sent { .. } | Op::Waiting { .. } => {}
            }
        }
        self.ready.extend(due);
        for id in over {
            self.drop_if_over(id);
        }
        for id in orphans {
            let answer = CallAnswer::Ended { status: None, headers: Vec::new(), body: Vec::new() };
            self.upstream_answered(id, answer, true, now_us, out);
        }
    }

    /// Lets go of an execution that has nothing left to do.
    fn drop_if_over(&mut self, id: u64) {
        if let Some(execution) = self.executions.get(&id)
            && let Stage::Gone = execution.stage
        {
            self.bytes_held = self.bytes_held.saturating_sub(execution.bytes);
            self.executions.remove(&id);
        }
    }

    /// A name for an execution, a batch or a group.
    fn fresh_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        id
    }

    /// Warnings are for people: one a second says enough.
    fn warn(&mut self, now_us: u64, message: &str, out: &mut Vec<Command>) {
        let quiet = self.last_warning_us.is_some_and(|at| now_us.saturating_sub(at) < 1_000_000);
        if !quiet {
            self.last_warning_us = Some(now_us);
            out.push(Command::Warn(message.to_owned()));
        }
    }
}

/// Brings the sum up to date with what `execution` holds.
fn recount(sum: &mut u64, execution: &mut Execution) {
    let now = execution.held();
    *sum = sum.saturating_sub(execution.bytes).saturating_add(now);
    execution.bytes = now;
}

// === impl CallAnswer ===

impl CallAnswer {
    /// What it holds of memory, in bytes.
    fn bytes(&self) -> u64 {
        match self {
            Self::NotDispatched => 0,
            Self::Ended { headers, body, .. } => size_of(headers).saturating_add(body.len()) as u64,
        }
    }

    /// The parts that tell what an answer means.
    fn classified(&self) -> Classified<'_> {
        match self {
            Self::NotDispatched => Classified::default(),
            Self::Ended { status, headers, body } => {
                let first = |wanted: &str| {
                    let found = headers.iter().find(|(name, _)| name == wanted);
                    found.map(|(_, value)| value.as_slice())
                };
                Classified {
                    status: *status,
                    details: first(latchkey_core::classify::DETAILS_HEADER),
                    attempts: first(latchkey_core::classify::ATTEMPTS_HEADER),
                    service_time: first(latchkey_core::classify::SERVICE_TIME_HEADER).is_some(),
                    outcome: first(latchkey_core::classify::OUTCOME_HEADER),
                    body,
                }
            }
        }
    }
}

/// How a rule's calls reach the upstream.
fn route(rule: &Rule) -> Route {
    match &rule.execute {
        Execute::Detached { to: ExecuteTo::Direct, .. } => Route::Direct,
        Execute::Detached { to: ExecuteTo::Cluster(_), .. } | Execute::Attached => Route::Internal,
    }
}

#[cfg(test)]
mod tests;
