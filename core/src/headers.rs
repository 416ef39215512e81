//! Which headers are kept, and which are dropped on the way.
//!
//! Replies are stored by a deny-list: what is unknown is kept (RFC 9111 §3.1), what belongs to
//! one connection, one moment or one client is not.

/// What our own answers and requests carry. A client's or an upstream's values of these never
/// pass.
pub mod ours {
    /// `true` on a replay, `false` on a first execution.
    pub const REPLAYED: &str = "idempotent-replayed";
    /// What was unusual about an answer: `unstored`.
    pub const STATUS: &str = "idempotency-status";
    /// The derived key, to the upstream.
    pub const KEY: &str = "idempotency-key";
    /// The execution's number, to the upstream.
    pub const ATTEMPT: &str = "idempotency-attempt";
    /// The execution's fence, to the upstream.
    pub const FENCE: &str = "idempotency-fence";
}

/// Fields that belong to one connection (RFC 9110 §7.6.1).
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
    "proxy-authorization",
];

/// Fields of an answer that are not stored, beside those of one connection.
const NOT_STORED: [&str; 22] = [
    // One client's credentials and challenges.
    "proxy-authenticate",
    "proxy-authentication-info",
    "www-authenticate",
    "authentication-info",
    "set-cookie",
    "set-cookie2",
    // One moment. Envoy makes its own Date and Server.
    "date",
    "age",
    "server",
    "via",
    "alt-svc",
    "retry-after",
    "server-timing",
    // Recomputed.
    "content-length",
    // One trace.
    "traceparent",
    "tracestate",
    "traceresponse",
    "baggage",
    "b3",
    "x-request-id",
    "x-cloud-trace-context",
    "x-amzn-trace-id",
];

/// Prefixes of the same kinds. CORS fields depend on the Origin that asks.
const NOT_STORED_PREFIXES: [&str; 6] =
    ["access-control-", "ratelimit", "x-ratelimit", "x-b3-", "x-envoy-", "x-latchkey-"];

/// Whether `name`, in lower case, is ours alone to set.
#[must_use]
pub fn is_ours(name: &str) -> bool {
    matches!(
        name,
        ours::REPLAYED
            | ours::STATUS
            | ours::KEY
            | ours::ATTEMPT
            | ours::FENCE
            | crate::classify::OUTCOME_HEADER
    ) || name.starts_with("x-latchkey-")
}

/// Whether a request's header `name`, in lower case, goes to the upstream with a detached
/// call. Envoy's own control headers never do: a client could have a call retried or hedged
/// with them. `content-length` is made anew, the key's own field is replaced by the derived
/// key, and pseudo headers are set by the call.
#[must_use]
pub fn forwarded(name: &str, key_header: &str) -> bool {
    !(name.starts_with(':')
        || name == key_header
        || name == "content-length"
        || name == "expect"
        || name.starts_with("x-envoy-")
        || HOP_BY_HOP.contains(&name)
        || is_ours(name))
}

/// Whether an answer's header `name`, in lower case, may be told to the client that caused
/// the execution. `connection` lists what the answer's own Connection field names.
#[must_use]
pub fn answered(name: &str, connection: &[String]) -> bool {
    !(name.starts_with(':')
        || name == "content-length"
        || name == "date"
        || name == "server"
        || name == crate::classify::SERVICE_TIME_HEADER
        || HOP_BY_HOP.contains(&name)
        || connection.iter().any(|named| named == name)
        || is_ours(name))
}

/// Whether an answer's header `name`, in lower case, is stored and replayed.
#[must_use]
pub fn stored(name: &str) -> bool {
    !(NOT_STORED.contains(&name)
        || NOT_STORED_PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
}

/// The fields that a Connection field's value names, in lower case.
#[must_use]
pub fn connection_names(value: &[u8]) -> Vec<String> {
    value
        .split(|byte| *byte == b',')
        .map(|name| String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase())
        .filter(|name| !name.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_keeps_what_says_what_was_made() {
        let kept =
            ["location", "etag", "content-type", "link", "vary", "cache-control", "x-payment-id"];
        for name in kept {
            assert!(answered(name, &[]) && stored(name), "{name}");
        }
    }

    #[test]
    fn a_replay_drops_cookies_challenges_dates_traces_and_cors() {
        let dropped = [
            "set-cookie",
            "www-authenticate",
            "date",
            "traceparent",
            "x-request-id",
            "access-control-allow-origin",
            "ratelimit-policy",
            "x-envoy-upstream-service-time",
        ];
        for name in dropped {
            assert!(!stored(name), "{name}");
        }
        assert!(answered("set-cookie", &[]), "the first client gets its cookie");
    }

    #[test]
    fn what_connection_names_goes_no_further() {
        let named = connection_names(b"close, X-Hop");
        assert!(!answered("x-hop", &named));
        assert!(answered("x-other", &named));
    }

    #[test]
    fn a_clients_values_of_our_headers_never_reach_the_upstream() {
        for name in
            ["idempotency-key", "idempotency-attempt", "idempotency-fence", "x-latchkey-details"]
        {
            assert!(!forwarded(name, "idempotency-key"), "{name}");
        }
        assert!(!forwarded("x-envoy-max-retries", "idempotency-key"));
        assert!(!forwarded("paypal-request-id", "paypal-request-id"));
        assert!(forwarded("x-client", "idempotency-key"));
        assert!(forwarded("authorization", "idempotency-key"));
    }
}
