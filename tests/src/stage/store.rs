//! Where the server keeps its state.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::service::{Ready, Service};
use crate::ports;
use crate::processes::Watchdog;
use crate::tools::{program, redis_server};

/// Kinds of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum StoreKind {
    /// A SQLite file.
    Sqlite,
    /// A Redis or Valkey of our own.
    Redis,
}

/// A store.
pub(super) enum Store {
    /// The data folder.
    Sqlite(PathBuf),
    /// The Redis.
    Redis(Box<Service>),
}

// === impl Store ===

impl Store {
    pub(super) async fn start(
        kind: StoreKind,
        folder: &Path,
        watchdog: &Watchdog,
        durable: bool,
    ) -> anyhow::Result<Self> {
        match kind {
            StoreKind::Sqlite => Ok(Self::Sqlite(folder.join("state"))),
            StoreKind::Redis => Ok(Self::Redis(Box::new(redis(folder, watchdog, durable).await?))),
        }
    }

    pub(super) const fn process(&self) -> Option<&Service> {
        match self {
            Self::Sqlite(_) => None,
            Self::Redis(redis) => Some(redis),
        }
    }
}

/// A Redis; `durable` where a test kills it and then asks what it remembers.
async fn redis(folder: &Path, watchdog: &Watchdog, durable: bool) -> anyhow::Result<Service> {
    let address: SocketAddr = ports::free()?;
    let data = folder.join("redis");
    std::fs::create_dir_all(&data)?;
    let mut command = program(&redis_server()?);
    command.args(["--bind", &address.ip().to_string(), "--port", &address.port().to_string()]);
    command.arg("--dir").arg(&data);
    command.args(["--save", "", "--maxmemory-policy", "noeviction"]);
    if durable {
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
    }
    let ready = Ready::Redis { at: address };
    Service::start("redis", address, ready, command, folder, watchdog).await
}
