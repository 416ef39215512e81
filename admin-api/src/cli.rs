//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::Layer;

/// Makes unsafe HTTP requests safe to retry, at the gateway.
#[derive(Debug, Parser)]
#[command(name = "latchkey", version, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the state that filters share
    ///
    /// Without any option the state is kept in a SQLite file in the user's data directory and
    /// served on 127.0.0.1:7070, to this machine alone. The first line on standard output is the
    /// endpoint's URL; logs go to standard error.
    #[command(after_long_help = AFTER_SERVE)]
    Serve(ServeArguments),
}

const AFTER_SERVE: &str = "\
Every option can also be given in the environment, as LATCHKEY_ and its name in capitals
(LATCHKEY_METRICS_LISTEN), or in the TOML file, under its name with _ (metrics_listen). What is on
the command line counts before the environment, and the environment before the file.

Filters bear a token where one is set, which is required off loopback. It is never an option, since
others can read those: set LATCHKEY_TOKEN, or put it into a file and name that with --token-file.

Examples:
  latchkey serve
  latchkey serve --store redis://127.0.0.1:6379
  LATCHKEY_TOKEN=\"$(openssl rand -hex 32)\" latchkey serve --listen 0.0.0.0:7070";

/// What `serve` is given.
#[derive(Args, Debug)]
#[expect(clippy::doc_markdown, reason = "these comments are the flags' help: plain text")]
pub struct ServeArguments {
    /// Read settings from this TOML file [env: LATCHKEY_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The settings that flags can make.
    #[command(flatten)]
    pub flags: Layer,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_flag_takes_a_secret() {
        let refused = Cli::try_parse_from(["latchkey", "serve", "--token", "hunter2"]);
        assert!(refused.is_err());
    }
}
