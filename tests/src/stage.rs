//! Everything that a test or the demo runs: gateways, the server, its store, and payments.
//!
//! All of it is on loopback, on ports that stay the same over restarts, in one temporary folder
//! that is removed at the end. Parts are killed and started again by hand; nothing restarts by
//! itself.

mod gateway;
mod rules;
mod service;
mod setup;
mod store;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use hyper::Method;

pub use gateway::Gateway;
pub use rules::EXECUTE_TIMEOUT_MS;
pub use service::Service;
pub use setup::Setup;
pub use store::StoreKind;

use crate::chaos::ChaosProxy;
use crate::client::Request;
use crate::payments::Execution;
use crate::ports;
use crate::processes::Watchdog;
use crate::tools::{Tools, program};
use service::Ready;
use store::Store;

/// Keeps the folder with all logs when set, and says where it is.
const KEEP_VARIABLE: &str = "LATCHKEY_KEEP";

/// The shortest lease that a rule may have, since tests wait for its end.
pub const LEASE_MS: u64 = 4_000;

/// What a stage consists of.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Where the server keeps its state.
    pub store: StoreKind,
    /// How many Envoys, each with two workers.
    pub gateways: usize,
    /// Whether a [`ChaosProxy`] stands between the gateways and the server.
    pub chaos: bool,
    /// Whether this is for a benchmark: payments answer 201 to everything, a Redis keeps nothing
    /// on disk, and there is one more gateway, [`Stage::bare`], without the filter.
    pub bench: bool,
}

/// A running set of everything. Dropping it ends all of it.
// Fields are dropped in their order: what calls others goes before what is called.
pub struct Stage {
    gateways: Vec<Gateway>,
    bare: Option<Gateway>,
    chaos: Option<ChaosProxy>,
    /// The server.
    pub server: Service,
    metrics: SocketAddr,
    store: Store,
    /// The payments service.
    pub payments: Service,
    control: SocketAddr,
    folder: PathBuf,
    _watchdog: Watchdog,
}

// === impl Options ===

impl Options {
    /// One gateway on `store`, without chaos.
    #[must_use]
    pub const fn on(store: StoreKind) -> Self {
        Self { store, gateways: 1, chaos: false, bench: false }
    }
}

// === impl Stage ===

impl Stage {
    /// Runs `proof` on a stage of its own, and panics with the logs when it fails.
    ///
    /// # Panics
    /// Just then.
    pub async fn prove(options: Options, proof: impl AsyncFnOnce(&mut Self) -> anyhow::Result<()>) {
        Self::prove_with(options, |_| Ok(()), proof).await;
    }

    /// The same on a stage whose gateways are set up as `change` has it.
    ///
    /// # Panics
    /// As [`Self::prove`].
    pub async fn prove_with(
        options: Options,
        change: impl Fn(&mut Setup) -> anyhow::Result<()>,
        proof: impl AsyncFnOnce(&mut Self) -> anyhow::Result<()>,
    ) {
        let mut stage = match Self::start_with(options, change).await {
            Ok(stage) => stage,
            Err(error) => panic!("there is no stage: {error:#}"),
        };
        if let Err(error) = proof(&mut stage).await {
            panic!("{:#}", stage.explain(error));
        }
    }

    /// Starts everything and waits until it is ready.
    ///
    /// # Errors
    /// When a program is missing, ends, or is not ready in time.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        Self::start_with(options, |_| Ok(())).await
    }

    /// The same with gateways that are set up as `change` has it.
    ///
    /// # Errors
    /// As [`Self::start`], and those of `change`.
    pub async fn start_with(
        options: Options,
        change: impl Fn(&mut Setup) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let tools = Tools::find()?;
        let folder = folder()?;
        let keep = std::env::var_os(KEEP_VARIABLE).is_some();
        let watchdog = Watchdog::start(&folder, keep)?;
        if keep {
            eprintln!("keeping {}", folder.display());
        }
        let control = ports::free()?;
        let payments = payments(&tools, &folder, &watchdog, control, options.bench).await?;
        let store = Store::start(options.store, &folder, &watchdog, !options.bench).await?;
        let metrics = ports::free()?;
        let server = server(&tools, &folder, &watchdog, &store, metrics).await?;
        let chaos = match options.chaos {
            true => Some(ChaosProxy::start(server.address()).await?),
            false => None,
        };
        let state = chaos.as_ref().map_or(server.address(), ChaosProxy::address);
        let mut stage = Self {
            gateways: Vec::new(),
            bare: None,
            chaos,
            server,
            metrics,
            store,
            payments,
            control,
            folder,
            _watchdog: watchdog.clone(),
        };
        let parts = gateway::Parts {
            tools: &tools,
            folder: &stage.folder,
            watchdog: &watchdog,
            upstream: stage.payments.address(),
            state,
        };
        let mut gateways = Vec::new();
        for number in 1..=options.gateways {
            let started = Gateway::start(&format!("envoy-{number}"), &parts, true, &change).await;
            gateways.push(started.map_err(|error| stage.explain(error))?);
        }
        let bare = match options.bench {
            true => Some(Gateway::start("envoy-bare", &parts, false, &change).await?),
            false => None,
        };
        stage.gateways = gateways;
        stage.bare = bare;
        Ok(stage)
    }

    /// The address of the first gateway.
    #[must_use]
    pub fn gateway(&self) -> SocketAddr {
        self.gateways[0].address()
    }

    /// The first gateway.
    #[must_use]
    pub fn first_gateway(&self) -> &Gateway {
        &self.gateways[0]
    }

    /// All gateways.
    #[must_use]
    pub fn gateways(&self) -> &[Gateway] {
        &self.gateways
    }

    /// A gateway without the filter.
    ///
    /// # Panics
    /// When the stage is not for a benchmark.
    #[must_use]
    pub fn bare(&self) -> &Gateway {
        self.bare.as_ref().expect("a stage for a benchmark")
    }

    /// The Redis, where the state is in one.
    #[must_use]
    pub const fn redis(&self) -> Option<&Service> {
        self.store.process()
    }

    /// The first gateway's process, to be killed and started.
    pub fn gateway_process(&mut self) -> &mut Service {
        self.gateways[0].service()
    }

    /// The proxy between gateways and server.
    ///
    /// # Panics
    /// When the stage was started without.
    #[must_use]
    pub fn chaos(&self) -> &ChaosProxy {
        self.chaos.as_ref().expect("a stage with chaos")
    }

    /// What holds the state across restarts of the server: the Redis, or for SQLite the server
    /// itself, which is the only process that has the file open.
    pub fn store_process(&mut self) -> &mut Service {
        match &mut self.store {
            Store::Redis(redis) => redis,
            Store::Sqlite(_) => &mut self.server,
        }
    }

    /// Where the server shows its metrics.
    #[must_use]
    pub const fn metrics(&self) -> SocketAddr {
        self.metrics
    }

    /// What the payments service executed under `reference`, in order.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn executions(&self, reference: &str) -> anyhow::Result<Vec<Execution>> {
        self.read_ledger(&format!("/executions?reference={reference}")).await
    }

    /// Everything that the payments service executed, in order.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn all_executions(&self) -> anyhow::Result<Vec<Execution>> {
        self.read_ledger("/executions").await
    }

    async fn read_ledger(&self, path: &str) -> anyhow::Result<Vec<Execution>> {
        let answer = Request::new(Method::GET, path).send(self.control).await?;
        serde_json::from_slice(&answer.body).context("the ledger cannot be read")
    }

    /// Where the ledger is shown.
    #[must_use]
    pub const fn ledger(&self) -> SocketAddr {
        self.control
    }

    /// Lets the payments service refuse connections, or accept them again.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn let_payments_accept(&self, accept: bool) -> anyhow::Result<()> {
        self.control(if accept { "/up" } else { "/down" }).await
    }

    /// Answers the payments under `reference` that wait for an approval, now and from now on.
    ///
    /// # Errors
    /// When the payments service does not answer.
    pub async fn approve(&self, reference: &str) -> anyhow::Result<()> {
        self.control(&format!("/approve?reference={reference}")).await
    }

    async fn control(&self, path: &str) -> anyhow::Result<()> {
        let answer = Request::post(path).send(self.control).await?;
        if answer.status == 204 { Ok(()) } else { bail!("{path} answered {answer}") }
    }

    /// What the state has counted under `name`, as the server's metrics show it.
    ///
    /// # Errors
    /// When the server shows no such counter.
    pub async fn counted(&self, name: &str) -> anyhow::Result<u64> {
        let answer = Request::new(Method::GET, "/metrics").send(self.metrics).await?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let metric = format!("latchkey_{name}_total");
        text.lines()
            .filter_map(|line| line.strip_prefix(&metric))
            .find_map(|rest| rest.rsplit(' ').next()?.parse().ok())
            .with_context(|| format!("the server shows no {metric}:\n{text}"))
    }

    /// `error`, with the ends of all logs, for people who look for the reason.
    #[must_use]
    pub fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let services = [Some(&self.server), Some(&self.payments), self.store.process()];
        let gateways = self.gateways.iter().map(Gateway::process);
        let logs: Vec<_> = services
            .into_iter()
            .flatten()
            .chain(gateways)
            .map(|service| format!("--- {}\n{}", service.name(), service.log_end()))
            .collect();
        error.context(format!("{}\n({KEEP_VARIABLE}=1 keeps the logs)", logs.join("\n")))
    }
}

/// A folder for this stage, which the watchdog removes.
fn folder() -> anyhow::Result<PathBuf> {
    let folder = tempfile::Builder::new().prefix("latchkey-").tempdir()?;
    Ok(folder.keep())
}

async fn payments(
    tools: &Tools,
    folder: &Path,
    watchdog: &Watchdog,
    control: SocketAddr,
    minimal: bool,
) -> anyhow::Result<Service> {
    let address = ports::free()?;
    let mut command = program(&tools.payments);
    if minimal {
        command.arg("--minimal");
    }
    command.args(["--listen", &address.to_string(), "--control", &control.to_string()]);
    command.arg("--ledger").arg(folder.join("payments.sqlite"));
    let ready = Ready::Http { at: control, path: "/executions?reference=none" };
    Service::start("payments", address, ready, command, folder, watchdog).await
}

async fn server(
    tools: &Tools,
    folder: &Path,
    watchdog: &Watchdog,
    store: &Store,
    metrics: SocketAddr,
) -> anyhow::Result<Service> {
    let address = ports::free()?;
    let mut command = program(&tools.latchkey);
    command.args(["serve", "--listen", &address.to_string()]);
    command.args(["--metrics-listen", &metrics.to_string()]);
    match store {
        Store::Sqlite(data) => command.arg("--data-dir").arg(data),
        Store::Redis(redis) => command.args(["--store", &format!("redis://{}", redis.address())]),
    };
    let ready = Ready::Http { at: address, path: "/readyz" };
    Service::start("latchkey", address, ready, command, folder, watchdog).await
}
