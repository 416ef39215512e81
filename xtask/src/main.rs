//! Builds, shows, tests and measures Latchkey: `cargo xtask help` says how.
//!
//! Each command fetches what it lacks (Envoy, a Redis, a wasm target) into the target folder,
//! says so, and works from a fresh clone.

mod bench;
mod build;
mod command;
mod demo;
mod fuzz;
mod test;
mod tools;

use std::process::ExitCode;

const HELP: &str = "\
Latchkey's commands

  cargo xtask demo [--check] [--store sqlite|redis]
        Shows retried payments through a real Envoy, then stays up to be tried by hand.
        --check  ends after the scenario; the exit code says whether every step was right
        --store  where keys are remembered: sqlite (default), or a Redis that it starts itself

  cargo xtask test [ARGUMENTS FOR cargo test]
        Runs every test, those through real Envoy and Redis too, and closes with the sums.

  cargo xtask bench [--rounds N] [--seconds N] [--connections N] [--store sqlite|redis]
        Measures bare Envoy, first requests and replays, and prints a table of medians.

  cargo xtask fuzz key|fingerprint|config|filter [--seconds N]
        Searches for an input that breaks a property, for a minute or N seconds, and keeps the
        inputs that reach new code in fuzz/corpus, where `cargo xtask test` runs them.

  cargo xtask build
        Builds the filter (wasm), the server and the demo, and says where they are.

  cargo xtask tool envoy|redis|cargo-deny
        Prints the path of a tool that the commands use, after fetching it if it is missing.

Environment
  LATCHKEY_ENVOY         an Envoy 1.40 binary to use instead of the one on the path
  LATCHKEY_REDIS_SERVER  a redis-server or valkey-server binary, likewise
";

/// Why a command ended early, for a person: what happened, why, and what to do.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

/// What every step of a command answers.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// A [`Failure`] from a format string.
macro_rules! fail {
    ($($argument:tt)*) => { crate::Failure(format!($($argument)*)) };
}
pub(crate) use fail;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_else(|| "help".to_owned());
    let rest: Vec<String> = arguments.collect();
    let outcome = match command.as_str() {
        "demo" => demo::run(&rest),
        "test" => test::run(&rest),
        "bench" => bench::run(&rest),
        "fuzz" => fuzz::run(&rest),
        "build" => build::run(&rest),
        "tool" => tools::run(&rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        unknown => Err(fail!("there is no command `{unknown}`\n\n{HELP}")),
    };
    outcome.unwrap_or_else(|Failure(text)| {
        eprintln!("xtask: {text}");
        ExitCode::FAILURE
    })
}
