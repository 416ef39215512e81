//! What an upstream's answer means for its key.
//!
//! First: is it the upstream's answer at all? Envoy answers in the upstream's place when it
//! cannot reach it, and looks much the same. Then: is the outcome final, may it be tried again,
//! or is it unknown? Whatever is not understood is unknown.

use crate::operation::FailKind;
use crate::record::OnAmbiguous;

/// The header that an internal listener sets to `%RESPONSE_CODE_DETAILS%`.
pub const DETAILS_HEADER: &str = "x-latchkey-details";

/// The header that an internal listener sets to `%UPSTREAM_REQUEST_ATTEMPT_COUNT%`: how often
/// its router tried an upstream, 0 where the request did not come to the router.
pub const ATTEMPTS_HEADER: &str = "x-latchkey-attempts";

/// The header by which an upstream has the last word on its answer: `final`, `retryable` or
/// `ambiguous`.
pub const OUTCOME_HEADER: &str = "idempotency-outcome";

/// Envoy's router adds it to answers that came from its upstream, and to no others.
pub const SERVICE_TIME_HEADER: &str = "x-envoy-upstream-service-time";

/// How a call reaches the upstream, which decides how to tell who answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Straight to the upstream's cluster: the upstream's answers bear [`SERVICE_TIME_HEADER`].
    Direct,
    /// Through an internal listener, whose own local replies look like an upstream's answers
    /// from outside: [`DETAILS_HEADER`] decides.
    Internal,
}

/// The parts of a call-out's answer that tell what it means.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answer<'a> {
    /// `:status`; `None` where the call-out ended without headers.
    pub status: Option<u16>,
    /// [`DETAILS_HEADER`].
    pub details: Option<&'a [u8]>,
    /// [`ATTEMPTS_HEADER`].
    pub attempts: Option<&'a [u8]>,
    /// Whether [`SERVICE_TIME_HEADER`] is there.
    pub service_time: bool,
    /// [`OUTCOME_HEADER`].
    pub outcome: Option<&'a [u8]>,
    /// The body, of which a local reply's text is short.
    pub body: &'a [u8],
}

/// Who answered, and what became of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The upstream, with this status.
    Upstream(u16),
    /// Envoy: nothing reached the upstream, for sure.
    NeverSent,
    /// Nobody knows.
    Unknown,
}

/// What an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The outcome is final: store it and replay it.
    Final,
    /// The execution failed in this way.
    Failed(FailKind),
}

/// Statuses that do not mean what they usually do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statuses {
    /// Those of final outcomes.
    pub finals: Vec<u16>,
    /// Those that say that nothing was done.
    pub retryable: Vec<u16>,
    /// Those that may hide a success.
    pub ambiguous: Vec<u16>,
}

/// Who answered a call-out over `route`.
#[must_use]
pub fn origin(route: Route, answer: &Answer<'_>) -> Origin {
    // A status that HTTP does not know cannot be told to anybody, nor understood.
    let Some(status @ 200..=599) = answer.status else { return Origin::Unknown };
    match route {
        Route::Direct if answer.service_time => Origin::Upstream(status),
        Route::Direct => local_text(status, answer.body),
        Route::Internal => match answer.details {
            Some(details) => by_details(status, details, answer.attempts),
            // The internal listener itself could not be reached, or its routes do not say.
            None if answer.service_time => Origin::Unknown,
            None => local_text(status, answer.body),
        },
    }
}

/// `%RESPONSE_CODE_DETAILS%` of the inner listener, spaces written as underscores, and how often
/// its router tried.
///
/// What did not come to the router was answered by a filter or the codec before it. What failed
/// to connect was not sent, but only if it was the first try: a retry policy may have sent the
/// request before.
fn by_details(status: u16, details: &[u8], attempts: Option<&[u8]>) -> Origin {
    // Envoy 1.40, by source and trial: each of these is decided before a request is given to
    // an upstream connection, or after the upstream has refused the whole stream.
    const NEVER_SENT: [&[u8]; 7] = [
        b"no_healthy_upstream",
        b"no_cluster",
        b"cluster_not_found",
        b"upstream_reset_before_response_started{remote_connection_failure",
        b"upstream_reset_before_response_started{local_connection_failure",
        b"upstream_reset_before_response_started{remote_refused_stream_reset",
        b"upstream_reset_before_response_started{overflow",
    ];
    match attempts {
        _ if details == b"via_upstream" => Origin::Upstream(status),
        Some(b"0") => Origin::NeverSent,
        Some(b"1") if NEVER_SENT.iter().any(|prefix| details.starts_with(prefix)) => {
            Origin::NeverSent
        }
        Some(_) | None => Origin::Unknown,
    }
}

/// A local reply known by its text alone. Only texts that Envoy 1.40 gives before it sends.
fn local_text(status: u16, body: &[u8]) -> Origin {
    const RESET: &[u8] = b"upstream connect error or disconnect/reset before headers. ";
    const REASONS: [&[u8]; 5] = [
        b"reset reason: remote connection failure",
        b"reset reason: local connection failure",
        b"reset reason: connection failure",
        b"reset reason: overflow",
        b"reset reason: remote refused stream reset",
    ];
    let refused = body
        .strip_prefix(RESET)
        .is_some_and(|rest| REASONS.iter().any(|reason| rest.starts_with(reason)));
    if status == 503 && (refused || body == b"no healthy upstream") {
        Origin::NeverSent
    } else {
        Origin::Unknown
    }
}

/// What `answer` of `origin` means under a rule's `on_ambiguous` and `statuses`.
///
/// The upstream's own word goes before the rule's statuses, and those before the usual meaning.
/// The statuses are those of the draft's silence filled in by RFC 9110 and the providers:
/// failures to authenticate or to be let in (401, 403, 407, 421, 425, 429) and a request that
/// never fully arrived (408) say nothing about the operation; 500, 502 and 504 may hide a
/// success; 503 says "not now" (RFC 9110 §15.6.4), which only those believe who may execute
/// twice anyway.
#[must_use]
pub fn meaning(
    origin: Origin,
    outcome: Option<&[u8]>,
    on_ambiguous: OnAmbiguous,
    statuses: &Statuses,
) -> Meaning {
    let status = match origin {
        Origin::NeverSent => return Meaning::Failed(FailKind::NeverSent),
        Origin::Unknown => return Meaning::Failed(FailKind::Ambiguous),
        Origin::Upstream(status) => status,
    };
    match outcome.map(<[u8]>::trim_ascii) {
        Some(b"final") => return Meaning::Final,
        Some(b"retryable") => return Meaning::Failed(FailKind::Retryable),
        Some(b"ambiguous") => return Meaning::Failed(FailKind::Ambiguous),
        Some(_) | None => {}
    }
    if let Some(meaning) = statuses.meaning(status) {
        return meaning;
    }
    match (status, on_ambiguous) {
        (401 | 403 | 407 | 408 | 421 | 425 | 429, _) | (503, OnAmbiguous::Reexecute) => {
            Meaning::Failed(FailKind::Retryable)
        }
        (500 | 502 | 503 | 504, _) => Meaning::Failed(FailKind::Ambiguous),
        (200..=499, _) => Meaning::Final,
        // 501, 505 and their like are the upstream's definite refusal.
        (501..=599, _) => Meaning::Final,
        // Not a final status: nothing that we understand.
        _ => Meaning::Failed(FailKind::Ambiguous),
    }
}

// === impl Statuses ===

impl Statuses {
    fn meaning(&self, status: u16) -> Option<Meaning> {
        if self.finals.contains(&status) {
            Some(Meaning::Final)
        } else if self.retryable.contains(&status) {
            Some(Meaning::Failed(FailKind::Retryable))
        } else if self.ambiguous.contains(&status) {
            Some(Meaning::Failed(FailKind::Ambiguous))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn internal(status: u16, details: &str, attempts: &str) -> Origin {
        let answer = Answer {
            status: Some(status),
            details: Some(details.as_bytes()),
            attempts: Some(attempts.as_bytes()),
            service_time: true,
            ..Answer::default()
        };
        origin(Route::Internal, &answer)
    }

    fn direct(status: u16, service_time: bool, body: &str) -> Origin {
        let answer = Answer {
            status: Some(status),
            service_time,
            body: body.as_bytes(),
            ..Answer::default()
        };
        origin(Route::Direct, &answer)
    }

    const REFUSED: &str = "upstream_reset_before_response_started{remote_connection_failure|\
                           delayed_connect_error:_Connection_refused}";

    #[test]
    fn through_an_internal_listener_the_details_decide() {
        let reset = "upstream_reset_before_response_started";
        assert_eq!(internal(201, "via_upstream", "1"), Origin::Upstream(201));
        assert_eq!(internal(503, "via_upstream", "1"), Origin::Upstream(503));
        assert_eq!(internal(503, "no_healthy_upstream", "1"), Origin::NeverSent);
        assert_eq!(internal(503, REFUSED, "1"), Origin::NeverSent);
        let terminated = format!("{reset}{{connection_termination}}");
        assert_eq!(internal(503, &terminated, "1"), Origin::Unknown);
        assert_eq!(internal(504, "response_timeout", "1"), Origin::Unknown);
        assert_eq!(internal(503, "something_new", "1"), Origin::Unknown);
        assert_eq!(internal(200, "via_upstream_but_not_quite", "1"), Origin::Unknown);
    }

    #[test]
    fn what_did_not_come_to_the_router_was_never_sent() {
        for (status, details) in [
            (404, "route_not_found"),
            (429, "local_rate_limited"),
            (403, "rbac_access_denied_matched_policy[none]"),
            (431, "http1.too_many_headers"),
            (418, "something_new"),
        ] {
            assert_eq!(internal(status, details, "0"), Origin::NeverSent, "{details}");
        }
    }

    #[test]
    fn a_connection_refused_on_a_second_try_says_nothing_about_the_first() {
        assert_eq!(internal(503, REFUSED, "2"), Origin::Unknown);
        let answer =
            Answer { status: Some(503), details: Some(REFUSED.as_bytes()), ..Answer::default() };
        assert_eq!(origin(Route::Internal, &answer), Origin::Unknown, "not told how often");
    }

    #[test]
    fn a_status_that_is_none_may_have_been_executed() {
        for status in [0, 100, 199, 600, 700, 999] {
            assert_eq!(internal(status, "via_upstream", "1"), Origin::Unknown, "{status}");
            assert_eq!(direct(status, true, ""), Origin::Unknown, "{status}");
        }
    }

    #[test]
    fn an_inner_route_that_does_not_say_who_answered_is_not_believed() {
        let answer = Answer { status: Some(201), service_time: true, ..Answer::default() };
        assert_eq!(origin(Route::Internal, &answer), Origin::Unknown);
    }

    #[test]
    fn a_direct_answer_is_the_upstreams_only_with_its_service_time() {
        let text = "upstream connect error or disconnect/reset before headers. reset reason: ";
        assert_eq!(direct(201, true, ""), Origin::Upstream(201));
        assert_eq!(direct(201, false, ""), Origin::Unknown);
        assert_eq!(direct(503, false, "no healthy upstream"), Origin::NeverSent);
        let refused = format!("{text}remote connection failure, transport failure reason: x");
        assert_eq!(direct(503, false, &refused), Origin::NeverSent);
        assert_eq!(direct(503, false, &format!("{text}connection termination")), Origin::Unknown);
        assert_eq!(direct(504, false, "upstream request timeout"), Origin::Unknown);
        assert_eq!(direct(503, true, "no healthy upstream"), Origin::Upstream(503));
    }

    #[test]
    fn an_answer_without_headers_may_have_been_executed() {
        assert_eq!(origin(Route::Direct, &Answer::default()), Origin::Unknown);
        assert_eq!(origin(Route::Internal, &Answer::default()), Origin::Unknown);
    }

    #[test]
    fn statuses_mean_what_the_table_says() {
        use FailKind::{Ambiguous, Retryable};
        let means =
            |status, policy| meaning(Origin::Upstream(status), None, policy, &Statuses::default());
        for policy in [OnAmbiguous::Hold, OnAmbiguous::Reexecute] {
            for status in [200, 201, 202, 204, 301, 303, 400, 402, 404, 409, 412, 415, 422, 501] {
                assert_eq!(means(status, policy), Meaning::Final, "{status}");
            }
            for status in [401, 403, 407, 408, 421, 425, 429] {
                assert_eq!(means(status, policy), Meaning::Failed(Retryable), "{status}");
            }
            for status in [500, 502, 504, 100, 101, 600] {
                assert_eq!(means(status, policy), Meaning::Failed(Ambiguous), "{status}");
            }
        }
        assert_eq!(means(503, OnAmbiguous::Hold), Meaning::Failed(Ambiguous));
        assert_eq!(means(503, OnAmbiguous::Reexecute), Meaning::Failed(Retryable));
    }

    #[test]
    fn the_upstream_has_the_last_word_but_only_on_its_own_answers() {
        let means = |origin, outcome: &[u8]| {
            meaning(origin, Some(outcome), OnAmbiguous::Hold, &Statuses::default())
        };
        assert_eq!(means(Origin::Upstream(500), b"final"), Meaning::Final);
        let retryable = Meaning::Failed(FailKind::Retryable);
        assert_eq!(means(Origin::Upstream(200), b" retryable "), retryable);
        assert_eq!(means(Origin::Upstream(200), b"nonsense"), Meaning::Final);
        assert_eq!(means(Origin::Unknown, b"final"), Meaning::Failed(FailKind::Ambiguous));
    }

    #[test]
    fn a_rules_statuses_go_before_the_usual_meaning_and_after_the_upstreams_word() {
        let statuses =
            Statuses { finals: vec![500], retryable: vec![404, 409], ambiguous: vec![422] };
        let means = |status, outcome: Option<&[u8]>| {
            meaning(Origin::Upstream(status), outcome, OnAmbiguous::Hold, &statuses)
        };
        assert_eq!(means(500, None), Meaning::Final);
        assert_eq!(means(404, None), Meaning::Failed(FailKind::Retryable));
        assert_eq!(means(422, None), Meaning::Failed(FailKind::Ambiguous));
        assert_eq!(means(502, None), Meaning::Failed(FailKind::Ambiguous), "as usual");
        assert_eq!(means(404, Some(b"final")), Meaning::Final);
        let unknown = meaning(Origin::Unknown, None, OnAmbiguous::Hold, &statuses);
        assert_eq!(unknown, Meaning::Failed(FailKind::Ambiguous), "not the upstream's 500");
    }
}
