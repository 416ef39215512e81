//! A program that can be killed and started again, at the same address.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use hyper::Method;
use rustix::process::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::Request;
use crate::processes::{Process, Watchdog};
use crate::wait::until;

/// How a program shows that it is ready.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ready {
    /// It answers 200.
    Http { at: SocketAddr, path: &'static str },
    /// It answers a PING.
    Redis { at: SocketAddr },
}

/// A program.
pub struct Service {
    name: String,
    address: SocketAddr,
    ready: Ready,
    command: Command,
    process: Process,
    folder: PathBuf,
    watchdog: Watchdog,
}

// === impl Service ===

impl Service {
    pub(super) async fn start(
        name: &str,
        address: SocketAddr,
        ready: Ready,
        mut command: Command,
        folder: &Path,
        watchdog: &Watchdog,
    ) -> anyhow::Result<Self> {
        command.current_dir(folder);
        let process = Process::start(name, &mut command, folder, watchdog)?;
        let mut service = Self {
            name: name.to_owned(),
            address,
            ready,
            command,
            process,
            folder: folder.to_path_buf(),
            watchdog: watchdog.clone(),
        };
        service.until_ready().await?;
        Ok(service)
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Kills it as `kill -9` does.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Stops it without ending it, as a paused machine does, until [`Self::thaw`].
    ///
    /// # Errors
    /// When it has ended.
    pub fn freeze(&self) -> anyhow::Result<()> {
        self.process.signal(Signal::STOP)
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// When it has ended.
    pub fn thaw(&self) -> anyhow::Result<()> {
        self.process.signal(Signal::CONT)
    }

    /// Starts it again after [`Self::kill`], and waits until it is ready.
    ///
    /// # Errors
    /// When it is not ready in time.
    pub async fn start_again(&mut self) -> anyhow::Result<()> {
        self.process = Process::start(&self.name, &mut self.command, &self.folder, &self.watchdog)?;
        self.until_ready().await
    }

    /// Fails when it has ended by itself.
    ///
    /// # Errors
    /// Just then.
    pub fn check_alive(&mut self) -> anyhow::Result<()> {
        self.process.check_alive()
    }

    /// The end of its log.
    #[must_use]
    pub fn log_end(&self) -> String {
        self.process.log_end()
    }

    async fn until_ready(&mut self) -> anyhow::Result<()> {
        let ready = self.ready;
        let process = &mut self.process;
        let what = format!("{} is ready", process.name());
        let mut ended = None;
        let waited = until(&what, async || {
            if let Err(error) = process.check_alive() {
                ended = Some(error);
                return Ok(Some(()));
            }
            ready.look().await.map(|ready| ready.then_some(()))
        })
        .await;
        match ended {
            Some(error) => Err(error),
            None => waited.with_context(|| self.process.log_end()),
        }
    }
}

// === impl Ready ===

impl Ready {
    async fn look(self) -> anyhow::Result<bool> {
        match self {
            Self::Http { at, path } => {
                Ok(Request::new(Method::GET, path).send(at).await?.status == 200)
            }
            Self::Redis { at } => {
                let mut stream = TcpStream::connect(at).await?;
                stream.write_all(b"PING\r\n").await?;
                let mut answer = [0; 7];
                stream.read_exact(&mut answer).await?;
                if &answer == b"+PONG\r\n" { Ok(true) } else { bail!("it is still loading") }
            }
        }
    }
}
