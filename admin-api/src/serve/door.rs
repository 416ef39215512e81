//! Connections: taking an address, letting callers in, and seeing them out.
//!
//! HTTP/1.1 with keep-alive, without Nagle's delay. A caller that sends nothing, or half a
//! request's head, is let go after [`IDLE`]; when [`CONNECTIONS_MAX`] are in, the next wait in
//! the kernel's queue.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tracing::{debug, warn};

use super::ServeError;

/// The most connections at once: a fleet of a hundred gateways with eight workers, each with a
/// few batches in flight.
pub(super) const CONNECTIONS_MAX: usize = 4096;

/// How long a connection may be without a request's head. Gateways that close a connection for
/// idleness before that never meet one that is closing.
const IDLE: Duration = Duration::from_secs(600);

/// How many connections the kernel may keep waiting.
const BACKLOG: u32 = 1024;

/// How long to wait where accepting fails for want of something that others use up.
const ACCEPT_AGAIN: Duration = Duration::from_millis(500);

/// Accepting fails so for one caller alone.
const GONE: [ErrorKind; 3] =
    [ErrorKind::ConnectionAborted, ErrorKind::ConnectionRefused, ErrorKind::ConnectionReset];

/// An address that is taken, but not yet listened on: callers are refused.
#[derive(Debug)]
pub(super) struct Socket {
    field: &'static str,
    address: SocketAddr,
    socket: TcpSocket,
}

/// An address that is listened on.
#[derive(Debug)]
pub(super) struct Door {
    listener: TcpListener,
    address: SocketAddr,
    connections: Connections,
}

/// How many connections are in.
#[derive(Clone, Debug)]
pub(super) struct Connections(Arc<Semaphore>);

// === impl Socket ===

impl Socket {
    /// Takes `address`, which the setting `field` names.
    pub(super) fn bind(field: &'static str, address: SocketAddr) -> Result<Self, ServeError> {
        let bind = || {
            let socket =
                if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            // A restart need not wait for the connections of the last server to be forgotten.
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            Ok(socket)
        };
        let socket = bind().map_err(|why| refused(field, address, why))?;
        Ok(Self { field, address, socket })
    }

    pub(super) fn listen(self) -> Result<Door, ServeError> {
        let Self { field, address, socket } = self;
        let listen = || {
            let listener = socket.listen(BACKLOG)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) = listen().map_err(|why| refused(field, address, why))?;
        Ok(Door { listener, address, connections: Connections::none() })
    }
}

fn refused(field: &'static str, address: SocketAddr, why: std::io::Error) -> ServeError {
    let remedy = if why.kind() == ErrorKind::AddrInUse {
        let off = if field == "metrics_listen" { ", or off" } else { "" };
        format!(
            "Another process has it, perhaps another latchkey: stop that, or set {field} to \
             another address{off}."
        )
    } else if why.kind() == ErrorKind::PermissionDenied {
        format!("Set {field} to a port above 1023, or allow this user the port.")
    } else {
        format!("Set {field} to an address of this machine.")
    };
    ServeError::Listen { field, address, why, remedy }
}

// === impl Connections ===

impl Connections {
    /// None yet.
    pub(super) fn none() -> Self {
        Self(Arc::new(Semaphore::new(CONNECTIONS_MAX)))
    }

    /// How many there are.
    #[must_use]
    pub(super) fn count(&self) -> usize {
        CONNECTIONS_MAX.saturating_sub(self.0.available_permits())
    }

    /// Leave for one more, once there is room for it.
    async fn enter(&self) -> Option<OwnedSemaphorePermit> {
        if self.0.available_permits() == 0 {
            warn!(connections = CONNECTIONS_MAX, "no room for more connections: they wait");
        }
        self.0.clone().acquire_owned().await.ok()
    }

    /// Waits until all have gone. Only for when nobody enters any more.
    async fn gone(&self) {
        let all = u32::try_from(CONNECTIONS_MAX).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        let _ = self.0.acquire_many(all).await;
    }
}

// === impl Door ===

impl Door {
    /// Where it is: with the port that was found for port 0.
    #[must_use]
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its connections, to be counted.
    #[must_use]
    pub(super) fn connections(&self) -> Connections {
        self.connections.clone()
    }

    /// Serves `routes` until `stop` is true, then answers what was accepted. Returns once the
    /// last connection has ended.
    pub(super) async fn serve(self, routes: Router, mut stop: watch::Receiver<bool>) {
        let Self { listener, connections, .. } = self;
        loop {
            let accept = async {
                let permit = connections.enter().await?;
                Some((accept(&listener).await, permit))
            };
            let (stream, permit) = tokio::select! {
                Some(accepted) = accept => accepted,
                () = stopped(&mut stop) => break,
            };
            tokio::spawn(converse(stream, routes.clone(), stop.clone(), permit));
        }
        drop(listener);
        connections.gone().await;
    }
}

/// Waits until `stop` is true, or nobody is left who could say so.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // The caller went away again.
            Err(error) if GONE.contains(&error.kind()) => {}
            Err(error) => {
                warn!(%error, "cannot accept connections");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

/// Serves one connection to its end, which comes after the request at hand once `stop` is true.
async fn converse(
    stream: TcpStream,
    routes: Router,
    mut stop: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
) {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "no TCP_NODELAY");
    }
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(%error, "connection ended");
    }
}
