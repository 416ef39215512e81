//! What must not be once everything has come to rest.

use super::packed::PackedState;
use super::world::{End, Phase, World};
use super::{Config, Violation};

impl Config {
    /// Whether `world` may stay as it is, if nothing is under way in it.
    pub(super) fn check_rest(&self, world: &World) -> Result<(), Violation> {
        let Some(record) = world.record.filter(|record| !record.expired && world.is_quiet()) else {
            return Ok(());
        };
        let ended =
            |end| world.executions.iter().filter(move |it| it.phase == Phase::Over(Some(end)));
        let success_counts = ended(End::Success)
            .any(|execution| !execution.facts.pardoned && !execution.facts.overtaken);
        let owner = &world.executions[usize::from(record.execution)];
        match record.state {
            PackedState::Completed(_) => return Ok(()),
            // What is gone may come back for a lease, where a copy of a renewal was under way.
            _ if owner.facts.pardoned => {}
            PackedState::InProgress(_) => {
                if let Phase::Over(_) = owner.phase {
                    return Err(Violation::Ghost);
                }
            }
            PackedState::Held { .. } => {
                let died = world.executions.iter().any(|execution| execution.phase == Phase::Dead);
                if !died && ended(End::Ambiguous).next().is_none() {
                    let ran = ended(End::Refused).chain(ended(End::Success)).next().is_some();
                    let violation =
                        if ran { Violation::HeldAllKnown } else { Violation::HeldNeverRan };
                    return Err(violation);
                }
            }
            PackedState::Retryable { .. } => {}
        }
        if success_counts { Err(Violation::SuccessDropped) } else { Ok(()) }
    }
}
