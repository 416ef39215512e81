//! Whether Envoy would execute a request more than once by itself.

use latchkey_core::config::{Execute, ExecuteTo};

use super::{Case, Findings, Lint, Place, executing};
use crate::check::gateway::Route;
use crate::check::node::Node;

/// When Envoy retries what no upstream has seen.
const UNSENT: [&str; 3] = ["connect-failure", "refused-stream", "reset-before-request"];

const WITHOUT: &str = "a route of its own for guarded requests, without it";

type PlaceOf<'a> = &'a dyn Fn(&str) -> Place;

pub(super) fn check(case: &Case<'_>, found: &mut Findings) {
    for rule in &case.config.rules {
        for manager in executing(case, rule) {
            let place = |path: &str| case.place_in(manager, path);
            for route in case.routes_in(manager, rule).iter().filter(|it| it.forwards()) {
                let mirrors = route.inherited("request_mirror_policies");
                let mirrors = mirrors.or_else(|| route.config.get("request_mirror_policies"));
                retries(route.inherited("retry_policy"), &place, found);
                mirroring(mirrors, &place, found);
                redirects_and_hedges(route, &place, found);
                clusters(case, route, found);
            }
        }
        // A direct execution is a call to the cluster of the route, which has policies of its own.
        if matches!(rule.execute, Execute::Detached { to: ExecuteTo::Direct, .. }) {
            case.routes(rule).iter().for_each(|route| clusters(case, route, found));
        }
    }
}

/// Since Envoy 1.37 clusters have the same policies, for routes that have none.
fn clusters(case: &Case<'_>, route: &Route<'_>, found: &mut Findings) {
    let place = |path: &str| case.gateway.place(path, None);
    for cluster in route.clusters().iter().filter_map(|name| case.gateway.cluster(name)) {
        let options = cluster.entries("typed_extension_protocol_options");
        let options = options.iter().find(|(_, it)| it.kind() == Some("HttpProtocolOptions"));
        let Some((_, options)) = options else { continue };
        retries(options.get("retry_policy"), &place, found);
        mirroring(options.get("request_mirror_policies"), &place, found);
    }
}

fn retries(policy: Option<Node<'_>>, place: PlaceOf<'_>, found: &mut Findings) {
    let Some(policy) = policy else { return };
    let on = policy.text("retry_on").unwrap_or_default();
    let conditions: Vec<&str> = on.split(',').map(str::trim).filter(|it| !it.is_empty()).collect();
    if conditions.is_empty() {
        return;
    }
    let what = format!("retry_on: {on}");
    if conditions.iter().all(|it| UNSENT.contains(it)) {
        let instead = "nothing need be changed; without it the client's retry does the same";
        found.add(Lint::RouteRetriesUnsent, place(policy.path()), what, instead);
    } else {
        let instead = format!(
            "no retry_policy here: clients retry. Harmless is `retry_on: {}`",
            UNSENT.join(",")
        );
        found.add(Lint::RouteRetries, place(policy.path()), what, instead);
    }
}

fn mirroring(policies: Option<Node<'_>>, place: PlaceOf<'_>, found: &mut Findings) {
    let is_empty = |it: &Node<'_>| it.value().as_array().is_some_and(Vec::is_empty);
    if let Some(policies) = policies.filter(|it| !is_empty(it)) {
        let what = "guarded requests are mirrored";
        found.add(Lint::RouteMirrors, place(policies.path()), what, WITHOUT);
    }
}

fn redirects_and_hedges(route: &Route<'_>, place: PlaceOf<'_>, found: &mut Findings) {
    if let Some(policy) = route.inherited("hedge_policy") {
        let what = "guarded requests are hedged";
        found.add(Lint::RouteHedges, place(policy.path()), what, WITHOUT);
    }
    if let Some(policy) = route.node.at("route.internal_redirect_policy") {
        let what = "redirects of guarded requests are followed";
        found.add(Lint::RouteRedirects, place(policy.path()), what, WITHOUT);
    }
}
