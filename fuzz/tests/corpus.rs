//! Every target on its seeds, and on inputs that are made from them: the same ones every time.
//!
//! `LATCHKEY_FUZZ_INPUTS=1000000 cargo test --release -p latchkey-fuzz` looks longer, and
//! `cargo xtask fuzz` in new places.

mod corpus {
    pub(crate) mod mutation;
}

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::{env, fs};

use corpus::mutation::Mutations;
use latchkey_fuzz::{TARGETS, Target};

/// The committed inputs of a target, in the order of their names.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

fn try_one(name: &str, run: Target, input: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| run(input))).is_ok() {
        return;
    }
    let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
    panic!(
        "the target {name} fails on this input (the reason is above):\n{hex}\n\
         To keep it as a seed, which runs first:\n\
         echo {hex} | xxd -r -p > fuzz/corpus/{name}/regression && \
         cargo test -p latchkey-fuzz --test corpus {name}"
    );
}

/// Runs a target on its seeds and on `inputs` more.
fn run(name: &str, inputs: u64) {
    let (_, target) = TARGETS.into_iter().find(|(it, _)| *it == name).unwrap();
    let seeds = seeds(name);
    assert!(!seeds.is_empty(), "{name} has no seeds");
    for seed in &seeds {
        try_one(name, target, seed);
    }
    let chosen = env::var("LATCHKEY_FUZZ_INPUTS").ok();
    let inputs = chosen.map_or(inputs, |inputs| inputs.parse().expect("a number of inputs"));
    let mut mutations = Mutations::of(&seeds);
    for _ in 0..inputs {
        try_one(name, target, &mutations.next());
    }
}

#[test]
fn key() {
    run("key", 400_000);
}

#[test]
fn fingerprint() {
    run("fingerprint", 200_000);
}

#[test]
fn config() {
    run("config", 40_000);
}

#[test]
fn filter() {
    run("filter", 40_000);
}
