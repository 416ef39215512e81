//! What settings may say.

use std::net::SocketAddr;
use std::path::PathBuf;

use latchkey_state::sqlite::Synchronous;

use super::LogFormat;

/// Why a value cannot be used, and what to write instead.
pub(super) type Wrong = (String, String);

/// The address of a Redis server, which may hold a password: printed without it.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl(String);

/// What `store` says.
#[derive(Debug)]
pub(super) enum StoreAt {
    Sqlite(PathBuf),
    Redis(RedisUrl),
}

/// The schemes of Redis and Valkey: over TCP, and over a socket on the machine.
const REDIS_SCHEMES: [&str; 4] = ["redis://", "valkey://", "redis+unix://", "valkey+unix://"];

// === impl RedisUrl ===

impl RedisUrl {
    /// With what a client needs to log in.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// Whether it holds a password, or something that could be one.
    #[must_use]
    pub fn has_credentials(&self) -> bool {
        let (_, rest) = self.split();
        rest.contains('@') || rest.to_ascii_lowercase().contains("pass=")
    }

    fn split(&self) -> (&str, &str) {
        let at = self.0.find("://").map_or(0, |at| at + 3);
        self.0.split_at_checked(at).unwrap_or(("", &self.0))
    }
}

impl std::fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (scheme, rest) = self.split();
        // To the last `@`, since a password may hold one; and nothing of a query.
        let (hidden, host) = rest.rsplit_once('@').map_or(("", rest), |(_, host)| ("***@", host));
        let host = host.split('?').next().unwrap_or_default();
        write!(f, "{scheme}{hidden}{host}")
    }
}

impl std::fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

// === parsing ===

pub(super) fn address(text: &str) -> Result<SocketAddr, Wrong> {
    text.parse().map_err(|_| {
        (
            format!("{text:?} is not an IP address and a port"),
            "Write for example 127.0.0.1:7070, [::1]:7070, or 127.0.0.1:0 for a free port"
                .to_owned(),
        )
    })
}

pub(super) fn address_or_off(text: &str) -> Result<Option<SocketAddr>, Wrong> {
    if text == "off" {
        return Ok(None);
    }
    let or_off = |(why, remedy)| (format!("{why}, nor `off`"), remedy);
    address(text).map(Some).map_err(or_off)
}

pub(super) fn store(text: &str) -> Result<StoreAt, Wrong> {
    if let Some(path) = text.strip_prefix("sqlite:")
        && !path.is_empty()
    {
        return Ok(StoreAt::Sqlite(PathBuf::from(path)));
    }
    let is_rest = |rest: &str| !rest.is_empty();
    if REDIS_SCHEMES.iter().any(|scheme| text.strip_prefix(scheme).is_some_and(is_rest)) {
        return Ok(StoreAt::Redis(RedisUrl(text.to_owned())));
    }
    // Not what was written, since it may hold a password.
    Err((
        "it is not a store that there is".to_owned(),
        "Write sqlite:<file>, redis://<host>:<port> or redis+unix:///<socket>".to_owned(),
    ))
}

pub(super) fn synchronous(text: &str) -> Result<Synchronous, Wrong> {
    match text {
        "full" => Ok(Synchronous::Full),
        "normal" => Ok(Synchronous::Normal),
        _ => Err((format!("there is no {text:?}"), "Write full or normal".to_owned())),
    }
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, Wrong> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err((format!("there is no {text:?}"), "Write text or json".to_owned())),
    }
}

pub(super) fn log_filter(text: &str) -> Result<String, Wrong> {
    let remedy = "Write off, error, warn, info, debug or trace, or directives such as \
                  info,latchkey_state=debug";
    match tracing_subscriber::EnvFilter::try_new(text) {
        Ok(_) if !text.trim().is_empty() => Ok(text.to_owned()),
        Ok(_) => Err(("it is empty".to_owned(), remedy.to_owned())),
        Err(error) => Err((error.to_string(), remedy.to_owned())),
    }
}
