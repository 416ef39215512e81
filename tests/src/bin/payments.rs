//! The payments service of the demo and the tests, as a program.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// A payments service that executes whatever reaches it.
#[derive(Parser)]
struct Arguments {
    /// Where callers reach it.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Where its ledger is shown, and it is taken down and up.
    #[arg(long, default_value = "127.0.0.1:8081")]
    control: SocketAddr,
    /// The ledger's file.
    #[arg(long, default_value = "payments.sqlite")]
    ledger: PathBuf,
    /// Answer 201 to everything and write nothing down, for benchmarks.
    #[arg(long)]
    minimal: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Arguments { listen, control, ledger, minimal } = Arguments::parse();
    match latchkey_tests::payments::serve(listen, control, &ledger, minimal).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("payments: {error:#}");
            ExitCode::FAILURE
        }
    }
}
