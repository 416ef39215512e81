//! The benchmark: what the filter costs beside a bare Envoy.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use latchkey_tests::bench::{self, Plan};
use latchkey_tests::interruption::until_interrupted;
use latchkey_tests::stage::StoreKind;

/// Measures bare Envoy, first requests and replays, and prints a table of medians.
#[derive(Parser)]
#[command(name = "cargo xtask bench")]
struct Arguments {
    /// Rounds, over which medians are taken.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Seconds that each load lasts in each round.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Connections, each with one request at a time.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    connections: u16,
    /// Where keys are remembered; more than one for each in turn.
    #[arg(long, value_enum, default_values = ["redis", "sqlite"])]
    store: Vec<StoreKind>,
}

// One thread, so that the load generator takes no more than its share of the machine.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Arguments { rounds, seconds, connections, store } = Arguments::parse();
    let plan =
        Plan { rounds, duration: Duration::from_secs(seconds), connections: connections.into() };
    let measured = until_interrupted(async {
        println!("{}", bench::run(plan, &store).await?);
        Ok(ExitCode::SUCCESS)
    });
    measured.await.unwrap_or_else(|error| {
        eprintln!("the benchmark cannot go on: {error:#}");
        ExitCode::FAILURE
    })
}
