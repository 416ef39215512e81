//! Two gateways, one store, an upstream and clients.

use std::collections::{BTreeMap, BTreeSet};

use latchkey_core::config::{Config, Execute};
use latchkey_core::counter::Counts;
use latchkey_core::fingerprint::Secret;
use latchkey_core::identity::Identity;
use latchkey_core::key::{self, KeySyntax};
use latchkey_core::record::{ExecutionId, OnAmbiguous, State};
use latchkey_core::time::StoreTime;
use latchkey_core::wire::{Message, decode_operation, encode_reply, state_v1 as wire};
use latchkey_plugin::answer::Answer;
use latchkey_plugin::engine::{Call, CallAnswer, Command, Engine, Input};
use latchkey_plugin::request::{Decision, Headers, admit};
use latchkey_state::memory::MemoryStore;
use latchkey_state::{StateStore, StoreClock};
use serde_json::json;

use super::network::{Happening, Schedule};
use super::random::Random;
use super::router::Routed;

/// What may go wrong, in percent of the cases.
#[derive(Clone, Copy)]
pub(crate) struct Faults {
    network: u64,
    upstream: u64,
    outages: bool,
    deaths: bool,
    hang_ups: u64,
}

impl Faults {
    pub(crate) const NONE: Self =
        Self { network: 0, upstream: 0, outages: false, deaths: false, hang_ups: 20 };
    /// Clients wait for their answers.
    pub(crate) const PATIENT: Self = Self { hang_ups: 0, ..Self::NONE };
    pub(crate) const NETWORK: Self = Self { network: 35, ..Self::NONE };
    pub(crate) const OUTAGES: Self = Self { outages: true, ..Self::NONE };
    pub(crate) const UPSTREAM: Self = Self { upstream: 60, ..Self::NONE };
    pub(crate) const ALL: Self =
        Self { network: 20, upstream: 40, outages: true, deaths: true, hang_ups: 20 };
}

/// How executions are made, and what their duplicates get.
#[derive(Clone, Copy)]
pub(crate) enum Manner {
    /// By the gateway's own calls; duplicates are refused.
    Detached,
    /// By the gateway's own calls; duplicates wait.
    DetachedWait,
    /// By Envoy's router; duplicates are refused.
    Attached,
    /// By Envoy's router; duplicates wait.
    AttachedWait,
}

impl Manner {
    /// The upstream hears of it when the client leaves.
    pub(crate) fn is_attached(self) -> bool {
        match self {
            Self::Attached | Self::AttachedWait => true,
            Self::Detached | Self::DetachedWait => false,
        }
    }
}

/// Enough that most requests meet a key whose outcome is still open.
const KEYS: usize = 12;
const REQUESTS: u64 = 36;
/// Requests come in the first minute; then the world heals and is left to settle.
const REQUESTS_UNTIL_US: u64 = 60_000_000;
const HEALED_US: u64 = 70_000_000;
const END_US: u64 = 180_000_000;
const LEASE_MS: u64 = 4_000;
const STATE_TIMEOUT_US: u64 = 500_000;
const UPSTREAM_TIMEOUT_US: u64 = 20_000_000;

pub(crate) struct Gateway {
    pub(crate) engine: Engine,
    /// Rises when the gateway dies: what was under way for an earlier life is lost.
    pub(crate) life: u32,
    next_stream: u32,
    /// The key of each stream whose client waits.
    pub(crate) waiting: BTreeMap<u32, usize>,
    /// The streams whose requests Envoy's router has.
    pub(crate) routed: BTreeMap<u32, Routed>,
    /// It cannot reach the state, although others can.
    cut_off: bool,
}

struct Told {
    key: usize,
    answer: Answer,
}

pub(crate) struct World {
    seed: u64,
    pub(crate) random: Random,
    faults: Faults,
    config: Config,
    secrets: Vec<Secret>,
    clock: StoreClock,
    store: MemoryStore,
    store_up: bool,
    pub(crate) gateways: Vec<Gateway>,
    pub(crate) schedule: Schedule,
    pub(crate) now: u64,
    /// Fences under which a gateway was told that it may execute.
    granted: BTreeSet<u64>,
    /// Fences under which a request was sent.
    sent: BTreeSet<u64>,
    /// How often each key's payment was made, by derived key.
    commits: BTreeMap<String, u32>,
    told: Vec<Told>,
    /// Whether a gateway died, and took with it what it knew.
    died: bool,
}

fn config(policy: OnAmbiguous, manner: Manner) -> Config {
    let detached = json!({"direct": true, "timeout_ms": UPSTREAM_TIMEOUT_US / 1000});
    let attached = json!({"mode": "attached"});
    let wait = json!({"wait": {"timeout_ms": 9_000}});
    let (execute, on_conflict) = match manner {
        Manner::Detached => (detached, json!({"reject": {}})),
        Manner::DetachedWait => (detached, wait),
        Manner::Attached => (attached, json!({"reject": {}})),
        Manner::AttachedWait => (attached, wait),
    };
    let json = json!({
        "namespace": "test",
        "secrets": [{"id": "s", "env": "S"}],
        "state": {"cluster": "latchkey", "timeout_ms": STATE_TIMEOUT_US / 1000},
        "rules": [{
            "name": "payments",
            "match": {"path_prefix": "/payments"},
            "client": {"fixed": "acme"},
            "execute": execute,
            "on_conflict": on_conflict,
            "lease_ms": LEASE_MS,
            "retry": {"attempts_max": 100},
            "on_ambiguous": policy,
        }]
    });
    Config::from_json(json.to_string().as_bytes()).unwrap()
}

fn ended(status: u16, service_time: bool, body: &str) -> CallAnswer {
    let mut headers = Vec::new();
    if service_time {
        headers.push(("x-envoy-upstream-service-time".to_owned(), b"1".to_vec()));
    }
    CallAnswer::Ended { status: Some(status), headers, body: body.as_bytes().to_vec() }
}

impl World {
    pub(crate) fn new(seed: u64, faults: Faults, policy: OnAmbiguous, manner: Manner) -> Self {
        let config = config(policy, manner);
        let clock = StoreClock::manual(StoreTime(1_000_000_000_000));
        let gateways = (0..2)
            .map(|_| Gateway {
                engine: Engine::new(config.clone(), wire::Gateway::default()),
                life: 0,
                next_stream: 0,
                waiting: BTreeMap::new(),
                routed: BTreeMap::new(),
                cut_off: false,
            })
            .collect();
        Self {
            seed,
            random: Random::new(seed),
            faults,
            config,
            secrets: vec![Secret::new("s".to_owned(), b"sixteen bytes...")],
            store: MemoryStore::new(clock.clone()),
            clock,
            store_up: true,
            gateways,
            schedule: Schedule::default(),
            now: 0,
            granted: BTreeSet::new(),
            sent: BTreeSet::new(),
            commits: BTreeMap::new(),
            told: Vec::new(),
            died: false,
        }
    }

    pub(crate) fn run(&mut self) {
        self.plan();
        while let Some((time, happening)) = self.schedule.next() {
            if time > END_US {
                break;
            }
            self.clock.advance(time - self.now);
            self.now = time;
            self.happens(happening);
        }
    }

    fn plan(&mut self) {
        for gateway in 0..2 {
            self.schedule.at(gateway as u64, Happening::Tick { gateway });
        }
        self.schedule.at(0, Happening::Stamp);
        for _ in 0..REQUESTS {
            let time = 1_000_000 + self.random.below(REQUESTS_UNTIL_US);
            let key = self.random.below(KEYS as u64) as usize;
            let gateway = self.random.below(2) as usize;
            // Crowds: a few duplicates at nearly the same moment.
            for _ in 0..=self.random.below(3) {
                let time = time + self.random.below(2_000);
                self.schedule.at(time, Happening::ClientSends { key, gateway });
            }
        }
        if self.faults.outages {
            for gateway in [None, Some(0), Some(1)] {
                let from = self.random.below(REQUESTS_UNTIL_US);
                let to = (from + 1_000_000 + self.random.below(12_000_000)).min(HEALED_US);
                let reach = |up| match gateway {
                    None => Happening::Store { up },
                    Some(gateway) => Happening::Partition { gateway, up },
                };
                self.schedule.at(from, reach(false));
                self.schedule.at(to, reach(true));
            }
        }
        if self.faults.deaths {
            let time = self.random.below(REQUESTS_UNTIL_US);
            let gateway = self.random.below(2) as usize;
            self.schedule.at(time, Happening::GatewayDies { gateway });
        }
        self.schedule.at(HEALED_US, Happening::Store { up: true });
    }

    fn happens(&mut self, happening: Happening) {
        match happening {
            Happening::ClientSends { key, gateway } => self.client_sends(key, gateway),
            Happening::ClientLeaves { gateway, stream } => {
                self.leaves(gateway, stream);
            }
            Happening::BatchArrives { gateway, life, batch, body, reply_after } => {
                self.batch_arrives(gateway, life, batch, &body, reply_after);
            }
            Happening::StateAnswers { gateway, life, batch, answer } => {
                if self.gateways[gateway].life == life {
                    self.note_granted(&answer);
                    self.feed(gateway, Input::StateAnswered { batch, answer });
                }
            }
            Happening::UpstreamGets { gateway, life, execution, call } => {
                self.upstream_gets(gateway, life, execution, &call);
            }
            Happening::UpstreamAnswers { gateway, life, execution, answer } => {
                if self.gateways[gateway].life != life {
                    return;
                }
                match self.config.rules[0].execute {
                    Execute::Detached { .. } => {
                        self.feed(gateway, Input::UpstreamAnswered { execution, answer });
                    }
                    Execute::Attached => self.routed(gateway, execution, answer),
                }
            }
            Happening::Tick { gateway } => {
                self.feed(gateway, Input::Tick);
                self.schedule.at(self.now + 50_000, Happening::Tick { gateway });
            }
            Happening::Stamp => {
                if self.store_up {
                    block_on(self.store.stamp()).unwrap();
                }
                self.schedule.at(self.now + 1_000_000, Happening::Stamp);
            }
            Happening::Store { up } => {
                self.store_up = up;
                if up {
                    block_on(self.store.stamp()).unwrap();
                }
            }
            Happening::Partition { gateway, up } => self.gateways[gateway].cut_off = !up,
            Happening::GatewayDies { gateway } => self.gateway_dies(gateway),
        }
    }

    fn client_sends(&mut self, key: usize, gateway: usize) {
        let pair = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        let headers = Headers(vec![
            pair(":method", "POST"),
            pair(":path", "/payments"),
            pair(":authority", "api"),
            pair("idempotency-key", &format!("key-{key}")),
        ]);
        let Decision::Guard(plan) = admit(&self.config, &headers, &()).decision else {
            panic!("the request is guarded")
        };
        let mut execution = [0; 16];
        execution[..8].copy_from_slice(&self.random.next().to_be_bytes());
        execution[8..].copy_from_slice(&self.random.next().to_be_bytes());
        let execution = ExecutionId(execution);
        let name = format!("gateway-{gateway}");
        let body = format!("pay {key}").into_bytes();
        let guarded = plan.complete(&self.config, &self.secrets, execution, &name, body).unwrap();
        let stream = self.gateways[gateway].next_stream;
        self.gateways[gateway].next_stream += 1;
        self.gateways[gateway].waiting.insert(stream, key);
        if self.random.chance(self.faults.hang_ups) {
            let time = self.now + self.random.below(5_000_000);
            self.schedule.at(time, Happening::ClientLeaves { gateway, stream });
        }
        let cluster = Some("upstream".to_owned());
        self.feed(gateway, Input::Submit { stream, request: Box::new(guarded), cluster });
    }

    pub(crate) fn feed(&mut self, gateway: usize, input: Input) {
        let commands = self.gateways[gateway].engine.handle(input, self.now);
        for command in commands {
            self.obey(gateway, command);
        }
    }

    fn obey(&mut self, gateway: usize, command: Command) {
        let life = self.gateways[gateway].life;
        match command {
            Command::CallState { batch, body, .. } => self.call_state(gateway, batch, &body),
            Command::CallUpstream { execution, call } => {
                self.send(gateway, life, execution, call);
            }
            Command::Answer { stream, answer, .. } => self.tell(gateway, stream, answer),
            Command::AnswerAll { streams, answer } => {
                for stream in streams {
                    self.tell(gateway, stream, answer.clone());
                }
            }
            Command::Forward { stream, execution, forward } => {
                self.forward(gateway, stream, execution, forward);
            }
            Command::Release { stream, unstored, .. } => self.release(gateway, stream, unstored),
            Command::Pass { .. } => panic!("keys are required, so nothing passes"),
            Command::Count(_) | Command::Warn(_) => {}
        }
    }

    /// A request goes to the upstream, whoever makes the call.
    pub(crate) fn send(&mut self, gateway: usize, life: u32, execution: u64, call: Call) {
        let fence = header(&call, "idempotency-fence").parse().unwrap();
        let seed = self.seed;
        assert!(self.granted.contains(&fence), "seed {seed}: sent before its claim was granted");
        self.sent.insert(fence);
        let time = self.now + self.random.below(20_000);
        self.schedule.at(time, Happening::UpstreamGets { gateway, life, execution, call });
    }

    /// A client is told; the shell drops what is told to a stream that is gone.
    pub(crate) fn tell(&mut self, gateway: usize, stream: u32, answer: Answer) {
        let it = &mut self.gateways[gateway];
        if let Some(routed) = it.routed.remove(&stream) {
            assert!(matches!(routed, Routed::Held { .. }), "answered while the router has it");
        }
        if let Some(key) = it.waiting.remove(&stream) {
            self.told.push(Told { key, answer });
        }
    }

    /// A call to the state: it may be refused, lost on either way, late, or arrive twice.
    fn call_state(&mut self, gateway: usize, batch: u64, body: &[u8]) {
        let life = self.gateways[gateway].life;
        let faulty = self.now < HEALED_US && self.random.chance(self.faults.network);
        let timed_out = self.now + STATE_TIMEOUT_US;
        let answers = |answer| Happening::StateAnswers { gateway, life, batch, answer };
        let arrives = |reply_after| Happening::BatchArrives {
            gateway,
            life,
            batch,
            body: body.to_vec(),
            reply_after,
        };
        if !self.store_up || self.gateways[gateway].cut_off {
            let text = "upstream connect error or disconnect/reset before headers. \
                        reset reason: remote connection failure";
            let answer = if self.random.chance(50) {
                (self.now + 1_000, ended(503, false, text))
            } else {
                (timed_out, ended(504, false, "upstream request timeout"))
            };
            self.schedule.at(answer.0, answers(answer.1));
            return;
        }
        let there = self.random.below(30_000);
        let back = self.random.below(30_000);
        if !faulty {
            self.schedule.at(self.now + there, arrives(Some(back)));
            return;
        }
        let late = self.random.below(8 * STATE_TIMEOUT_US);
        match self.random.below(4) {
            0 => self.schedule.at(timed_out, answers(ended(504, false, ""))),
            1 => {
                self.schedule.at(timed_out, answers(ended(504, false, "")));
                self.schedule.at(self.now + late, arrives(None));
            }
            2 => {
                self.schedule.at(self.now + there, arrives(Some(back)));
                self.schedule.at(self.now + late, arrives(None));
            }
            _ => {
                let reset = CallAnswer::Ended { status: None, headers: vec![], body: vec![] };
                self.schedule.at(self.now + there, answers(reset));
                self.schedule.at(self.now + late, arrives(None));
            }
        }
    }

    fn batch_arrives(
        &mut self,
        gateway: usize,
        life: u32,
        batch: u64,
        body: &[u8],
        reply_after: Option<u64>,
    ) {
        let answer = if self.store_up {
            let request = wire::BatchRequest::decode(body).unwrap();
            let operations = request.operations.into_iter();
            let operations = operations.map(|it| decode_operation(it).unwrap()).collect();
            let applied = block_on(self.store.apply(operations)).unwrap();
            let now_us = applied.now.0;
            let results = applied.results.into_iter().map(|reply| encode_reply(reply.unwrap()));
            let reply = wire::BatchReply { now_us, results: results.collect() };
            CallAnswer::Ended { status: Some(200), headers: vec![], body: reply.encode_to_vec() }
        } else {
            ended(503, true, "the store is unavailable")
        };
        if let Some(after) = reply_after {
            let happening = Happening::StateAnswers { gateway, life, batch, answer };
            self.schedule.at(self.now + after, happening);
        }
    }

    fn note_granted(&mut self, answer: &CallAnswer) {
        let CallAnswer::Ended { status: Some(200), body, .. } = answer else { return };
        for result in wire::BatchReply::decode(body.as_slice()).unwrap().results {
            if let Some(wire::result::Kind::Claimed(claimed)) = result.kind {
                self.granted.insert(claimed.fence);
            }
        }
    }

    fn upstream_gets(&mut self, gateway: usize, life: u32, execution: u64, call: &Call) {
        let key = header(call, "idempotency-key").to_owned();
        let faulty = self.now < HEALED_US && self.random.chance(self.faults.upstream);
        let text = "upstream connect error or disconnect/reset before headers. reset reason: ";
        let (commits, answer) = match if faulty { self.random.below(5) } else { 5 } {
            0 => (false, ended(503, true, "busy")),
            1 => (false, ended(503, false, &format!("{text}remote connection failure"))),
            2 => (true, ended(503, false, &format!("{text}connection termination"))),
            3 => (true, CallAnswer::Ended { status: None, headers: vec![], body: vec![] }),
            4 => (self.random.chance(50), ended(500, true, "oops")),
            _ => (true, ended(201, true, &format!("paid {}", header(call, "idempotency-fence")))),
        };
        if commits {
            *self.commits.entry(key).or_default() += 1;
        }
        // Longer than a lease, now and then.
        let longest = if self.random.chance(20) { 12_000_000 } else { 400_000 };
        let after = self.random.below(longest);
        let happening = Happening::UpstreamAnswers { gateway, life, execution, answer };
        self.schedule.at(self.now + after, happening);
    }

    fn gateway_dies(&mut self, gateway: usize) {
        let config = self.config.clone();
        let dead = &mut self.gateways[gateway];
        dead.engine = Engine::new(config, wire::Gateway::default());
        dead.life += 1;
        dead.waiting.clear();
        dead.routed.clear();
        self.died = true;
    }

    pub(crate) fn most_commits(&self) -> u32 {
        self.commits.values().copied().max().unwrap_or(0)
    }

    pub(crate) fn counts(&self) -> Counts {
        block_on(self.store.counts()).unwrap()
    }

    /// What must hold of every run, once the world has healed and settled.
    pub(crate) fn check(&self) {
        let seed = self.seed;
        for (at, gateway) in self.gateways.iter().enumerate() {
            assert!(
                gateway.waiting.is_empty(),
                "seed {seed}: gateway {at} leaves a client hanging"
            );
            assert_eq!(
                gateway.engine.executions_in_flight(),
                0,
                "seed {seed}: gateway {at} still has something under way"
            );
        }
        let policy = self.config.rules[0].terms.on_ambiguous;
        let excess: u32 = self.commits.values().map(|commits| commits.saturating_sub(1)).sum();
        match policy {
            OnAmbiguous::Hold => assert_eq!(excess, 0, "seed {seed}: executed twice under hold"),
            OnAmbiguous::Reexecute => assert!(
                u64::from(excess) <= self.counts().suspected_duplicates,
                "seed {seed}: {excess} duplicates, {:?}",
                self.counts()
            ),
        }
        self.check_outcomes(excess);
        self.check_successes();
        let page = block_on(self.store.in_flight(None, 100)).unwrap();
        for (_, record) in page.records {
            let ran = self.sent.contains(&record.fence.0) || self.died;
            match record.state {
                State::InProgress { .. } => assert!(self.died, "seed {seed}: a ghost: {record:?}"),
                State::Held { .. } => assert!(ran, "seed {seed}: held but never ran: {record:?}"),
                State::Retryable { .. } | State::Completed { .. } => {}
            }
        }
    }

    /// A success that a client was told is stored in the end, unless it died with its gateway.
    fn check_successes(&self) {
        for told in self.told.iter().filter(|told| told.answer.status == 201 && !self.died) {
            let record = block_on(self.store.get(identity(told.key))).unwrap();
            let stored = record.is_some_and(|it| matches!(it.state, State::Completed { .. }));
            assert!(stored, "seed {}: a success was told but never stored", self.seed);
        }
    }

    /// One outcome is told to everybody; where an execution was repeated, the one that was
    /// told before it was stored may be another.
    fn check_outcomes(&self, excess: u32) {
        for key in 0..KEYS {
            let bodies: BTreeSet<_> = self
                .told
                .iter()
                .filter(|told| told.key == key && told.answer.status == 201)
                .filter(|told| excess == 0 || !is_unstored(&told.answer))
                .map(|told| told.answer.body.clone())
                .collect();
            assert!(bodies.len() <= 1, "seed {}: {} outcomes told", self.seed, bodies.len());
        }
    }
}

fn identity(key: usize) -> Identity {
    let text = format!("key-{key}");
    let key = key::parse(&[text.as_bytes()], KeySyntax::Lenient, 255).unwrap().unwrap();
    Identity::new("test", "acme", &key)
}

fn is_unstored(answer: &Answer) -> bool {
    answer.headers.iter().any(|(name, _)| name == "idempotency-status")
}

fn header<'a>(call: &'a Call, name: &str) -> &'a str {
    call.headers.iter().find(|(it, _)| it == name).map_or("", |(_, value)| value)
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}
