//! The root context of a worker: it owns the engine and every call-out.
//!
//! Two roots can live in one VM, when a configuration is replaced: each has its own engine,
//! mailbox and queue. The old one answers `on_done` with false while anything is under way, so
//! that its call-outs are not cancelled, and says `done` once when nothing is.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Instant;

use latchkey_core::config::Config;
use latchkey_core::fingerprint::Secret;
use latchkey_core::hex;
use latchkey_core::wire::{TEXT_BYTES_MAX, state_v1 as wire};
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::ContextType;
use sha2::{Digest, Sha256};

use super::host::{self, Buffer, Map};
use super::mailbox::{Mailbox, Note};
use super::metrics::Metrics;
use super::stream::Stream;
use crate::engine::{Call, CallAnswer, Command, Engine, Input};

/// How often the engine looks at the time: a tenth of the shortest useful state time-out.
const TICK_MS: u32 = 50;

/// A secret shorter than this can be guessed.
const SECRET_BYTES_MIN: usize = 16;

/// A configuration is at most as large as Envoy will hand over without complaint.
const CONFIGURATION_BYTES_MAX: usize = 1024 * 1024;

/// What the streams of a root share with it.
pub(super) struct Shared {
    pub(super) config: Config,
    pub(super) secrets: Vec<Secret>,
    pub(super) gateway: String,
    pub(super) mailbox: Mailbox,
    waiting: RefCell<BTreeSet<u32>>,
    /// What the engine held when it last looked, and what was submitted since: executions and
    /// their bytes.
    held: Cell<(usize, u64)>,
}

/// What a call-out's answer is for.
#[derive(Clone, Copy)]
enum Pending {
    State { batch: u64 },
    Upstream { execution: u64 },
}

/// A worker's root.
pub(super) struct Root {
    id: u32,
    running: Option<Running>,
}

/// A root that was configured.
struct Running {
    id: u32,
    shared: Rc<Shared>,
    engine: Engine,
    token: Option<String>,
    pending: BTreeMap<u32, Pending>,
    metrics: Metrics,
    started: Instant,
    /// `on_done` has answered false, and the host waits for `done`.
    owes_done: bool,
}

// === impl Shared ===

impl Shared {
    pub(super) fn wait(&self, stream: u32) {
        if let Ok(mut waiting) = self.waiting.try_borrow_mut() {
            waiting.insert(stream);
        }
    }

    /// Whether there is room for one more execution with a body of `size` bytes; takes it if so.
    /// Asked before the body is copied: a crowd of large ones must not outgrow the VM between
    /// two looks of the engine, which then counts exactly.
    pub(super) fn make_room(&self, size: usize) -> bool {
        let limits = self.config.limits;
        let (executions, bytes) = self.held.get();
        let then = (executions.saturating_add(1), bytes.saturating_add(size as u64));
        let room = then.0 <= limits.executions_max as usize && then.1 <= limits.bytes_max;
        if room {
            self.held.set(then);
        }
        room
    }

    /// Whether it was waiting.
    pub(super) fn stop_waiting(&self, stream: u32) -> bool {
        self.waiting.try_borrow_mut().is_ok_and(|mut waiting| waiting.remove(&stream))
    }
}

// === impl Root ===

impl Root {
    pub(super) fn new(id: u32) -> Self {
        Self { id, running: None }
    }
}

impl Context for Root {
    fn on_http_call_response(&mut self, token: u32, headers: usize, body_size: usize, _: usize) {
        if let Some(running) = &mut self.running {
            running.call_ended(token, headers, body_size);
        }
    }

    fn on_done(&mut self) -> bool {
        self.running.as_mut().is_none_or(Running::drain)
    }
}

impl RootContext for Root {
    fn on_configure(&mut self, _: usize) -> bool {
        let json = host::buffer(Buffer::Configuration, CONFIGURATION_BYTES_MAX);
        match Running::start(self.id, &json) {
            Ok(running) => {
                self.running = Some(running);
                true
            }
            Err(why) => {
                host::warn(&format!("latchkey: the configuration is refused: {why}"));
                false
            }
        }
    }

    fn on_queue_ready(&mut self, queue: u32) {
        // One message stands for all notes; more may have gathered.
        while host::dequeue(queue) {}
        if let Some(running) = &mut self.running {
            running.feed([]);
        }
    }

    fn on_tick(&mut self) {
        if let Some(running) = &mut self.running {
            running.feed([Input::Tick]);
        }
    }

    fn create_http_context(&self, id: u32) -> Option<Box<dyn HttpContext>> {
        let shared = self.running.as_ref().map(|running| Rc::clone(&running.shared));
        Some(Box::new(Stream::new(id, shared)))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

// === impl Running ===

impl Running {
    fn start(id: u32, json: &[u8]) -> Result<Self, String> {
        let config = Config::from_json(json).map_err(|error| error.to_string())?;
        let secrets = config.secrets.iter().map(secret).collect::<Result<_, _>>()?;
        let token = config.state.token_env.as_deref().map(environment).transpose()?;
        let mut worker = [0; 16];
        getrandom::fill(&mut worker).map_err(|error| format!("no randomness: {error}"))?;
        let queue = host::register_queue(&format!("latchkey-{}", hex::encode(&worker)));
        let node = host::property(&["xds", "node", "id"])
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
        let mailbox = Mailbox::default();
        mailbox.set_queue(queue);
        let (waiting, held) = (RefCell::default(), Cell::default());
        let shared = Rc::new(Shared { config, secrets, gateway: node, mailbox, waiting, held });
        host::set_tick_period_ms(TICK_MS);
        Ok(Self {
            id,
            shared,
            engine,
            token: token.map(|token| format!("Bearer {token}")),
            pending: BTreeMap::new(),
            metrics: Metrics::define(),
            started: Instant::now(),
            owes_done: false,
        })
    }

    /// Gives the engine everything that was submitted since the last look, and then `inputs`:
    /// what it holds afterwards is all there is.
    fn feed(&mut self, inputs: impl IntoIterator<Item = Input>) {
        let now_us = self.now_us();
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
        self.shared.held.set((executions, self.engine.bytes_held()));
        self.metrics.in_flight(executions);
        if self.owes_done && self.engine.is_idle() && self.pending.is_empty() {
            self.owes_done = false;
            host::set_effective_context(self.id);
            host::done();
        }
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Does as the engine says; a call that Envoy would not dispatch goes back to it.
    fn run(&mut self, command: Command) -> Option<Input> {
        match command {
            Command::CallState { batch, body, timeout_ms } => {
                let token = self.call_state(&body, timeout_ms);
                let pending = Pending::State { batch };
                self.expect(token, pending)
            }
            Command::CallUpstream { execution, call } => {
                let token = call_upstream(&call);
                self.expect(token, Pending::Upstream { execution })
            }
            Command::Answer { stream, answer } => {
                // A stream that is gone has no context any more.
                if self.shared.stop_waiting(stream) && host::set_effective_context(stream) {
                    host::answer(answer.status, &answer.headers, &answer.body, answer.details);
                    host::set_effective_context(self.id);
                }
                None
            }
            Command::Count(metric) => {
                self.metrics.count(metric);
                None
            }
            Command::Warn(message) => {
                host::warn(&format!("latchkey: {message}"));
                None
            }
        }
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
        host::call(cluster, headers, body, timeout_ms)
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
        let pairs = if headers == 0 { Vec::new() } else { host::map(Map::CallHeaders) };
        let body =
            if body_size == 0 { Vec::new() } else { host::buffer(Buffer::CallBody, body_size) };
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

fn call_upstream(call: &Call) -> Option<u32> {
    let headers = call.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    host::call(&call.cluster, headers.collect(), &call.body, call.timeout_ms)
}

fn secret(at: &latchkey_core::config::SecretRef) -> Result<Secret, String> {
    let secret = environment(&at.env)?;
    if secret.len() < SECRET_BYTES_MIN {
        return Err(format!(
            "the secret in {} has {} bytes; at least {SECRET_BYTES_MIN} are needed",
            at.env,
            secret.len()
        ));
    }
    Ok(Secret::new(at.id.clone(), secret.as_bytes()))
}

fn environment(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|_| {
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
        }
    }
}
