//! Which headers are kept, and which are dropped on the way.
//!
//! Replies are stored by a deny-list: what is unknown is kept (RFC 9111 §3.1), what belongs to
//! one connection, one moment or one client is not.

use crate::config::{KeyRule, UpstreamKey};

/// What our own answers and requests carry. A client's or an upstream's values of these never
/// pass.
pub mod ours {
    /// `true` on a replay, `false` on a first execution.
    pub const REPLAYED: &str = "idempotent-replayed";
    /// What was unusual about an answer: `unstored`, or `bypassed`.
    pub const STATUS: &str = "idempotency-status";
    /// The derived key, to the upstream.
    pub const KEY: &str = "idempotency-key";
    /// The execution's number, to the upstream.
    pub const ATTEMPT: &str = "idempotency-attempt";
    /// The execution's fence, to the upstream.
    pub const FENCE: &str = "idempotency-fence";
}

/// What lets scripts of other origins read our fields (Fetch, CORS protocol); `Retry-After` is
/// not readable to them otherwise either.
pub const EXPOSE: (&str, &str) =
    ("access-control-expose-headers", "idempotent-replayed, idempotency-status, retry-after");

/// By these a client, where Envoy takes it for an internal one, could have its request retried,
/// hedged or cut short under one claim (Envoy's router filter, "HTTP headers").
const ENVOY_CONTROLS: [&str; 12] = [
    "x-envoy-max-retries",
    "x-envoy-retry-on",
    "x-envoy-retry-grpc-on",
    "x-envoy-retriable-status-codes",
    "x-envoy-retriable-header-names",
    "x-envoy-hedge-on-per-try-timeout",
    "x-envoy-upstream-alt-stat-name",
    "x-envoy-upstream-rq-timeout-alt-response",
    "x-envoy-upstream-rq-timeout-ms",
    "x-envoy-upstream-rq-per-try-timeout-ms",
    "x-envoy-upstream-stream-duration-ms",
    "x-envoy-decorator-operation",
];

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
const NOT_STORED: [&str; 20] = [
    // One client's credentials and challenges.
    "proxy-authenticate",
    "proxy-authentication-info",
    "www-authenticate",
    "authentication-info",
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
/// call. Envoy's own fields never do: a client could have a call retried or hedged with them.
/// `content-length` is made anew, the key is replaced by the derived one unless the rule says
/// otherwise, and pseudo headers are set by the call. Without `accept-encoding` the answer comes
/// in a form that every retry can read; a compressor in front makes it small again.
#[must_use]
pub fn forwarded(name: &str, key: &KeyRule) -> bool {
    if is_key(name, key) {
        return keeps_key(key);
    }
    !(name.starts_with(':')
        || name == "accept-encoding"
        || name == "content-length"
        || name == "expect"
        || name.starts_with("x-envoy-")
        || HOP_BY_HOP.contains(&name)
        || is_ours(name))
}

/// Whether a request's header `name`, in lower case, stays where Envoy's router makes the call:
/// the router sees to the connection's fields itself, and `x-envoy-` fields that control
/// nothing may be meant for filters.
#[must_use]
pub fn kept_attached(name: &str, key: &KeyRule) -> bool {
    if is_key(name, key) {
        return keeps_key(key);
    }
    !(name == "accept-encoding" || ENVOY_CONTROLS.contains(&name) || is_ours(name))
}

fn is_key(name: &str, key: &KeyRule) -> bool {
    key.headers.iter().any(|header| header == name)
}

fn keeps_key(key: &KeyRule) -> bool {
    match key.upstream {
        UpstreamKey::Derived => false,
        UpstreamKey::Client => true,
    }
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

/// Whether an answer's header `name`, in lower case, is stored and replayed; cookies only where
/// the rule asks for it (`set_cookie`).
#[must_use]
pub fn stored(name: &str, set_cookie: bool) -> bool {
    if matches!(name, "set-cookie" | "set-cookie2") {
        return set_cookie;
    }
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
            assert!(answered(name, &[]) && stored(name, false), "{name}");
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
            assert!(!stored(name, false), "{name}");
        }
        assert!(answered("set-cookie", &[]), "the first client gets its cookie");
        assert!(stored("set-cookie", true), "a rule may ask for it");
    }

    #[test]
    fn what_connection_names_goes_no_further() {
        let named = connection_names(b"close, X-Hop");
        assert!(!answered("x-hop", &named));
        assert!(answered("x-other", &named));
    }

    fn key(header: &str, upstream: UpstreamKey) -> KeyRule {
        KeyRule {
            headers: vec![header.to_owned()],
            required: true,
            syntax: crate::key::KeySyntax::Lenient,
            length_max: 255,
            upstream,
        }
    }

    #[test]
    fn a_clients_values_of_our_headers_never_reach_the_upstream() {
        let rule = key("idempotency-key", UpstreamKey::Derived);
        let ours =
            ["idempotency-key", "idempotency-attempt", "idempotency-fence", "x-latchkey-details"];
        for name in ours.into_iter().chain(["x-envoy-max-retries", "accept-encoding"]) {
            assert!(!forwarded(name, &rule) && !kept_attached(name, &rule), "{name}");
        }
        let other = key("paypal-request-id", UpstreamKey::Derived);
        for name in ["paypal-request-id", "idempotency-key"] {
            assert!(!forwarded(name, &other) && !kept_attached(name, &other), "{name}");
        }
        for name in ["x-client", "authorization"] {
            assert!(forwarded(name, &rule) && kept_attached(name, &rule), "{name}");
        }
    }

    #[test]
    fn the_clients_own_key_reaches_the_upstream_where_the_rule_says_so() {
        let rule = key("idempotency-key", UpstreamKey::Client);
        assert!(forwarded("idempotency-key", &rule) && kept_attached("idempotency-key", &rule));
        assert!(!forwarded("idempotency-fence", &rule));
    }

    #[test]
    fn a_router_is_left_what_is_its_own() {
        let rule = key("idempotency-key", UpstreamKey::Derived);
        for name in ["content-length", "connection", "te", "x-envoy-external-address", ":path"] {
            assert!(kept_attached(name, &rule) && !forwarded(name, &rule), "{name}");
        }
    }
}
