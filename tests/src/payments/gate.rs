//! The service's listener, which can refuse connections, and connections that can break.
//!
//! Two states. Open: connections are accepted and served. Closed: the listener is dropped, so
//! that the port refuses, and every connection with it, since a gateway keeps connections for
//! later and would not notice otherwise. Opening binds the same port again.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Header lines of a request; more than any gateway in front lets pass.
const HEADERS_MAX: usize = 1000;

/// Whether connections are accepted.
pub(super) struct Gate {
    open: watch::Sender<bool>,
    /// What the listener has come to; it follows `open`.
    serving: watch::Sender<bool>,
}

/// Marks a response that is not to be sent: the connection is closed instead.
#[derive(Clone, Copy, Debug)]
pub(super) struct HangUp;

/// Why a connection ended without an answer.
#[derive(Debug)]
pub(super) struct HungUp;

// === impl HungUp ===

impl std::fmt::Display for HungUp {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("closed without an answer, as asked")
    }
}

impl std::error::Error for HungUp {}

// === impl HangUp ===

impl HangUp {
    /// A response that closes its connection.
    pub(super) fn response() -> Response {
        let mut response = StatusCode::OK.into_response();
        response.extensions_mut().insert(Self);
        response
    }
}

// === impl Gate ===

impl Gate {
    /// An open gate.
    pub(super) fn open() -> Self {
        Self { open: watch::Sender::new(true), serving: watch::Sender::new(true) }
    }

    /// Opens or closes, and returns when the listener has followed.
    pub(super) async fn set(&self, open: bool) {
        self.open.send_replace(open);
        let mut serving = self.serving.subscribe();
        // An error means that the listener's task is gone, and the process with it.
        let _ = serving.wait_for(|serving| *serving == open).await;
    }
}

/// Serves `router` while the gate is open.
pub(super) async fn serve(
    listener: TcpListener,
    gate: std::sync::Arc<Gate>,
    router: Router,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    let mut open = gate.open.subscribe();
    let mut listener = Some(listener);
    loop {
        let current = match listener.take() {
            Some(listener) => listener,
            None => TcpListener::bind(address).await?,
        };
        gate.serving.send_replace(true);
        accept(&current, &mut open, &router).await?;
        drop(current);
        gate.serving.send_replace(false);
        if open.wait_for(|open| *open).await.is_err() {
            return Ok(());
        }
    }
}

/// Accepts until the gate closes. Returning ends every connection.
async fn accept(
    listener: &TcpListener,
    open: &mut watch::Receiver<bool>,
    router: &Router,
) -> io::Result<()> {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (stream, _): (TcpStream, SocketAddr) = accepted?;
                stream.set_nodelay(true)?;
                connections.spawn(converse(stream, router.clone()));
            }
            Some(_) = connections.join_next() => {}
            _ = open.wait_for(|open| !*open) => {
                connections.shutdown().await;
                return Ok(());
            }
        }
    }
}

async fn converse(stream: TcpStream, router: Router) {
    let service = service_fn(move |request: Request<Incoming>| {
        let router = TowerToHyperService::new(router.clone());
        async move {
            use hyper::service::Service as _;
            let answered: Result<Response<Body>, Infallible> = router.call(request).await;
            match answered {
                Ok(response) if response.extensions().get::<HangUp>().is_some() => Err(HungUp),
                Ok(response) => Ok(response),
                Err(never) => match never {},
            }
        }
    });
    // Errors here are callers that left, or hang-ups that were asked for.
    let mut server = http1::Builder::new();
    let _ = server.max_headers(HEADERS_MAX).serve_connection(TokioIo::new(stream), service).await;
}
