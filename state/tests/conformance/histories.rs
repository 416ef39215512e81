//! Random histories: what a store answers and keeps is what the model answers and keeps.
//!
//! A history is a list of steps that speak of keys and executions by number. It is played on
//! the model and on the store under test at once, with one clock. What an execution holds, and
//! what an operator saw, comes from the model's answers; the store's are equal, or the test has
//! failed already.

use std::collections::BTreeMap;

use latchkey_core::operation::{
    Claim, Event, Fail, FailKind, FilterEvent, Operation, OperatorEvent, Reply, Seen, Ticket,
};
use latchkey_core::record::{Fence, OnAmbiguous, Terms};
use latchkey_core::time::StoreTime;
use latchkey_state::StateStore;
use latchkey_state::memory::MemoryStore;
use latchkey_state::outage::STAMP_GAP_US;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use crate::support::{
    Fixture, HELD_TTL_US, LEASE_US, SECOND_US, TTL_US, World, candidate, claim, fail, identity,
    response, subject, terms, ticket, tombstone,
};

/// Histories for each store. A history of this length meets every transition but the rarest.
const HISTORIES: u32 = 96;
const STEPS: std::ops::Range<usize> = 20..90;
const KEYS: u8 = 3;
const EXECUTIONS: u8 = 5;

/// One step.
#[derive(Clone, Debug)]
enum Step {
    /// Operations in one batch.
    Batch(Vec<(u8, Act)>),
    /// The last batch again, as a network may deliver it.
    Repeat,
    /// Time in which the store is served.
    Pass(u64),
    /// Time in which it is not.
    Outage(u64),
    Sweep,
}

/// What is done to a key.
#[derive(Clone, Debug)]
enum Act {
    Claim { execution: u8, request: Request, terms: usize, late: bool },
    Renew(u8),
    Complete { execution: u8, small: bool, other: bool },
    Fail { execution: u8, kind: FailKind, answered: bool, retry_after_us: u64, status: bool },
    Release { force: bool, view: View },
    Resolve { force: bool, view: View },
    Forget { view: View },
}

/// Which candidates a claim brings.
#[derive(Clone, Copy, Debug)]
enum Request {
    One,
    OneUnderBothSecrets,
    OneUnderTheNewSecret,
    Another,
}

/// What an operator saw.
#[derive(Clone, Copy, Debug)]
enum View {
    Right,
    OtherFence,
    OtherRevision,
    /// What was right at the first look.
    First,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => prop::collection::vec((0..KEYS, act()), 1..4).prop_map(Step::Batch),
        1 => Just(Step::Repeat),
        3 => prop_oneof![
            Just(1),
            Just(SECOND_US),
            Just(LEASE_US / 2),
            Just(LEASE_US),
            Just(LEASE_US + 1),
        ].prop_map(Step::Pass),
        1 => prop_oneof![Just(TTL_US + 1), Just(HELD_TTL_US + LEASE_US)].prop_map(Step::Pass),
        1 => prop_oneof![Just(STAMP_GAP_US), Just(STAMP_GAP_US + 1), Just(LEASE_US + 7)]
            .prop_map(Step::Outage),
        1 => Just(Step::Sweep),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let execution = || 0..EXECUTIONS;
    let kind = prop_oneof![
        Just(FailKind::NeverSent),
        Just(FailKind::Retryable),
        Just(FailKind::Ambiguous)
    ];
    prop_oneof![
        8 => (execution(), request(), 0..4_usize, prop::bool::weighted(0.03))
            .prop_map(|(execution, request, terms, late)| {
                Act::Claim { execution, request, terms, late }
            }),
        3 => execution().prop_map(Act::Renew),
        3 => (execution(), any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|(execution, small, other)| Act::Complete { execution, small, other }),
        4 => (
            execution(),
            kind,
            prop::bool::weighted(0.8),
            prop_oneof![3 => Just(0), 1 => Just(3 * SECOND_US)],
            any::<bool>(),
        )
            .prop_map(|(execution, kind, answered, retry_after_us, status)| {
                Act::Fail { execution, kind, answered, retry_after_us, status }
            }),
        2 => (any::<bool>(), view()).prop_map(|(force, view)| Act::Release { force, view }),
        1 => (any::<bool>(), view()).prop_map(|(force, view)| Act::Resolve { force, view }),
        1 => view().prop_map(|view| Act::Forget { view }),
    ]
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        6 => Just(Request::One),
        3 => Just(Request::OneUnderBothSecrets),
        1 => Just(Request::OneUnderTheNewSecret),
        1 => Just(Request::Another),
    ]
}

fn view() -> impl Strategy<Value = View> {
    prop_oneof![
        5 => Just(View::Right),
        1 => Just(View::OtherFence),
        1 => Just(View::OtherRevision),
        2 => Just(View::First),
    ]
}

pub(crate) async fn random_histories_end_as_in_the_model<F: Fixture>() {
    let config = Config {
        cases: HISTORIES,
        rng_seed: match std::env::var("PROPTEST_RNG_SEED") {
            Ok(seed) => RngSeed::Fixed(seed.parse().expect("PROPTEST_RNG_SEED is a number")),
            // The same histories in every run, so that a failure is one for everybody.
            Err(_) => RngSeed::Fixed(0x1a7c_4ee1),
        },
        failure_persistence: None,
        max_shrink_iters: 400,
        ..Config::default()
    };
    let runtime = tokio::runtime::Handle::current();
    let play = move || {
        let mut runner = TestRunner::new(config);
        runner.run(&prop::collection::vec(step(), STEPS), |history| {
            runtime.block_on(async {
                Play::<F>::start().await.run(history).await;
            });
            Ok(())
        })
    };
    // A thread of its own, since a runtime's threads must not block.
    if let Err(failure) = tokio::task::spawn_blocking(play).await.unwrap() {
        panic!("{failure}");
    }
}

/// A history under way.
struct Play<F> {
    world: World<F>,
    model: MemoryStore,
    /// What an execution holds of a key, by the last answer to its claim.
    tickets: BTreeMap<(u8, u8), Ticket>,
    first_seen: BTreeMap<u8, Seen>,
    last: Vec<Operation>,
}

impl<F: Fixture> Play<F> {
    async fn start() -> Self {
        let world = World::<F>::start().await;
        let model = MemoryStore::new(world.clock.clone());
        model.stamp().await.unwrap();
        Self {
            world,
            model,
            tickets: BTreeMap::new(),
            first_seen: BTreeMap::new(),
            last: Vec::new(),
        }
    }

    async fn run(mut self, history: Vec<Step>) {
        for step in history {
            self.step(step).await;
            self.compare().await;
        }
        let by_identity = |(identity, _): &(_, _)| *identity;
        let mut listed = self.world.listed(2).await;
        listed.sort_by_key(by_identity);
        let mut expected = self.model.in_flight(None, 1000).await.unwrap().records;
        expected.sort_by_key(by_identity);
        assert_eq!(listed, expected);
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Batch(acts) => {
                let mut batch = Vec::new();
                let mut claims = Vec::new();
                for (key, act) in acts {
                    let event = self.event(key, act).await;
                    if let Event::Filter { event: FilterEvent::Claim(claim), .. } = &event {
                        claims.push((batch.len(), key, claim.clone()));
                    }
                    batch.push(Operation { identity: identity(key), event });
                }
                let replies = self.apply(batch.clone()).await;
                for (at, key, claim) in claims {
                    if let Reply::Claimed(claimed) = &replies[at] {
                        let ticket = ticket(&claim, claimed.clone());
                        self.tickets.insert((key, claim.execution.0[0]), ticket);
                    }
                }
                self.last = batch;
            }
            Step::Repeat => {
                self.apply(self.last.clone()).await;
            }
            Step::Pass(us) => {
                let mut left = us;
                while left > 0 {
                    let part = left.min(STAMP_GAP_US);
                    self.world.pass(part).await;
                    self.model.stamp().await.unwrap();
                    left -= part;
                }
            }
            Step::Outage(us) => self.world.outage(us),
            Step::Sweep => {
                self.model.sweep(1000).await.unwrap();
                self.world.store().sweep(1000).await.unwrap();
            }
        }
    }

    /// Applies `batch` to both, and compares what they answer.
    async fn apply(&self, batch: Vec<Operation>) -> Vec<Reply> {
        let expected = self.model.apply(batch.clone()).await.unwrap();
        let applied = self.world.store().apply(batch.clone()).await.unwrap();
        assert_eq!(applied.results, expected.results, "answers to {batch:#?}");
        assert_eq!(applied.now, expected.now);
        expected.results.into_iter().map(Result::unwrap).collect()
    }

    /// Compares what both keep.
    async fn compare(&self) {
        for key in 0..KEYS {
            let expected = self.model.get(identity(key)).await.unwrap();
            assert_eq!(self.world.record(key).await, expected, "record {key}");
        }
        assert_eq!(self.world.counts().await, self.model.counts().await.unwrap());
    }

    async fn event(&mut self, key: u8, act: Act) -> Event {
        match act {
            Act::Claim { execution, request, terms, late } => {
                let now = self.world.now();
                let void_after = if late { StoreTime(now.0 - 1) } else { now };
                let claim = claim_of(execution, request, terms);
                Event::Filter { void_after, event: FilterEvent::Claim(claim) }
            }
            Act::Renew(execution) => in_time(FilterEvent::Renew(self.ticket(key, execution))),
            Act::Complete { execution, small, other } => {
                let mut ticket = self.ticket(key, execution);
                if other {
                    ticket.candidate = candidate(2, "old");
                }
                let outcome = if small { tombstone() } else { response(execution) };
                in_time(FilterEvent::Complete { ticket, outcome })
            }
            Act::Fail { execution, kind, answered, retry_after_us, status } => {
                let ticket = self.ticket(key, execution);
                let failed = fail(&ticket, kind);
                in_time(FilterEvent::Fail(Fail {
                    fence: failed.fence.filter(|_| answered),
                    fingerprint: failed.fingerprint.filter(|_| answered),
                    status: failed.status.filter(|_| status),
                    retry_after_us,
                    ..failed
                }))
            }
            Act::Release { force, view } => {
                self.operator(key, view, OperatorEvent::Release { force }).await
            }
            Act::Resolve { force, view } => {
                let event = OperatorEvent::Resolve { outcome: response(99), force };
                self.operator(key, view, event).await
            }
            Act::Forget { view } => self.operator(key, view, OperatorEvent::Forget).await,
        }
    }

    async fn operator(&mut self, key: u8, view: View, event: OperatorEvent) -> Event {
        let record = self.model.get(identity(key)).await.unwrap();
        let right = record.map_or(Seen { fence: Fence(1), revision: 1 }, |record| Seen {
            fence: record.fence,
            revision: record.revision,
        });
        let first = *self.first_seen.entry(key).or_insert(right);
        let seen = match view {
            View::Right => right,
            View::OtherFence => Seen { fence: Fence(right.fence.0 + 1), ..right },
            View::OtherRevision => Seen { revision: right.revision + 1, ..right },
            View::First => first,
        };
        Event::Operator { seen, event }
    }

    /// What `execution` holds of `key`; where it never claimed, what a store that has lost the
    /// record would hear.
    fn ticket(&self, key: u8, execution: u8) -> Ticket {
        self.tickets.get(&(key, execution)).cloned().unwrap_or_else(|| Ticket {
            execution: latchkey_core::record::ExecutionId([execution; 16]),
            fence: Fence(self.world.now().0 - u64::from(execution)),
            attempt: 2,
            sent: 2,
            candidate: candidate(1, "old"),
            terms: terms(OnAmbiguous::Reexecute),
            subject: subject(),
            gateway: "lost".to_owned(),
        })
    }
}

fn in_time(event: FilterEvent) -> Event {
    Event::Filter { void_after: StoreTime(u64::MAX), event }
}

fn claim_of(execution: u8, request: Request, at: usize) -> Claim {
    let (old, new) = (candidate(1, "old"), candidate(1, "new"));
    let candidates = match request {
        Request::One => vec![old],
        Request::OneUnderBothSecrets => vec![new, old],
        Request::OneUnderTheNewSecret => vec![new],
        Request::Another => vec![candidate(2, "old"), candidate(2, "new")],
    };
    let all = [
        terms(OnAmbiguous::Reexecute),
        Terms { lease_us: LEASE_US / 2, ..terms(OnAmbiguous::Reexecute) },
        Terms { attempts_max: 2, ttl_us: TTL_US / 2, ..terms(OnAmbiguous::Reexecute) },
        Terms { attempts_max: 4, ..terms(OnAmbiguous::Hold) },
    ];
    Claim { candidates, terms: all[at], ..claim(execution) }
}
