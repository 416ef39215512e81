//! A real Redis server, for the time of a test.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::{Cmd, FromRedisValue, RedisResult};
use tempfile::TempDir;

/// Where the server's program is, if it is not `redis-server` on the path.
const PROGRAM: &str = "LATCHKEY_REDIS_SERVER";

/// How long a server may take to answer after it was started.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Another process may take a free port before the server does.
const PORTS_TRIED: usize = 20;

/// A server on a free port of the loopback interface, killed when it is dropped.
pub(crate) struct RedisServer {
    child: Child,
    port: u16,
    settings: Vec<String>,
    directory: TempDir,
}

impl RedisServer {
    /// Starts one with `settings` (`--name`, `value`, ...) besides the ones that tests need.
    pub(crate) async fn start(settings: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let settings: Vec<_> = settings.iter().map(ToString::to_string).collect();
        for _ in 0..PORTS_TRIED {
            let port = free_port();
            let mut child = spawn(directory.path(), port, &settings);
            if answers(&mut child, port).await {
                return Self { child, port, settings, directory };
            }
            end(&mut child);
        }
        panic!("no Redis server came up in {PORTS_TRIED} tries");
    }

    pub(crate) fn url(&self) -> String {
        url(self.port)
    }

    /// Asks it something, past the store.
    pub(crate) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> T {
        ask(self.port, command).await.unwrap()
    }

    /// Kills it without warning.
    pub(crate) fn kill(&mut self) {
        end(&mut self.child);
    }

    /// Starts it again on its port, with what it kept on disk.
    pub(crate) async fn restart(&mut self) {
        self.child = spawn(self.directory.path(), self.port, &self.settings);
        assert!(answers(&mut self.child, self.port).await, "Redis did not come back");
    }

    /// Stops it where it is: its connections stay open, and nothing is answered.
    pub(crate) fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn spawn(directory: &Path, port: u16, settings: &[String]) -> Child {
    let program = std::env::var_os(PROGRAM).unwrap_or_else(|| "redis-server".into());
    Command::new(&program)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--daemonize", "no"])
        .arg("--dir")
        .arg(directory)
        .args(["--save", "", "--appendonly", "no"])
        .args(settings)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| {
            panic!(
                "cannot start {}: {error}. These tests need a Redis or Valkey server: run them by \
                 `cargo xtask test`, which brings one, or put `redis-server` on the path, or name \
                 its program in {PROGRAM}.",
                program.display()
            )
        })
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Waits until this very process answers on `port`; false where it has ended instead.
async fn answers(child: &mut Child, port: u16) -> bool {
    let deadline = Instant::now() + START_TIMEOUT;
    let ours = format!("process_id:{}\r\n", child.id());
    while Instant::now() < deadline {
        let info: RedisResult<String> = ask(port, redis::cmd("INFO").arg("server")).await;
        if info.is_ok_and(|info| info.contains(&ours)) {
            return true;
        }
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    false
}

async fn ask<T: FromRedisValue>(port: u16, command: &Cmd) -> RedisResult<T> {
    let client = redis::Client::open(url(port))?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    command.query_async(&mut connection).await
}

fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}/")
}

fn free_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}
