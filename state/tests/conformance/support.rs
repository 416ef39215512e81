//! A store with a clock that the test moves, and short words for what tests do to it.

pub(crate) mod memory;
pub(crate) mod redis;
pub(crate) mod sqlite;

use std::sync::Arc;

use latchkey_core::counter::Counts;
use latchkey_core::fingerprint::{Candidate, Fingerprint};
use latchkey_core::identity::Identity;
use latchkey_core::operation::{
    Claim, Claimed, Event, Fail, FailKind, FilterEvent, Operation, OperatorEvent, OperatorReply,
    Reply, Seen, Ticket, Verdict,
};
use latchkey_core::record::{ExecutionId, OnAmbiguous, Outcome, Record, Response, Subject, Terms};
use latchkey_core::time::StoreTime;
use latchkey_state::outage::STAMP_GAP_US;
use latchkey_state::{StateStore, StoreClock, StoreError};

pub(crate) const SECOND_US: u64 = 1_000_000;
pub(crate) const LEASE_US: u64 = 10 * SECOND_US;
pub(crate) const TTL_US: u64 = 60 * SECOND_US;
pub(crate) const HELD_TTL_US: u64 = 90 * SECOND_US;

/// Where clocks start: in 2027, so that times have as many digits as they will.
pub(crate) const START: StoreTime = StoreTime(1_800_000_000_000_000);

/// A store under test.
pub(crate) trait Fixture: Sized {
    /// An empty one.
    async fn start(clock: StoreClock) -> Self;

    /// The store.
    fn store(&self) -> Arc<dyn StateStore>;
}

/// How a record can be damaged.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Damage {
    /// It is not a record at all.
    Garbage,
    /// It is in progress, and says nothing of its lease.
    NoLease,
}

/// A store under test that outlives its server.
pub(crate) trait Lasting: Fixture {
    /// Opens it again after its server has died, with that server's clock lost.
    async fn reopen(&mut self, clock: StoreClock);

    /// Opens it for another server, while the first goes on.
    async fn second(&self, clock: StoreClock) -> Arc<dyn StateStore>;

    /// Damages a record behind the store's back.
    async fn damage(&self, identity: Identity, damage: Damage);

    /// What the store keeps of a record, to see whether it was touched.
    async fn raw(&self, identity: Identity) -> Vec<u8>;
}

/// A store under test and its clock.
pub(crate) struct World<F> {
    pub(crate) fixture: F,
    pub(crate) clock: StoreClock,
}

impl<F: Fixture> World<F> {
    pub(crate) async fn start() -> Self {
        let clock = StoreClock::manual(START);
        let world = Self { fixture: F::start(clock.clone()).await, clock };
        world.store().stamp().await.unwrap();
        world
    }

    pub(crate) fn store(&self) -> Arc<dyn StateStore> {
        self.fixture.store()
    }

    pub(crate) fn now(&self) -> StoreTime {
        self.clock.now()
    }

    /// Lets `us` pass while the store is served.
    pub(crate) async fn pass(&self, us: u64) {
        let mut left = us;
        while left > 0 {
            let step = left.min(STAMP_GAP_US);
            self.clock.advance(step);
            self.store().stamp().await.unwrap();
            left -= step;
        }
    }

    /// Lets `us` pass while nobody serves the store.
    pub(crate) fn outage(&self, us: u64) {
        self.clock.advance(us);
    }

    pub(crate) async fn attempt(&self, key: u8, event: Event) -> Result<Reply, StoreError> {
        let operation = Operation { identity: identity(key), event };
        let mut results = self.store().apply(vec![operation]).await?.results;
        assert_eq!(results.len(), 1);
        results.remove(0)
    }

    pub(crate) async fn filter(&self, key: u8, event: FilterEvent) -> Reply {
        self.attempt(key, in_time(event)).await.unwrap()
    }

    pub(crate) async fn claim(&self, key: u8, execution: u8) -> Reply {
        self.claim_as(key, claim(execution)).await
    }

    pub(crate) async fn claim_as(&self, key: u8, claim: Claim) -> Reply {
        self.filter(key, FilterEvent::Claim(claim)).await
    }

    /// Claims, which must succeed, and returns what the execution then holds.
    pub(crate) async fn win(&self, key: u8, execution: u8) -> Ticket {
        self.win_as(key, claim(execution)).await
    }

    pub(crate) async fn win_as(&self, key: u8, claim: Claim) -> Ticket {
        let reply = self.claim_as(key, claim.clone()).await;
        let Reply::Claimed(claimed) = reply else { panic!("not claimed: {reply:?}") };
        ticket(&claim, claimed)
    }

    pub(crate) async fn renew(&self, key: u8, ticket: &Ticket) -> Reply {
        self.filter(key, FilterEvent::Renew(ticket.clone())).await
    }

    pub(crate) async fn complete(&self, key: u8, ticket: &Ticket, outcome: Outcome) -> Reply {
        self.filter(key, FilterEvent::Complete { ticket: ticket.clone(), outcome }).await
    }

    pub(crate) async fn fail(&self, key: u8, ticket: &Ticket, kind: FailKind) -> Reply {
        self.filter(key, FilterEvent::Fail(fail(ticket, kind))).await
    }

    pub(crate) async fn record(&self, key: u8) -> Option<Record> {
        self.store().get(identity(key)).await.unwrap()
    }

    /// What an operator sees now, who must see something.
    pub(crate) async fn seen(&self, key: u8) -> Seen {
        let record = self.record(key).await.expect("a record");
        Seen { fence: record.fence, revision: record.revision }
    }

    /// Does what an operator asks who sees the record as it is.
    pub(crate) async fn operate(&self, key: u8, event: OperatorEvent) -> OperatorReply {
        let seen = self.seen(key).await;
        self.operate_seeing(key, seen, event).await
    }

    pub(crate) async fn operate_seeing(
        &self,
        key: u8,
        seen: Seen,
        event: OperatorEvent,
    ) -> OperatorReply {
        let reply = self.attempt(key, Event::Operator { seen, event }).await.unwrap();
        let Reply::Operator(reply) = reply else { panic!("not to an operator: {reply:?}") };
        reply
    }

    pub(crate) async fn counts(&self) -> Counts {
        self.store().counts().await.unwrap()
    }

    /// The keys that are listed, with `limit` to the page.
    pub(crate) async fn listed(&self, limit: usize) -> Vec<(Identity, Record)> {
        let mut listed = Vec::new();
        let mut page = None;
        loop {
            let part = self.store().in_flight(page, limit).await.unwrap();
            assert!(part.records.len() <= limit);
            listed.extend(part.records);
            page = part.next;
            if page.is_none() {
                return listed;
            }
        }
    }
}

// === What operations are made of ===

/// All in one shard, so that all see the same stamps in every store.
pub(crate) fn identity(key: u8) -> Identity {
    let mut bytes = [0x7a; 32];
    bytes[31] = key;
    Identity(bytes)
}

/// Over all shards.
pub(crate) fn scattered(key: u8) -> Identity {
    let mut bytes = [key; 32];
    bytes[0] = key.wrapping_mul(37);
    Identity(bytes)
}

pub(crate) fn execution(n: u8) -> ExecutionId {
    ExecutionId([n; 16])
}

/// The request numbered `request` under the secret `secret`.
pub(crate) fn candidate(request: u8, secret: &str) -> Candidate {
    let mut digest = [request; 32];
    digest[0] = secret.len() as u8;
    let fingerprint = Fingerprint { version: 1, secret: secret.to_owned(), digest };
    Candidate { fingerprint, derived_key: format!("derived-{secret}-{request}") }
}

pub(crate) fn terms(on_ambiguous: OnAmbiguous) -> Terms {
    Terms {
        on_ambiguous,
        attempts_max: 3,
        lease_us: LEASE_US,
        ttl_us: TTL_US,
        held_ttl_us: HELD_TTL_US,
    }
}

pub(crate) fn subject() -> Subject {
    Subject {
        namespace: "prod".to_owned(),
        rule: "payments".to_owned(),
        client: "acme, \"Ünïcode\"\n".to_owned(),
        key: "8e03978e 40d5-43dd".to_owned(),
    }
}

/// A claim of request 1 under reexecute.
pub(crate) fn claim(execution: u8) -> Claim {
    claim_under(execution, OnAmbiguous::Reexecute)
}

pub(crate) fn claim_under(n: u8, on_ambiguous: OnAmbiguous) -> Claim {
    Claim {
        execution: execution(n),
        candidates: vec![candidate(1, "2026-12")],
        terms: terms(on_ambiguous),
        subject: subject(),
        gateway: format!("gateway {n}"),
    }
}

/// The claim of another request with the same key.
pub(crate) fn mismatched(execution: u8) -> Claim {
    Claim { candidates: vec![candidate(2, "2026-12")], ..claim(execution) }
}

/// What the execution of `claim` holds once it was `claimed`.
pub(crate) fn ticket(claim: &Claim, claimed: Claimed) -> Ticket {
    Ticket {
        execution: claim.execution,
        fence: claimed.fence,
        attempt: claimed.attempt,
        sent: claimed.sent,
        candidate: claimed.candidate,
        terms: claimed.terms,
        subject: claim.subject.clone(),
        gateway: claim.gateway.clone(),
    }
}

pub(crate) fn fail(ticket: &Ticket, kind: FailKind) -> Fail {
    Fail {
        execution: ticket.execution,
        fence: Some(ticket.fence),
        fingerprint: Some(ticket.candidate.fingerprint.clone()),
        kind,
        status: Some(503),
        retry_after_us: 0,
    }
}

/// A response with every byte in it, numbered so that two can be told apart.
pub(crate) fn response(n: u8) -> Outcome {
    let bytes: Vec<u8> = (0..=255).collect();
    Outcome::Response(Response {
        status: 201,
        headers: vec![
            ("location".to_owned(), format!("/payments/{n}").into_bytes()),
            ("set-cookie".to_owned(), b"a=1".to_vec()),
            ("set-cookie".to_owned(), b"b=\xff\r".to_vec()),
            ("x-empty".to_owned(), Vec::new()),
        ],
        body: [&[n], &bytes[..]].concat(),
    })
}

pub(crate) fn tombstone() -> Outcome {
    Outcome::Tombstone { status: 201, location: Some(b"/payments/9".to_vec()) }
}

/// `event`, with all the time in the world.
pub(crate) fn in_time(event: FilterEvent) -> Event {
    Event::Filter { void_after: StoreTime(u64::MAX), event }
}

pub(crate) fn claiming(key: Identity, claim: Claim) -> Operation {
    Operation { identity: key, event: in_time(FilterEvent::Claim(claim)) }
}

pub(crate) fn completing(key: Identity, ticket: &Ticket, outcome: Outcome) -> Operation {
    let event = in_time(FilterEvent::Complete { ticket: ticket.clone(), outcome });
    Operation { identity: key, event }
}

pub(crate) fn in_progress(age_us: u64, lease_left_us: u64) -> Verdict {
    Verdict::InProgress { age_us, lease_left_us }
}
