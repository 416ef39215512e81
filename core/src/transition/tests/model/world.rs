//! One state of the world, small enough to keep millions, and the form in which two states
//! that can only go on alike are one.

use super::packed::Packed;
use super::{Config, Plan};
use crate::transition::Rule;

/// How many executions there can be.
pub(in super::super) const EXECUTIONS: usize = 3;
/// How many messages of one execution are under way at most.
pub(in super::super) const SLOTS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) record: Option<Packed>,
    pub(super) executions: [Execution; EXECUTIONS],
    pub(super) messages: [[Option<Message>; SLOTS]; EXECUTIONS],
    pub(super) view: Option<View>,
    /// Whether the store is out of reach.
    pub(super) down: bool,
    /// How many ticks ago the store resumed; a lease's length where that is too long ago.
    pub(super) resumed: u8,
    /// One bit for each gateway that died.
    pub(super) dead: u8,
    pub(super) left: Left,
    pub(super) past: Past,
}

/// How much misfortune is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Left {
    pub(super) copies: u8,
    pub(super) outages: u8,
    pub(super) deaths: u8,
    pub(super) acts: u8,
    pub(super) retentions: u8,
    pub(super) losses: u8,
}

/// What has to be remembered of the past to see what must not be; no part of the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Past {
    /// One bit for each outcome that a client was told of this record.
    pub(super) told: u8,
    /// How many executions of this record reached the upstream since it was last released.
    pub(super) sent: u8,
    /// The highest fence that the upstream has seen.
    pub(super) top_forwarded: u16,
    /// The highest fence that was granted.
    pub(super) top_granted: u16,
    /// Whether a claim on this record brought `hold`.
    pub(super) hold_brought: bool,
    /// Whether the owner of the held record renewed, and it stayed held.
    pub(super) owner_ignored: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// Its request has not come yet.
    #[default]
    Idle,
    /// It claims.
    Asking,
    /// It may execute.
    Owning,
    /// It was forwarded.
    Running,
    /// It has an end to tell the store.
    Ending(End),
    /// Everything was told; `None` where it was refused.
    Over(Option<End>),
    /// It went with its gateway.
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum End {
    Success,
    Refused,
    NeverSent,
    Ambiguous,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Execution {
    pub(super) phase: Phase,
    /// From its claim; 0 before that.
    pub(super) fence: u16,
    pub(super) attempt: u8,
    pub(super) sent: u8,
    pub(super) hold: bool,
    /// For how many ticks it may be forwarded.
    pub(super) good: u8,
    pub(super) facts: Facts,
}

/// What is true of an execution, whoever knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Facts {
    /// The upstream may have done it.
    pub(super) ran: bool,
    /// It was executed again under `reexecute`, so that `hold` comes too late for it.
    pub(super) repeated: bool,
    /// The store heard of it in this tick.
    pub(super) heard: bool,
    /// It let a tick go by in which it could have reached the store and did not.
    pub(super) silent: bool,
    /// Its success came while another was running.
    pub(super) overtaken: bool,
    /// An operator decided about its record, or that is gone: it may be executed again.
    pub(super) pardoned: bool,
    /// An operator forced that while it ran, or the store lost it: it may run beside another.
    pub(super) forced: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Message {
    pub(super) op: Op,
    /// In how many more ticks it counts; `None` where it does not.
    pub(super) counts: Option<u8>,
    pub(super) transit: Transit,
    /// Whether its sender has the answer.
    pub(super) answered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Op {
    Claim,
    Renew,
    Complete,
    FailRetryable,
    FailNeverSent,
    FailAmbiguous,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Transit {
    /// On its way.
    Sent,
    /// It arrived, and a copy is on its way.
    Repeated,
    /// It arrived.
    Arrived,
}

/// What the operator saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct View {
    pub(super) fence: u16,
    pub(super) revision: u16,
    pub(super) state: u8,
    pub(super) execution: u8,
    /// In ticks, as far as it matters.
    pub(super) age: u8,
}

// === impl World ===

impl World {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            record: None,
            executions: [Execution::default(); EXECUTIONS],
            messages: [[None; SLOTS]; EXECUTIONS],
            view: None,
            down: false,
            resumed: config.lease,
            dead: 0,
            left: Left {
                copies: config.copies,
                outages: config.outages,
                deaths: config.deaths,
                acts: config.acts,
                retentions: config.retentions,
                losses: config.losses,
            },
            past: Past::default(),
        }
    }

    /// Nothing is under way, and nobody has anything left to say.
    pub(super) fn is_quiet(&self) -> bool {
        !self.down
            && self.messages.iter().flatten().all(Option::is_none)
            && self.executions.iter().all(|execution| !execution.phase.is_live())
    }

    /// Whether the execution waits for an answer.
    pub(super) fn waits(&self, execution: usize) -> bool {
        self.messages[execution]
            .iter()
            .flatten()
            .any(|message| !message.answered && message.counts.is_some())
    }

    /// The record is another one from here on, or none.
    pub(super) fn new_life(&mut self) {
        let Past { top_forwarded, top_granted, .. } = self.past;
        self.past = Past { top_forwarded, top_granted, ..Past::default() };
        for execution in &mut self.executions {
            if execution.phase != Phase::Idle {
                execution.facts.pardoned = true;
                execution.facts.ran = false;
            }
        }
    }

    /// Drops what cannot matter any more, and renames what only matters by its order.
    pub(super) fn canonical(mut self, config: &Config) -> Self {
        for (execution, messages) in self.executions.iter_mut().zip(&mut self.messages) {
            messages.sort_unstable();
            let unspoken = messages.iter().all(Option::is_none);
            execution.forget(unspoken);
        }
        if config.holds(Rule::FenceNeverRestarts) {
            self.blur_view();
            self.rank_fences();
        }
        self.rank_revisions();
        self
    }

    /// A view whose fence nobody has can never fit again.
    fn blur_view(&mut self) {
        let Some(view) = &mut self.view else { return };
        let record = self.record.is_some_and(|record| record.fence == view.fence);
        let known = record || self.executions.iter().any(|it| it.fence == view.fence);
        if !known {
            *view = View { fence: 0, revision: 0, state: 0, execution: 0, age: view.age };
        }
    }

    fn rank_fences(&mut self) {
        let mut known = [0; EXECUTIONS + 4];
        self.fences(|at, fence| known[at] = *fence);
        known.sort_unstable();
        let mut ranks = [(0, 0); EXECUTIONS + 4];
        let mut rank = 0;
        for (at, fence) in known.into_iter().enumerate() {
            if fence != 0 && (at == 0 || known[at - 1] != fence) {
                rank += 1;
            }
            ranks[at] = (fence, rank);
        }
        self.fences(|_, fence| {
            if let Some((_, rank)) = ranks.iter().find(|(known, _)| known == fence) {
                *fence = *rank;
            }
        });
    }

    fn fences(&mut self, mut each: impl FnMut(usize, &mut u16)) {
        for (at, execution) in self.executions.iter_mut().enumerate() {
            each(at, &mut execution.fence);
        }
        each(EXECUTIONS, &mut self.past.top_forwarded);
        each(EXECUTIONS + 1, &mut self.past.top_granted);
        if let Some(record) = &mut self.record {
            each(EXECUTIONS + 2, &mut record.fence);
        }
        if let Some(view) = &mut self.view {
            each(EXECUTIONS + 3, &mut view.fence);
        }
    }

    fn rank_revisions(&mut self) {
        let Some(record) = &mut self.record else {
            return;
        };
        if let Some(view) = &mut self.view {
            view.revision = u16::from(view.revision == record.revision);
        }
        record.revision = 1;
    }
}

// === impl Execution ===

impl Execution {
    fn forget(&mut self, unspoken: bool) {
        let may_be_late = match self.phase {
            Phase::Running => true,
            Phase::Ending(end) => end == End::Success,
            Phase::Idle | Phase::Asking | Phase::Owning | Phase::Over(_) | Phase::Dead => false,
        };
        if !may_be_late {
            self.facts.heard = false;
            self.facts.silent = false;
        }
        if self.phase != Phase::Owning {
            self.good = 0;
        }
        if !self.phase.is_live() && unspoken {
            self.fence = 0;
            self.attempt = 0;
            self.sent = 0;
            self.hold = false;
            self.facts.forced = false;
        }
    }
}

// === impl Phase ===

impl Phase {
    /// Whether its gateway is still at it.
    pub(super) fn is_live(self) -> bool {
        match self {
            Self::Idle | Self::Over(_) | Self::Dead => false,
            Self::Asking | Self::Owning | Self::Running | Self::Ending(_) => true,
        }
    }

    /// Whether it was granted and goes on.
    pub(super) fn has_claimed(self) -> bool {
        match self {
            Self::Idle | Self::Asking | Self::Over(_) | Self::Dead => false,
            Self::Owning | Self::Running | Self::Ending(_) => true,
        }
    }
}

// === impl Config ===

impl Config {
    pub(super) fn plan(&self, execution: usize) -> Plan {
        self.executions[execution]
    }
}
