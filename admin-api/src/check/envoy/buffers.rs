//! What Envoy may hold.

use latchkey_core::config::{Execute, Rule};

use super::{Case, Findings, Lint};

/// Envoy's default (`Listener.per_connection_buffer_limit_bytes`).
const LIMIT_DEFAULT_BYTES: u64 = 1024 * 1024;

const FIELD: &str = "per_connection_buffer_limit_bytes";

/// By which routes and virtual hosts raise that limit, and never lower it.
const RAISED: &str = "request_body_buffer_limit";

pub(super) fn check(case: &Case<'_>, found: &mut Findings) {
    let rules = case.config.rules.iter();
    let requests = rules.clone().map(|it| (it, it.request_body_max_bytes));
    add(case, Lint::BufferTooSmall, "request_body_max_bytes", requests, found);
    let attached = rules.filter(|it| it.execute == Execute::Attached);
    let answers = attached.map(|it| (it, it.store.response_body_max_bytes));
    add(case, Lint::BufferTooSmallToStore, "store.response_body_max_bytes", answers, found);
}

/// Tells of the largest of what rules hold and Envoy does not.
fn add<'a>(
    case: &Case<'_>,
    lint: Lint,
    field: &str,
    held: impl Iterator<Item = (&'a Rule, u32)>,
    found: &mut Findings,
) {
    let held = held.map(|(rule, bytes)| (limit(case, rule), u64::from(bytes)));
    let largest = held.filter(|(limit, bytes)| limit <= bytes).max_by_key(|(_, bytes)| *bytes);
    if let Some((limit, bytes)) = largest {
        let what = format!("{limit} bytes are not more than the {bytes} of {field}");
        let instead = format!("{FIELD}: {}", bytes.saturating_mul(2));
        let place = case.place(&case.guard.manager.listener.path_of(FIELD));
        found.add(lint, place, what, instead);
    }
}

/// What Envoy holds of each of the rule's requests.
fn limit(case: &Case<'_>, rule: &Rule) -> u64 {
    let listener = case.guard.manager.listener.number(FIELD).unwrap_or(LIMIT_DEFAULT_BYTES);
    let routes = case.routes(rule);
    let raised = routes.iter().map(|it| it.node.number(RAISED).or(it.host.number(RAISED)));
    listener.max(raised.map(Option::unwrap_or_default).min().unwrap_or_default())
}
