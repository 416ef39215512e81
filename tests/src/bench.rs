//! What the filter costs: the same load through a gateway without it, through it with new keys,
//! and through it with keys that are known.
//!
//! Everything runs on one machine and competes for it, as the figures of the design do; so only
//! ratios mean something, and the rounds of all loads are interleaved, so that a machine that
//! becomes slower does so for all of them. The table shows medians over the rounds.

mod cpu;
mod load;
mod report;

use std::time::Duration;

use anyhow::ensure;

use crate::stage::{Options, Service, Stage, StoreKind};
use cpu::CpuTime;
use load::{Keys, Load, Measured};
pub use report::Report;

/// Where Envoy counts calls to the state endpoint.
const STATE_CALLS: &str = "cluster.latchkey.upstream_rq_total";

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// A gateway without the filter.
    Bare,
    /// New keys, each executed.
    First,
    /// Keys that were executed in the round before, each answered from the state.
    Replay,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rounds, over which medians are taken.
    pub rounds: u32,
    /// How long each load lasts in each round.
    pub duration: Duration,
    /// Connections, each with one request at a time.
    pub connections: usize,
}

/// One load of one round.
struct Sample {
    store: StoreKind,
    case: Case,
    measured: Measured,
    /// Calls of the gateway to the state endpoint, each of which carries a batch.
    state_calls: u64,
    /// CPU time by process.
    cpu: Vec<(&'static str, Duration)>,
}

// === impl Case ===

impl Case {
    const ALL: [Self; 3] = [Self::Bare, Self::First, Self::Replay];
}

/// Measures everything, on each of `stores`.
///
/// # Errors
/// When a stage does not start, or any answer is not what it must be.
pub async fn run(plan: Plan, stores: &[StoreKind]) -> anyhow::Result<Report> {
    let mut stages = Vec::new();
    for store in stores {
        let options = Options { bench: true, ..Options::on(*store) };
        stages.push((*store, Stage::start(options).await?));
    }
    // Opens connections and fills caches; not measured.
    round(&Plan { duration: Duration::from_secs(1), ..plan }, &stages, 0).await?;
    let mut samples = Vec::new();
    for number in 1..=plan.rounds {
        eprintln!("round {number} of {}", plan.rounds);
        samples.extend(round(&plan, &stages, number).await?);
    }
    Ok(Report::new(plan, &samples))
}

/// Every load once.
async fn round(
    plan: &Plan,
    stages: &[(StoreKind, Stage)],
    number: u32,
) -> anyhow::Result<Vec<Sample>> {
    let mut samples = Vec::new();
    for (store, stage) in stages {
        let mut executed = Vec::new();
        for case in Case::ALL {
            let (gateway, keys) = match case {
                Case::Bare => (stage.bare(), Keys::New { round: number }),
                Case::First => (stage.first_gateway(), Keys::New { round: number }),
                Case::Replay => (
                    stage.first_gateway(),
                    Keys::Known { round: number, counts: std::mem::take(&mut executed) },
                ),
            };
            let processes = processes(stage, gateway.process());
            let calls_before = gateway.statistic(STATE_CALLS).await?;
            let before = CpuTime::of(&processes);
            let load = Load { to: gateway.address(), keys, replayed: case == Case::Replay };
            let measured = load.run(plan.connections, plan.duration).await?;
            let cpu = CpuTime::of(&processes).since(&before);
            ensure!(measured.requests() > 0, "{case:?} on {store:?}: no answer at all");
            if case == Case::First {
                executed.clone_from(&measured.by_connection);
            }
            let state_calls = gateway.statistic(STATE_CALLS).await? - calls_before;
            samples.push(Sample { store: *store, case, measured, state_calls, cpu });
        }
    }
    Ok(samples)
}

/// The processes that a request goes through, and the one that sends it.
fn processes(stage: &Stage, gateway: &Service) -> Vec<(&'static str, u32)> {
    let mut processes = vec![("envoy", gateway.pid()), ("latchkey", stage.server.pid())];
    processes.extend(stage.redis().map(|redis| ("redis", redis.pid())));
    processes.extend([("upstream", stage.payments.pid()), ("load", std::process::id())]);
    processes
}
