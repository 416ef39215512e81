//! Envoy's configuration of the plugin.

use latchkey_core::config::NO_RULE;

use super::{Case, Embedded, Findings, Lint};
use crate::check::gateway::RULE;

/// `embedded` is the configuration in this document.
pub(super) fn check(case: &Case<'_>, embedded: Option<&Embedded>, found: &mut Findings) {
    let plugin = &case.guard.plugin;
    if !plugin.is_true("allow_on_headers_stop_iteration") {
        let place = case.place(&plugin.path_of("allow_on_headers_stop_iteration"));
        let what = "allow_on_headers_stop_iteration is not true";
        let instead = "allow_on_headers_stop_iteration: true";
        found.add(Lint::StopIterationNotAllowed, place, what, instead);
    }
    failure_policy(case, found);
    environment(case, found);
    routes(case, found);
    let place = |at: &str| case.place(at);
    match embedded {
        None => {
            let what = "there is no configuration here";
            let instead = "the file's content, as a StringValue";
            let place = place(&plugin.path_of("configuration"));
            found.add(Lint::ConfigurationDiffers, place, what, instead);
        }
        Some(Embedded { at, config, .. }) if config != case.config => {
            let what = "the configuration here is not that of the file";
            found.add(Lint::ConfigurationDiffers, place(at), what, "the file's content");
        }
        Some(_) => {}
    }
}

/// What routes say to the filter.
fn routes(case: &Case<'_>, found: &mut Findings) {
    let config = case.gateway.route_config(case.guard.manager);
    let hosts = config.map(|it| it.items("virtual_hosts")).unwrap_or_default();
    for route in hosts.iter().flat_map(|it| it.items("routes")) {
        let Some(rule) = route.at(RULE) else { continue };
        let name = rule.value().as_str().unwrap_or_default();
        if name != NO_RULE && case.config.rules.iter().all(|it| it.name != name) {
            let what = format!("this route names the rule `{name}`, and there is none");
            let instead = format!("the name of a rule, or `{NO_RULE}`");
            found.add(Lint::RouteNamesNoRule, case.place(rule.path()), what, instead);
        }
    }
    let name = case.guard.name();
    for rule in &case.config.rules {
        for off in case.routes(rule).iter().filter(|it| it.turns_off(name)) {
            let what = format!("the filter is off on a route of the rule `{}`", rule.name);
            let path = off.per_filter(name).map_or_else(String::new, |it| it.path().to_owned());
            let instead = format!(
                "`metadata: {{ filter_metadata: {{ latchkey: {{ rule: \"{NO_RULE}\" }} }} }}`                          where that is meant"
            );
            found.add(Lint::FilterOffOnRoute, case.place(&path), what, instead);
        }
    }
}

fn failure_policy(case: &Case<'_>, found: &mut Findings) {
    const INSTEAD: &str = "failure_policy: FAIL_RELOAD";
    let plugin = &case.guard.plugin;
    let policy = plugin.text("failure_policy");
    let open = plugin.is_true("fail_open") || policy == Some("FAIL_OPEN");
    if open {
        let field = if policy.is_some() { "failure_policy" } else { "fail_open" };
        let place = case.place(&plugin.path_of(field));
        let what = "the filter fails open";
        found.add(Lint::FailurePolicyOpen, place, what, INSTEAD);
    } else if policy != Some("FAIL_RELOAD") {
        let place = case.place(&plugin.path_of("failure_policy"));
        let what = format!("failure_policy is {}", policy.unwrap_or("not set"));
        found.add(Lint::FailurePolicyNotReload, place, what, INSTEAD);
    }
}

fn environment(case: &Case<'_>, found: &mut Findings) {
    let plugin = &case.guard.plugin;
    let variables = "vm_config.environment_variables";
    let mut passed = plugin.texts(&format!("{variables}.host_env_keys"));
    let set = plugin.entries(&format!("{variables}.key_values"));
    passed.extend(set.iter().map(|(name, _)| *name));
    let secrets = case.config.secrets.iter().map(|it| it.env.as_str());
    let wanted = secrets.chain(case.config.state.token_env.as_deref());
    let missing: Vec<&str> = wanted.filter(|it| !passed.contains(it)).collect();
    if missing.is_empty() {
        return;
    }
    let missing = missing.join(", ");
    let place = case.place(&plugin.path_of(&format!("{variables}.host_env_keys")));
    let what = format!("{missing}: not handed to the VM");
    let instead = format!("environment_variables: {{ host_env_keys: [ {missing} ] }}");
    found.add(Lint::EnvironmentNotPassed, place, what, instead);
}
