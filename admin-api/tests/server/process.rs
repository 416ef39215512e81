//! A `latchkey serve` of its own for each test: its own directory, free ports, and an end with
//! the test.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long anything may take before a test gives up: long, since machines may be slow.
const DEADLINE: Duration = Duration::from_secs(60);

/// Where servers of one test live, one after the other.
pub(crate) struct Home(TempDir);

/// Where a server is that has not said so.
const UNKNOWN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));

/// A server that runs. It ends when it is dropped.
pub(crate) struct Server {
    child: Child,
    /// Where its state endpoint is.
    pub(crate) address: SocketAddr,
    /// Where its metrics are.
    pub(crate) metrics: SocketAddr,
    log: PathBuf,
}

/// A server that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// How.
    pub(crate) status: ExitStatus,
    /// Its standard error.
    pub(crate) log: String,
}

/// What a server has answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

// === impl Home ===

impl Home {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, flags: &[&str], variables: &[(&str, &str)]) -> (Command, PathBuf) {
        let log = self.path("log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_latchkey"));
        command
            .env_clear()
            .env("HOME", self.0.path())
            .envs(variables.iter().copied())
            .arg("serve")
            .args(flags)
            .stdin(Stdio::null())
            .stderr(File::create(&log).unwrap());
        (command, log)
    }

    /// Starts a server on free ports, and returns once it serves.
    pub(crate) fn serve(&self, flags: &[&str], variables: &[(&str, &str)]) -> Server {
        self.start(flags, variables).serving()
    }

    /// Starts a server on free ports.
    pub(crate) fn start(&self, flags: &[&str], variables: &[(&str, &str)]) -> Server {
        let free = ["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"];
        let (mut command, log) = self.command(&[&free[..], flags].concat(), variables);
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        Server { child, address: UNKNOWN, metrics: UNKNOWN, log }
    }

    /// Starts a server that is expected to end by itself.
    pub(crate) fn fail(&self, flags: &[&str], variables: &[(&str, &str)]) -> Ended {
        let (mut command, log) = self.command(flags, variables);
        let child = command.stdout(Stdio::null()).spawn().unwrap();
        Server { child, address: UNKNOWN, metrics: UNKNOWN, log }.ended()
    }
}

// === impl Server ===

impl Server {
    /// Waits until it serves, and learns where.
    pub(crate) fn serving(mut self) -> Self {
        let mut lines = BufReader::new(self.child.stdout.take().unwrap()).lines();
        let mut address = |before: &str, after: &str| {
            let Some(Ok(line)) = lines.next() else {
                panic!("it did not start: {}", std::fs::read_to_string(&self.log).unwrap())
            };
            let address = line.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            address.unwrap_or_else(|| panic!("unexpected: {line}")).parse().unwrap()
        };
        self.address = address("latchkey: state endpoint on http://", "");
        self.metrics = address("latchkey: metrics on http://", "/metrics");
        self
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn ended(mut self) -> Ended {
        let status = eventually("the server ends", || self.child.try_wait().unwrap());
        Ended { status, log: self.log() }
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.address).unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        get(self.address, path)
    }

    /// Sends a batch with these header lines added.
    pub(crate) fn batch(&self, headers: &[&str], body: &[u8]) -> Answer {
        let mut stream = self.connect();
        stream.write_all(batch_head(headers, body.len()).as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        answer(stream)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// === impl Answer ===

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

// === HTTP, as little of it as is needed ===

pub(crate) fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    Ok(stream)
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Answer {
    let mut stream = connect(address).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: latchkey\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    answer(stream)
}

pub(crate) fn batch_head(headers: &[&str], length: usize) -> String {
    let more: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    format!(
        "POST /state/v1/batch HTTP/1.1\r\nhost: latchkey\r\nconnection: close\r\n\
         content-type: application/x-protobuf\r\ncontent-length: {length}\r\n{more}\r\n"
    )
}

/// The one answer of a connection that is then closed.
pub(crate) fn answer(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let split = bytes.windows(4).position(|at| at == b"\r\n\r\n").expect("an answer");
    let body = bytes.split_off(split + 4);
    let head = String::from_utf8(bytes).unwrap().to_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head, body }
}

/// Waits until `probe` gives something.
pub(crate) fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(started.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
