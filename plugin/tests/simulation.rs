//! The engine under a hostile network: many seeds, each a world of two gateways, one store, an
//! upstream and clients, in which messages are delayed, lost and repeated, the store goes away,
//! clients hang up and gateways die. Time is simulated, so every run is the same every time.
//!
//! `LATCHKEY_SEEDS=10000 cargo test -p latchkey-plugin --test simulation` looks longer.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests may panic"
)]

mod simulation {
    pub(crate) mod network;
    pub(crate) mod random;
    pub(crate) mod router;
    pub(crate) mod world;
}

use latchkey_core::record::OnAmbiguous;
use simulation::world::{Faults, Manner, World};

const MANNERS: [Manner; 4] =
    [Manner::Detached, Manner::DetachedWait, Manner::Attached, Manner::AttachedWait];

fn seeds() -> u64 {
    std::env::var("LATCHKEY_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(60)
}

fn run(faults: Faults, policy: OnAmbiguous) {
    for manner in MANNERS {
        for seed in 0..seeds() {
            let mut world = World::new(seed, faults, policy, manner);
            world.run();
            world.check();
        }
    }
}

#[test]
fn without_faults_each_key_executes_once_and_everybody_gets_its_answer() {
    for (policy, manner) in [OnAmbiguous::Hold, OnAmbiguous::Reexecute]
        .into_iter()
        .flat_map(|policy| MANNERS.map(|manner| (policy, manner)))
    {
        for seed in 0..seeds() {
            let faults = if manner.is_attached() { Faults::PATIENT } else { Faults::NONE };
            let mut world = World::new(seed, faults, policy, manner);
            world.run();
            world.check();
            assert_eq!(world.most_commits(), 1, "seed {seed}");
            assert_eq!(world.counts().suspected_duplicates, 0, "seed {seed}");
        }
    }
}

#[test]
fn under_hold_a_hostile_network_never_makes_a_key_execute_twice() {
    run(Faults::NETWORK, OnAmbiguous::Hold);
}

#[test]
fn under_reexecute_every_second_execution_is_counted() {
    run(Faults::NETWORK, OnAmbiguous::Reexecute);
}

#[test]
fn a_store_that_goes_away_and_comes_back_loses_no_success() {
    run(Faults::OUTAGES, OnAmbiguous::Reexecute);
    run(Faults::OUTAGES, OnAmbiguous::Hold);
}

#[test]
fn an_upstream_that_fails_in_every_way_is_told_apart() {
    run(Faults::UPSTREAM, OnAmbiguous::Hold);
    run(Faults::UPSTREAM, OnAmbiguous::Reexecute);
}

#[test]
fn everything_at_once_with_gateways_that_die() {
    run(Faults::ALL, OnAmbiguous::Hold);
    run(Faults::ALL, OnAmbiguous::Reexecute);
}
