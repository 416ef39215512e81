//! A load generator that costs little: raw HTTP/1.1 on connections that are kept.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::client::Client;

/// The size of each body.
const BODY_BYTES: usize = 100;

/// Larger than any answer here.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// Which keys are sent.
#[derive(Clone, Debug)]
pub(super) enum Keys {
    /// Keys that were never sent.
    New { round: u32 },
    /// Those that each connection has sent in a round, from the first on, over and over.
    Known { round: u32, counts: Vec<u64> },
}

/// A load.
pub(super) struct Load {
    pub(super) to: SocketAddr,
    pub(super) keys: Keys,
    /// Whether every answer must be a replay; none may be otherwise.
    pub(super) replayed: bool,
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) elapsed: Duration,
    /// Answers by connection.
    pub(super) by_connection: Vec<u64>,
    /// Time of each answer, in ascending order.
    pub(super) latencies: Vec<Duration>,
}

// === impl Measured ===

impl Measured {
    pub(super) const fn requests(&self) -> usize {
        self.latencies.len()
    }

    /// Answers per second.
    pub(super) fn throughput(&self) -> f64 {
        self.requests() as f64 / self.elapsed.as_secs_f64()
    }

    /// The time in which this share of the answers, from 0 to 1, came.
    pub(super) fn quantile(&self, share: f64) -> Duration {
        let last = self.requests().saturating_sub(1);
        let at = (last as f64 * share).round();
        self.latencies.get(at as usize).copied().unwrap_or_default()
    }
}

// === impl Keys ===

impl Keys {
    /// The key of a connection's request of this number.
    fn write(&self, into: &mut Vec<u8>, connection: usize, number: u64) {
        let (round, number) = match self {
            Self::New { round } => (round, number),
            Self::Known { round, counts } => (round, number % counts[connection].max(1)),
        };
        // Writing to a Vec cannot fail.
        let _ = write!(into, "bench-{round}-{connection}-{number}");
    }
}

// === impl Load ===

impl Load {
    /// Sends for `duration` on so many connections at once.
    pub(super) async fn run(
        self,
        connections: usize,
        duration: Duration,
    ) -> anyhow::Result<Measured> {
        let mut streams = Vec::with_capacity(connections);
        for _ in 0..connections {
            let stream = TcpStream::connect(self.to).await.context("no connection")?;
            stream.set_nodelay(true)?;
            streams.push(stream);
        }
        let load = std::sync::Arc::new(self);
        let started = Instant::now();
        let mut conversations = JoinSet::new();
        for (number, stream) in streams.into_iter().enumerate() {
            let load = std::sync::Arc::clone(&load);
            conversations.spawn(async move {
                Ok::<_, anyhow::Error>((
                    number,
                    load.converse(stream, number, started + duration).await?,
                ))
            });
        }
        let mut measured = Measured { by_connection: vec![0; connections], ..Measured::default() };
        while let Some(done) = conversations.join_next().await {
            let (number, latencies) = done??;
            measured.by_connection[number] = latencies.len() as u64;
            measured.latencies.extend(latencies);
        }
        measured.elapsed = started.elapsed();
        measured.latencies.sort_unstable();
        Ok(measured)
    }

    async fn converse(
        &self,
        mut stream: TcpStream,
        connection: usize,
        end: Instant,
    ) -> anyhow::Result<Vec<Duration>> {
        let mut latencies = Vec::new();
        let mut request = Vec::new();
        let mut answer = vec![0; ANSWER_BYTES_MAX];
        let mut sent = Instant::now();
        while sent < end {
            request.clear();
            self.write_request(&mut request, connection, latencies.len() as u64);
            stream.write_all(&request).await?;
            let head = read_answer(&mut stream, &mut answer).await?;
            let now = Instant::now();
            latencies.push(now - sent);
            sent = now;
            self.check(&answer[..head])?;
        }
        Ok(latencies)
    }

    fn write_request(&self, into: &mut Vec<u8>, connection: usize, number: u64) {
        // Writing to a Vec cannot fail.
        let _ = write!(
            into,
            "POST /direct HTTP/1.1\r\nhost: payments.example\r\nx-api-key: {}\r\n\
             content-type: application/json\r\ncontent-length: {BODY_BYTES}\r\nidempotency-key: ",
            Client::Acme.api_key()
        );
        self.keys.write(into, connection, number);
        into.extend_from_slice(b"\r\n\r\n");
        into.extend_from_slice(&[b'x'; BODY_BYTES]);
    }

    /// A benchmark of errors would be worth nothing.
    fn check(&self, head: &[u8]) -> anyhow::Result<()> {
        ensure!(
            head.starts_with(b"HTTP/1.1 201 ")
                && find(head, b"\r\nidempotent-replayed: true\r\n").is_some() == self.replayed,
            "an answer is not what it must be: {}",
            String::from_utf8_lossy(head)
        );
        Ok(())
    }
}

/// Reads one whole answer, and says how long its head is.
async fn read_answer(stream: &mut TcpStream, into: &mut [u8]) -> anyhow::Result<usize> {
    const END: &[u8] = b"\r\n\r\n";
    const LENGTH: &[u8] = b"\r\ncontent-length: ";
    let mut filled = 0;
    loop {
        let read = stream.read(&mut into[filled..]).await?;
        ensure!(read > 0, "the gateway closed, or its answer is too large");
        filled += read;
        let Some(end) = find(&into[..filled], END) else { continue };
        let head = end + END.len();
        let at = find(&into[..head], LENGTH).context("an answer without its length")?;
        let digits = into[at + LENGTH.len()..head].iter().take_while(|byte| byte.is_ascii_digit());
        let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
        if filled >= head + length {
            return Ok(head);
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
