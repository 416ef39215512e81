//! A client of the gateway, as strange as a test needs it.

mod body;
pub mod raw;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::wait::within;
use body::Chunks;

/// The name that clients know a fleet of gateways by: whichever of them a retry comes to, it is
/// the same request.
const HOST_NAME: &str = "payments.example";

/// How much of a long key is told.
const KEY_BYTES_SHOWN: usize = 40;

/// Who sends a request, by the credential that the gateway knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// A first customer.
    Acme,
    /// Another.
    Globex,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Vec<Bytes>,
    chunked: bool,
    pause: Duration,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

// === impl Client ===

impl Client {
    /// The credential, as `deploy/envoy.yaml` has it.
    #[must_use]
    pub const fn api_key(self) -> &'static str {
        match self {
            Self::Acme => "acme-demo-key",
            Self::Globex => "globex-demo-key",
        }
    }
}

// === impl Request ===

impl Request {
    /// A request of [`Client::Acme`] without a body.
    #[must_use]
    pub fn new(method: Method, path: &str) -> Self {
        let request = Self {
            method,
            path: path.to_owned(),
            headers: HeaderMap::new(),
            body: Vec::new(),
            chunked: false,
            pause: Duration::ZERO,
        };
        request.client(Client::Acme)
    }

    /// A POST of [`Client::Acme`].
    #[must_use]
    pub fn post(path: &str) -> Self {
        Self::new(Method::POST, path)
    }

    /// From this client.
    #[must_use]
    pub fn client(self, client: Client) -> Self {
        let mut request = self;
        request.headers.insert("x-api-key", HeaderValue::from_static(client.api_key()));
        request
    }

    /// With one more header line.
    ///
    /// # Panics
    /// When name or value are none that HTTP allows; [`raw`] sends those.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let name = HeaderName::try_from(name).expect("a header name");
        let value = HeaderValue::from_bytes(value.as_ref()).expect("a header value");
        self.headers.append(name, value);
        self
    }

    /// With one more `Idempotency-Key`.
    #[must_use]
    pub fn key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }

    /// Without any `Idempotency-Key`.
    #[must_use]
    pub fn without_key(mut self) -> Self {
        self.headers.remove("idempotency-key");
        self
    }

    /// With a JSON body.
    #[must_use]
    pub fn json(mut self, body: &serde_json::Value) -> Self {
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.bytes(body.to_string())
    }

    /// With these bytes as its body.
    #[must_use]
    pub fn bytes(mut self, body: impl Into<Bytes>) -> Self {
        self.body = vec![body.into()];
        self.chunked = false;
        self
    }

    /// With a body of unannounced length in these chunks, with a pause before each.
    #[must_use]
    pub fn chunks(mut self, chunks: Vec<Bytes>, pause: Duration) -> Self {
        self.body = chunks;
        self.chunked = true;
        self.pause = pause;
        self
    }

    /// On another path.
    #[must_use]
    pub fn path(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    /// Sends it on a connection of its own, and waits for the answer.
    ///
    /// A connection for each request spreads them over the gateway's workers.
    ///
    /// # Errors
    /// When no connection can be made, or no whole answer comes.
    pub async fn send(&self, to: SocketAddr) -> anyhow::Result<Answer> {
        let what = format!("{} {}", self.method, self.path);
        within(&what, self.exchange(to)).await.with_context(|| format!("{what} at {to}"))
    }

    /// Sends it, and closes the connection after `patience` without having read an answer.
    ///
    /// # Errors
    /// When no connection can be made, or an answer comes before that.
    pub async fn send_and_hang_up(&self, to: SocketAddr, patience: Duration) -> anyhow::Result<()> {
        match tokio::time::timeout(patience, self.exchange(to)).await {
            Err(_) => Ok(()),
            Ok(Err(error)) => Err(error),
            Ok(Ok(answer)) => bail!("answered {} before the client hung up", answer.status),
        }
    }

    async fn exchange(&self, to: SocketAddr) -> anyhow::Result<Answer> {
        let stream = TcpStream::connect(to).await.context("no connection")?;
        stream.set_nodelay(true)?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let connection = Driver(tokio::spawn(connection));
        let mut request = hyper::Request::builder()
            .method(self.method.clone())
            .uri(&self.path)
            .body(Chunks::new(self.body.clone(), self.chunked, self.pause))?;
        request.headers_mut().extend(self.headers.clone());
        request.headers_mut().insert(HOST, HeaderValue::from_static(HOST_NAME));
        let response = sender.send_request(request).await.context("no answer")?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.context("half an answer")?.to_bytes();
        drop(connection);
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
    }
}

impl std::fmt::Display for Request {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}", self.method, self.path)?;
        for key in self.headers.get_all("idempotency-key") {
            let key = String::from_utf8_lossy(key.as_bytes());
            match key.get(..KEY_BYTES_SHOWN) {
                Some(start) => write!(formatter, "  key {start}…")?,
                None => write!(formatter, "  key {key}")?,
            }
        }
        if self.headers.get("x-api-key").is_some_and(|key| key == Client::Globex.api_key()) {
            formatter.write_str("  from globex")?;
        }
        Ok(())
    }
}

/// Drives a connection, which is closed when this is dropped.
struct Driver(tokio::task::JoinHandle<hyper::Result<()>>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

// === impl Answer ===

impl Answer {
    /// A header's first value.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body as JSON, null when it is none.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The last part of a problem's type, `outcome-unknown` for instance; nothing when the
    /// answer is no problem.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let kind = self.header(CONTENT_TYPE.as_str())?;
        kind.starts_with("application/problem+json").then(|| {
            let json = self.json();
            let uri = json["type"].as_str().unwrap_or_default();
            uri.rsplit(['/', '#', ':']).next().unwrap_or_default().to_owned()
        })
    }

    /// Whether it is the answer of an earlier execution.
    #[must_use]
    pub fn is_replayed(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// When to come again, if it says so.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.header("retry-after")?.parse().ok()?;
        Some(Duration::from_secs(seconds))
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let reason = StatusCode::from_u16(self.status).ok().and_then(|s| s.canonical_reason());
        write!(formatter, "{} {}", self.status, reason.unwrap_or(""))?;
        if let Some(problem) = self.problem() {
            write!(formatter, " ({problem})")?;
        }
        if self.is_replayed() {
            formatter.write_str(" (replayed)")?;
        }
        if let Some(status) = self.header("idempotency-status") {
            write!(formatter, " ({status})")?;
        }
        Ok(())
    }
}
