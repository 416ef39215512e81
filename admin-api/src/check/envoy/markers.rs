//! Whether internal listeners say who answered.

use latchkey_core::classify::{ATTEMPTS_HEADER, DETAILS_HEADER};

use super::{Case, Findings, Lint, executing, through};
use crate::check::node::Node;

/// The headers, and what their values have to be.
const MARKERS: [(&str, &str); 2] = [
    (DETAILS_HEADER, "%RESPONSE_CODE_DETAILS%"),
    (ATTEMPTS_HEADER, "%UPSTREAM_REQUEST_ATTEMPT_COUNT%"),
];

/// The upstream's own headers of these names must not stay beside ours.
const ACTION: &str = "OVERWRITE_IF_EXISTS_OR_ADD";

pub(super) fn check(case: &Case<'_>, found: &mut Findings) {
    for rule in case.config.rules.iter().filter(|it| through(it).is_some()) {
        for inner in executing(case, rule) {
            if let Some(routes) = case.gateway.route_config(inner) {
                let missing: Vec<_> =
                    MARKERS.into_iter().filter(|it| !routes_add(&routes, *it)).collect();
                let path = routes.path_of("response_headers_to_add");
                add(&missing, "answers", case.place_in(inner, &path), found);
            }
            let mappers = inner.node.items("local_reply_config.mappers");
            let adds = |marker| mappers.iter().any(|it| has(it, "headers_to_add", marker));
            let missing: Vec<_> = MARKERS.into_iter().filter(|it| !adds(*it)).collect();
            let path = inner.node.path_of("local_reply_config");
            add(&missing, "Envoy's own answers", case.place_in(inner, &path), found);
        }
    }
}

fn add(
    missing: &[(&str, &str)],
    to: &str,
    place: crate::check::finding::Place,
    found: &mut Findings,
) {
    if missing.is_empty() {
        return;
    }
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    let headers: Vec<String> = missing
        .iter()
        .map(|(key, value)| {
            format!("{{ header: {{ key: {key}, value: \"{value}\" }}, append_action: {ACTION} }}")
        })
        .collect();
    let what = format!("{} not set on {to}", names.join(", "));
    found.add(Lint::MarkersMissing, place, what, headers.join(", "));
}

/// Whether every answer by these routes gets the header: all of them say so, or what they belong
/// to does.
fn routes_add(config: &Node<'_>, marker: (&str, &str)) -> bool {
    let adds = |node: &Node<'_>| has(node, "response_headers_to_add", marker);
    adds(config)
        || config
            .items("virtual_hosts")
            .iter()
            .all(|host| adds(host) || host.items("routes").iter().all(adds))
}

fn has(node: &Node<'_>, list: &str, (key, value): (&str, &str)) -> bool {
    node.items(list).iter().any(|it| {
        it.text("header.key").is_some_and(|it| it.eq_ignore_ascii_case(key))
            && it.text("header.value") == Some(value)
            && it.text("append_action") == Some(ACTION)
    })
}
