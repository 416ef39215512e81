//! The operator of this world: somebody who looks, and acts on what was seen, maybe later.

use super::packed::{OPERATOR, Packed, outcome};
use super::world::{Phase, View, World};
use super::{Config, Violation};
use crate::operation::{Event, OperatorEvent, OperatorReply, Reply, Seen};
use crate::record::Fence;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Release { force: bool },
    Resolve { force: bool },
    Forget,
}

pub(super) const ACTS: [Act; 5] = [
    Act::Release { force: false },
    Act::Release { force: true },
    Act::Resolve { force: false },
    Act::Resolve { force: true },
    Act::Forget,
];

impl Config {
    pub(super) fn act(&self, world: &mut World, act: Act) -> Result<(), Violation> {
        world.left.acts -= 1;
        let Some(view) = world.view.take() else { return Ok(()) };
        let Some(before) = world.record else { return Ok(()) };
        let ignored = world.past.owner_ignored;
        let lives = world.executions[usize::from(before.execution)].phase.has_claimed();
        let seen = Seen { fence: Fence(view.fence.into()), revision: view.revision.into() };
        let event = match act {
            Act::Release { force } => OperatorEvent::Release { force },
            Act::Resolve { force } => OperatorEvent::Resolve { outcome: outcome(OPERATOR), force },
            Act::Forget => OperatorEvent::Forget,
        };
        let reply = self.transition(world, Event::Operator { seen, event })?;
        let acted = [OperatorReply::Released, OperatorReply::Resolved, OperatorReply::Forgotten];
        if !acted.map(Reply::Operator).contains(&reply) {
            return Ok(());
        }
        let forced = match act {
            Act::Release { force } => {
                if !force && lives && ignored {
                    return Err(Violation::ReleasedLive);
                }
                world.past.sent = 0;
                force
            }
            Act::Resolve { force } => force,
            Act::Forget => false,
        };
        for execution in &mut world.executions {
            execution.facts.pardoned |= execution.phase != Phase::Idle;
            execution.facts.forced |= forced && execution.phase.has_claimed();
        }
        if (view.state, view.execution) != (before.kind(), before.execution) {
            return Err(Violation::OpState);
        }
        Ok(())
    }
}

pub(super) fn view(record: &Packed) -> View {
    View {
        fence: record.fence,
        revision: record.revision,
        state: record.kind(),
        execution: record.execution,
        age: 0,
    }
}
