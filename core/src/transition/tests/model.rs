//! An exhaustive model of a small world round one key.
//!
//! Tests of single runs show what somebody thought of. This searches everything that can happen
//! with one record, up to three executions on two gateways, a network, a clock, an operator and
//! bounded misfortune, breadth first, and drives the shipped [`apply`] at every step. It stops
//! at the first state that must not be, with the shortest run that leads there.
//!
//! The world:
//!
//! * **Time** goes in ticks. A lease lasts [`Config::lease`] of them, a message counts for
//!   [`Config::void`] more than the one it was sent in. Between ticks everything is possible in
//!   any order. Only differences are kept, so that the states are finitely many.
//! * **Messages** may be delivered late, never, in any order, their answers may be lost, and
//!   the network may repeat [`Config::copies`] of them.
//! * **Executions** keep to the senders' rules ([`Manner`]), and otherwise dawdle, give up, or
//!   try again as they like. The upstream may commit, refuse, be out of reach, or say nothing
//!   having committed.
//! * **Misfortune**: outages of the store, deaths of a gateway (with all that runs there),
//!   operators who act on what they saw earlier, retention that ends, a store that loses its
//!   record; each as often as the [`Config`] says.
//!
//! What must not be is in [`Violation`]. What the guarantees admit is left out there, case by
//! case: what an operator forced, and an execution whose outcome was lost under `reexecute`.
//!
//! Deliberately absent: waits (`not_before`) and statuses, which decide nothing about who
//! executes, and counters; the tables and the random histories hold those.
//!
//! [`apply`]: crate::transition::apply

mod actions;
mod gateway;
mod operator;
mod packed;
mod rest;
mod runs;
mod search;
mod store;
mod world;

use crate::transition::Rule;

/// The world that is searched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Config {
    /// At most [`world::EXECUTIONS`].
    pub(super) executions: &'static [Plan],
    /// How often the key may be sent to the upstream.
    pub(super) attempts_max: u8,
    /// In ticks; at least 1.
    pub(super) lease: u8,
    /// How many ticks a message counts after the one it was sent in.
    pub(super) void: u8,
    /// How many messages the network repeats; at most [`world::SLOTS`] - 1.
    pub(super) copies: u8,
    /// How often the store is out of reach.
    pub(super) outages: u8,
    /// How many gateways die.
    pub(super) deaths: u8,
    /// How often the operator looks and acts.
    pub(super) acts: u8,
    /// How often retention ends.
    pub(super) retentions: u8,
    /// How often the store loses the record.
    pub(super) losses: u8,
    /// Whether a refused execution may claim again.
    pub(super) asks_again: bool,
    /// The rule of the transitions that is taken out.
    pub(super) without: Option<Rule>,
    /// The rule of the senders that is taken out.
    pub(super) unmannered: Option<Manner>,
}

/// What an execution is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// 0 or 1.
    pub(super) gateway: u8,
    /// Whether its rule holds on ambiguous outcomes.
    pub(super) hold: bool,
    /// Which request it is of.
    pub(super) request: u8,
}

/// The rules that senders keep. Tests take them out one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// One operation of an execution is in flight; the next goes out when it was answered or
    /// is void.
    OneInFlight,
    /// A claim is good from its dispatch on for what was left of its lease.
    ClaimWindow,
    /// Who was not forwarded in that time claims again, as if it had not been answered; only
    /// what was forwarded is renewed, and so restored.
    StaleClaimsAskAgain,
    /// Nothing is forwarded before its claim is acknowledged.
    AcknowledgedFirst,
    /// Who is fenced tells its client what the record says.
    FencedCarriesVerdict,
    /// Who ends without forwarding says so until it is answered.
    NeverSentIsSaid,
    /// Also who is told that its claim is spent: the answer to an earlier copy was lost.
    SpentIsAnEnd,
    /// What an execution brings is sent until it is answered.
    SettlesUntilAnswered,
    /// Nothing below a gateway repeats a claim that was refused.
    RefusedClaimsAreNotRepeated,
    /// An operator takes longer from looking to forgetting than a message counts.
    ForgetsSlowly,
}

/// What must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Violation {
    /// A claim that nobody will ever settle, though its gateway lives.
    Ghost,
    /// An execution is forwarded that is not the live owner.
    ConcurrentLive,
    /// Two different outcomes are told for one key.
    TwoOutcomes,
    /// A later claim, or a later request to the upstream, has a fence that is not higher.
    FenceFalls,
    /// A success that its gateway knew, and could have stored, is executed again.
    ReexecKnownSuccess,
    /// Held for good though nothing was ever sent.
    HeldNeverRan,
    /// Held for good though every outcome is known.
    HeldAllKnown,
    /// An operator acted on another state than the one seen.
    OpState,
    /// Sent more often than allowed.
    AttOver,
    /// A success was brought in time, and the key is open.
    SuccessDropped,
    /// A running execution that the store had heard of was released without force.
    ReleasedLive,
    /// Claimed again under `hold` though an earlier execution may have run.
    HoldBroken,
    /// A completed record became something else, other than by Forget or retention.
    CompletedChanged,
    /// A response was told to another request.
    ForeignResponse,
}

// === impl Violation ===

impl Violation {
    const ALL: [Self; 14] = [
        Self::Ghost,
        Self::ConcurrentLive,
        Self::TwoOutcomes,
        Self::FenceFalls,
        Self::ReexecKnownSuccess,
        Self::HeldNeverRan,
        Self::HeldAllKnown,
        Self::OpState,
        Self::AttOver,
        Self::SuccessDropped,
        Self::ReleasedLive,
        Self::HoldBroken,
        Self::CompletedChanged,
        Self::ForeignResponse,
    ];
}

// === impl Config ===

impl Config {
    fn keeps(&self, manner: Manner) -> bool {
        self.unmannered != Some(manner)
    }

    fn holds(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }
}
