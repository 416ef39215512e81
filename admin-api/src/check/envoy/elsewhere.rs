//! What cannot be seen in this document.

use super::{Case, Findings, Inner, Lint, through};
use crate::check::gateway::Manager;

const INSTEAD: &str = "a document with it in it, for this check";

pub(super) fn check(case: &Case<'_>, found: &mut Findings) {
    routes(case, case.guard.manager, found);
    for rule in &case.config.rules {
        let Some((name, _)) = through(rule) else { continue };
        let rule = &rule.name;
        match case.gateway.inner(name) {
            Inner::Managers(managers) => {
                managers.into_iter().for_each(|it| routes(case, it, found));
            }
            Inner::Elsewhere(cluster) if cluster.get("load_assignment").is_none() => {
                let what = format!("where `{name}` leads, through which `{rule}` executes");
                let place = case.gateway.place(cluster.path(), None);
                found.add(Lint::NotJudged, place, what, INSTEAD);
            }
            Inner::NoListener(cluster, listener) if case.gateway.may_have_more() => {
                let what = format!("the listener `{listener}`, through which `{rule}` executes");
                let place = case.gateway.place(cluster.path(), None);
                found.add(Lint::NotJudged, place, what, INSTEAD);
            }
            Inner::NoCluster if case.gateway.may_have_more() => {
                let what = format!("the cluster `{name}`, through which `{rule}` executes");
                let place = case.gateway.place("", None);
                found.add(Lint::NotJudged, place, what, INSTEAD);
            }
            // Told as what is wrong.
            Inner::Elsewhere(_) | Inner::NoListener(..) | Inner::NoCluster => {}
        }
    }
}

fn routes(case: &Case<'_>, manager: &Manager<'_>, found: &mut Findings) {
    if case.gateway.route_config(manager).is_none() {
        let what = "the routes, which come from elsewhere";
        found.add(Lint::NotJudged, case.place_in(manager, manager.node.path()), what, INSTEAD);
    }
}
