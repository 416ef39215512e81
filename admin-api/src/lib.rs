//! What operates Latchkey: the `latchkey` binary.
//!
//! [`cli`] is the command line, [`config`] what it, the environment and the file come to, and
//! [`serve`] the server: the state endpoint for filters, health for the machine that runs it, and
//! metrics. [`check`] looks at configurations before they run, and [`envoy_config`] writes one.

#![forbid(unsafe_code)]

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

pub mod check;
pub mod cli;
pub mod config;
pub mod envoy_config;
pub mod logs;
pub mod serve;
mod yaml;

use cli::{Cli, Command};

/// Runs the command line of this process to its end.
#[must_use]
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(arguments) => serve::main(&arguments),
        Command::Check(arguments) => check::main(&arguments),
        Command::EnvoyConfig(arguments) => envoy_config::main(&arguments),
    }
}

/// Prints to standard output. Who closed it wants no more.
fn say(text: &str) {
    let _closed = std::io::stdout().write_all(text.as_bytes());
}

/// Says something on standard error, beside what is printed.
fn say_aside(text: &str) {
    let _closed = std::io::stderr().write_all(text.as_bytes());
}

/// Says on standard error why there is no result.
fn say_error(error: &dyn std::error::Error) {
    let _closed = writeln!(std::io::stderr(), "latchkey: {error}");
}
