//! What is looked for in the filter's configuration alone.

use latchkey_core::config::{
    ClientName, Config, Host, Match, MissingClient, OnStateFailure, PathMatch, Rule,
};

use super::finding::{Findings, Place};
use super::lint::Lint;

/// Headers that hold a credential itself, which is renewed.
const CREDENTIALS: [&str; 3] = ["authorization", "proxy-authorization", "cookie"];

/// Looks at the rules. `place` says where a field is.
pub(super) fn check(config: &Config, place: &dyn Fn(&str) -> Place, found: &mut Findings) {
    for (at, rule) in config.rules.iter().enumerate() {
        let place = |field: &str| place(&format!("rules[{at}]{field}"));
        client(rule, &place, found);
        if rule.on_state_failure == OnStateFailure::Pass {
            let what = "requests pass unguarded while the state cannot be asked";
            let instead =
                "`\"on_state_failure\": \"reject\"`, unless a second execution is harmless";
            found.add(Lint::StateFailurePasses, place(".on_state_failure"), what, instead);
        }
        let mut earlier = config.rules.iter().take(at);
        if let Some(by) = earlier.find(|it| covers(&it.matches, &rule.matches)) {
            let what =
                format!("the rule `{}` never matches: `{}` stands before it", rule.name, by.name);
            let instead = format!("the narrower rule first: `{}`, then `{}`", rule.name, by.name);
            found.add(Lint::RuleShadowed, place(".match"), what, instead);
        }
    }
}

fn client(rule: &Rule, place: &dyn Fn(&str) -> Place, found: &mut Findings) {
    if let ClientName::Header(header) = &rule.client.name
        && CREDENTIALS.contains(&header.as_str())
    {
        let what =
            format!("clients are named by `{header}`, which changes with each new credential");
        let instead = "a stable name: a header that the authentication filter sets, or `jwt_claim` \
                       with `sub`";
        found.add(Lint::ClientIsCredential, place(".client.header"), what, instead);
    }
    if let ClientName::Fixed(name) = &rule.client.name {
        let what = format!("all clients of the rule `{}` are `{name}`", rule.name);
        let instead = "nothing, if that is so; else what an authentication filter says of them";
        found.add(Lint::ClientsAreOne, place(".client.fixed"), what, instead);
    }
    if rule.client.missing == MissingClient::Anonymous {
        let what = "clients without a name are all one client";
        let instead = "`\"missing\": \"reject\"`, or `bypass` where they need no guard";
        found.add(Lint::ClientsAnonymous, place(".client.missing"), what, instead);
    }
}

/// Whether everything that matches `inner` surely matches `outer`.
fn covers(outer: &Match, inner: &Match) -> bool {
    let (Some(outer_path), Some(inner_path)) = (&outer.path, &inner.path) else { return false };
    let hosts = outer.hosts.is_empty()
        || (!inner.hosts.is_empty()
            && inner.hosts.iter().all(|it| outer.hosts.iter().any(|by| covers_host(by, it))));
    inner.methods.iter().all(|method| outer.methods.contains(method))
        && hosts
        && covers_path(outer_path, inner_path)
}

fn covers_host(outer: &Host, inner: &Host) -> bool {
    match (outer, inner) {
        (Host::Exact(outer), Host::Exact(inner)) => outer == inner,
        (Host::Exact(_), Host::Below(_)) => false,
        (Host::Below(end), Host::Exact(inner)) => inner.len() > end.len() && inner.ends_with(end),
        (Host::Below(end), Host::Below(inner)) => inner.ends_with(end),
    }
}

fn covers_path(outer: &PathMatch, inner: &PathMatch) -> bool {
    match (outer, inner) {
        (PathMatch::Prefix(outer), PathMatch::Prefix(inner) | PathMatch::Exact(inner)) => {
            inner.starts_with(outer)
        }
        // Every path begins so.
        (PathMatch::Prefix(outer), PathMatch::Regex(_)) => outer == "/",
        (PathMatch::Exact(outer), PathMatch::Exact(inner)) => outer == inner,
        (PathMatch::Regex(outer), PathMatch::Regex(inner)) => outer == inner,
        (PathMatch::Exact(_), PathMatch::Prefix(_) | PathMatch::Regex(_))
        | (PathMatch::Regex(_), PathMatch::Prefix(_) | PathMatch::Exact(_)) => false,
    }
}
