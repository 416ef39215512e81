//! What the filter calls, and whether it is there.

use super::{Case, Findings, Inner, Lint, through};

const EXTENSION: &str = "InternalListener";

pub(super) fn check(case: &Case<'_>, found: &mut Findings) {
    let gateway = case.gateway;
    let state = &case.config.state.cluster;
    if gateway.cluster(state).is_none() && !gateway.may_have_more() {
        missing(case, "state.cluster", state, found);
    }
    for (at, rule) in case.config.rules.iter().enumerate() {
        let Some((name, _)) = through(rule) else { continue };
        match gateway.inner(name) {
            Inner::NoCluster if gateway.may_have_more() => {}
            Inner::NoCluster => {
                missing(case, &format!("rules[{at}].execute.cluster"), name, found);
            }
            // A cluster whose endpoints come from elsewhere is not to be judged from here.
            Inner::Elsewhere(cluster) if cluster.get("load_assignment").is_none() => {}
            Inner::Elsewhere(cluster) => {
                let what = format!("the rule `{}` executes through `{name}`", rule.name);
                let instead = "a cluster whose endpoint is an envoy_internal_address";
                let place = gateway.place(cluster.path(), None);
                found.add(Lint::ClusterNotInternal, place, what, instead);
            }
            Inner::NoListener(cluster, listener) => {
                if !gateway.may_have_more() {
                    let what = format!("there is no listener `{listener}`");
                    let instead = format!("a listener `{listener}` with `internal_listener: {{}}`");
                    let place = gateway.place(cluster.path(), None);
                    found.add(Lint::InternalListenerMissing, place, what, instead);
                }
                extension(case, found);
            }
            Inner::Managers(_) => extension(case, found),
        }
    }
}

fn missing(case: &Case<'_>, field: &str, name: &str, found: &mut Findings) {
    let what = format!("{field} names `{name}`, which is no cluster of this document");
    let instead = format!("a cluster `{name}`, as `latchkey envoy-config` prints it");
    let place = case.gateway.place("static_resources.clusters", None);
    found.add(Lint::ClusterMissing, place, what, instead);
}

fn extension(case: &Case<'_>, found: &mut Findings) {
    if !case.gateway.is_bootstrap() {
        return;
    }
    let extensions = case.gateway.root.items("bootstrap_extensions");
    if extensions.iter().all(|it| it.typed_config_of(EXTENSION).is_none()) {
        let what = "envoy.bootstrap.internal_listener is not there";
        let instead = "- { name: envoy.bootstrap.internal_listener, typed_config: { \"@type\": \
                       type.googleapis.com/envoy.extensions.bootstrap.internal_listener.v3.\
                       InternalListener } }";
        found.add(
            Lint::InternalListenersOff,
            case.gateway.place("bootstrap_extensions", None),
            what,
            instead,
        );
    }
}
