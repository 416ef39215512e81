//! Breadth first through everything that can happen.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::time::{Duration, Instant};

use super::actions::Action;
use super::world::World;
use super::{Config, Violation};

/// What a search came to.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) states: usize,
    pub(super) steps: u64,
    pub(super) deepest: u32,
    pub(super) took: Duration,
    /// The violation that is the fewest steps away, and the run that leads there.
    pub(super) violation: Option<(Violation, Vec<String>)>,
}

/// Where a state came from.
#[derive(Clone, Copy)]
struct Origin {
    parent: u32,
    action: Action,
}

/// Passes on what is a hash already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only hashes are kept");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Searches until something `sought` is found, or everything was seen. What must not be, and is
/// not sought, is not gone into.
///
/// Of a state that was seen only a hash of 64 bits is kept: among ten million the odds that two
/// share one are below 1 in 100,000.
///
/// # Panics
///
/// With more than `states_max` states, so that a world that grew says so.
pub(super) fn search(config: &Config, states_max: usize, sought: &[Violation]) -> Found {
    let began = Instant::now();
    let first = World::new(config).canonical(config);
    let mut seen: HashSet<u64, BuildHasherDefault<Hashed>> = HashSet::default();
    seen.insert(hash(&first));
    let mut origins: Vec<Option<Origin>> = vec![None];
    let mut queue = VecDeque::from([(first, 0_u32, 0_u32)]);
    let (mut steps, mut deepest) = (0, 0);
    let mut actions = Vec::new();
    while let Some((world, at, depth)) = queue.pop_front() {
        deepest = depth;
        config.actions(&world, &mut actions);
        for action in &actions {
            steps += 1;
            let origin = Origin { parent: at, action: *action };
            match config.step(&world, *action) {
                Ok(next) => {
                    if seen.insert(hash(&next)) {
                        let number = u32::try_from(origins.len()).expect("fewer than 2^32 states");
                        origins.push(Some(origin));
                        queue.push_back((next, number, depth + 1));
                    }
                }
                Err(violation) if !sought.contains(&violation) => {}
                Err(violation) => {
                    let run = tell(config, &origins, origin);
                    let violation = Some((violation, run));
                    let states = origins.len();
                    return Found { states, steps, deepest, took: began.elapsed(), violation };
                }
            }
        }
        assert!(origins.len() <= states_max, "more than {states_max} states in {config:?}");
    }
    Found { states: origins.len(), steps, deepest, took: began.elapsed(), violation: None }
}

fn hash(world: &World) -> u64 {
    let mut hasher = Mixer(0);
    world.hash(&mut hasher);
    hasher.finish()
}

/// Folds each word in by a full multiplication, twice as fast here as the standard hasher.
struct Mixer(u64);

impl Mixer {
    fn mix(&mut self, word: u64) {
        let product =
            u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
        self.0 = (product as u64) ^ ((product >> 64) as u64).rotate_left(23);
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        let mut last = Self(self.0);
        last.mix(0);
        last.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.mix(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, word: u8) {
        self.mix(u64::from(word));
    }

    fn write_u16(&mut self, word: u16) {
        self.mix(u64::from(word));
    }

    fn write_isize(&mut self, word: isize) {
        self.mix(word as u64);
    }
}

/// The run that ends with `last`, one line a step, with the record after it.
fn tell(config: &Config, origins: &[Option<Origin>], last: Origin) -> Vec<String> {
    let mut actions = vec![last.action];
    let mut at = last.parent;
    while let Some(origin) = origins[at as usize] {
        actions.push(origin.action);
        at = origin.parent;
    }
    let mut world = World::new(config).canonical(config);
    let mut lines = Vec::new();
    for action in actions.into_iter().rev() {
        match config.step(&world, action) {
            Ok(next) => {
                world = next;
                let record = world.record.map(|record| {
                    let (by, fence) = (record.execution, record.fence);
                    format!("{:?} of {by} f{fence} sent {}", record.state, record.sent)
                });
                lines.push(format!("{action:?}  [{}]", record.unwrap_or("absent".to_owned())));
            }
            Err(violation) => lines.push(format!("{action:?}  => {violation:?}")),
        }
    }
    lines
}

// === impl Found ===

impl Found {
    pub(super) fn summary(&self, name: &str) -> String {
        let Self { states, steps, deepest, took, .. } = self;
        format!("model {name}: {states} states, {steps} steps, {deepest} deep, {took:.1?}")
    }
}
