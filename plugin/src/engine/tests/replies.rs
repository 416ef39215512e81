//! What the state and the upstream say, and executions that have come as far as that.

use latchkey_core::operation::{Claimed, Reply, Verdict};
use latchkey_core::record::Fence;
use latchkey_core::wire::{encode_reply, state_v1 as wire};

use super::fixture::{Fixture, LEASE, StateCall, answered, event};
use crate::engine::{Call, CallAnswer};
use latchkey_core::operation::FilterEvent;

pub(super) const FENCE: u64 = 77;

/// An execution that the upstream has.
pub(super) struct Running {
    pub(super) stream: u32,
    pub(super) execution: u64,
    pub(super) call: Call,
}

impl Fixture {
    /// A request that was claimed and sent.
    pub(super) fn running(&mut self, key: &str) -> Running {
        let stream = self.submit(key);
        let claim = self.call();
        self.reply(&claim, vec![claimed(&claim, LEASE)]);
        let (execution, call) = self.sent();
        assert!(self.is_quiet());
        Running { stream, execution, call }
    }

    /// One that was answered with 201, and the completion that went out for it.
    pub(super) fn completing(&mut self, key: &str) -> (Running, StateCall) {
        let running = self.running(key);
        self.upstream(running.execution, answered(201, b"paid"));
        let completion = self.call();
        assert!(completion.is_completion());
        (running, completion)
    }
}

/// Leave to execute the only claim of `call`, as its first attempt.
pub(super) fn claimed(call: &StateCall, lease_left_us: u64) -> wire::Result {
    assert_eq!(call.operations.len(), 1);
    claimed_at(call, 0, lease_left_us)
}

/// Leave to execute the claim at `at`.
pub(super) fn claimed_at(call: &StateCall, at: usize, lease_left_us: u64) -> wire::Result {
    let FilterEvent::Claim(claim) = event(&call.operations[at]) else { panic!("a claim") };
    encode_reply(Reply::Claimed(Claimed {
        fence: Fence(FENCE),
        attempt: 1,
        sent: 1,
        lease_left_us,
        candidate: claim.candidates[0].clone(),
        terms: claim.terms,
    }))
}

pub(super) fn refused(verdict: Verdict) -> wire::Result {
    encode_reply(Reply::Refused(verdict))
}

pub(super) fn fenced(verdict: Verdict) -> wire::Result {
    encode_reply(Reply::Fenced(verdict))
}

pub(super) fn renewed() -> wire::Result {
    encode_reply(Reply::Renewed { lease_left_us: LEASE })
}

pub(super) fn settled() -> wire::Result {
    encode_reply(Reply::Settled)
}

pub(super) fn void() -> wire::Result {
    encode_reply(Reply::Void)
}

pub(super) fn gone() -> wire::Result {
    encode_reply(Reply::Gone)
}

pub(super) fn alone() -> wire::Result {
    wire::Result { kind: Some(wire::result::Kind::Alone(wire::Alone {})) }
}

pub(super) fn failed() -> wire::Result {
    let why = "disk full".to_owned();
    wire::Result { kind: Some(wire::result::Kind::Failed(wire::Failed { why })) }
}

pub(super) fn unreadable() -> wire::Result {
    let why = "version 9".to_owned();
    wire::Result { kind: Some(wire::result::Kind::Unreadable(wire::Unreadable { why })) }
}

/// Not a result of any kind that we know.
pub(super) fn undecodable() -> wire::Result {
    wire::Result { kind: None }
}

/// The call timed out: nobody knows.
pub(super) fn timed_out() -> CallAnswer {
    local(504, "upstream request timeout")
}

/// The connection was refused: nothing was sent.
pub(super) fn connection_refused() -> CallAnswer {
    local(
        503,
        "upstream connect error or disconnect/reset before headers. reset reason: remote \
         connection failure",
    )
}

/// Envoy's own answer.
pub(super) fn local(status: u16, text: &str) -> CallAnswer {
    let body = text.as_bytes().to_vec();
    CallAnswer::Ended { status: Some(status), headers: vec![], body }
}
