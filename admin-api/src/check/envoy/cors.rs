//! Whether browsers let scripts use keys, and tell a replay.

use latchkey_core::config::Rule;

use super::{Case, Findings, Lint};
use crate::check::node::Node;

const REPLAYED: &str = "idempotent-replayed";

pub(super) fn check(case: &Case<'_>, found: &mut Findings) {
    let Some(filter) = case.guard.before().find(|it| it.kind == "Cors") else { return };
    for rule in &case.config.rules {
        for route in case.routes(rule) {
            if let Some(policy) = route.per_filter(filter.name()) {
                exposed(case, &policy, found);
                allowed(case, &policy, rule, found);
            }
        }
    }
}

/// The filter exposes its fields by itself; a policy that exposes any replaces that.
fn exposed(case: &Case<'_>, policy: &Node<'_>, found: &mut Findings) {
    const FIELD: &str = "expose_headers";
    let says = policy.text(FIELD).is_some_and(|it| !it.is_empty());
    if says && !lists(policy, FIELD, REPLAYED) {
        let place = case.place(&policy.path_of(FIELD));
        let what = format!("{REPLAYED} is not exposed");
        found.add(Lint::CorsHidesReplays, place, what, with(policy, FIELD, REPLAYED));
    }
}

/// A request with the key's header is one that browsers ask about first.
fn allowed(case: &Case<'_>, policy: &Node<'_>, rule: &Rule, found: &mut Findings) {
    const FIELD: &str = "allow_headers";
    let keys = rule.key.headers.first();
    if let Some(key) = keys.filter(|key| !lists(policy, FIELD, key)) {
        let place = case.place(&policy.path_of(FIELD));
        let what = format!("{key} is not allowed");
        found.add(Lint::CorsBlocksKeys, place, what, with(policy, FIELD, key));
    }
}

fn lists(policy: &Node<'_>, field: &str, header: &str) -> bool {
    let names = policy.text(field).unwrap_or_default().split(',').map(str::trim);
    names.into_iter().any(|it| it == "*" || it.eq_ignore_ascii_case(header))
}

fn with(policy: &Node<'_>, field: &str, header: &str) -> String {
    match policy.text(field).filter(|it| !it.is_empty()) {
        Some(names) => format!("{field}: \"{names},{header}\""),
        None => format!("{field}: {header}"),
    }
}
