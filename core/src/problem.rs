//! What clients are told when a request is not executed or not replayed: problem details
//! (RFC 9457), one absolute URI for each kind. Clients key on `type`; `detail` is for people.

use serde::Serialize;

/// What every problem's `type` begins with. The pages are `docs/problems.md`.
pub const TYPE_BASE: &str = "https://latchkey.dev/problems/";

/// The media type of a problem (RFC 9457 §3).
pub const MEDIA_TYPE: &str = "application/problem+json";

/// The kinds of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The rule requires a key (draft §2.7).
    KeyMissing,
    /// The key's field is not one valid key (RFC 9651 §4.2, draft §5).
    KeyInvalid,
    /// The key belongs to another request (draft §2.7).
    KeyReused,
    /// The first request with this key has not ended (draft §2.7).
    RequestInProgress,
    /// Whether the request was executed is not known, and will not be guessed.
    OutcomeUnknown,
    /// The operation is done, but its response was not kept.
    ReplayUnavailable,
    /// The client has no name to keep its keys under.
    ClientUnknown,
    /// The key may be tried again, but not yet.
    RetryLater,
    /// The key was tried as often as it may be.
    AttemptsExhausted,
    /// The state cannot be asked, and the request must not go unguarded.
    StateUnavailable,
    /// Nothing reached the upstream.
    UpstreamUnavailable,
    /// The gateway has as much to do as it may.
    GatewayOverloaded,
    /// The body is larger than the rule allows.
    PayloadTooLarge,
    /// A header's value cannot be passed on.
    HeaderInvalid,
    /// The route names a rule that the filter does not have.
    RuleUnknown,
}

/// A problem, ready to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which kind.
    pub kind: Kind,
    /// The HTTP status.
    pub status: u16,
    /// For people: what happened, and what to do.
    pub detail: String,
    /// For the Retry-After field, in seconds; at least 1 where it is there.
    pub retry_after_s: Option<u32>,
    /// Whether the same request with the same key may succeed later without a change.
    pub retryable: bool,
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    retryable: bool,
}

// === impl Kind ===

impl Kind {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::KeyMissing,
        Self::KeyInvalid,
        Self::KeyReused,
        Self::RequestInProgress,
        Self::OutcomeUnknown,
        Self::ReplayUnavailable,
        Self::ClientUnknown,
        Self::RetryLater,
        Self::AttemptsExhausted,
        Self::StateUnavailable,
        Self::UpstreamUnavailable,
        Self::GatewayOverloaded,
        Self::PayloadTooLarge,
        Self::HeaderInvalid,
        Self::RuleUnknown,
    ];

    /// The last part of the type's URI; also the name in metrics.
    #[must_use]
    pub const fn slug(self) -> &'static str {
        match self {
            Self::KeyMissing => "idempotency-key-missing",
            Self::KeyInvalid => "idempotency-key-invalid",
            Self::KeyReused => "idempotency-key-reused",
            Self::RequestInProgress => "idempotency-request-in-progress",
            Self::OutcomeUnknown => "idempotency-outcome-unknown",
            Self::ReplayUnavailable => "idempotency-replay-unavailable",
            Self::ClientUnknown => "idempotency-client-unknown",
            Self::RetryLater => "idempotency-retry-later",
            Self::AttemptsExhausted => "idempotency-attempts-exhausted",
            Self::StateUnavailable => "idempotency-state-unavailable",
            Self::UpstreamUnavailable => "idempotency-upstream-unavailable",
            Self::GatewayOverloaded => "idempotency-gateway-overloaded",
            Self::PayloadTooLarge => "idempotency-payload-too-large",
            Self::HeaderInvalid => "idempotency-header-invalid",
            Self::RuleUnknown => "idempotency-rule-unknown",
        }
    }

    /// What the access log calls it: the type without its prefix.
    #[must_use]
    pub const fn outcome(self) -> &'static str {
        match self {
            Self::KeyMissing => "key_missing",
            Self::KeyInvalid => "key_invalid",
            Self::KeyReused => "key_reused",
            Self::RequestInProgress => "request_in_progress",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::ReplayUnavailable => "replay_unavailable",
            Self::ClientUnknown => "client_unknown",
            Self::RetryLater => "retry_later",
            Self::AttemptsExhausted => "attempts_exhausted",
            Self::StateUnavailable => "state_unavailable",
            Self::UpstreamUnavailable => "upstream_unavailable",
            Self::GatewayOverloaded => "gateway_overloaded",
            Self::PayloadTooLarge => "payload_too_large",
            Self::HeaderInvalid => "header_invalid",
            Self::RuleUnknown => "rule_unknown",
        }
    }

    /// The type's URI.
    #[must_use]
    pub fn uri(self) -> String {
        format!("{TYPE_BASE}{}", self.slug())
    }

    /// One for each kind, for people.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::KeyMissing => "Idempotency-Key is missing",
            Self::KeyInvalid => "Idempotency-Key is not valid",
            Self::KeyReused => "Idempotency-Key is already used",
            Self::RequestInProgress => "A request is outstanding for this Idempotency-Key",
            Self::OutcomeUnknown => "The outcome of the request is unknown",
            Self::ReplayUnavailable => "The response was not kept",
            Self::ClientUnknown => "The client is not known",
            Self::RetryLater => "The request may be retried later",
            Self::AttemptsExhausted => "The request was tried too often",
            Self::StateUnavailable => "Idempotency cannot be guaranteed now",
            Self::UpstreamUnavailable => "The service cannot be reached",
            Self::GatewayOverloaded => "The gateway is overloaded",
            Self::PayloadTooLarge => "The body is too large",
            Self::HeaderInvalid => "A header's value is not valid",
            Self::RuleUnknown => "The gateway is configured wrongly",
        }
    }

    /// Whether the same request with the same key may, as a rule, succeed later unchanged.
    #[must_use]
    pub const fn retryable(self) -> bool {
        match self {
            Self::RequestInProgress
            | Self::RetryLater
            | Self::StateUnavailable
            | Self::UpstreamUnavailable
            | Self::GatewayOverloaded => true,
            Self::KeyMissing
            | Self::KeyInvalid
            | Self::KeyReused
            | Self::OutcomeUnknown
            | Self::ReplayUnavailable
            | Self::ClientUnknown
            | Self::AttemptsExhausted
            | Self::PayloadTooLarge
            | Self::HeaderInvalid
            | Self::RuleUnknown => false,
        }
    }
}

// === impl Problem ===

impl Problem {
    /// A problem of `kind`, told with `status`.
    #[must_use]
    pub fn new(kind: Kind, status: u16, detail: impl Into<String>) -> Self {
        let retryable = kind.retryable();
        Self { kind, status, detail: detail.into(), retry_after_s: None, retryable }
    }

    /// Says that the same request may succeed later, although its kind says otherwise.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// With a Retry-After of at least 1 s.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds.max(1));
        self
    }

    /// The JSON body.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        let body = Body {
            r#type: self.kind.uri(),
            title: self.kind.title(),
            status: self.status,
            detail: &self.detail,
            retryable: self.retryable,
        };
        // Strings and numbers always serialise.
        serde_json::to_vec(&body).unwrap_or_default()
    }

    /// The fields that go with it. Never stored, so never cached either.
    #[must_use]
    pub fn headers(&self) -> Vec<(String, Vec<u8>)> {
        let mut headers = vec![
            ("content-type".to_owned(), MEDIA_TYPE.as_bytes().to_vec()),
            ("cache-control".to_owned(), b"no-store".to_vec()),
        ];
        if self.kind == Kind::KeyMissing {
            // Draft §2.7: where the operation's rules are published.
            let link = format!("<{}>; rel=\"describedby\"; type=\"text/html\"", self.kind.uri());
            headers.push(("link".to_owned(), link.into_bytes()));
        }
        if let Some(seconds) = self.retry_after_s {
            headers.push(("retry-after".to_owned(), seconds.to_string().into_bytes()));
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_has_its_own_uri_and_title() {
        let uris: BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.uri()).collect();
        let titles: BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.title()).collect();
        assert_eq!(uris.len(), Kind::ALL.len());
        for kind in Kind::ALL {
            assert_eq!(kind.slug(), format!("idempotency-{}", kind.outcome().replace('_', "-")));
        }
        assert_eq!(titles.len(), Kind::ALL.len());
    }

    #[test]
    fn the_documentation_has_a_row_for_every_kind_and_for_no_other() {
        let documented: BTreeSet<_> = include_str!("../../docs/problems.md")
            .lines()
            .filter_map(|line| line.strip_prefix("| `idempotency-")?.split_once('`'))
            .map(|(rest, row)| (format!("idempotency-{rest}"), row.split('|').nth(2)))
            .map(|(slug, retryable)| (slug, retryable.unwrap().trim() == "yes"))
            .collect();
        let kinds = Kind::ALL.map(|kind| (kind.slug().to_owned(), kind.retryable()));
        assert_eq!(documented, BTreeSet::from(kinds));
    }

    #[test]
    fn the_body_is_problem_json() {
        let problem = Problem::new(Kind::RequestInProgress, 409, "Try again.").retry_after(0);
        insta::assert_snapshot!(
            String::from_utf8(problem.body()).unwrap(),
            @r#"{"type":"https://latchkey.dev/problems/idempotency-request-in-progress","title":"A request is outstanding for this Idempotency-Key","status":409,"detail":"Try again.","retryable":true}"#
        );
        assert_eq!(problem.headers()[2], ("retry-after".to_owned(), b"1".to_vec()));
    }
}
