//! Whether Envoy would end too early what the filter works for, or never what it has dropped.

use latchkey_core::config::{Execute, Rule};

use super::{Case, Findings, Lint, executing, through};
use crate::check::gateway::Manager;

/// Envoy's default (`RouteAction.timeout`).
const ROUTE_TIMEOUT_DEFAULT_MS: u64 = 15_000;

/// Envoy's default (`HttpConnectionManager.stream_idle_timeout`).
const STREAM_IDLE_TIMEOUT_DEFAULT_MS: u64 = 300_000;

/// What a suggested timeout is longer than what it has to outlast.
const MARGIN_MS: u64 = 30_000;

pub(super) fn check(case: &Case<'_>, found: &mut Findings) {
    outer(case, found);
    for rule in &case.config.rules {
        let Some((_, timeout_ms)) = through(rule) else { continue };
        for inner in executing(case, rule) {
            idle(case, inner, timeout_ms.into(), found);
            routes(case, inner, rule, timeout_ms.into(), found);
        }
    }
}

/// How long a client may wait under this rule, in ms, as far as the rule says.
fn patience_ms(rule: &Rule) -> u64 {
    let execution = match rule.execute {
        Execute::Detached { timeout_ms, .. } => timeout_ms,
        Execute::Attached => 0,
    };
    execution.max(rule.on_conflict.wait_ms).into()
}

fn outer(case: &Case<'_>, found: &mut Findings) {
    let manager = &case.guard.manager.node;
    let longest = case.config.rules.iter().map(patience_ms).max().unwrap_or_default();
    let instead = |field: &str| {
        let last = field.rsplit('.').next().unwrap_or_default();
        format!("{last}: {}", seconds(longest.saturating_add(MARGIN_MS)))
    };
    let bounds = ["request_timeout", "stream_idle_timeout"];
    if bounds.iter().all(|it| manager.milliseconds(it).unwrap_or_default() == 0) {
        let field = "stream_idle_timeout";
        let what = "neither request_timeout nor stream_idle_timeout is set";
        let place = case.place(&manager.path_of(field));
        found.add(Lint::OuterTimeoutMissing, place, what, instead(field));
    }
    let limits = [
        ("request_timeout", None),
        ("stream_idle_timeout", Some(STREAM_IDLE_TIMEOUT_DEFAULT_MS)),
        ("common_http_protocol_options.max_stream_duration", None),
    ];
    for (field, default) in limits {
        let limit = manager.milliseconds(field).or(default);
        if let Some(limit) = limit.filter(|it| *it != 0 && *it <= longest) {
            let place = case.place(&manager.path_of(field));
            found.add(
                Lint::OuterTimeoutTooShort,
                place,
                beside(field, limit, longest),
                instead(field),
            );
        }
    }
    for rule in &case.config.rules {
        for route in case.routes(rule) {
            let field = "route.idle_timeout";
            let limit = route.node.milliseconds(field).filter(|it| *it != 0);
            if let Some(limit) = limit.filter(|it| *it <= patience_ms(rule)) {
                let place = case.place(&route.node.path_of(field));
                let what = beside("idle_timeout", limit, patience_ms(rule));
                found.add(Lint::OuterTimeoutTooShort, place, what, instead(field));
            }
        }
    }
}

fn beside(field: &str, limit: u64, longest: u64) -> String {
    let field = field.rsplit('.').next().unwrap_or_default();
    format!("{field} of {} is not above the {longest} ms that a client may wait", seconds(limit))
}

fn idle<'a>(case: &Case<'a>, inner: &Manager<'a>, timeout_ms: u64, found: &mut Findings) {
    let limits = [
        ("stream_idle_timeout", Some(STREAM_IDLE_TIMEOUT_DEFAULT_MS)),
        ("common_http_protocol_options.max_stream_duration", None),
    ];
    for (field, default) in limits {
        let limit = inner.node.milliseconds(field).or(default);
        if let Some(limit) = limit.filter(|it| *it != 0 && *it <= timeout_ms) {
            let place = case.place_in(inner, &inner.node.path_of(field));
            let what =
                format!("{} is not above execute.timeout_ms ({timeout_ms} ms)", seconds(limit));
            let last = field.rsplit('.').next().unwrap_or_default();
            let instead = format!("{last}: {}", seconds(timeout_ms.saturating_add(MARGIN_MS)));
            found.add(Lint::InnerTimeoutTooShort, place, what, instead);
        }
    }
}

fn routes<'a>(
    case: &Case<'a>,
    inner: &Manager<'a>,
    rule: &Rule,
    timeout_ms: u64,
    found: &mut Findings,
) {
    let limits = [
        ("timeout", Some(ROUTE_TIMEOUT_DEFAULT_MS)),
        ("idle_timeout", None),
        ("max_stream_duration.max_stream_duration", None),
    ];
    for route in case.routes_in(inner, rule).iter().filter(|it| it.forwards()) {
        for (field, default) in limits {
            let field = format!("route.{field}");
            let limit = route.node.milliseconds(&field).or(default);
            if let Some(limit) = limit.filter(|it| *it != 0 && *it < timeout_ms) {
                let place = case.place_in(inner, &route.node.path_of(&field));
                let what = format!(
                    "{} is less than the execute.timeout_ms of `{}` ({timeout_ms} ms)",
                    seconds(limit),
                    rule.name
                );
                let last = field.rsplit('.').next().unwrap_or_default();
                found.add(Lint::RouteTimeoutTooShort, place, what, format!("{last}: 0s"));
            }
        }
    }
}

/// As protobuf writes a duration.
fn seconds(ms: u64) -> String {
    match ms % 1_000 {
        0 => format!("{}s", ms / 1_000),
        rest => format!("{}.{rest:03}s", ms / 1_000),
    }
}
