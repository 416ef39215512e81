//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::Layer;
use crate::envoy_config::Endpoint;

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

    /// Check a configuration of the filter, and the Envoy around it
    ///
    /// FILTER is the JSON that Envoy gives to the filter. It is read by the filter's own code.
    /// With --envoy, also what breaks a guarantee in Envoy's configuration is told; without
    /// FILTER, the filter's configuration is taken from there. Findings go to standard output.
    #[command(after_long_help = AFTER_CHECK)]
    Check(CheckArguments),

    /// Print an Envoy configuration with the filter
    ///
    /// It is complete: authentication, the filter, an internal listener in which guarded requests
    /// are executed, and the clusters. What `latchkey check` finds in it, and what is therefore
    /// left to do, goes to standard error.
    #[command(after_long_help = AFTER_ENVOY_CONFIG)]
    EnvoyConfig(EnvoyConfigArguments),
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

const AFTER_CHECK: &str = "\
Exit codes:
  0  nothing is wrong; there may be warnings and notes
  1  at least one error was found, or with --strict a warning
  2  a file cannot be read, or is not a configuration; standard error says where and why

What each finding means, and what to write instead: docs/check.md.

Examples:
  latchkey check filter.json
  latchkey check filter.json --envoy envoy.yaml
  latchkey check --envoy envoy.yaml --json";

const AFTER_ENVOY_CONFIG: &str = "\
Exit codes are those of `latchkey check`. With 1 the configuration is printed too.

Examples:
  latchkey envoy-config > envoy.yaml
  latchkey envoy-config --upstream payments.internal:8080 --state latchkey.internal:7070
  latchkey envoy-config --config filter.json --filter /etc/envoy/latchkey_plugin.wasm";

/// What `envoy-config` is given. What is not given is as in `deploy/envoy.yaml`.
#[derive(Args, Debug)]
#[expect(clippy::doc_markdown, reason = "these comments are the flags' help: plain text")]
pub struct EnvoyConfigArguments {
    /// Where clients connect: an IP address and a port [default: 127.0.0.1:10000]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,

    /// Where the service is: a host and a port [default: 127.0.0.1:8080]
    #[arg(long, value_name = "HOST:PORT")]
    pub upstream: Option<Endpoint>,

    /// Where `latchkey serve` is: a host and a port [default: 127.0.0.1:7070]
    #[arg(long, value_name = "HOST:PORT")]
    pub state: Option<Endpoint>,

    /// Where Envoy finds the filter [default: latchkey_plugin.wasm]
    #[arg(long, value_name = "FILE")]
    pub filter: Option<String>,

    /// Put this configuration of the filter into it, JSON
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// What `check` is given.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("input").required(true).multiple(true))]
pub struct CheckArguments {
    /// The filter's configuration, JSON
    #[arg(value_name = "FILTER", group = "input")]
    pub filter: Option<PathBuf>,

    /// Envoy's configuration, YAML or JSON: a bootstrap, or a file of resources
    #[arg(long, value_name = "FILE", group = "input")]
    pub envoy: Option<PathBuf>,

    /// End with 1 where there are warnings, too
    #[arg(long)]
    pub strict: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

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
