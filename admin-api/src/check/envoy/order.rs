//! The filters around ours, and what a detached execution does not pass.

use latchkey_core::config::{Execute, ExecuteTo, Rule};
use serde_json::Value;

use super::{Case, Findings, Lint, executing};
use crate::check::gateway::{Filter, Route};
use crate::check::node::Node;

/// The types of filters that decide who may call.
const AUTHENTICATION: [&str; 6] =
    ["JwtAuthentication", "ExtAuthz", "OAuth2", "BasicAuth", "ApiKeyAuth", "RBAC"];

/// What a route's action does to a request beside choosing its cluster.
const ACTION: [&str; 16] = [
    "prefix_rewrite",
    "regex_rewrite",
    "path_rewrite_policy",
    "path_rewrite",
    "host_rewrite_literal",
    "host_rewrite_header",
    "host_rewrite_path_regex",
    "host_rewrite",
    "auto_host_rewrite",
    "append_x_forwarded_host",
    "hash_policy",
    "internal_redirect_policy",
    "metadata_match",
    "timeout",
    "idle_timeout",
    "max_stream_duration",
];

/// The same, where a virtual host may say it for all its routes.
const INHERITED: [&str; 3] = ["retry_policy", "hedge_policy", "request_mirror_policies"];

/// The same, on routes, virtual hosts and the whole configuration.
const HEADERS: [&str; 4] = [
    "request_headers_to_add",
    "request_headers_to_remove",
    "response_headers_to_add",
    "response_headers_to_remove",
];

pub(super) fn check(case: &Case<'_>, found: &mut Findings) {
    for filter in case.guard.after().filter(|it| is_authentication(it)) {
        let what = format!("`{}` comes after the filter", filter.name());
        let instead = "it before the filter";
        let place = case.place(filter.node.path());
        found.add(Lint::AuthenticationAfter, place, what, instead);
    }
    for filter in case.guard.after().filter(|it| is_cors(it)) {
        let what = format!("`{}` comes after the filter", filter.name());
        let place = case.place(filter.node.path());
        found.add(Lint::CorsAfter, place, what, "it before the filter");
    }
    for rule in &case.config.rules {
        match &rule.execute {
            Execute::Detached { to: ExecuteTo::Direct, .. } => direct(case, rule, found),
            Execute::Detached { to: ExecuteTo::Cluster(_), .. } => cluster(case, rule, found),
            Execute::Attached => {}
        }
    }
}

fn is_cors(filter: &Filter<'_>) -> bool {
    filter.kind == "Cors"
}

pub(super) fn is_authentication(filter: &Filter<'_>) -> bool {
    AUTHENTICATION.contains(&filter.kind)
}

fn direct(case: &Case<'_>, rule: &Rule, found: &mut Findings) {
    let instead = "`execute.cluster`, through an internal listener with the remaining filters and \
                   the routes";
    for filter in case.guard.after() {
        let what = format!("the rule `{}` skips `{}`", rule.name, filter.name());
        found.add(Lint::DirectSkipsFilters, case.place(filter.node.path()), what, instead);
    }
    for route in case.routes(rule) {
        for skipped in skipped(&route) {
            let field = skipped.path().rsplit('.').next().unwrap_or_default();
            let what = format!("the rule `{}` skips {field}", rule.name);
            found.add(Lint::DirectSkipsRoute, case.place(skipped.path()), what, instead);
        }
    }
}

/// What such a route says that a direct execution does not do.
fn skipped<'a>(route: &Route<'a>) -> Vec<Node<'a>> {
    if !route.forwards() {
        return Vec::new();
    }
    let action = ACTION.iter().filter_map(|field| route.node.at(&format!("route.{field}")));
    let inherited = INHERITED.iter().filter_map(|field| route.inherited(field));
    let headers = [&route.node, &route.host, &route.config].into_iter();
    let headers = headers.flat_map(|it| HEADERS.iter().filter_map(|field| it.get(field)));
    let weighted = route.node.items("route.weighted_clusters.clusters");
    let of_clusters = weighted.iter().flat_map(|cluster| {
        let fields = HEADERS.iter().chain(&["host_rewrite_literal", "metadata_match"]);
        fields.filter_map(|field| cluster.get(field))
    });
    let all = action.chain(inherited).chain(headers).chain(of_clusters);
    all.filter(|it| !says_nothing(it)).collect()
}

/// Whether a field is as good as not there.
fn says_nothing(field: &Node<'_>) -> bool {
    match field.value() {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        // A timeout of nothing is none.
        Value::String(text) => text.is_empty() || text == "0s",
        Value::Bool(it) => !it,
        Value::Null | Value::Number(_) => false,
    }
}

fn cluster(case: &Case<'_>, rule: &Rule, found: &mut Findings) {
    for inner in executing(case, rule) {
        // Those that have to come before ours are told of above.
        let after = case.guard.after().filter(|it| !is_authentication(it) && !is_cors(it));
        for filter in after {
            if inner.filters.iter().any(|it| it.kind == filter.kind) {
                continue;
            }
            let (name, listener) = (filter.name(), inner.listener_name());
            let what = format!("the listener `{listener}` has no filter of the kind of `{name}`");
            let instead = format!("`{name}` in the listener `{listener}` too, or before ours");
            let place = case.place(filter.node.path());
            found.add(Lint::ClusterSkipsFilters, place, what, instead);
        }
    }
}
