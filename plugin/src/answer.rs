//! What clients get.

use latchkey_core::config::{NoStore, Rule, StoreRule};
use latchkey_core::headers::{EXPOSE, answered, connection_names, ours, stored};
use latchkey_core::operation::Verdict;
use latchkey_core::problem::{Kind, Problem};
use latchkey_core::record::{Outcome, Response};

use crate::engine::Metric;

/// An answer to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// 200 to 599.
    pub status: u16,
    /// In order, with repeated names as separate entries.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The whole body.
    pub body: Vec<u8>,
    /// What the access log calls it; also, after `latchkey_`, the response code's details.
    pub outcome: &'static str,
}

/// The outcome of an execution, for the access log.
pub const EXECUTED: &str = "executed";

/// The outcome of a replay, for the access log.
pub const REPLAYED: &str = "replayed";

impl Answer {
    /// A problem.
    #[must_use]
    pub fn problem(problem: &Problem) -> Self {
        Self {
            status: problem.status,
            headers: problem.headers(),
            body: problem.body(),
            outcome: problem.kind.outcome(),
        }
    }

    /// What the upstream answered to the execution that this client caused.
    #[must_use]
    pub fn fresh(status: u16, headers: &[(String, Vec<u8>)], body: Vec<u8>) -> Self {
        let connection = connection(headers);
        let mut headers: Vec<_> =
            headers.iter().filter(|(name, _)| answered(name, &connection)).cloned().collect();
        headers.push((ours::REPLAYED.to_owned(), b"false".to_vec()));
        Self { status, headers, body, outcome: EXECUTED }
    }

    /// What was stored.
    #[must_use]
    pub fn replay(response: Response) -> Self {
        let mut headers = response.headers;
        headers.push((ours::REPLAYED.to_owned(), b"true".to_vec()));
        Self { status: response.status, headers, body: response.body, outcome: REPLAYED }
    }

    /// Marks an answer that is true but could not be stored in time.
    #[must_use]
    pub fn unstored(mut self) -> Self {
        self.headers.push((ours::STATUS.to_owned(), b"unstored".to_vec()));
        self
    }

    /// Lets scripts of other origins read our fields.
    #[must_use]
    pub fn exposed(mut self) -> Self {
        self.headers.push((EXPOSE.0.to_owned(), EXPOSE.1.as_bytes().to_vec()));
        self
    }

    /// What a client is told whose request is not executed, and what to count.
    #[must_use]
    pub fn verdict(verdict: Verdict, rule: &Rule) -> (Self, Metric) {
        let (problem, metric) = match verdict {
            Verdict::Completed(Outcome::Response(response)) => {
                return (Self::replay(response), Metric::Replays);
            }
            Verdict::Completed(Outcome::Tombstone { status, location }) => {
                return (Self::tombstone(status, location), Metric::Replays);
            }
            Verdict::InProgress { .. } => (in_progress(rule), Metric::Conflicts),
            Verdict::RetryLater { after_us } => (retry_later(after_us), Metric::RetryLater),
            Verdict::Exhausted { last_status } => (exhausted(last_status), Metric::Exhausted),
            Verdict::Held { .. } => (held(), Metric::Held),
            Verdict::Mismatch => (mismatch(rule.mismatch_status), Metric::Mismatches),
            Verdict::Spent => (retry_later(0), Metric::RetryLater),
        };
        (Self::problem(&problem), metric)
    }

    fn tombstone(status: u16, location: Option<Vec<u8>>) -> Self {
        let problem = Problem::new(
            Kind::ReplayUnavailable,
            409,
            format!(
                "The request was executed and answered with status {status}, but the response \
                 was not kept. Read the resource to learn more; do not send the request again."
            ),
        );
        let mut answer = Self::problem(&problem);
        answer.headers.extend(location.map(|location| ("location".to_owned(), location)));
        answer.headers.push((ours::REPLAYED.to_owned(), b"true".to_vec()));
        answer.outcome = REPLAYED;
        answer
    }
}

/// The outcome of an upstream's final answer. Without a body, or where that must not or cannot be
/// kept, it is a tombstone.
#[must_use]
pub fn outcome(
    status: u16,
    headers: &[(String, Vec<u8>)],
    body: Option<&[u8]>,
    rule: &StoreRule,
) -> Outcome {
    let body = body.filter(|body| body.len() <= rule.response_body_max_bytes as usize);
    let Some(body) = body.filter(|_| !is_event_stream(headers) && may_store(headers, rule)) else {
        let location = headers.iter().find(|(name, _)| name == "location");
        return Outcome::Tombstone { status, location: location.map(|(_, value)| value.clone()) };
    };
    let connection = connection(headers);
    let headers = headers
        .iter()
        .filter(|(name, _)| answered(name, &connection) && stored(name, rule.set_cookie))
        .cloned()
        .collect();
    Outcome::Response(Response { status, headers, body: body.to_vec() })
}

/// Whether an answer is a stream of events, which belong to their moment.
#[must_use]
pub fn is_event_stream(headers: &[(String, Vec<u8>)]) -> bool {
    let is_it = |value: &Vec<u8>| {
        let essence = value.split(|byte| *byte == b';').next().unwrap_or_default();
        essence.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
    };
    headers.iter().any(|(name, value)| name == "content-type" && is_it(value))
}

fn may_store(headers: &[(String, Vec<u8>)], rule: &StoreRule) -> bool {
    match rule.no_store {
        NoStore::Ignore => true,
        NoStore::Tombstone => !headers
            .iter()
            .filter(|(name, _)| name == "cache-control")
            .flat_map(|(_, value)| value.split(|byte| *byte == b','))
            .any(|directive| directive.trim_ascii().eq_ignore_ascii_case(b"no-store")),
    }
}

/// Whether the outcome is unknown under `reexecute`, where a retry executes again, or under
/// `hold`, where it does not.
#[must_use]
pub fn unknown(timed_out: bool, reexecute: bool) -> Problem {
    let status = if timed_out { 504 } else { 502 };
    if reexecute {
        return Problem::new(
            Kind::OutcomeUnknown,
            status,
            "The service did not answer in full; the request may have been executed. Retry with \
             the same key: it will be executed again as the next attempt.",
        )
        .retryable()
        .retry_after(1);
    }
    Problem::new(
        Kind::OutcomeUnknown,
        status,
        "The service did not answer in full; the request may have been executed. It will not be \
         executed again under this key until somebody has looked.",
    )
}

/// Nothing reached the upstream.
#[must_use]
pub fn unreachable() -> Problem {
    Problem::new(
        Kind::UpstreamUnavailable,
        503,
        "The service cannot be reached; the request was not executed. Retry with the same key.",
    )
    .retry_after(1)
}

/// The state cannot be asked.
#[must_use]
pub fn state_unavailable() -> Problem {
    Problem::new(
        Kind::StateUnavailable,
        503,
        "Whether this request was executed before cannot be determined now, so it was not \
         executed. Retry with the same key.",
    )
    .retry_after(1)
}

/// The worker has as much to do as it may.
#[must_use]
pub fn overloaded() -> Problem {
    Problem::new(
        Kind::GatewayOverloaded,
        503,
        "The gateway is executing as many requests as it may; this one was not executed. Retry \
         with the same key.",
    )
    .retry_after(1)
}

/// Another request with this key is being executed.
#[must_use]
pub fn in_progress(rule: &Rule) -> Problem {
    Problem::new(
        Kind::RequestInProgress,
        409,
        "A request with this key is being executed. Retry with the same key to get its answer.",
    )
    .retry_after(rule.on_conflict.retry_after_s)
}

fn retry_later(after_us: u64) -> Problem {
    let seconds = u32::try_from(after_us.div_ceil(1_000_000)).unwrap_or(u32::MAX);
    Problem::new(
        Kind::RetryLater,
        503,
        "The last execution failed in a way that may be retried, but not yet. Retry with the \
         same key.",
    )
    .retry_after(seconds)
}

fn exhausted(last_status: Option<u16>) -> Problem {
    let last = last_status.map_or_else(
        || "its outcome is unknown".to_owned(),
        |status| format!("it last answered with status {status}"),
    );
    Problem::new(
        Kind::AttemptsExhausted,
        409,
        format!(
            "The request was executed as often as it may be; {last}. It will not be executed \
             again under this key."
        ),
    )
}

fn held() -> Problem {
    Problem::new(
        Kind::OutcomeUnknown,
        409,
        "A request with this key may have been executed, but its outcome is not known. It will \
         not be executed again under this key until somebody has looked. Check whether the \
         operation took place before you send it under a new key.",
    )
}

fn mismatch(status: u16) -> Problem {
    Problem::new(
        Kind::KeyReused,
        status,
        "This key was used for a different request. Use a new key for a new request, or send \
         the first request unchanged.",
    )
}

fn connection(headers: &[(String, Vec<u8>)]) -> Vec<String> {
    headers
        .iter()
        .filter(|(name, _)| name == "connection")
        .flat_map(|(_, value)| connection_names(value))
        .collect()
}

#[cfg(test)]
mod tests;
