//! The store of this world: the shipped transitions, and what must not be of them.

use super::packed::{NOW, Packed, PackedState, candidate, execution_id, outcome, subject};
use super::world::{End, Execution, Op, Phase, World};
use super::{Config, Violation};
use crate::operation::{Claim, Event, Fail, FailKind, FilterEvent, Reply, Ticket, Verdict};
use crate::record::Fence;
use crate::time::StoreTime;
use crate::transition::{self, Env};

impl Config {
    fn env(&self, world: &World) -> Env {
        let resumed_at = if world.resumed < self.lease {
            StoreTime(NOW.0 - u64::from(world.resumed))
        } else {
            StoreTime(0)
        };
        Env { without: self.without, ..Env::new(NOW, resumed_at) }
    }

    /// Whether the record's lease is alive, as the rules have it.
    pub(super) fn is_leased(&self, world: &World) -> bool {
        world.record.is_some_and(|record| match record.state {
            PackedState::InProgress(left) => left > 0 || world.resumed < self.lease,
            PackedState::Completed(_)
            | PackedState::Retryable { .. }
            | PackedState::Held { .. } => false,
        })
    }

    pub(super) fn transition(&self, world: &mut World, event: Event) -> Result<Reply, Violation> {
        let before = world.record;
        let unpacked = before.map(|record| record.unpack(self));
        let step = transition::apply(unpacked, event, &self.env(world));
        if step.reply == Reply::Void {
            return Ok(step.reply);
        }
        world.record = step.record.as_ref().map(Packed::of);
        let held = world.record.is_some_and(|record| record.is_held());
        world.past.owner_ignored &= held;
        let Some(before) = before.filter(|record| !record.expired) else {
            return Ok(step.reply);
        };
        match (before.state, world.record) {
            (PackedState::Completed(_), Some(after)) if after.state != before.state => {
                return Err(Violation::CompletedChanged);
            }
            (_, Some(after)) if after.fence < before.fence => return Err(Violation::FenceFalls),
            (_, Some(_)) => {}
            (_, None) => world.new_life(),
        }
        Ok(step.reply)
    }

    /// An operation arrives.
    pub(super) fn arrive(
        &self,
        world: &mut World,
        by: usize,
        op: Op,
        counts: Option<u8>,
    ) -> Result<Reply, Violation> {
        let before = world.record.filter(|record| !record.expired);
        let void_after = match counts {
            Some(ticks) => NOW.plus(u64::from(ticks)),
            None => StoreTime(NOW.0 - 1),
        };
        let event = self.event(by as u8, &world.executions[by], op);
        let reply = self.transition(world, Event::Filter { void_after, event })?;
        if reply == Reply::Void {
            return Ok(reply);
        }
        if op != Op::Claim {
            world.executions[by].facts.heard = true;
            world.executions[by].facts.silent = false;
        }
        match op {
            Op::Claim => self.check_claim(world, by, before, &reply)?,
            Op::Renew => {
                let held = world.record.is_some_and(|record| {
                    record.state == PackedState::Held { lost_lease: true }
                        && record.execution == by as u8
                });
                world.past.owner_ignored |= held;
            }
            Op::Complete | Op::FailRetryable | Op::FailNeverSent | Op::FailAmbiguous => {}
        }
        Ok(reply)
    }

    fn check_claim(
        &self,
        world: &mut World,
        by: usize,
        before: Option<Packed>,
        reply: &Reply,
    ) -> Result<(), Violation> {
        let plan = self.plan(by);
        let request = before.map_or(plan.request, |record| record.request);
        if request == plan.request {
            world.past.hold_brought |= plan.hold;
        }
        match reply {
            Reply::Claimed(claimed) => {
                let again = before.is_some_and(|record| {
                    record.execution == by as u8 && u64::from(record.fence) == claimed.fence.0
                });
                if again { Ok(()) } else { check_grant(world, by, before, claimed.fence) }
            }
            Reply::Refused(Verdict::Completed(_)) if request != plan.request => {
                Err(Violation::ForeignResponse)
            }
            Reply::Refused(_) => Ok(()),
            Reply::Renewed { .. }
            | Reply::Settled
            | Reply::Fenced(_)
            | Reply::Gone
            | Reply::Void
            | Reply::Operator(_) => panic!("a claim was answered {reply:?}"),
        }
    }

    fn event(&self, number: u8, execution: &Execution, op: Op) -> FilterEvent {
        let fail = |kind| FilterEvent::Fail(self.fail(number, execution, kind));
        match op {
            Op::Claim => FilterEvent::Claim(Claim {
                execution: execution_id(number),
                candidates: vec![candidate(self.plan(number.into()).request)],
                terms: self.terms(self.plan(number.into()).hold),
                subject: subject(),
                gateway: String::new(),
            }),
            Op::Renew => FilterEvent::Renew(self.ticket(number, execution)),
            Op::Complete => FilterEvent::Complete {
                ticket: self.ticket(number, execution),
                outcome: outcome(number),
            },
            Op::FailRetryable => fail(FailKind::Retryable),
            Op::FailNeverSent => fail(FailKind::NeverSent),
            Op::FailAmbiguous => fail(FailKind::Ambiguous),
        }
    }

    fn ticket(&self, number: u8, execution: &Execution) -> Ticket {
        Ticket {
            execution: execution_id(number),
            fence: Fence(u64::from(execution.fence)),
            attempt: u32::from(execution.attempt),
            sent: u32::from(execution.sent),
            candidate: candidate(self.plan(number.into()).request),
            terms: self.terms(execution.hold),
            subject: subject(),
            gateway: String::new(),
        }
    }

    fn fail(&self, number: u8, execution: &Execution, kind: FailKind) -> Fail {
        let heard = execution.fence != 0;
        let fingerprint = candidate(self.plan(number.into()).request).fingerprint;
        Fail {
            execution: execution_id(number),
            fence: heard.then_some(Fence(u64::from(execution.fence))),
            fingerprint: heard.then_some(fingerprint),
            kind,
            status: None,
            retry_after_us: 0,
        }
    }
}

/// Somebody may execute who could not before.
fn check_grant(
    world: &mut World,
    to: usize,
    before: Option<Packed>,
    fence: Fence,
) -> Result<(), Violation> {
    if fence.0 <= u64::from(world.past.top_granted) {
        return Err(Violation::FenceFalls);
    }
    world.past.top_granted = fence.0 as u16;
    world.executions[to].facts.pardoned = false;
    world.executions[to].facts.forced = false;
    if let Some(before) = before {
        let last = &world.executions[usize::from(before.execution)];
        let known = last.phase == Phase::Ending(End::Success);
        if known && !last.facts.silent && !last.facts.pardoned {
            return Err(Violation::ReexecKnownSuccess);
        }
    }
    for (_, other) in world.executions.iter_mut().enumerate().filter(|(at, _)| *at != to) {
        let facts = &mut other.facts;
        if world.past.hold_brought && facts.ran && !facts.pardoned && !facts.repeated {
            return Err(Violation::HoldBroken);
        }
        facts.repeated |= facts.ran;
    }
    Ok(())
}
