//! The filter in a model of Envoy: whatever comes in whatever order, it breaks none of the host's
//! rules, decides every request once, and has nothing left to do in the end.

mod host;
mod quiet;
mod settings;
mod stream;
mod upstream;
mod world;

use crate::bytes::Bytes;
use settings::Settings;
use world::World;

/// More steps say nothing new.
const STEPS_MAX: usize = 400;

/// Runs.
pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut world = World::new(Settings::read(&mut bytes));
    for _ in 0..STEPS_MAX {
        if bytes.is_empty() {
            break;
        }
        world.step(&mut bytes);
    }
    world.come_to_rest();
}
