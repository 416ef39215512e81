//! The server's configuration: what the flags, the environment and the file come to.
//!
//! Each of the three is a [`Layer`] in which everything is optional. [`resolve`] takes each
//! setting from the first layer that has it, in this order, or else its default, and checks it;
//! an error names the setting, where it came from, why it is wrong and what to write. Secrets
//! come by the environment or by files, never by flags, and are never printed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use latchkey_state::router::Tokens;
use latchkey_state::sqlite::Synchronous;

mod environment;
mod layer;
mod resolve;
#[cfg(test)]
mod tests;
mod value;

pub use environment::Environment;
pub use layer::{CONFIG_BYTES_MAX, Layer};
pub use resolve::resolve;
pub use value::RedisUrl;

/// A configuration that can be served.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where filters call.
    pub listen: SocketAddr,
    /// Where metrics are read, `None` where nobody does.
    pub metrics_listen: Option<SocketAddr>,
    /// Where records are kept.
    pub store: StoreConfig,
    /// How long to wait for the store at the start.
    pub store_wait: Duration,
    /// Who may call.
    pub tokens: Tokens,
    /// What is logged, and how.
    pub logs: Logs,
}

/// Where records are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreConfig {
    /// In a SQLite file.
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What an answer survives.
        synchronous: Synchronous,
    },
    /// In Redis or Valkey.
    Redis(RedisUrl),
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logs {
    /// Which events, as directives of `tracing`: `info`, or `info,latchkey_state=debug`.
    pub filter: String,
    /// In which form.
    pub format: LogFormat,
}

/// The form of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// A JSON object a line.
    Json,
}

/// What is wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A setting cannot be used.
    #[error("{field} (from {origin}): {why}. {remedy}")]
    Setting {
        /// Its name.
        field: &'static str,
        /// Where its value came from.
        origin: Origin,
        /// What is wrong.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// The file cannot be used.
    #[error("{}: {why}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// Where a setting came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A flag, by its name.
    Flag(String),
    /// A variable of the environment, by its name.
    Environment(String),
    /// The configuration file.
    File(PathBuf),
    /// It was not set.
    Default,
}

// === impl Origin ===

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag(name) | Self::Environment(name) => f.write_str(name),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Default => f.write_str("the default"),
        }
    }
}
