//! The server.
//!
//! In this order, so that nobody is served by half a server:
//!
//! 1. take the addresses, without listening: a second server fails at once, and callers are
//!    refused rather than kept waiting;
//! 2. open the store and **stamp** it, for as long as `store_wait`: from the stamp on the store
//!    knows that it is served, so it must come before the first operation;
//! 3. listen, say so on standard output, and serve.
//!
//! A store that goes away later is no reason to end: batches are answered 503, readiness says
//! why, and both recover with it.
//!
//! To end: accept nothing more, answer what was accepted for as long as [`DRAIN`], and let the
//! store write what it has. A second signal ends the drain.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use latchkey_state::StateStore;
use latchkey_state::router::Endpoint;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{error, info, warn};

use crate::cli::ServeArguments;
use crate::config::{Config, ConfigError, Environment, resolve};
use crate::logs;

mod door;
mod health;
mod keeper;
mod metrics;
mod routes;
mod signals;
mod store;

#[cfg(test)]
mod tests;

pub use signals::Signals;

use door::{Door, Socket};
use health::StoreHealth;
use metrics::Metrics;
use routes::{metrics_routes, state_routes};

/// How long the end of the server may wait for answers that are under way: longer than a batch
/// may take, shorter than the grace that Kubernetes (30 s) and systemd (90 s) give.
pub const DRAIN: Duration = Duration::from_secs(10);

/// How long the runtime may wait for threads that still work when everything was answered.
const THREADS_END: Duration = Duration::from_secs(1);

/// Exit code where the configuration is wrong, as for a wrong command line.
const EXIT_CONFIGURATION: u8 = 2;

/// Why the server ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration cannot be used.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// There is no runtime.
    #[error("the runtime cannot be started: {0}")]
    Runtime(std::io::Error),
    /// An address cannot be had.
    #[error("{field}: cannot listen on {address}: {why}. {remedy}")]
    Listen {
        /// The setting with the address.
        field: &'static str,
        /// The address.
        address: SocketAddr,
        /// What is wrong.
        why: std::io::Error,
        /// What to do.
        remedy: String,
    },
    /// The store did not come within its time.
    #[error(
        "the store at {location} could not be used for {} s: {why}. Start it, set store to \
         where it is, or allow it more time with store_wait_s.", waited.as_secs()
    )]
    StoreUnavailable {
        /// Where it should be, without passwords.
        location: String,
        /// How long it was waited for.
        waited: Duration,
        /// What it said last.
        why: String,
    },
    /// The store is there, but somebody has to change it first.
    #[error("the store at {location} cannot be used: {why}.")]
    StoreUnfit {
        /// Where it is, without passwords.
        location: String,
        /// What it said.
        why: String,
    },
    /// A task that never ends has ended: a bug.
    #[error("a background task has ended: {0}")]
    TaskEnded(String),
}

/// `latchkey serve`, to its end.
pub(crate) fn main(arguments: &ServeArguments) -> ExitCode {
    let served = resolve(arguments, &Environment::of_process())
        .map_err(ServeError::from)
        .and_then(|config| serve_until_signalled(&config));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("latchkey: {error}");
            match error {
                ServeError::Config(_) => ExitCode::from(EXIT_CONFIGURATION),
                ServeError::Runtime(_)
                | ServeError::Listen { .. }
                | ServeError::StoreUnavailable { .. }
                | ServeError::StoreUnfit { .. }
                | ServeError::TaskEnded(_) => ExitCode::FAILURE,
            }
        }
    }
}

fn serve_until_signalled(config: &Config) -> Result<(), ServeError> {
    logs::start(&config.logs);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(ServeError::Runtime)?;
    let served = runtime.block_on(async {
        let signals = Signals::of_process().map_err(ServeError::Runtime)?;
        run(config, signals, announce).await
    });
    runtime.shutdown_timeout(THREADS_END);
    served
}

/// Where a server is found: with the ports that were found for port 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The state endpoint's.
    pub state: SocketAddr,
    /// The metrics', if they are served.
    pub metrics: Option<SocketAddr>,
}

/// Serves `config` until the first of `signals`, and drains until the second. Calls `listening`
/// once the server can be reached.
///
/// # Errors
/// Where the server could not start, or a part of it ended.
pub async fn run(
    config: &Config,
    mut signals: Signals,
    listening: impl FnOnce(Addresses),
) -> Result<(), ServeError> {
    let state = Socket::bind("listen", config.listen)?;
    let metrics = config.metrics_listen.map(|at| Socket::bind("metrics_listen", at)).transpose()?;
    let opened = tokio::select! {
        opened = store::open(&config.store, config.store_wait) => opened?,
        () = signals.next() => return Ok(()),
    };
    let server = Server::new(opened, config);
    let state = state.listen()?;
    let metrics = metrics.map(Socket::listen).transpose()?;
    listening(Addresses { state: state.address(), metrics: metrics.as_ref().map(Door::address) });
    server.serve(state, metrics, signals).await
}

/// What is shared between the parts of a running server.
struct Server {
    endpoint: Endpoint,
    health: Arc<StoreHealth>,
    store: Arc<dyn StateStore>,
    tasks: JoinSet<()>,
}

// === impl Server ===

impl Server {
    fn new(store: Arc<dyn StateStore>, config: &Config) -> Self {
        let endpoint = Endpoint::new(store.clone(), config.tokens.clone());
        let health = Arc::new(StoreHealth::up());
        let mut tasks = JoinSet::new();
        tasks.spawn(keeper::stamp(store.clone(), health.clone()));
        tasks.spawn(keeper::sweep(store.clone()));
        Self { endpoint, health, store, tasks }
    }

    async fn serve(
        mut self,
        state: Door,
        metrics: Option<Door>,
        mut signals: Signals,
    ) -> Result<(), ServeError> {
        let (stop, stopped) = watch::channel(false);
        let connections = state.connections();
        let routes = state_routes(&self.endpoint, self.health.clone());
        let mut serving = tokio::spawn(state.serve(routes, stopped));
        if let Some(door) = metrics {
            let metrics =
                Metrics::new(self.endpoint.clone(), self.store.clone(), self.health, connections);
            // Metrics are served through the drain, and end with the tasks.
            let (never, stopped) = watch::channel(false);
            self.tasks.spawn(async move {
                door.serve(metrics_routes(metrics), stopped).await;
                drop(never);
            });
        }
        tokio::select! {
            () = signals.next() => info!("stopping: answering what was accepted"),
            ended = self.tasks.join_next() => return Err(task_ended(ended)),
            ended = &mut serving => return Err(task_ended(Some(ended))),
        }
        let _ = stop.send(true);
        let drained = tokio::select! {
            drained = tokio::time::timeout(DRAIN, &mut serving) => drained.is_ok(),
            () = signals.next() => false,
        };
        if drained {
            info!("stopped");
        } else {
            warn!("stopped with requests that were not answered");
            serving.abort();
        }
        self.tasks.shutdown().await;
        Ok(())
    }
}

fn task_ended(ended: Option<Result<(), tokio::task::JoinError>>) -> ServeError {
    let why = match ended {
        Some(Err(error)) => error.to_string(),
        Some(Ok(())) | None => "it returned".to_owned(),
    };
    error!(%why, "a background task has ended");
    ServeError::TaskEnded(why)
}

/// Says where the server is, on standard output for whoever started it and in the logs.
fn announce(addresses: Addresses) {
    let Addresses { state, metrics } = addresses;
    info!(address = %state, "state endpoint");
    let mut lines = format!("latchkey: state endpoint on http://{state}\n");
    if let Some(address) = metrics {
        info!(%address, "metrics");
        lines.push_str(&format!("latchkey: metrics on http://{address}/metrics\n"));
    }
    // Whoever closed standard output does not want to know.
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
}
