//! Everything that can happen to a record, as one pure function.
//!
//! Stores read a record, call [`apply`], write what comes back, and make those three one atomic
//! step. The store that cannot (Redis, whose atomic step is a script) repeats these rules, and
//! is held to them by the conformance suite.
//!
//! Round the table of states and events stand rules that each close a hole; they are named in
//! [`Rule`], and the exhaustive model shows what goes wrong without each:
//!
//! * a claim with no equal fingerprint is a **mismatch** before it is anything else;
//! * an execution id **claims once**: a late copy of its claim never executes again;
//! * an operation that arrives after its **`void_after`** does nothing;
//! * the **fence never restarts**, so that an operator's stale view never fits by chance;
//! * operators compare **fence and revision**, not the fence alone;
//! * the **strictest terms** that any claim brought hold;
//! * an **outage is not a lost lease**;
//! * the **attempts** that were sent are limited;
//! * a success that comes **late** is the truth where nothing else is running or known;
//! * a record held only for its lost lease goes back to its **returning owner**.
//!
//! Deliberately absent: waiting, budgets over many keys, and anything that reads a clock.

mod claim;
mod operator;
mod settle;
#[cfg(test)]
mod tests;

use crate::counter::{Counter, Counts};
use crate::operation::{Event, FilterEvent, Reply, Verdict};
use crate::record::{OnAmbiguous, Record, State};
use crate::time::StoreTime;

/// What a transition needs to know of the store.
#[derive(Clone, Copy, Debug, Default)]
pub struct Env {
    /// The store's clock.
    pub now: StoreTime,
    /// When the store was last found to have resumed after an outage; 0 if never.
    pub resumed_at: StoreTime,
    /// The rule that the model takes out.
    #[cfg(test)]
    pub(crate) without: Option<Rule>,
}

/// The rules round the table. Tests take them out one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    MismatchFirst,
    ClaimsOnce,
    VoidAfter,
    FenceNeverRestarts,
    RevisionCompared,
    StrictestTerms,
    OutageIsNotALostLease,
    AttemptsLimited,
    LateSuccessKept,
    OwnerReturns,
}

/// What came of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The record afterwards.
    pub record: Option<Record>,
    /// Whether it differs from the one before, so that it has to be written.
    pub changed: bool,
    /// What is answered.
    pub reply: Reply,
    /// What is counted.
    pub counts: Counts,
}

/// Applies `event` to `record`, `None` being an absent one.
#[must_use]
pub fn apply(record: Option<Record>, event: Event, env: &Env) -> Step {
    let mut counts = Counts::default();
    if let Event::Filter { void_after, .. } = &event
        && env.now > *void_after
        && env.holds(Rule::VoidAfter)
    {
        return Step { record, changed: false, reply: Reply::Void, counts };
    }
    let (record, expired) = drop_expired(record, env, &mut counts);
    let mut step = match event {
        Event::Filter { event: FilterEvent::Claim(claim), .. } => claim::claim(record, claim, env),
        Event::Filter { event: FilterEvent::Renew(ticket), .. } => {
            settle::renew(record, ticket, env)
        }
        Event::Filter { event: FilterEvent::Complete { ticket, outcome }, .. } => {
            settle::complete(record, ticket, outcome, env)
        }
        Event::Filter { event: FilterEvent::Fail(fail), .. } => settle::fail(record, &fail, env),
        Event::Operator { seen, event } => operator::apply(record, seen, event, env),
    };
    step.changed |= expired;
    step.counts.add_all(&counts);
    step
}

/// What an operation by anyone but the owner would be told, without changing anything.
#[must_use]
pub fn verdict(record: &Record, env: &Env) -> Verdict {
    match &record.state {
        State::InProgress { claimed_at, .. } => Verdict::InProgress {
            age_us: env.now.since(*claimed_at),
            lease_left_us: lease_left_us(record, env),
        },
        State::Completed { outcome, .. } => Verdict::Completed(outcome.clone()),
        State::Retryable { not_before, .. } => {
            Verdict::RetryLater { after_us: not_before.since(env.now) }
        }
        State::Held { last_status, .. } => Verdict::Held { last_status: *last_status },
    }
}

/// Retention is over once its end has passed; the record is absent from then on.
fn drop_expired(record: Option<Record>, env: &Env, counts: &mut Counts) -> (Option<Record>, bool) {
    match record {
        Some(record) if env.now > record.expires_at() => {
            if record.unresolved() {
                counts.add(Counter::ExpiredUnresolved, 1);
            }
            (None, true)
        }
        kept => (kept, false),
    }
}

/// How long the present lease has left, in µs; 0 where it is lost or nobody has one.
fn lease_left_us(record: &Record, env: &Env) -> u64 {
    let resumed_at =
        if env.holds(Rule::OutageIsNotALostLease) { env.resumed_at } else { StoreTime(0) };
    record.lease_until(resumed_at).map_or(0, |until| until.since(env.now))
}

// === impl Env ===

impl Env {
    /// At `now`, in a store that last resumed at `resumed_at` (0 if never).
    #[must_use]
    pub fn new(now: StoreTime, resumed_at: StoreTime) -> Self {
        Self {
            now,
            resumed_at,
            #[cfg(test)]
            without: None,
        }
    }

    #[cfg(test)]
    fn holds(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "only tests can take a rule out")]
    const fn holds(&self, _: Rule) -> bool {
        true
    }
}

// === impl Step ===

impl Step {
    /// The record is as it was.
    fn unchanged(record: Option<Record>, reply: Reply) -> Self {
        Self { record, changed: false, reply, counts: Counts::default() }
    }

    /// The record is another one.
    fn changed(record: Option<Record>, reply: Reply) -> Self {
        Self { record, changed: true, reply, counts: Counts::default() }
    }

    fn counting(mut self, counter: Counter) -> Self {
        self.counts.add(counter, 1);
        self
    }
}

// === impl Record ===

impl Record {
    /// Enters `state`: every transition but a renewal goes through here.
    fn enter(&mut self, state: State, env: &Env) {
        self.state = state;
        self.revision = self.revision.saturating_add(1);
        self.changed_at = env.now;
    }

    /// Counts the latest execution as a suspected duplicate, unless it was.
    fn suspect_latest(&mut self, counts: &mut Counts) {
        if self.history.suspect(self.execution, self.fence) {
            counts.add(Counter::SuspectedDuplicates, 1);
        }
    }

    fn holds_on_ambiguous(&self) -> bool {
        match self.terms.on_ambiguous {
            OnAmbiguous::Hold => true,
            OnAmbiguous::Reexecute => false,
        }
    }
}
