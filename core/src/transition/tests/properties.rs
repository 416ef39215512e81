//! Random histories of a few keys: what holds after every step, whatever came before.

use proptest::collection::vec;
use proptest::prelude::*;

use super::fixture::*;
use crate::counter::Counts;
use crate::operation::{
    Event, Fail, FailKind, FilterEvent, OperatorEvent, Reply, Seen, Ticket, Verdict,
};
use crate::record::{Fence, OnAmbiguous, Record, State};
use crate::transition::{self, verdict};

const KEYS: usize = 2;
const EXECUTIONS: u8 = 5;
const ATTEMPTS_MAX: u32 = 3;

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Outage(u64),
    Claim(u8, OnAmbiguous),
    Renew(u8),
    Complete(u8),
    Fail(u8, FailKind, u64),
    Unheard(u8),
    Look,
    Operate(OperatorEvent),
}

/// A key, and what was seen of it.
struct Key {
    store: Store,
    tickets: [Option<Ticket>; EXECUTIONS as usize],
    seen: Option<Seen>,
    top_fence: Fence,
    grants: u64,
}

fn durations() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..SECOND,
        4 => LEASE / 2..LEASE * 2,
        1 => TTL / 2..TTL * 2,
        1 => HELD_TTL..HELD_TTL * 2,
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let execution = 0..EXECUTIONS;
    let policy = prop_oneof![Just(REEXECUTE), Just(HOLD)];
    let kind = prop_oneof![
        Just(FailKind::NeverSent),
        Just(FailKind::Retryable),
        Just(FailKind::Ambiguous)
    ];
    let operate = prop_oneof![
        any::<bool>().prop_map(|force| OperatorEvent::Release { force }),
        any::<bool>().prop_map(|force| OperatorEvent::Resolve { outcome: outcome(99), force }),
        Just(OperatorEvent::Forget),
    ];
    let wait = prop_oneof![Just(0), 0..10 * SECOND];
    prop_oneof![
        4 => durations().prop_map(Step::Pass),
        1 => durations().prop_map(Step::Outage),
        6 => (execution.clone(), policy).prop_map(|(by, policy)| Step::Claim(by, policy)),
        2 => execution.clone().prop_map(Step::Renew),
        2 => execution.clone().prop_map(Step::Complete),
        4 => (execution.clone(), kind, wait).prop_map(|(by, kind, us)| Step::Fail(by, kind, us)),
        1 => execution.prop_map(Step::Unheard),
        1 => Just(Step::Look),
        2 => operate.prop_map(Step::Operate),
    ]
}

/// The last execution is of another request.
fn request_of(execution: u8) -> u8 {
    if execution + 1 == EXECUTIONS { 2 } else { 1 }
}

impl Key {
    fn new() -> Self {
        Self {
            store: Store::new(),
            tickets: [const { None }; EXECUTIONS as usize],
            seen: None,
            top_fence: Fence(0),
            grants: 0,
        }
    }

    /// The event that `step` stands for, and by which execution, where it is an event.
    fn event(&self, step: &Step) -> Option<(u8, Event)> {
        let ticket = |by: &u8| self.tickets[usize::from(*by)].clone();
        let (by, event) = match step {
            Step::Pass(_) | Step::Outage(_) | Step::Look => return None,
            Step::Claim(by, policy) => {
                let mut claim = claim(*by, *policy);
                claim.candidates = vec![candidate(request_of(*by))];
                claim.terms.attempts_max = ATTEMPTS_MAX;
                (*by, FilterEvent::Claim(claim))
            }
            Step::Renew(by) => (*by, FilterEvent::Renew(ticket(by)?)),
            Step::Complete(by) => {
                (*by, FilterEvent::Complete { ticket: ticket(by)?, outcome: outcome(*by) })
            }
            Step::Fail(by, kind, retry_after_us) => {
                let fail = failure(&ticket(by)?, *kind);
                (*by, FilterEvent::Fail(Fail { retry_after_us: *retry_after_us, ..fail }))
            }
            Step::Unheard(by) => (*by, FilterEvent::Fail(unheard(*by))),
            Step::Operate(event) => {
                return Some((99, Event::Operator { seen: self.seen?, event: event.clone() }));
            }
        };
        Some((by, Event::Filter { void_after: self.store.env.now.plus(VOID), event }))
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Pass(us) => self.store.pass(*us),
            Step::Outage(us) => self.store.outage(*us),
            Step::Look => self.seen = self.store.record.is_some().then(|| self.store.seen()),
            Step::Claim(..)
            | Step::Renew(_)
            | Step::Complete(_)
            | Step::Fail(..)
            | Step::Unheard(_)
            | Step::Operate(_) => {}
        }
        let Some((by, event)) = self.event(step) else { return };
        let before = self.store.record.clone();
        let reply = self.store.apply(event.clone());
        let before = before.filter(|record| record.expires_at() >= self.store.env.now);
        self.check_record(before.as_ref(), &event);
        if let Reply::Claimed(claimed) = &reply {
            self.check_grant(by, before.as_ref(), claimed.fence);
            self.tickets[usize::from(by)] = Some(ticket(by, claimed));
        }
        check_told(by, before.as_ref(), &reply);
        self.check_repeat(&event, &reply);
    }

    fn check_record(&self, before: Option<&Record>, event: &Event) {
        let Some(before) = before else { return };
        let Some(after) = &self.store.record else {
            let forget = matches!(event, Event::Operator { event: OperatorEvent::Forget, .. });
            assert!(forget, "only Forget and retention end a record: {event:?}");
            return;
        };
        if let State::Completed { .. } = before.state {
            assert_eq!(after.state, before.state, "completed is final");
        }
        assert!(after.fence >= before.fence, "the fence falls");
        assert!(after.terms.on_ambiguous >= before.terms.on_ambiguous, "hold is given up");
        assert!(after.sent <= ATTEMPTS_MAX, "sent too often");
        let same_state = std::mem::discriminant(&after.state)
            == std::mem::discriminant(&before.state)
            && after.execution == before.execution;
        let same_pair = (after.fence, after.revision) == (before.fence, before.revision);
        assert!(same_state || !same_pair, "an operator cannot tell {before:?} from {after:?}");
    }

    /// Somebody may execute.
    fn check_grant(&mut self, to: u8, before: Option<&Record>, fence: Fence) {
        let now = self.store.env.now;
        if let Some(before) = before {
            if before.execution == execution(to) && before.fence == fence {
                return;
            }
            match &before.state {
                State::InProgress { .. } => {
                    let until = before.lease_until(self.store.env.resumed_at);
                    assert!(until <= Some(now), "a live lease was taken");
                }
                State::Retryable { not_before, .. } => assert!(*not_before <= now, "too early"),
                State::Completed { .. } => panic!("a known outcome is executed again"),
                State::Held { .. } => panic!("executed while it is held"),
            }
            let unknown = match before.state {
                State::Retryable { unknown, released, .. } => unknown && !released,
                State::InProgress { .. } | State::Completed { .. } | State::Held { .. } => true,
            };
            let hold = self.store.the_record().terms.on_ambiguous == HOLD;
            assert!(!(hold && unknown), "an unknown outcome is executed again under hold");
            assert!(!before.history.has(&execution(to)), "an execution claims once");
        }
        assert!(fence > self.top_fence, "the fence restarts");
        self.top_fence = fence;
        self.grants += 1;
    }

    /// The same operation again, at once: same answer, nothing changes, nothing is counted.
    fn check_repeat(&self, event: &Event, reply: &Reply) {
        if let Event::Operator { .. } = event {
            return;
        }
        let record = self.store.record.clone();
        let again = transition::apply(record.clone(), event.clone(), &self.store.env);
        assert_eq!(again.reply, *reply, "repeated {event:?}");
        assert_eq!(again.record, record);
        assert_eq!(again.counts, Counts::default());
    }
}

/// A response is told to nobody but the request that it belongs to, and who is refused or
/// fenced is told what the record says.
fn check_told(by: u8, before: Option<&Record>, reply: &Reply) {
    let (Reply::Refused(told) | Reply::Fenced(told)) = reply else { return };
    let Verdict::Completed(outcome) = told else { return };
    let before = before.expect("a response comes from a record");
    assert_eq!(before.candidate, candidate(request_of(by)), "another request's response");
    let State::Completed { outcome: stored, .. } = &before.state else { panic!("{before:?}") };
    assert_eq!(outcome, stored);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn random_histories_keep_the_invariants(history in vec((0..KEYS, steps()), 1..80)) {
        let mut keys: [Key; KEYS] = std::array::from_fn(|_| Key::new());
        for (at, step) in &history {
            keys[*at].take(step);
        }
        for key in &keys {
            prop_assert!(key.store.counts.suspected_duplicates <= key.grants);
            prop_assert!(key.store.counts.take_overs <= key.grants);
        }
    }

    #[test]
    fn looking_is_not_touching(history in vec(steps(), 1..40)) {
        let mut key = Key::new();
        for step in &history {
            key.take(step);
            if let Some(record) = &key.store.record {
                let told = verdict(record, &key.store.env);
                let completed = matches!(told, Verdict::Completed(_));
                prop_assert_eq!(completed, !record.unresolved());
            }
        }
    }
}
