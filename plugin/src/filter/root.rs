//! The root context of a worker: it owns the engine and every call-out.
//!
//! Two roots can live in one VM, when a configuration is replaced: each has its own engine,
//! mailbox and queue. The old one answers `on_done` with false while anything is under way, so
//! that its call-outs are not cancelled, and says `done` once when nothing is.

mod shared;

use std::collections::BTreeMap;
use std::rc::Rc;

use latchkey_core::config::{Config, SecretRef};
use latchkey_core::fingerprint::Secret;
use latchkey_core::hex;
use latchkey_core::wire::{TEXT_BYTES_MAX, state_v1 as wire};
use sha2::{Digest, Sha256};

pub(super) use shared::{Course, PASS_STATE, Sent, Shared, log, mark_fresh};

use super::host::{Buffer, Host, Map};
use super::mailbox::Note;
use super::stream::Stream;
use crate::answer::Answer;
use crate::engine::{Call, CallAnswer, Command, Engine, Forward, Input};

/// How often the engine looks at the time: a tenth of the shortest useful state time-out.
const TICK_MS: u32 = 50;

/// A secret shorter than this can be guessed.
const SECRET_BYTES_MIN: usize = 16;

/// A configuration is at most as large as Envoy will hand over without complaint.
const CONFIGURATION_BYTES_MAX: usize = 1024 * 1024;

/// What a call-out's answer is for.
#[derive(Clone, Copy)]
enum Pending {
    State { batch: u64 },
    Upstream { execution: u64 },
}

/// A worker's root.
pub struct Root {
    id: u32,
    host: Rc<dyn Host>,
    running: Option<Running>,
}

/// A root that was configured.
struct Running {
    id: u32,
    host: Rc<dyn Host>,
    shared: Rc<Shared>,
    engine: Engine,
    token: Option<String>,
    pending: BTreeMap<u32, Pending>,
    /// `on_done` has answered false, and the host waits for `done`.
    owes_done: bool,
}

// === impl Root ===

impl Root {
    /// A root that has no configuration yet.
    #[must_use]
    pub fn new(id: u32, host: Rc<dyn Host>) -> Self {
        Self { id, host, running: None }
    }

    /// Takes the configuration; false where it is refused.
    pub fn configure(&mut self) -> bool {
        let json = self.host.buffer(Buffer::Configuration, CONFIGURATION_BYTES_MAX);
        match Running::start(self.id, Rc::clone(&self.host), &json) {
            Ok(running) => {
                self.running = Some(running);
                true
            }
            Err(why) => {
                self.host.warn(&format!("latchkey: the configuration is refused: {why}"));
                false
            }
        }
    }

    /// A call-out has ended.
    pub fn call_ended(&mut self, token: u32, headers: usize, body_size: usize) {
        if let Some(running) = &mut self.running {
            running.call_ended(token, headers, body_size);
        }
    }

    /// Streams have put something into the mailbox.
    pub fn woken(&mut self, queue: u32) {
        // One message stands for all notes; more may have gathered.
        while self.host.dequeue(queue) {}
        if let Some(running) = &mut self.running {
            running.feed([]);
        }
    }

    /// Time has passed.
    pub fn tick(&mut self) {
        if let Some(running) = &mut self.running {
            running.feed([Input::Tick]);
        }
    }

    /// The configuration is being replaced; false while anything is under way.
    pub fn over(&mut self) -> bool {
        self.running.as_mut().is_none_or(Running::drain)
    }

    /// The context of a new stream.
    #[must_use]
    pub fn stream(&self, id: u32) -> Stream {
        let shared = self.running.as_ref().map(|running| Rc::clone(&running.shared));
        Stream::new(id, Rc::clone(&self.host), shared)
    }

    /// Requests that are claimed, executed or settled now.
    #[must_use]
    pub fn executions_in_flight(&self) -> usize {
        self.running.as_ref().map_or(0, |running| running.engine.executions_in_flight())
    }
}

// === impl Running ===

impl Running {
    fn start(id: u32, host: Rc<dyn Host>, json: &[u8]) -> Result<Self, String> {
        let config = Config::from_json(json).map_err(|error| error.to_string())?;
        let secret = |at: &SecretRef| secret(host.as_ref(), at);
        let secrets = config.secrets.iter().map(secret).collect::<Result<_, _>>()?;
        let token = config.state.token_env.as_deref();
        let token = token.map(|name| environment(host.as_ref(), name)).transpose()?;
        let mut worker = [0; 16];
        if !host.random(&mut worker) {
            return Err("the host has no randomness".to_owned());
        }
        let queue = host.register_queue(&format!("latchkey-{}", hex::encode(&worker)));
        let node = host
            .property(&["xds", "node", "id"])
            .and_then(|node| String::from_utf8(node).ok())
            .filter(|node| !node.is_empty() && node.len() <= TEXT_BYTES_MAX)
            .unwrap_or_else(|| "envoy".to_owned());
        let gateway = wire::Gateway {
            node: node.clone(),
            worker: worker.to_vec(),
            filter_version: env!("CARGO_PKG_VERSION").to_owned(),
            configuration_hash: Sha256::digest(json).to_vec(),
            executions_in_flight: 0,
        };
        let engine = Engine::new(config.clone(), gateway);
        let shared = Shared::new(config, secrets, node, worker, queue, Rc::clone(&host));
        host.set_tick_period_ms(TICK_MS);
        Ok(Self {
            id,
            host,
            shared: Rc::new(shared),
            engine,
            token: token.map(|token| format!("Bearer {token}")),
            pending: BTreeMap::new(),
            owes_done: false,
        })
    }

    /// Gives the engine everything that was submitted since the last look, and then `inputs`:
    /// what it holds afterwards is all there is.
    fn feed(&mut self, inputs: impl IntoIterator<Item = Input>) {
        let now_us = self.host.now_us();
        let notes = self.shared.mailbox.take().into_iter().map(Input::from);
        let mut commands = self.engine.handle_all(notes.chain(inputs), now_us);
        while !commands.is_empty() {
            let refused: Vec<_> =
                commands.into_iter().filter_map(|command| self.run(command)).collect();
            commands = if refused.is_empty() {
                Vec::new()
            } else {
                self.engine.handle_all(refused, now_us)
            };
        }
        let executions = self.engine.executions_in_flight();
        self.shared.set_held(executions, self.engine.bytes_held());
        self.shared.metrics.in_flight(executions);
        if self.owes_done && self.engine.is_idle() && self.pending.is_empty() {
            self.owes_done = false;
            self.host.set_effective_context(self.id);
            self.host.done();
        }
    }

    /// Does as the engine says; what Envoy would not do goes back to it.
    fn run(&mut self, command: Command) -> Option<Input> {
        match command {
            Command::CallState { batch, body, timeout_ms } => {
                let token = self.call_state(&body, timeout_ms);
                self.expect(token, Pending::State { batch })
            }
            Command::CallUpstream { execution, call } => {
                let token = self.call_upstream(&call);
                self.expect(token, Pending::Upstream { execution })
            }
            Command::Answer { stream, answer, attempt } => {
                self.answer(stream, &answer, attempt);
                None
            }
            Command::AnswerAll { streams, answer } => {
                for stream in streams {
                    self.answer(stream, &answer, None);
                }
                None
            }
            Command::Forward { stream, execution, forward } => {
                self.forward(stream, execution, &forward)
            }
            Command::Release { stream, unstored, expose } => {
                self.release(stream, unstored, expose);
                None
            }
            Command::Pass { stream } => {
                self.pass(stream);
                None
            }
            Command::Count(metric) => {
                self.shared.metrics.count(metric);
                None
            }
            Command::Warn(message) => {
                self.host.warn(&format!("latchkey: {message}"));
                None
            }
        }
    }

    /// Acts on a stream that stands in `course`. One that is gone has no context any more.
    fn on_stream(&self, stream: u32, courses: &[Course], act: impl FnOnce(&dyn Host)) -> bool {
        let Some(course) = self.shared.course(stream) else { return false };
        if !courses.contains(&course) || !self.host.set_effective_context(stream) {
            return false;
        }
        act(self.host.as_ref());
        self.host.set_effective_context(self.id);
        true
    }

    fn answer(&self, stream: u32, answer: &Answer, attempt: Option<u32>) {
        self.on_stream(stream, &[Course::Waiting, Course::Held], |host| {
            self.shared.forget(stream);
            self.shared.keep_type(stream, answer);
            log::answered(host, answer.outcome, attempt);
            host.answer(answer);
        });
    }

    /// Lets the router send a request; what goes out bears our headers.
    fn forward(&self, stream: u32, execution: u64, forward: &Forward) -> Option<Input> {
        let response_body_max_bytes = forward.response_body_max_bytes as usize;
        let sent = Sent { execution, response_body_max_bytes };
        let done = self.on_stream(stream, &[Course::Waiting], |host| {
            for name in &forward.remove {
                host.remove_header(Map::RequestHeaders, name);
            }
            for (name, value) in &forward.set {
                host.set_header(Map::RequestHeaders, name, value.as_bytes());
            }
            log::attempt(host, forward.attempt);
            host.declare_for_request(PASS_STATE);
            host.set_property(PASS_STATE, &self.shared.pass(sent));
            self.shared.set_course(stream, Course::Sent(sent));
            host.resume_request();
        });
        (!done).then_some(Input::NotForwarded { execution })
    }

    fn release(&self, stream: u32, unstored: bool, expose: bool) {
        self.on_stream(stream, &[Course::Held], |host| {
            self.shared.forget(stream);
            log::executed(host);
            mark_fresh(host, unstored, expose);
            host.resume_response();
        });
    }

    fn pass(&self, stream: u32) {
        self.on_stream(stream, &[Course::Waiting], |host| {
            self.shared.set_course(stream, Course::Unguarded);
            log::answered(host, "bypassed", None);
            host.resume_request();
        });
    }

    fn call_state(&self, body: &[u8], timeout_ms: u32) -> Option<u32> {
        let cluster = self.shared.config.state.cluster.as_str();
        let mut headers = vec![
            (":method", "POST"),
            (":path", "/state/v1/batch"),
            (":authority", cluster),
            ("content-type", "application/x-protobuf"),
        ];
        if let Some(token) = &self.token {
            headers.push(("authorization", token));
        }
        self.host.call(cluster, headers, body, timeout_ms)
    }

    fn call_upstream(&self, call: &Call) -> Option<u32> {
        let headers = call.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        self.host.call(&call.cluster, headers.collect(), &call.body, call.timeout_ms)
    }

    fn expect(&mut self, token: Option<u32>, pending: Pending) -> Option<Input> {
        match token {
            Some(token) => {
                self.pending.insert(token, pending);
                None
            }
            None => Some(ended(pending, CallAnswer::NotDispatched)),
        }
    }

    fn call_ended(&mut self, token: u32, headers: usize, body_size: usize) {
        let Some(pending) = self.pending.remove(&token) else { return };
        let pairs = if headers == 0 { Vec::new() } else { self.host.map(Map::CallHeaders) };
        let body =
            if body_size == 0 { Vec::new() } else { self.host.buffer(Buffer::CallBody, body_size) };
        let status = pairs
            .iter()
            .find(|(name, _)| name == b":status")
            .and_then(|(_, value)| std::str::from_utf8(value).ok()?.parse().ok());
        let headers = pairs
            .into_iter()
            .filter(|(name, _)| !name.starts_with(b":"))
            .map(|(name, value)| (String::from_utf8_lossy(&name).into_owned(), value))
            .collect();
        // A body that was cut short is not the answer.
        let status = status.filter(|_| body.len() == body_size);
        self.feed([ended(pending, CallAnswer::Ended { status, headers, body })]);
    }

    /// Whether nothing is under way.
    fn drain(&mut self) -> bool {
        self.engine.drain();
        self.owes_done = !(self.engine.is_idle() && self.pending.is_empty());
        !self.owes_done
    }
}

fn ended(pending: Pending, answer: CallAnswer) -> Input {
    match pending {
        Pending::State { batch } => Input::StateAnswered { batch, answer },
        Pending::Upstream { execution } => Input::UpstreamAnswered { execution, answer },
    }
}

fn secret(host: &dyn Host, at: &SecretRef) -> Result<Secret, String> {
    let secret = environment(host, &at.env)?;
    if secret.len() < SECRET_BYTES_MIN {
        return Err(format!(
            "the secret in {} has {} bytes; at least {SECRET_BYTES_MIN} are needed",
            at.env,
            secret.len()
        ));
    }
    Ok(Secret::new(at.id.clone(), secret.as_bytes()))
}

fn environment(host: &dyn Host, name: &str) -> Result<String, String> {
    host.environment(name).ok_or_else(|| {
        format!(
            "the environment variable {name} is not set; hand it to the VM by \
             vm_config.environment_variables"
        )
    })
}

// === impl Input ===

impl From<Note> for Input {
    fn from(note: Note) -> Self {
        match note {
            Note::Submit { stream, request, cluster } => Self::Submit { stream, request, cluster },
            Note::Overloaded => Self::Overloaded,
            Note::Gone { stream } => Self::StreamGone { stream },
            Note::Responded { execution, answer, whole, held } => {
                Self::Responded { execution, answer, whole, held }
            }
            Note::Redirected { execution } => Self::Redirected { execution },
            Note::Adopted { execution, stream } => Self::Adopted { execution, stream },
        }
    }
}
