//! A proxy for TCP connections that can delay, hold and break what passes through.
//!
//! It stands between a gateway and the state endpoint, or between the server and its store, so
//! that tests can say what the network does instead of hoping for it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// How much is taken at a time.
const PIECE_BYTES: usize = 16 * 1024;

/// What happens to bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    /// They pass, each piece after a delay between nothing and this, which is another for each.
    Passing { jitter: Duration },
    /// They wait.
    Held,
    /// Every connection is closed, and new ones at once.
    Broken,
}

/// A running proxy. Dropping it ends all its connections.
#[derive(Debug)]
pub struct ChaosProxy {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    task: JoinHandle<()>,
}

// === impl ChaosProxy ===

impl ChaosProxy {
    /// Starts one before `target`, letting everything pass.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(target: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(crate::ports::free()?)
            .await
            .context("the chaos proxy cannot listen")?;
        let address = listener.local_addr()?;
        let weather = watch::Sender::new(Weather::Passing { jitter: Duration::ZERO });
        let task = tokio::spawn(accept(listener, target, weather.clone()));
        Ok(Self { address, weather, task })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets everything pass, at once.
    pub fn pass(&self) {
        self.delay(Duration::ZERO);
    }

    /// Lets everything pass, each piece up to `jitter` late.
    pub fn delay(&self, jitter: Duration) {
        self.weather.send_replace(Weather::Passing { jitter });
    }

    /// Holds everything until another word.
    pub fn hold(&self) {
        self.weather.send_replace(Weather::Held);
    }

    /// Breaks every connection, and new ones too, until another word.
    pub fn break_off(&self) {
        self.weather.send_replace(Weather::Broken);
    }
}

impl Drop for ChaosProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, weather: watch::Sender<Weather>) {
    let pieces = Arc::new(AtomicU64::new(0));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { return };
                connections.spawn(connect(
                    stream, target, weather.subscribe(), Arc::clone(&pieces),
                ));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connect(
    near: TcpStream,
    target: SocketAddr,
    mut weather: watch::Receiver<Weather>,
    pieces: Arc<AtomicU64>,
) {
    if *weather.borrow() == Weather::Broken {
        return;
    }
    let Ok(far) = TcpStream::connect(target).await else { return };
    if near.set_nodelay(true).and(far.set_nodelay(true)).is_err() {
        return;
    }
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = far.into_split();
    let out = copy(near_read, far_write, weather.clone(), Arc::clone(&pieces));
    let back = copy(far_read, near_write, weather.clone(), pieces);
    tokio::select! {
        ((), ()) = async { tokio::join!(out, back) } => {}
        // An error means that the proxy is gone.
        _ = weather.wait_for(|weather| *weather == Weather::Broken) => {}
    }
}

/// Passes bytes on until the source ends, which ends the destination too.
async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut weather: watch::Receiver<Weather>,
    pieces: Arc<AtomicU64>,
) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        let passing = weather.wait_for(|weather| *weather != Weather::Held).await.map(|w| *w);
        match passing {
            Ok(Weather::Passing { jitter }) if !jitter.is_zero() => {
                let number = pieces.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(part_of(jitter, number)).await;
            }
            Ok(Weather::Passing { .. }) => {}
            Ok(Weather::Held | Weather::Broken) | Err(_) => return,
        }
        if to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
    // The other side may have closed already.
    let _ = to.shutdown().await;
}

/// A part of `jitter` that differs from piece to piece and is the same in every run: steps of
/// the golden ratio fall evenly over a range without ever settling into a rhythm.
fn part_of(jitter: Duration, number: u64) -> Duration {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    let fraction = number.wrapping_mul(GOLDEN) >> 32;
    let nanos = (jitter.as_nanos() * u128::from(fraction)) >> 32;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::until;

    /// Answers every byte with the same byte.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut read, mut write) = stream.split();
                    tokio::io::copy(&mut read, &mut write).await
                });
            }
        });
        address
    }

    async fn round_trip(stream: &mut TcpStream, byte: u8) -> std::io::Result<u8> {
        stream.write_all(&[byte]).await?;
        stream.read_u8().await
    }

    #[tokio::test]
    async fn holds_while_told_and_delivers_afterwards() {
        let proxy = ChaosProxy::start(echo().await).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(round_trip(&mut stream, 1).await.unwrap(), 1);
        proxy.hold();
        let late = round_trip(&mut stream, 2);
        tokio::pin!(late);
        let early = tokio::time::timeout(Duration::from_millis(100), &mut late).await;
        assert!(early.is_err(), "passed while held");
        proxy.delay(Duration::from_millis(5));
        assert_eq!(late.await.unwrap(), 2);
    }

    #[tokio::test]
    async fn breaks_old_and_new_connections_until_told_otherwise() {
        let proxy = ChaosProxy::start(echo().await).await.unwrap();
        let mut old = TcpStream::connect(proxy.address()).await.unwrap();
        assert_eq!(round_trip(&mut old, 1).await.unwrap(), 1);
        proxy.break_off();
        assert!(old.read_u8().await.is_err());
        let mut new = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(round_trip(&mut new, 1).await.is_err());
        proxy.pass();
        until("it passes again", async || {
            let mut stream = TcpStream::connect(proxy.address()).await?;
            Ok((round_trip(&mut stream, 3).await? == 3).then_some(()))
        })
        .await
        .unwrap();
    }

    #[test]
    fn delays_differ_and_stay_below_the_jitter() {
        let jitter = Duration::from_millis(50);
        let delays: Vec<_> = (0..100).map(|number| part_of(jitter, number)).collect();
        assert!(delays.iter().all(|delay| *delay < jitter));
        assert!(delays.iter().any(|delay| *delay > jitter / 2));
        assert!(delays.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
