//! Which routes a guarded request may take.

use latchkey_core::config::{Host, PathMatch, Rule};

use super::{Gateway, Manager, Node};

/// Where a route's metadata name its rule.
pub(crate) const RULE: &str = "metadata.filter_metadata.latchkey.rule";

/// A route, and what it inherits from.
#[derive(Clone)]
pub(crate) struct Route<'a> {
    /// The route configuration.
    pub(crate) config: Node<'a>,
    /// The virtual host.
    pub(crate) host: Node<'a>,
    /// The route.
    pub(crate) node: Node<'a>,
}

/// How a route's match and a rule's lie to each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overlap {
    /// It takes none of the rule's requests.
    None,
    /// It may take some.
    Some,
    /// It takes all that are left.
    All,
}

/// Which of a rule's requests come to some routes.
#[derive(Clone, Copy)]
pub(crate) struct Traffic<'a> {
    rule: &'a Rule,
    /// Whether the routes are asked for the rule's name first, as by the filter.
    named: bool,
    /// `None` where the path may be any.
    path: Option<&'a PathMatch>,
}

// === impl Traffic ===

impl<'a> Traffic<'a> {
    /// On the way to the filter.
    pub(crate) const fn before(rule: &'a Rule) -> Self {
        Self { rule, named: true, path: rule.matches.path.as_ref() }
    }

    /// On its way from there: `by_name` says whether routes have named the rule, which then has
    /// their paths.
    pub(crate) const fn beyond(rule: &'a Rule, by_name: bool) -> Self {
        let path = if by_name { None } else { rule.matches.path.as_ref() };
        Self { rule, named: false, path }
    }

    /// How it lies to this route, and whether the rule is what guards it there.
    fn on(self, route: &Node<'_>) -> (Overlap, bool) {
        let overlap = overlap(route, self.rule, self.path);
        match route.text(RULE).filter(|_| self.named) {
            Some(name) if name == self.rule.name => (Overlap::Some, true),
            Some(_) => (overlap, false),
            None => (overlap, !self.named || self.path.is_some()),
        }
    }
}

// === impl Gateway ===

impl<'a> Gateway<'a> {
    /// The routes of this manager that the rule's requests may take: none where routes come from
    /// elsewhere.
    pub(crate) fn routes(&self, manager: &Manager<'a>, traffic: Traffic<'_>) -> Vec<Route<'a>> {
        let Some(config) = self.route_config(manager) else { return Vec::new() };
        let hosts = hosts_for(config.items("virtual_hosts"), &traffic.rule.matches.hosts);
        let mut taken = Vec::new();
        for host in hosts {
            for node in host.items("routes") {
                let (overlap, guarded) = traffic.on(&node);
                if overlap != Overlap::None && guarded {
                    taken.push(Route { config: config.clone(), host: host.clone(), node });
                }
                if overlap == Overlap::All {
                    break;
                }
            }
        }
        taken
    }
}

// === impl Route ===

impl<'a> Route<'a> {
    /// A field of the route's action, as `retry_policy`, or of the virtual host, which counts
    /// where the route has none.
    pub(crate) fn inherited(&self, field: &str) -> Option<Node<'a>> {
        self.node.at(&format!("route.{field}")).or_else(|| self.host.get(field))
    }

    /// The part of the configuration for this filter that counts here: the route's, the virtual
    /// host's, or that of all.
    pub(crate) fn per_filter(&self, filter: &str) -> Option<Node<'a>> {
        let levels = [&self.node, &self.host, &self.config];
        let of = |it: &Node<'a>| {
            let all = it.entries("typed_per_filter_config");
            all.into_iter().find(|(name, _)| *name == filter).map(|(_, it)| it)
        };
        levels.into_iter().find_map(of)
    }

    /// Whether a filter of this name does nothing here.
    pub(crate) fn turns_off(&self, filter: &str) -> bool {
        self.per_filter(filter).is_some_and(|it| it.is_true("disabled"))
    }

    /// The clusters that it names.
    pub(crate) fn clusters(&self) -> Vec<&'a str> {
        let weighted = self.node.items("route.weighted_clusters.clusters");
        let weighted = weighted.iter().filter_map(|it| it.text("name"));
        self.node.text("route.cluster").into_iter().chain(weighted).collect()
    }

    /// Whether it leads to an upstream, rather than to a redirect or an answer of Envoy's.
    pub(crate) fn forwards(&self) -> bool {
        self.node.get("route").is_some()
    }
}

/// Those virtual hosts that requests to these hosts may come to: for a single host just the one
/// that Envoy chooses.
fn hosts_for<'a>(all: Vec<Node<'a>>, hosts: &[Host]) -> Vec<Node<'a>> {
    let chosen: Vec<Option<&str>> = hosts
        .iter()
        .map(|host| match host {
            Host::Exact(name) => best_domain(&all, name),
            Host::Below(_) => None,
        })
        .collect();
    let may = |node: &Node<'a>| {
        hosts.is_empty()
            || hosts.iter().zip(&chosen).any(|(host, chosen)| match host {
                Host::Exact(_) => node.texts("domains").iter().any(|it| Some(*it) == *chosen),
                Host::Below(end) => node.texts("domains").iter().any(|it| is_below(it, end)),
            })
    };
    all.into_iter().filter(may).collect()
}

/// The domain by which Envoy finds a host: the very name, then the longest with a wild card.
fn best_domain<'a>(hosts: &[Node<'a>], name: &str) -> Option<&'a str> {
    let domains = hosts.iter().flat_map(|it| it.texts("domains"));
    let fits = domains.filter(|domain| match domain.split_once('*') {
        Some((start, end)) => name.starts_with(start) && name.ends_with(end),
        None => without_port(domain).eq_ignore_ascii_case(name),
    });
    fits.max_by_key(|domain| (!domain.contains('*'), domain.len()))
}

/// Whether a domain, as Envoy writes them, may be one of a host's that end in `end`.
fn is_below(domain: &str, end: &str) -> bool {
    match domain.split_once('*') {
        Some((_, tail)) => tail.ends_with(end) || end.ends_with(tail),
        None => without_port(domain).to_ascii_lowercase().ends_with(end),
    }
}

fn without_port(domain: &str) -> &str {
    domain.split_once(':').map_or(domain, |(host, _)| host)
}

/// How the match of a route, or of what matches as routes do, lies to the rule's requests, whose
/// path may be any where it is `None`.
pub(crate) fn overlap(route: &Node<'_>, rule: &Rule, path: Option<&PathMatch>) -> Overlap {
    let Some(matches) = route.get("match") else { return Overlap::Some };
    let mut headers = matches.items("headers");
    if let Some(at) = headers.iter().position(|it| it.text("name") == Some(":method")) {
        let exact = headers[at].text("string_match.exact").or(headers[at].text("exact_match"));
        let methods = &rule.matches.methods;
        if exact.is_some_and(|exact| methods.iter().all(|it| it != exact)) {
            return Overlap::None;
        }
        if exact.is_some_and(|exact| methods.iter().all(|it| it == exact)) {
            headers.remove(at);
        }
    }
    // What else a route asks for, a request may have or not.
    let conditions = ["query_parameters", "runtime_fraction", "dynamic_metadata", "cookies"];
    let certain = headers.is_empty() && !conditions.iter().any(|it| matches.get(it).is_some());
    match by_path(&matches, path) {
        Overlap::All if !certain => Overlap::Some,
        overlap @ (Overlap::None | Overlap::Some | Overlap::All) => overlap,
    }
}

fn by_path(matches: &Node<'_>, rule: Option<&PathMatch>) -> Overlap {
    let is = |all: bool, some: bool| match (all, some) {
        (true, _) => Overlap::All,
        (false, true) => Overlap::Some,
        (false, false) => Overlap::None,
    };
    let prefix = matches.text("prefix");
    // It matches the path itself, or all below it.
    let separated = matches.text("path_separated_prefix");
    let exact = matches.text("path");
    let Some(rule) = rule else { return is(prefix == Some("/"), true) };
    match (rule, prefix, separated, exact) {
        (PathMatch::Prefix(rule), Some(it), None, None) => {
            is(rule.starts_with(it), it.starts_with(rule))
        }
        (PathMatch::Exact(rule), Some(it), None, None) => is(rule.starts_with(it), false),
        (PathMatch::Prefix(rule), None, Some(it), None) => {
            is(rule.starts_with(&format!("{it}/")), it.starts_with(rule))
        }
        (PathMatch::Exact(rule), None, Some(it), None) => {
            is(rule == it || rule.starts_with(&format!("{it}/")), false)
        }
        (PathMatch::Prefix(rule), None, None, Some(it)) => is(false, it.starts_with(rule)),
        (PathMatch::Exact(rule), None, None, Some(it)) => is(rule == it, false),
        (PathMatch::Regex(_), Some(it), None, None) => is(it == "/", true),
        // A regular expression, or what this program does not know.
        (PathMatch::Prefix(_) | PathMatch::Exact(_) | PathMatch::Regex(_), _, _, _) => {
            if matches.get("connect_matcher").is_some() { Overlap::None } else { Overlap::Some }
        }
    }
}
