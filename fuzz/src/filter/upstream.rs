//! What an upstream, or Envoy in its place, can answer.

use super::settings::Manner;
use super::stream::Pairs;
use crate::bytes::Bytes;

/// An answer, or the end of a try for one.
#[derive(Debug, Default)]
pub(super) struct Upstream {
    /// `None` where nothing came back.
    pub(super) status: Option<u16>,
    pub(super) headers: Pairs,
    pub(super) body: Vec<u8>,
    /// `%RESPONSE_CODE_DETAILS%`.
    pub(super) details: &'static str,
    pub(super) attempts: u64,
    /// Whether the request may have been executed.
    pub(super) executed: bool,
}

const RESET: &str = "upstream connect error or disconnect/reset before headers. reset reason: ";

// === impl Upstream ===

impl Upstream {
    pub(super) fn paid() -> Self {
        Self::answer(201, b"paid")
    }

    pub(super) fn answer(status: u16, body: &[u8]) -> Self {
        let headers = vec![pair("x-envoy-upstream-service-time", b"1")];
        let (body, details) = (body.to_vec(), "via_upstream");
        let status = Some(status);
        Self { status, headers, body, details, attempts: 1, executed: true }
    }

    /// Envoy's own words.
    pub(super) fn local(status: u16, reason: &str, details: &'static str, executed: bool) -> Self {
        let body = format!("{RESET}{reason}").into_bytes();
        Self { status: Some(status), body, details, attempts: 1, executed, ..Self::default() }
    }

    fn with(mut self, name: &str, value: &[u8]) -> Self {
        self.headers.push(pair(name, value));
        self
    }

    pub(super) fn read(bytes: &mut Bytes<'_>) -> Self {
        match bytes.below(18) {
            0 | 1 => Self::paid(),
            2 => Self::answer(200, b"").with("content-type", b"text/plain"),
            3 => Self::answer(404, b"none").with("content-type", b"application/json"),
            4 => Self::answer(500, b"oops"),
            5 => Self::answer(503, b"busy"),
            6 => Self { executed: false, ..Self::answer(429, b"") },
            7 => Self::local(
                503,
                "remote connection failure",
                "upstream_reset_before_response_started{remote_connection_failure}",
                false,
            ),
            8 => Self::local(
                503,
                "connection termination",
                "upstream_reset_before_response_started{connection_termination}",
                true,
            ),
            9 => Self { executed: true, attempts: 1, ..Self::default() },
            10 => Self::answer(200, &[b'x'; 40]),
            11 => Self::local(504, "", "response_timeout", true),
            12 => Self { executed: false, ..Self::answer(400, b"no") }
                .with("idempotency-outcome", b"retryable"),
            13 => Self::answer(299, b"\xff").with("x-\u{e9}", b"\xff\xfe"),
            14 => Self { status: Some(999), ..Self::answer(200, b"?") },
            15 => Self::answer(200, b"data: 1").with("content-type", b"text/event-stream"),
            16 => Self::answer(200, b"four").with("content-length", b"99999999"),
            _ => Self { attempts: 0, ..Self::local(403, "", "rbac_access_denied", false) },
        }
    }

    /// As the headers of a call-out.
    pub(super) fn pairs(&self, manner: Manner) -> Pairs {
        let Some(status) = self.status else { return Pairs::new() };
        let mut pairs = vec![pair(":status", status.to_string().as_bytes())];
        pairs.extend(self.headers.iter().cloned());
        match manner {
            Manner::Direct | Manner::Attached => {}
            Manner::Cluster => {
                pairs.push(pair("x-latchkey-details", self.details.as_bytes()));
                pairs.push(pair("x-latchkey-attempts", self.attempts.to_string().as_bytes()));
            }
        }
        pairs
    }
}

pub(super) fn pair(name: &str, value: &[u8]) -> (Vec<u8>, Vec<u8>) {
    (name.as_bytes().to_vec(), value.to_vec())
}
