//! An engine with a clock that stands still unless it is moved, and everything that the engine
//! asked for, in order.

use std::collections::VecDeque;

use latchkey_core::config::Config;
use latchkey_core::fingerprint::Secret;
use latchkey_core::operation::{Claim, Event, Fail, FilterEvent, Operation};
use latchkey_core::record::ExecutionId;
use latchkey_core::wire::{Message, decode_operation, state_v1 as wire};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::engine::{Call, CallAnswer, Command, Engine, Forward, Input, Metric};
use crate::request::{Decision, Guarded, Headers, admit};

pub(super) const MS: u64 = 1_000;
pub(super) const TIMEOUT: u64 = 500 * MS;
/// A client waits for three time-outs.
pub(super) const PATIENCE: u64 = 3 * TIMEOUT;
pub(super) const LEASE: u64 = 6_000 * MS;
/// How far the store's clock is ahead of the engine's.
pub(super) const AHEAD: u64 = 1_000_000_000_000;
/// How often the shell ticks, or more often.
const TICK: u64 = 5 * MS;

pub(super) struct Fixture {
    pub(super) engine: Engine,
    pub(super) now: u64,
    /// Calls to the state that nobody has looked at.
    calls: VecDeque<StateCall>,
    /// Calls to the upstream that nobody has looked at.
    sent: VecDeque<(u64, Call)>,
    pub(super) answers: Vec<(u32, Answer)>,
    /// Streams whose requests were sent on by Envoy's router.
    pub(super) forwards: Vec<(u32, u64, Forward)>,
    /// Streams whose answers were let go, and whether unstored.
    pub(super) releases: Vec<(u32, bool)>,
    /// Streams that passed unguarded.
    pub(super) passes: Vec<u32>,
    pub(super) counts: Vec<Metric>,
    pub(super) warnings: Vec<String>,
    streams: u32,
}

/// A call to the state.
pub(super) struct StateCall {
    pub(super) batch: u64,
    pub(super) gateway: wire::Gateway,
    pub(super) operations: Vec<Operation>,
}

pub(super) fn config(change: impl FnOnce(&mut Value)) -> Config {
    let mut json = json!({
        "namespace": "test",
        "secrets": [{"id": "s", "env": "S"}],
        "state": {"cluster": "latchkey", "timeout_ms": TIMEOUT / MS},
        "limits": {},
        "rules": [{
            "name": "payments",
            "match": {"path_prefix": "/payments"},
            "client": {"fixed": "acme"},
            "execute": {"direct": true, "timeout_ms": 20_000},
            "store": {"response_body_max_bytes": 1000},
            "lease_ms": LEASE / MS,
            "on_ambiguous": "hold",
        }]
    });
    change(&mut json);
    Config::from_json(json.to_string().as_bytes()).unwrap()
}

// === impl Fixture ===

impl Fixture {
    /// Has not heard the store's clock yet.
    pub(super) fn new(change: impl FnOnce(&mut Value)) -> Self {
        let gateway = wire::Gateway { node: "gateway-1".to_owned(), ..wire::Gateway::default() };
        Self {
            engine: Engine::new(config(change), gateway),
            now: 1_000,
            calls: VecDeque::new(),
            sent: VecDeque::new(),
            answers: Vec::new(),
            forwards: Vec::new(),
            releases: Vec::new(),
            passes: Vec::new(),
            counts: Vec::new(),
            warnings: Vec::new(),
            streams: 0,
        }
    }

    /// Has greeted the state and been answered.
    pub(super) fn greeted() -> Self {
        Self::greeted_with(|_| {})
    }

    pub(super) fn greeted_with(change: impl FnOnce(&mut Value)) -> Self {
        let mut it = Self::new(change);
        it.feed(Input::Tick);
        let greeting = it.call();
        assert!(greeting.operations.is_empty());
        it.reply(&greeting, vec![]);
        it
    }

    pub(super) fn feed(&mut self, input: Input) {
        self.feed_all(vec![input]);
    }

    pub(super) fn feed_all(&mut self, inputs: Vec<Input>) {
        let commands = self.engine.handle_all(inputs, self.now);
        for command in commands {
            match command {
                Command::CallState { batch, body, timeout_ms } => {
                    assert_eq!(u64::from(timeout_ms), TIMEOUT / MS);
                    self.calls.push_back(StateCall::read(batch, &body));
                }
                Command::CallUpstream { execution, call } => self.sent.push_back((execution, call)),
                Command::Answer { stream, answer, .. } => self.answers.push((stream, answer)),
                Command::AnswerAll { streams, answer } => {
                    let each = streams.into_iter().map(|stream| (stream, answer.clone()));
                    self.answers.extend(each);
                }
                Command::Forward { stream, execution, forward } => {
                    self.forwards.push((stream, execution, forward));
                }
                Command::Release { stream, unstored, .. } => self.releases.push((stream, unstored)),
                Command::Pass { stream } => self.passes.push(stream),
                Command::Count(metric) => self.counts.push(metric),
                Command::Warn(warning) => self.warnings.push(warning),
            }
        }
    }

    /// Time passes, in ticks.
    pub(super) fn pass(&mut self, us: u64) {
        let until = self.now + us;
        while self.now < until {
            self.now = until.min(self.now + TICK);
            self.feed(Input::Tick);
        }
    }

    // === clients ===

    pub(super) fn request(&self, key: &str, body: &[u8]) -> Guarded {
        let pair = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        let headers = Headers(vec![
            pair(":method", "POST"),
            pair(":path", "/payments"),
            pair(":authority", "api"),
            pair("idempotency-key", key),
            pair("x-note", "as sent"),
        ]);
        let Decision::Guard(plan) = admit(self.engine.config(), &headers, &()).decision else {
            panic!("the request is guarded")
        };
        let mut id = [0; 16];
        id[..4].copy_from_slice(&self.streams.to_be_bytes());
        let secrets = [Secret::new("s".to_owned(), b"secret")];
        let config = self.engine.config();
        plan.complete(config, &secrets, ExecutionId(id), "gateway-1", body.to_vec()).unwrap()
    }

    /// A new stream's request, not yet handed over.
    pub(super) fn submission(&mut self, key: &str, body: &[u8]) -> Input {
        self.streams += 1;
        let request = Box::new(self.request(key, body));
        Input::Submit { stream: self.streams, request, cluster: Some("upstream".to_owned()) }
    }

    /// The stream that waits for its answer.
    pub(super) fn submit(&mut self, key: &str) -> u32 {
        let input = self.submission(key, format!("pay {key}").as_bytes());
        self.feed(input);
        self.streams
    }

    /// What `stream` was told, which must be one answer.
    pub(super) fn told(&self, stream: u32) -> &Answer {
        let mut answers = self.answers.iter().filter(|(it, _)| *it == stream);
        let (_, answer) = answers.next().expect("the client was answered");
        assert!(answers.next().is_none(), "a client is answered once");
        answer
    }

    pub(super) fn waits(&self, stream: u32) -> bool {
        self.answers.iter().all(|(it, _)| *it != stream)
    }

    // === the state ===

    /// The next call to the state, which must be there.
    pub(super) fn call(&mut self) -> StateCall {
        self.calls.pop_front().expect("the state was called")
    }

    pub(super) fn calls(&mut self) -> Vec<StateCall> {
        self.calls.drain(..).collect()
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.calls.is_empty() && self.sent.is_empty()
    }

    pub(super) fn reply(&mut self, call: &StateCall, results: Vec<wire::Result>) {
        let reply = wire::BatchReply { now_us: AHEAD + self.now, results };
        self.end(call, answered(200, &reply.encode_to_vec()));
    }

    pub(super) fn end(&mut self, call: &StateCall, answer: CallAnswer) {
        self.feed(Input::StateAnswered { batch: call.batch, answer });
    }

    // === the upstream ===

    /// The next call to the upstream, which must be there.
    pub(super) fn sent(&mut self) -> (u64, Call) {
        self.sent.pop_front().expect("the upstream was called")
    }

    pub(super) fn nothing_sent(&self) -> bool {
        self.sent.is_empty()
    }

    pub(super) fn upstream(&mut self, execution: u64, answer: CallAnswer) {
        self.feed(Input::UpstreamAnswered { execution, answer });
    }

    pub(super) fn counted(&self, metric: Metric) -> usize {
        self.counts.iter().filter(|it| **it == metric).count()
    }

    /// Nothing is left behind.
    pub(super) fn assert_idle(&mut self) {
        assert!(self.is_quiet(), "nothing more is asked");
        assert!(self.engine.is_idle());
        assert_eq!(self.engine.executions_in_flight(), 0);
        assert_eq!(self.engine.bytes_held(), 0);
    }
}

// === impl StateCall ===

impl StateCall {
    fn read(batch: u64, body: &[u8]) -> Self {
        let request = wire::BatchRequest::decode(body).unwrap();
        let operations = request.operations.into_iter().map(|it| decode_operation(it).unwrap());
        Self { batch, gateway: request.gateway.unwrap(), operations: operations.collect() }
    }

    /// Its only operation.
    pub(super) fn event(&self) -> &FilterEvent {
        assert_eq!(self.operations.len(), 1, "one operation");
        event(&self.operations[0])
    }

    pub(super) fn claim(&self) -> &Claim {
        let FilterEvent::Claim(claim) = self.event() else { panic!("a claim: {:?}", self.event()) };
        claim
    }

    pub(super) fn fail(&self) -> &Fail {
        let FilterEvent::Fail(fail) = self.event() else { panic!("a failure: {:?}", self.event()) };
        fail
    }

    pub(super) fn is_renewal(&self) -> bool {
        matches!(self.event(), FilterEvent::Renew(_))
    }

    pub(super) fn is_completion(&self) -> bool {
        matches!(self.event(), FilterEvent::Complete { .. })
    }

    /// Whose keys it is about, in order.
    pub(super) fn keys(&self) -> Vec<String> {
        let key = |operation: &Operation| match event(operation) {
            FilterEvent::Claim(claim) => claim.subject.key.clone(),
            FilterEvent::Renew(ticket) | FilterEvent::Complete { ticket, .. } => {
                ticket.subject.key.clone()
            }
            FilterEvent::Fail(_) => panic!("a failure does not name its key"),
        };
        self.operations.iter().map(key).collect()
    }
}

pub(super) fn event(operation: &Operation) -> &FilterEvent {
    let Event::Filter { event, .. } = &operation.event else { panic!("a filter's operation") };
    event
}

pub(super) fn answered(status: u16, body: &[u8]) -> CallAnswer {
    CallAnswer::Ended {
        status: Some(status),
        headers: vec![("x-envoy-upstream-service-time".to_owned(), b"1".to_vec())],
        body: body.to_vec(),
    }
}
