//! Whatever comes in, in whatever order: nothing panics, no client is answered twice, nothing
//! that has ended is left behind, and nothing is sent without leave.

use std::collections::{BTreeMap, BTreeSet};

use latchkey_core::operation::{Claimed, FilterEvent, Reply, Verdict};
use latchkey_core::record::{Fence, OnAmbiguous, Outcome, Response, Terms};
use latchkey_core::wire::{Message, encode_reply, state_v1 as wire};
use proptest::collection::vec;
use proptest::prelude::*;

use super::fixture::{AHEAD, Fixture, LEASE, StateCall, TIMEOUT, answered, event};
use super::replies::*;
use crate::engine::{CallAnswer, Input};

#[derive(Clone, Debug)]
enum Step {
    Submit(u8),
    Pass(u64),
    Leave(u8),
    Overload,
    Drain,
    /// Ends one of the calls that are under way, or one that is not.
    State(u8, StateSays),
    Upstream(u8, End),
}

#[derive(Clone, Debug)]
enum StateSays {
    /// One of many results for each operation, the clock as far off as that.
    Results(Vec<u8>, i64),
    Bytes(Vec<u8>),
    Ends(End),
}

/// A call's end that can be made again.
type End = Option<(Option<u16>, Vec<(String, Vec<u8>)>, Vec<u8>)>;

fn end(answer: End) -> CallAnswer {
    answer.map_or(CallAnswer::NotDispatched, |(status, headers, body)| CallAnswer::Ended {
        status,
        headers,
        body,
    })
}

fn ends() -> impl Strategy<Value = End> {
    let names = prop_oneof![
        Just("x-envoy-upstream-service-time".to_owned()),
        Just("x-latchkey-details".to_owned()),
        Just("idempotency-outcome".to_owned()),
        Just("connection".to_owned()),
        Just("location".to_owned()),
        "[a-z]{0,3}",
    ];
    let values = prop_oneof![
        Just(b"final".to_vec()),
        Just(b"retryable".to_vec()),
        Just(b"via_upstream".to_vec()),
        vec(any::<u8>(), 0..8),
    ];
    let bodies = prop_oneof![
        Just(b"no healthy upstream".to_vec()),
        vec(any::<u8>(), 0..64),
        Just(vec![b'a'; 3_000]),
    ];
    let statuses = prop_oneof![
        Just(None),
        any::<u16>().prop_map(Some),
        (200_u16..600).prop_map(Some),
        Just(Some(503)),
    ];
    let ended = (statuses, vec((names, values), 0..4), bodies);
    prop_oneof![1 => Just(None), 9 => ended.prop_map(Some)]
}

fn steps() -> impl Strategy<Value = Step> {
    let skews = prop_oneof![Just(0), -2_000_000_i64..2_000_000, any::<i64>()];
    let says = prop_oneof![
        6 => (vec(any::<u8>(), 0..6), skews).prop_map(|(kinds, skew)| StateSays::Results(kinds, skew)),
        1 => vec(any::<u8>(), 0..64).prop_map(StateSays::Bytes),
        2 => ends().prop_map(StateSays::Ends),
    ];
    prop_oneof![
        4 => any::<u8>().prop_map(Step::Submit),
        4 => (0..2 * TIMEOUT).prop_map(Step::Pass),
        1 => (0..2 * LEASE).prop_map(Step::Pass),
        1 => (1_u8..8).prop_map(Step::Leave),
        1 => Just(Step::Overload),
        1 => Just(Step::Drain),
        8 => (any::<u8>(), says).prop_map(|(at, says)| Step::State(at, says)),
        4 => (any::<u8>(), ends()).prop_map(|(at, end)| Step::Upstream(at, end)),
    ]
}

/// A result of the kind that `kind` names, fitting or not.
fn result(call: &StateCall, at: usize, kind: u8) -> wire::Result {
    let outcome = Outcome::Response(Response { status: 200, headers: vec![], body: vec![1] });
    match kind % 16 {
        0..=4 => leave(call, at, u64::from(kind) * 50_000).unwrap_or_else(settled),
        5 | 6 => settled(),
        7 => renewed(),
        8 => void(),
        9 => gone(),
        10 => alone(),
        11 => failed(),
        12 => unreadable(),
        13 => undecodable(),
        14 => refused(if kind > 128 { Verdict::Spent } else { Verdict::Completed(outcome) }),
        _ => fenced(Verdict::InProgress { age_us: u64::MAX, lease_left_us: u64::MAX }),
    }
}

/// Leave to execute, where there is a claim at `at`; a third of them under `hold`.
fn leave(call: &StateCall, at: usize, lease_left_us: u64) -> Option<wire::Result> {
    let FilterEvent::Claim(claim) = event(call.operations.get(at)?) else { return None };
    let hold = lease_left_us.is_multiple_of(3);
    let on_ambiguous = if hold { OnAmbiguous::Hold } else { OnAmbiguous::Reexecute };
    Some(encode_reply(Reply::Claimed(Claimed {
        fence: Fence(FENCE),
        attempt: u32::try_from(lease_left_us % 3).unwrap_or(0),
        sent: u32::MAX,
        lease_left_us,
        candidate: claim.candidates[0].clone(),
        terms: Terms { on_ambiguous, ..claim.terms },
    })))
}

struct Run {
    it: Fixture,
    calls: Vec<StateCall>,
    sent: Vec<u64>,
    leaves: usize,
}

impl Run {
    fn new() -> Self {
        let it = Fixture::new(|json| {
            json["limits"] = serde_json::json!({"executions_max": 6, "bytes_max": 6_000});
        });
        Self { it, calls: Vec::new(), sent: Vec::new(), leaves: 0 }
    }

    fn collect(&mut self) {
        self.calls.extend(self.it.calls());
        while !self.it.nothing_sent() {
            self.sent.push(self.it.sent().0);
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Submit(key) => {
                self.it.submit(&format!("k{}", key % 4));
            }
            Step::Pass(us) => self.it.pass(us),
            Step::Leave(stream) => self.it.feed(Input::StreamGone { stream: stream.into() }),
            Step::Overload => self.it.feed(Input::Overloaded),
            Step::Drain => self.it.engine.drain(),
            Step::Upstream(at, answer) => {
                let at = usize::from(at) % (self.sent.len() + 1);
                let execution = self.sent.get(at).copied().unwrap_or(at as u64);
                self.it.upstream(execution, end(answer));
            }
            Step::State(at, says) => self.state_says(at, says),
        }
        self.collect();
    }

    fn state_says(&mut self, at: u8, says: StateSays) {
        let at = usize::from(at) % (self.calls.len() + 1);
        if at == self.calls.len() {
            self.it.feed(Input::StateAnswered { batch: at as u64, answer: timed_out() });
            return;
        }
        let call = self.calls.remove(at);
        match says {
            StateSays::Ends(answer) => self.it.end(&call, end(answer)),
            StateSays::Bytes(bytes) => self.it.end(&call, answered(200, &bytes)),
            StateSays::Results(kinds, skew) => {
                let results: Vec<_> =
                    kinds.iter().enumerate().map(|(at, kind)| result(&call, at, *kind)).collect();
                let granted =
                    |it: &&wire::Result| matches!(it.kind, Some(wire::result::Kind::Claimed(_)));
                self.leaves += results.iter().filter(granted).count();
                let now_us = (AHEAD + self.it.now).saturating_add_signed(skew);
                let reply = wire::BatchReply { now_us, results };
                self.it.end(&call, answered(200, &reply.encode_to_vec()));
            }
        }
    }

    /// All that is under way ends, and the state answers as it should from here on.
    fn heal(&mut self) {
        self.it.engine.drain();
        for _ in 0..150 {
            self.collect();
            for execution in std::mem::take(&mut self.sent) {
                self.it.upstream(execution, answered(201, b"paid"));
            }
            for call in std::mem::take(&mut self.calls) {
                let sound = |operation| match event(operation) {
                    FilterEvent::Claim(_) => refused(Verdict::Mismatch),
                    FilterEvent::Renew(_) => renewed(),
                    FilterEvent::Complete { .. } | FilterEvent::Fail(_) => settled(),
                };
                let results = call.operations.iter().map(sound).collect();
                self.it.reply(&call, results);
            }
            self.it.pass(TIMEOUT / 10);
        }
        self.collect();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_comes_in_breaks_the_engine(steps in vec(steps(), 0..60)) {
        let mut run = Run::new();
        let mut left = BTreeSet::new();
        let mut submitted = 0;
        for step in steps {
            submitted += u32::from(matches!(step, Step::Submit(_)));
            if let Step::Leave(stream) = step {
                left.insert(u32::from(stream));
            }
            run.take(step);
            prop_assert!(run.sent.len() <= run.leaves, "sent without leave");
            let distinct: BTreeSet<_> = run.sent.iter().collect();
            prop_assert_eq!(distinct.len(), run.sent.len(), "an execution is sent once");
            prop_assert!(run.it.engine.executions_in_flight() <= 6);
        }
        run.heal();
        prop_assert_eq!(run.it.engine.executions_in_flight(), 0);
        prop_assert_eq!(run.it.engine.bytes_held(), 0);
        prop_assert!(run.it.engine.is_idle());
        let mut answers = BTreeMap::<u32, usize>::new();
        for (stream, answer) in &run.it.answers {
            *answers.entry(*stream).or_default() += 1;
            prop_assert!((200..=599).contains(&answer.status));
        }
        for stream in 1..=submitted {
            let count = answers.get(&stream).copied().unwrap_or(0);
            let fair = if left.contains(&stream) { count <= 1 } else { count == 1 };
            prop_assert!(fair, "stream {} was answered {} times", stream, count);
        }
    }
}
