//! What operates Latchkey: the `latchkey` binary.
//!
//! [`cli`] is the command line, [`config`] what it, the environment and the file come to, and
//! [`serve`] the server: the state endpoint for filters, health for the machine that runs it, and
//! metrics.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser as _;

pub mod cli;
pub mod config;
pub mod logs;
pub mod serve;

use cli::{Cli, Command};

/// Runs the command line of this process to its end.
#[must_use]
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(arguments) => serve::main(&arguments),
    }
}
