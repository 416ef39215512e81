//! Everything that can happen next.

use super::operator::{ACTS, Act, view};
use super::packed::PackedState;
use super::world::{End, Execution, Facts, Op, Phase, Transit, World};
use super::{Config, Manner, Violation};
use crate::operation::Reply;
use crate::transition::Rule;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A request comes, and its gateway claims.
    Start(u8),
    /// A claim that was not answered in time, or refused, or is stale, is sent again.
    Ask(u8),
    Renew(u8),
    /// A message arrives.
    Arrive {
        by: u8,
        slot: u8,
        fate: Fate,
    },
    /// A message that does not count any more gets lost after all.
    Drop {
        by: u8,
        slot: u8,
    },
    GiveUp(u8),
    /// It stops saying what nobody answered.
    Forsake(u8),
    Forward(u8),
    Upstream(u8, End),
    Tick,
    StoreGoes,
    StoreComes,
    StoreLoses,
    GatewayDies(u8),
    RetentionEnds,
    Look,
    Act(Act),
}

/// What becomes of a message that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fate {
    /// The answer gets through.
    pub(super) answered: bool,
    /// A copy arrives later.
    pub(super) repeated: bool,
    /// If refused, it will claim again.
    pub(super) asks_again: bool,
}

const ENDS: [End; 4] = [End::Success, End::Refused, End::NeverSent, End::Ambiguous];
impl Config {
    /// Everything that can happen in `world`.
    pub(super) fn actions(&self, world: &World, into: &mut Vec<Action>) {
        into.clear();
        for number in 0..self.executions.len() {
            self.execution_actions(world, number, into);
            self.message_actions(world, number, into);
        }
        into.push(Action::Tick);
        if world.down {
            into.push(Action::StoreComes);
        } else {
            if world.left.outages > 0 {
                into.push(Action::StoreGoes);
            }
            self.record_actions(world, into);
        }
        for gateway in 0..2 {
            if world.left.deaths > 0 && world.dead & 1 << gateway == 0 {
                into.push(Action::GatewayDies(gateway));
            }
        }
    }

    fn execution_actions(&self, world: &World, number: usize, into: &mut Vec<Action>) {
        let phase = world.executions[number].phase;
        let by = number as u8;
        let sends = self.may_send(world, number);
        if self.may_forward(world, number) {
            into.push(Action::Forward(by));
        }
        match phase {
            Phase::Idle => {
                // Of executions that are alike, the first comes first.
                let alike = |other: usize| {
                    world.executions[other].phase == Phase::Idle
                        && self.plan(other) == self.plan(number)
                };
                let lives = world.dead & 1 << self.plan(number).gateway == 0;
                if lives && !(0..number).any(alike) {
                    into.push(Action::Start(by));
                }
            }
            Phase::Asking => {
                if sends {
                    into.push(Action::Ask(by));
                }
                if !world.waits(number) || !self.keeps(Manner::OneInFlight) {
                    into.push(Action::GiveUp(by));
                }
            }
            Phase::Owning => {
                into.push(Action::GiveUp(by));
                if sends && world.executions[number].good == 0 {
                    into.push(if self.keeps(Manner::StaleClaimsAskAgain) {
                        Action::Ask(by)
                    } else {
                        Action::Renew(by)
                    });
                }
            }
            Phase::Running => {
                into.extend(ENDS.map(|end| Action::Upstream(by, end)));
                if sends {
                    into.push(Action::Renew(by));
                }
            }
            Phase::Ending(_) => {
                if !self.keeps(Manner::SettlesUntilAnswered) {
                    into.push(Action::Forsake(by));
                }
            }
            Phase::Over(_) | Phase::Dead => {}
        }
    }

    fn message_actions(&self, world: &World, number: usize, into: &mut Vec<Action>) {
        let by = number as u8;
        let asking = world.executions[number].phase == Phase::Asking;
        for (slot, message) in world.messages[number].iter().enumerate() {
            let Some(message) = message else { continue };
            let slot = slot as u8;
            if message.counts.is_none() {
                into.push(Action::Drop { by, slot });
            }
            if world.down || message.transit == Transit::Arrived {
                continue;
            }
            let mut fate = |answered, repeated, asks_again| {
                let fate = Fate { answered, repeated, asks_again };
                into.push(Action::Arrive { by, slot, fate });
            };
            let repeats = message.transit == Transit::Sent && world.left.copies > 0;
            for repeated in [false, true] {
                if repeated && !repeats {
                    continue;
                }
                fate(false, repeated, false);
                if message.answered || message.counts.is_none() {
                    continue;
                }
                fate(true, repeated, false);
                if asking && self.asks_again {
                    fate(true, repeated, true);
                }
            }
        }
    }

    fn record_actions(&self, world: &World, into: &mut Vec<Action>) {
        let Some(record) = world.record else { return };
        if world.left.losses > 0 {
            into.push(Action::StoreLoses);
        }
        let claimed = world.executions.iter().any(|execution| execution.phase.has_claimed());
        if world.left.retentions > 0 && !record.expired && !claimed {
            into.push(Action::RetentionEnds);
        }
        if world.left.acts == 0 {
            return;
        }
        match world.view {
            None if !record.expired => into.push(Action::Look),
            None => {}
            Some(view) => into.extend(ACTS.map(Action::Act).into_iter().filter(|act| {
                let forgets = *act == Action::Act(Act::Forget);
                !forgets || view.age > self.void || !self.keeps(Manner::ForgetsSlowly)
            })),
        }
    }

    /// What the world is after `action`.
    pub(super) fn step(&self, world: &World, action: Action) -> Result<World, Violation> {
        let mut next = *world;
        match action {
            Action::Start(by) => self.enter(&mut next, by.into(), Phase::Asking),
            Action::Ask(by) => {
                let execution = &mut next.executions[usize::from(by)];
                *execution = Execution { facts: execution.facts, ..Execution::default() };
                self.enter(&mut next, by.into(), Phase::Asking);
            }
            Action::Renew(by) => self.send(&mut next, by.into(), Op::Renew),
            Action::Arrive { by, slot, fate } => {
                self.message_arrives(&mut next, by.into(), slot.into(), fate)?;
            }
            Action::Drop { by, slot } => {
                next.messages[usize::from(by)][usize::from(slot)] = None;
            }
            Action::GiveUp(by) => self.give_up(&mut next, by.into()),
            Action::Forsake(by) => {
                let execution = &mut next.executions[usize::from(by)];
                if let Phase::Ending(end) = execution.phase {
                    execution.phase = Phase::Over(Some(end));
                }
            }
            Action::Forward(by) => self.forward(&mut next, by.into())?,
            Action::Upstream(by, end) => self.end(&mut next, by.into(), end),
            Action::Tick => self.tick(&mut next),
            Action::StoreGoes => {
                next.left.outages -= 1;
                next.down = true;
            }
            Action::StoreComes => {
                next.down = false;
                next.resumed = 0;
                for execution in &mut next.executions {
                    execution.facts.silent = false;
                }
            }
            Action::StoreLoses => {
                next.left.losses -= 1;
                next.record = None;
                next.new_life();
                for execution in &mut next.executions {
                    execution.facts.forced = execution.phase != Phase::Idle;
                }
            }
            Action::GatewayDies(gateway) => self.die(&mut next, gateway),
            Action::RetentionEnds => self.end_retention(&mut next),
            Action::Look => next.view = next.record.map(|record| view(&record)),
            Action::Act(act) => self.act(&mut next, act)?,
        }
        self.check_rest(&next)?;
        Ok(next.canonical(self))
    }

    fn message_arrives(
        &self,
        world: &mut World,
        by: usize,
        slot: usize,
        fate: Fate,
    ) -> Result<(), Violation> {
        let Some(mut message) = world.messages[by][slot] else { return Ok(()) };
        let reply = self.arrive(world, by, message.op, message.counts)?;
        let refused = matches!(reply, Reply::Refused(_))
            && fate.answered
            && self.keeps(Manner::RefusedClaimsAreNotRepeated);
        message.transit = Transit::Arrived;
        if fate.repeated {
            world.left.copies -= 1;
            if !refused {
                message.transit = Transit::Repeated;
            }
        }
        if fate.answered {
            message.answered = true;
        }
        let done =
            message.transit == Transit::Arrived && (message.answered || message.counts.is_none());
        world.messages[by][slot] = (!done).then_some(message);
        if fate.answered {
            let age = self.void - message.counts.unwrap_or(0);
            self.answer(world, by, message.op, age, &reply, fate.asks_again)?;
        }
        if let Phase::Ending(_) = world.executions[by].phase {
            self.speak(world, by);
        }
        Ok(())
    }

    fn tick(&self, world: &mut World) {
        let voids = self.holds(Rule::VoidAfter);
        for slot in world.messages.iter_mut().flatten() {
            let Some(message) = slot else { continue };
            message.counts = message.counts.and_then(|ticks| ticks.checked_sub(1));
            if message.counts.is_none() && (voids || message.transit == Transit::Arrived) {
                *slot = None;
            }
        }
        if let Some(record) = &mut world.record
            && let PackedState::InProgress(left) = &mut record.state
        {
            *left = left.saturating_sub(1);
        }
        for execution in &mut world.executions {
            execution.good = execution.good.saturating_sub(1);
            let Facts { heard, silent, .. } = &mut execution.facts;
            *silent |= !world.down && !*heard && execution.phase.has_claimed();
            *heard = false;
        }
        for number in 0..self.executions.len() {
            if let Phase::Ending(_) = world.executions[number].phase {
                self.speak(world, number);
            }
        }
        world.resumed = (world.resumed + 1).min(self.lease);
        if let Some(view) = &mut world.view {
            view.age = (view.age + 1).min(self.void + 1);
        }
    }

    fn die(&self, world: &mut World, gateway: u8) {
        world.left.deaths -= 1;
        world.dead |= 1 << gateway;
        for (number, execution) in world.executions.iter_mut().enumerate() {
            let here = number < self.executions.len() && self.plan(number).gateway == gateway;
            if here && execution.phase.is_live() {
                execution.phase = Phase::Dead;
                for slot in &mut world.messages[number] {
                    if let Some(message) = slot {
                        message.answered = true;
                    }
                    *slot = slot.filter(|message| message.transit != Transit::Arrived);
                }
            }
        }
    }

    /// So much time goes by that nothing is left of now but the expired record.
    fn end_retention(&self, world: &mut World) {
        world.left.retentions -= 1;
        for _ in 0..=self.lease + self.void {
            self.tick(world);
        }
        if let Some(record) = &mut world.record {
            record.expired = true;
        }
        world.new_life();
    }
}
