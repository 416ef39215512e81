//! The senders of this world: what a gateway does with an execution, and with its answers.

use super::packed::{outcome, outcome_by};
use super::world::{End, Message, Op, Phase, Transit, World};
use super::{Config, Manner, Violation};
use crate::operation::{Claimed, Reply, Verdict};
use crate::transition::tests::sender::{Told, told};

impl Config {
    /// What the execution has to tell the store, if anything.
    pub(super) fn next_op(phase: Phase) -> Option<Op> {
        match phase {
            Phase::Idle | Phase::Owning | Phase::Running | Phase::Over(_) | Phase::Dead => None,
            Phase::Asking => Some(Op::Claim),
            Phase::Ending(End::Success) => Some(Op::Complete),
            Phase::Ending(End::Refused) => Some(Op::FailRetryable),
            Phase::Ending(End::NeverSent) => Some(Op::FailNeverSent),
            Phase::Ending(End::Ambiguous) => Some(Op::FailAmbiguous),
        }
    }

    /// Whether the execution may send now.
    pub(super) fn may_send(&self, world: &World, execution: usize) -> bool {
        let free = world.messages[execution].iter().any(Option::is_none);
        free && (!world.waits(execution) || !self.keeps(Manner::OneInFlight))
    }

    pub(super) fn send(&self, world: &mut World, execution: usize, op: Op) {
        let free = world.messages[execution].iter_mut().find(|slot| slot.is_none());
        if let Some(slot) = free {
            let counts = Some(self.void);
            *slot = Some(Message { op, counts, transit: Transit::Sent, answered: false });
        }
    }

    /// Whether the execution may be forwarded, for all that its gateway knows.
    pub(super) fn may_forward(&self, world: &World, execution: usize) -> bool {
        let execution = &world.executions[execution];
        match execution.phase {
            Phase::Owning => execution.good > 0 || !self.keeps(Manner::ClaimWindow),
            Phase::Asking => !self.keeps(Manner::AcknowledgedFirst),
            Phase::Idle | Phase::Running | Phase::Ending(_) | Phase::Over(_) | Phase::Dead => false,
        }
    }

    pub(super) fn forward(&self, world: &mut World, number: usize) -> Result<(), Violation> {
        let leased = self.is_leased(world);
        let owns = world.record.is_some_and(|record| record.execution == number as u8);
        let execution = &mut world.executions[number];
        execution.phase = Phase::Running;
        execution.facts.ran = true;
        // Until the store hears of it again its lease may run out without anybody's fault.
        execution.facts.silent = true;
        execution.facts.heard = false;
        if !execution.facts.forced {
            if !leased || !owns {
                return Err(Violation::ConcurrentLive);
            }
            if execution.fence <= world.past.top_forwarded {
                return Err(Violation::FenceFalls);
            }
            world.past.top_forwarded = execution.fence;
        }
        if !execution.facts.pardoned {
            world.past.sent += 1;
        }
        if world.past.sent > self.attempts_max { Err(Violation::AttOver) } else { Ok(()) }
    }

    /// The upstream's answer, or that there is none.
    pub(super) fn end(&self, world: &mut World, number: usize, end: End) {
        let facts = &mut world.executions[number].facts;
        match end {
            End::Success | End::Ambiguous => {}
            End::Refused => facts.ran = false,
            End::NeverSent => {
                facts.ran = false;
                if !facts.pardoned {
                    world.past.sent = world.past.sent.saturating_sub(1);
                }
            }
        }
        self.enter(world, number, Phase::Ending(end));
    }

    /// The client has gone, or was waited for too long: the execution ends without forwarding.
    pub(super) fn give_up(&self, world: &mut World, number: usize) {
        let end = if self.keeps(Manner::NeverSentIsSaid) {
            Phase::Ending(End::NeverSent)
        } else {
            Phase::Over(Some(End::NeverSent))
        };
        self.enter(world, number, end);
    }

    /// Enters `phase`, and sends what is to be said there. That it may be sent later needs no
    /// step of its own: it may arrive later, or never.
    pub(super) fn enter(&self, world: &mut World, number: usize, phase: Phase) {
        world.executions[number].phase = phase;
        self.speak(world, number);
    }

    /// Sends what the execution has to say, for the first time or again.
    pub(super) fn speak(&self, world: &mut World, number: usize) {
        if self.may_send(world, number)
            && let Some(op) = Self::next_op(world.executions[number].phase)
        {
            self.send(world, number, op);
        }
    }

    /// The answer to `op`, which was sent `age` ticks ago.
    pub(super) fn answer(
        &self,
        world: &mut World,
        number: usize,
        op: Op,
        age: u8,
        reply: &Reply,
        asks_again: bool,
    ) -> Result<(), Violation> {
        match (world.executions[number].phase, op) {
            (Phase::Asking, Op::Claim) => match reply {
                Reply::Claimed(claimed) => self.own(world, number, age, claimed),
                Reply::Refused(Verdict::Spent) if self.keeps(Manner::SpentIsAnEnd) => {
                    self.give_up(world, number);
                }
                Reply::Refused(_) if asks_again => {}
                Reply::Refused(_) => {
                    world.executions[number].phase = Phase::Over(None);
                    return self.tell(world, number, reply);
                }
                Reply::Renewed { .. }
                | Reply::Settled
                | Reply::Fenced(_)
                | Reply::Gone
                | Reply::Void
                | Reply::Operator(_) => {}
            },
            (Phase::Owning | Phase::Running, Op::Renew) => match reply {
                Reply::Renewed { lease_left_us } => {
                    world.executions[number].good = (*lease_left_us as u8).saturating_sub(age);
                }
                Reply::Fenced(_) if world.executions[number].phase == Phase::Owning => {
                    world.executions[number].phase = Phase::Over(Some(End::NeverSent));
                    return self.tell(world, number, reply);
                }
                Reply::Claimed(_)
                | Reply::Refused(_)
                | Reply::Settled
                | Reply::Fenced(_)
                | Reply::Gone
                | Reply::Void
                | Reply::Operator(_) => {}
            },
            (Phase::Ending(end), _) if Self::next_op(Phase::Ending(end)) == Some(op) => {
                return self.settled(world, number, end, reply);
            }
            // The answer to something that the execution is past: only that it came counts.
            (
                Phase::Idle
                | Phase::Asking
                | Phase::Owning
                | Phase::Running
                | Phase::Ending(_)
                | Phase::Over(_)
                | Phase::Dead,
                _,
            ) => {}
        }
        Ok(())
    }

    fn own(&self, world: &mut World, number: usize, age: u8, claimed: &Claimed) {
        let execution = &mut world.executions[number];
        execution.phase = Phase::Owning;
        execution.fence = claimed.fence.0 as u16;
        execution.attempt = claimed.attempt as u8;
        execution.sent = claimed.sent as u8;
        execution.hold = claimed.terms == self.terms(true);
        execution.good = (claimed.lease_left_us as u8).saturating_sub(age);
    }

    fn settled(
        &self,
        world: &mut World,
        number: usize,
        end: End,
        reply: &Reply,
    ) -> Result<(), Violation> {
        match reply {
            Reply::Settled | Reply::Gone => {}
            Reply::Fenced(verdict) => {
                let running = matches!(verdict, Verdict::InProgress { .. });
                world.executions[number].facts.overtaken = end == End::Success && running;
            }
            Reply::Claimed(_)
            | Reply::Refused(_)
            | Reply::Renewed { .. }
            | Reply::Void
            | Reply::Operator(_) => return Ok(()),
        }
        world.executions[number].phase = Phase::Over(Some(end));
        if end == End::Success || matches!(reply, Reply::Fenced(_)) {
            return self.tell(world, number, reply);
        }
        Ok(())
    }

    /// A client is told.
    fn tell(&self, world: &mut World, number: usize, reply: &Reply) -> Result<(), Violation> {
        let own = outcome(number as u8);
        let succeeded = world.executions[number].phase == Phase::Over(Some(End::Success));
        let told = match told(own.clone(), reply) {
            Told::Record(_) if succeeded && !self.keeps(Manner::FencedCarriesVerdict) => {
                Told::Own(own)
            }
            told @ (Told::Own(_) | Told::Record(_) | Told::Nothing) => told,
        };
        let bit = match told {
            Told::Own(outcome) | Told::Record(Verdict::Completed(outcome)) => {
                1 << outcome_by(&outcome)
            }
            Told::Record(_) | Told::Nothing => return Ok(()),
        };
        // What was brought to a record that has gone since is of no account to the present one.
        if !world.executions[number].facts.pardoned || matches!(reply, Reply::Refused(_)) {
            world.past.told |= bit;
        }
        if world.past.told.count_ones() > 1 { Err(Violation::TwoOutcomes) } else { Ok(()) }
    }
}
