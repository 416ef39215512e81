//! One key's record in a store of one, and short names for everything that is done to it.

use crate::counter::Counts;
use crate::fingerprint::{Candidate, Fingerprint};
use crate::operation::{
    Claim, Claimed, Event, Fail, FailKind, FilterEvent, OperatorEvent, OperatorReply, Reply, Seen,
    Ticket, Verdict,
};
use crate::record::{ExecutionId, Fence, OnAmbiguous, Outcome, Record, Response, Subject, Terms};
use crate::time::StoreTime;
use crate::transition::{self, Env, Step};

pub(super) const SECOND: u64 = 1_000_000;
pub(super) const LEASE: u64 = 15 * SECOND;
pub(super) const TTL: u64 = 3_600 * SECOND;
pub(super) const HELD_TTL: u64 = 24 * 3_600 * SECOND;
/// How long an operation counts, as a gateway's state time-out has it.
pub(super) const VOID: u64 = SECOND;
/// The store's clock when a test begins: a moment in 2026.
pub(super) const START: StoreTime = StoreTime(1_790_000_000 * SECOND);

pub(super) const REEXECUTE: OnAmbiguous = OnAmbiguous::Reexecute;
pub(super) const HOLD: OnAmbiguous = OnAmbiguous::Hold;

/// A store with one record. Its clock moves a microsecond with every operation, and by
/// [`Store::pass`].
#[derive(Clone, Debug)]
pub(super) struct Store {
    pub(super) record: Option<Record>,
    pub(super) env: Env,
    /// Everything counted so far.
    pub(super) counts: Counts,
    /// Whether the last operation changed the record.
    pub(super) changed: bool,
}

pub(super) fn execution(number: u8) -> ExecutionId {
    ExecutionId([number; 16])
}

/// The fingerprint and derived key of one of several requests.
pub(super) fn candidate(request: u8) -> Candidate {
    let fingerprint =
        Fingerprint { version: 1, secret: "2026-12".to_owned(), digest: [request; 32] };
    Candidate { fingerprint, derived_key: format!("derived-{request}") }
}

pub(super) fn terms(on_ambiguous: OnAmbiguous) -> Terms {
    Terms { on_ambiguous, attempts_max: 5, lease_us: LEASE, ttl_us: TTL, held_ttl_us: HELD_TTL }
}

pub(super) fn subject() -> Subject {
    Subject {
        namespace: "prod".to_owned(),
        rule: "payments".to_owned(),
        client: "acme".to_owned(),
        key: "k1".to_owned(),
    }
}

/// A response that tells who made it.
pub(super) fn outcome(number: u8) -> Outcome {
    Outcome::Response(Response { status: 201, headers: Vec::new(), body: vec![number] })
}

/// Claim of request 1 by execution `number`.
pub(super) fn claim(number: u8, on_ambiguous: OnAmbiguous) -> Claim {
    Claim {
        execution: execution(number),
        candidates: vec![candidate(1)],
        terms: terms(on_ambiguous),
        subject: subject(),
        gateway: format!("gateway-{number}"),
    }
}

/// What execution `number` goes on with after `claimed`.
pub(super) fn ticket(number: u8, claimed: &Claimed) -> Ticket {
    Ticket {
        execution: execution(number),
        fence: claimed.fence,
        attempt: claimed.attempt,
        sent: claimed.sent,
        candidate: claimed.candidate.clone(),
        terms: claimed.terms,
        subject: subject(),
        gateway: format!("gateway-{number}"),
    }
}

/// The end of an execution that had its claim answered.
pub(super) fn failure(ticket: &Ticket, kind: FailKind) -> Fail {
    Fail {
        execution: ticket.execution,
        fence: Some(ticket.fence),
        fingerprint: Some(ticket.candidate.fingerprint.clone()),
        kind,
        status: None,
        retry_after_us: 0,
    }
}

/// The end of an execution that never heard of its claim.
pub(super) fn unheard(number: u8) -> Fail {
    Fail {
        execution: execution(number),
        fence: None,
        fingerprint: None,
        kind: FailKind::NeverSent,
        status: None,
        retry_after_us: 0,
    }
}

// === impl Store ===

impl Store {
    pub(super) fn new() -> Self {
        let env = Env::new(START, StoreTime(0));
        Self { record: None, env, counts: Counts::default(), changed: false }
    }

    /// Time goes by.
    pub(super) fn pass(&mut self, us: u64) {
        self.env.now = self.env.now.plus(us);
    }

    /// The store is away for `us`, and comes back with a stamp that says so.
    pub(super) fn outage(&mut self, us: u64) {
        self.pass(us);
        self.env.resumed_at = self.env.now;
    }

    /// The store loses what it knew.
    pub(super) fn lose(&mut self) {
        self.record = None;
    }

    pub(super) fn apply(&mut self, event: Event) -> Reply {
        self.pass(1);
        let before = self.record.clone();
        let Step { record, changed, reply, counts } =
            transition::apply(self.record.take(), event, &self.env);
        assert_eq!(changed, record != before, "a step says whether it changed the record");
        self.record = record;
        self.counts.add_all(&counts);
        self.changed = changed;
        reply
    }

    /// An operation that arrives in time.
    pub(super) fn filter(&mut self, event: FilterEvent) -> Reply {
        let void_after = self.env.now.plus(VOID);
        self.apply(Event::Filter { void_after, event })
    }

    pub(super) fn claim(&mut self, claim: Claim) -> Reply {
        self.filter(FilterEvent::Claim(claim))
    }

    /// A claim that has to be granted.
    pub(super) fn claimed(&mut self, number: u8, on_ambiguous: OnAmbiguous) -> Ticket {
        let claimed = granted(self.claim(claim(number, on_ambiguous)));
        ticket(number, &claimed)
    }

    pub(super) fn renew(&mut self, ticket: &Ticket) -> Reply {
        self.filter(FilterEvent::Renew(ticket.clone()))
    }

    /// The execution brings its own response.
    pub(super) fn complete(&mut self, ticket: &Ticket) -> Reply {
        let outcome = outcome(ticket.execution.0[0]);
        self.filter(FilterEvent::Complete { ticket: ticket.clone(), outcome })
    }

    pub(super) fn fail(&mut self, ticket: &Ticket, kind: FailKind) -> Reply {
        self.filter(FilterEvent::Fail(failure(ticket, kind)))
    }

    pub(super) fn seen(&self) -> Seen {
        let record = self.record.as_ref().expect("there is a record to look at");
        Seen { fence: record.fence, revision: record.revision }
    }

    pub(super) fn operator(&mut self, seen: Seen, event: OperatorEvent) -> OperatorReply {
        match self.apply(Event::Operator { seen, event }) {
            Reply::Operator(reply) => reply,
            other @ (Reply::Claimed(_)
            | Reply::Refused(_)
            | Reply::Renewed { .. }
            | Reply::Settled
            | Reply::Fenced(_)
            | Reply::Gone
            | Reply::Void) => panic!("an operator was answered {other:?}"),
        }
    }

    /// The operator acts on what there is right now.
    pub(super) fn release(&mut self, force: bool) -> OperatorReply {
        self.operator(self.seen(), OperatorEvent::Release { force })
    }

    pub(super) fn resolve(&mut self, force: bool) -> OperatorReply {
        self.operator(self.seen(), OperatorEvent::Resolve { outcome: outcome(99), force })
    }

    pub(super) fn forget(&mut self) -> OperatorReply {
        self.operator(self.seen(), OperatorEvent::Forget)
    }

    /// The one-word name of the record's state.
    pub(super) fn state(&self) -> &'static str {
        use crate::record::State;
        match self.record.as_ref().map(|record| &record.state) {
            None => "absent",
            Some(State::InProgress { .. }) => "in progress",
            Some(State::Completed { .. }) => "completed",
            Some(State::Retryable { .. }) => "retryable",
            Some(State::Held { .. }) => "held",
        }
    }

    pub(super) fn the_record(&self) -> &Record {
        self.record.as_ref().expect("there is a record")
    }

    pub(super) fn owner(&self) -> (ExecutionId, Fence) {
        let record = self.the_record();
        (record.execution, record.fence)
    }
}

/// The grant in a claim's answer.
#[track_caller]
pub(super) fn granted(reply: Reply) -> Claimed {
    match reply {
        Reply::Claimed(claimed) => claimed,
        other @ (Reply::Refused(_)
        | Reply::Renewed { .. }
        | Reply::Settled
        | Reply::Fenced(_)
        | Reply::Gone
        | Reply::Void
        | Reply::Operator(_)) => panic!("the claim was answered {other:?}"),
    }
}

pub(super) fn replay(number: u8) -> Verdict {
    Verdict::Completed(outcome(number))
}

// === stores in each state, of execution 1 ===

/// In progress, with its lease alive.
pub(super) fn live(on_ambiguous: OnAmbiguous) -> (Store, Ticket) {
    let mut store = Store::new();
    let ticket = store.claimed(1, on_ambiguous);
    (store, ticket)
}

/// In progress, past its lease.
pub(super) fn lost(on_ambiguous: OnAmbiguous) -> (Store, Ticket) {
    let (mut store, ticket) = live(on_ambiguous);
    store.pass(LEASE);
    (store, ticket)
}

pub(super) fn completed() -> (Store, Ticket) {
    let (mut store, ticket) = live(REEXECUTE);
    assert_eq!(store.complete(&ticket), Reply::Settled);
    (store, ticket)
}

/// Retryable, since the upstream said so.
pub(super) fn retryable(on_ambiguous: OnAmbiguous) -> (Store, Ticket) {
    let (mut store, ticket) = live(on_ambiguous);
    assert_eq!(store.fail(&ticket, FailKind::Retryable), Reply::Settled);
    (store, ticket)
}

/// Held, since the execution itself said that it does not know.
pub(super) fn held() -> (Store, Ticket) {
    let (mut store, ticket) = live(HOLD);
    assert_eq!(store.fail(&ticket, FailKind::Ambiguous), Reply::Settled);
    (store, ticket)
}

/// Held, since execution 2 found the lease of execution 1 lost.
pub(super) fn held_by_lost_lease() -> (Store, Ticket) {
    let (mut store, ticket) = lost(HOLD);
    let held = Verdict::Held { last_status: None };
    assert_eq!(store.claim(claim(2, HOLD)), Reply::Refused(held));
    (store, ticket)
}
