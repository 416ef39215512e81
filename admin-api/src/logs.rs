//! Logs, on standard error.
//!
//! No event carries what a client sent or an upstream answered: no keys, no client names, no
//! bodies, no tokens.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, Logs};

/// Has the process log as `logs` says, from now on. The first call counts.
pub fn start(logs: &Logs) {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(&logs.filter))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // An error means that the process logs already, as tests do.
    let _ = match logs.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
