//! The demo: a payment survives whatever its gateway, its state and its clients do.
//!
//! Runs the scenario and stays up to be tried by hand, until Ctrl-C. However it ends, nothing of
//! it is left: no process, no port, no file.

use std::process::ExitCode;

use clap::Parser;
use latchkey_tests::client::Client;
use latchkey_tests::interruption::until_interrupted;
use latchkey_tests::scenario::{self, Act, Narrator};
use latchkey_tests::scenario_steps;
use latchkey_tests::stage::{Options, Stage, StoreKind};

/// Shows retried payments through a real Envoy, then stays up to be tried by hand.
#[derive(Parser)]
#[command(name = "cargo xtask demo")]
struct Arguments {
    /// End after the scenario; the exit code says whether every step was right.
    #[arg(long)]
    check: bool,
    /// Where keys are remembered.
    #[arg(long, value_enum, default_value = "sqlite")]
    store: StoreKind,
}

#[tokio::main]
async fn main() -> ExitCode {
    run(&Arguments::parse()).await.unwrap_or_else(|error| {
        eprintln!("the demo cannot go on: {error:#}");
        ExitCode::FAILURE
    })
}

async fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    until_interrupted(show(arguments)).await
}

async fn show(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    println!("Starting Envoy with the filter, latchkey on {:?}, and payments", arguments.store);
    let mut stage = Stage::start(Options::on(arguments.store)).await?;
    let wrong = play(&mut stage).await;
    match wrong {
        0 => println!("\nEvery step was right."),
        wrong => println!("\n{wrong} steps were wrong."),
    }
    if arguments.check {
        return Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    invite(&stage);
    std::future::pending().await
}

/// Runs every step and answers how many were wrong.
async fn play(stage: &mut Stage) -> usize {
    let narrator = Narrator;
    let mut number = 0;
    let mut wrong = 0;
    macro_rules! play {
        ($($step:ident),* $(,)?) => {
            $(
                number += 1;
                println!("\n{number:2}. {}", stringify!($step).replace('_', " "));
                let played = scenario::$step(&mut Act::new(stage, &narrator)).await;
                match played {
                    Ok(()) => println!("    right"),
                    Err(error) => {
                        wrong += 1;
                        println!("    WRONG: {error:#}");
                    }
                }
            )*
        };
    }
    scenario_steps!(play);
    wrong
}

/// Says what can be tried by hand.
fn invite(stage: &Stage) {
    let pay = |path: &str, key: &str| {
        format!(
            "curl -i http://{}{path} -H 'x-api-key: {}' -H 'idempotency-key: {key}' \\\n       \
             -H 'content-type: application/json' -d '{{\"amount\":1200,\"currency\":\"EUR\",\"reference\":\"{key}\"}}'",
            stage.gateway(),
            Client::Acme.api_key(),
        )
    };
    println!(
        "
Now try it yourself. Envoy, latchkey and the payments service stay up until Ctrl-C.

  gateway        http://{gateway}
  Envoy's admin  http://{admin}
  metrics        http://{metrics}/metrics
  the ledger     http://{ledger}/executions

  Pay, and run it again: the second answer is a replay.
  {pay}

  A payment of 5 s: press Ctrl-C in the middle, and run it again.
  {slow}

  How often was it executed?
  curl http://{ledger}/executions?reference=mine
",
        gateway = stage.gateway(),
        admin = stage.gateways()[0].admin(),
        metrics = stage.metrics(),
        ledger = stage.ledger(),
        pay = pay("/payments", "mine"),
        slow = pay("/payments/slow?ms=5000", "mine-slow"),
    );
}
