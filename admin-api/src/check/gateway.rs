//! What this program understands of Envoy's configuration: who listens, through which filters,
//! by which routes, to which clusters.

mod routes;

use super::finding::Place;
use super::node::Node;
use crate::yaml::Yaml;
use latchkey_core::config::{Config, Rule};

use routes::Traffic;

pub(super) use routes::{Overlap, RULE, Route, overlap};

/// What names of our filter have in common: its own, its plugin's, its VM's or its file's.
const OURS: &str = "latchkey";

/// A bootstrap, or a file of resources that a bootstrap reads.
pub(super) struct Gateway<'a> {
    document: &'a str,
    yaml: &'a Yaml,
    pub(super) root: Node<'a>,
    managers: Vec<Manager<'a>>,
    clusters: Vec<Node<'a>>,
    route_configs: Vec<Node<'a>>,
}

/// An HTTP connection manager.
pub(super) struct Manager<'a> {
    /// The listener that it belongs to.
    pub(super) listener: Node<'a>,
    /// The filter chain.
    pub(super) chain: Node<'a>,
    /// Its configuration.
    pub(super) node: Node<'a>,
    /// Its filters, without those that are disabled.
    pub(super) filters: Vec<Filter<'a>>,
}

/// An HTTP filter.
#[derive(Clone)]
pub(super) struct Filter<'a> {
    pub(super) node: Node<'a>,
    /// The type of its configuration, empty where it has none.
    pub(super) kind: &'a str,
}

/// Where our filter is.
pub(super) struct Guard<'a> {
    pub(super) manager: &'a Manager<'a>,
    /// Which of the manager's filters it is.
    at: usize,
    /// Envoy's configuration of the plugin.
    pub(super) plugin: Node<'a>,
}

/// Where a detached execution goes.
pub(super) enum Inner<'a> {
    /// There is no such cluster in this document.
    NoCluster,
    /// To something else than an internal listener.
    Elsewhere(Node<'a>),
    /// To an internal listener that there is not.
    NoListener(Node<'a>, &'a str),
    /// To these.
    Managers(Vec<&'a Manager<'a>>),
}

// === impl Gateway ===

impl<'a> Gateway<'a> {
    pub(super) fn new(document: &'a str, yaml: &'a Yaml) -> Self {
        let root = Node::root(&yaml.value);
        let resources = |list: &str, kind: &str| {
            let mut all = root.items(list);
            all.extend(root.items("resources").into_iter().filter(|it| it.kind() == Some(kind)));
            all
        };
        let managers = resources("static_resources.listeners", "Listener");
        let managers = managers.iter().flat_map(managers_of).collect();
        let clusters = resources("static_resources.clusters", "Cluster");
        let route_configs = resources("static_resources.route_configs", "RouteConfiguration");
        Self { document, yaml, root, managers, clusters, route_configs }
    }

    /// A place in this document, of this listener if it is of one.
    pub(super) fn place(&self, path: &str, listener: Option<&str>) -> Place {
        Place {
            document: self.document.to_owned(),
            path: path.to_owned(),
            line: self.yaml.line(path),
            listener: listener.filter(|it| !it.is_empty()).map(str::to_owned),
        }
    }

    /// The place of a field of the filter's configuration that is embedded, as `text`, at `path`.
    pub(super) fn place_within(
        &self,
        path: &str,
        text: &str,
        field: &str,
        listener: &str,
    ) -> Place {
        let nth = Yaml::read(text).ok().and_then(|it| it.line(field));
        let line = nth.and_then(|nth| self.yaml.line_within(path, nth));
        let whole = self.place(path, Some(listener));
        Place { path: format!("{path}: {field}"), line: line.or(whole.line), ..whole }
    }

    /// Whether everything that Envoy starts with is in this document.
    pub(super) fn is_bootstrap(&self) -> bool {
        self.root.get("static_resources").is_some()
    }

    /// Where our filter is.
    pub(super) fn guards(&'a self) -> Vec<Guard<'a>> {
        let guard = |manager: &'a Manager<'a>| {
            let filters = manager.filters.iter().enumerate();
            filters.filter_map(move |(at, filter)| {
                Some(Guard { manager, at, plugin: filter.our_plugin()? })
            })
        };
        self.managers.iter().flat_map(guard).collect()
    }

    /// Filters that may be ours, and come from elsewhere.
    pub(super) fn discovered(&self) -> Vec<(&Manager<'a>, &Filter<'a>)> {
        let all = self.managers.iter().flat_map(|it| it.filters.iter().map(move |of| (it, of)));
        all.filter(|(_, filter)| filter.is_discovered_and_ours()).collect()
    }

    /// A cluster, `None` where there is none of that name.
    pub(super) fn cluster(&self, name: &str) -> Option<&Node<'a>> {
        self.clusters.iter().find(|it| it.text("name") == Some(name))
    }

    /// Whether clusters and listeners may come from elsewhere.
    pub(super) fn may_have_more(&self) -> bool {
        !self.is_bootstrap() || self.root.at("dynamic_resources").is_some()
    }

    /// Where an execution through this cluster arrives.
    pub(super) fn inner(&'a self, cluster: &str) -> Inner<'a> {
        let Some(cluster) = self.cluster(cluster) else { return Inner::NoCluster };
        let localities = cluster.items("load_assignment.endpoints");
        let mut endpoints = localities.iter().flat_map(|it| it.items("lb_endpoints"));
        let name = endpoints
            .find_map(|it| it.text("endpoint.address.envoy_internal_address.server_listener_name"));
        let Some(name) = name else { return Inner::Elsewhere(cluster.clone()) };
        let managers = self.managers.iter();
        let managers: Vec<_> = managers.filter(|it| it.listener_name() == name).collect();
        if managers.is_empty() {
            return Inner::NoListener(cluster.clone(), name);
        }
        Inner::Managers(managers)
    }

    /// A manager's routes, `None` where they come from elsewhere.
    pub(super) fn route_config(&self, manager: &Manager<'a>) -> Option<Node<'a>> {
        if let Some(inline) = manager.node.get("route_config") {
            return Some(inline);
        }
        let name = manager.node.text("rds.route_config_name")?;
        self.route_configs.iter().find(|it| it.text("name") == Some(name)).cloned()
    }
}

fn managers_of<'a>(listener: &Node<'a>) -> Vec<Manager<'a>> {
    let mut chains = listener.items("filter_chains");
    chains.extend(listener.get("default_filter_chain"));
    let mut managers = Vec::new();
    for chain in chains {
        let filters = chain.items("filters").into_iter();
        for node in filters.filter_map(|it| it.typed_config_of("HttpConnectionManager")) {
            managers.push(Manager::new(listener.clone(), chain.clone(), node));
        }
    }
    managers
}

// === impl Manager ===

impl<'a> Manager<'a> {
    fn new(listener: Node<'a>, chain: Node<'a>, node: Node<'a>) -> Self {
        let filters = node.items("http_filters").into_iter();
        let filters = filters.filter(|it| !it.is_true("disabled")).map(Filter::new).collect();
        Self { listener, chain, node, filters }
    }

    pub(super) fn listener_name(&self) -> &'a str {
        self.listener.text("name").unwrap_or_default()
    }
}

// === impl Filter ===

impl<'a> Filter<'a> {
    fn new(node: Node<'a>) -> Self {
        let kind = node.get("typed_config").and_then(|it| it.kind()).unwrap_or_default();
        Self { node, kind }
    }

    pub(super) fn name(&self) -> &'a str {
        self.node.text("name").unwrap_or_default()
    }

    /// The message that configures it.
    pub(super) fn config(&self) -> Option<Node<'a>> {
        self.node.typed_config()
    }

    pub(super) fn is_router(&self) -> bool {
        self.kind == "Router"
    }

    /// Envoy's configuration of the plugin, where the plugin is ours.
    fn our_plugin(&self) -> Option<Node<'a>> {
        let extension = match self.kind {
            // Some requests pass by it, as its matcher says.
            "ExtensionWithMatcher" => self.config()?.get("extension_config")?,
            _ => self.node.clone(),
        };
        let plugin = extension.typed_config_of("Wasm")?.get("config")?;
        let names = [
            Some(self.name()),
            plugin.text("name"),
            plugin.text("root_id"),
            plugin.text("vm_config.vm_id"),
            plugin.text("vm_config.code.local.filename"),
            plugin.text("vm_config.code.remote.http_uri.uri"),
        ];
        let named = || names.into_iter().flatten().any(|it| it.contains(OURS));
        let configured = || {
            let text = embedded(&plugin).map(|(_, text)| text).unwrap_or_default();
            Config::from_json(text.as_bytes()).is_ok()
        };
        (named() || configured()).then_some(plugin)
    }

    /// Whether it may be ours, and comes from elsewhere.
    fn is_discovered_and_ours(&self) -> bool {
        self.node.get("config_discovery").is_some() && self.name().contains(OURS)
    }
}

// === impl Guard ===

impl<'a> Guard<'a> {
    /// The name of the filter.
    pub(super) fn name(&self) -> &'a str {
        self.manager.filters.get(self.at).map(Filter::name).unwrap_or_default()
    }

    /// The filters that a request passes before ours.
    pub(super) fn before(&self) -> impl Iterator<Item = &'a Filter<'a>> {
        self.manager.filters.iter().take(self.at)
    }

    /// The filters after ours, without the router.
    pub(super) fn after(&self) -> impl Iterator<Item = &'a Filter<'a>> {
        self.manager.filters.iter().skip(self.at + 1).filter(|it| !it.is_router())
    }

    /// The configuration of our filter as text, and where it is.
    pub(super) fn embedded(&self) -> Option<(String, String)> {
        embedded(&self.plugin)
    }
}

fn embedded(plugin: &Node<'_>) -> Option<(String, String)> {
    let any = plugin.get("configuration")?;
    let value = any.get("value")?;
    let text = match any.kind()? {
        "StringValue" => value.value().as_str()?.to_owned(),
        // Envoy hands it to the plugin as JSON.
        "Struct" => value.value().to_string(),
        _ => return None,
    };
    Some((value.path().to_owned(), text))
}

/// What a lint looks at: a place where our filter is, and the configuration that it has there.
pub(super) struct Case<'a> {
    pub(super) gateway: &'a Gateway<'a>,
    pub(super) guard: &'a Guard<'a>,
    pub(super) config: &'a Config,
}

// === impl Case ===

impl<'a> Case<'a> {
    /// The routes of the filter's own listener that the rule's requests may take.
    pub(super) fn routes(&self, rule: &Rule) -> Vec<Route<'a>> {
        self.gateway.routes(self.guard.manager, Traffic::before(rule))
    }

    /// The routes that the rule's executions may take, in what they pass.
    pub(super) fn routes_in(&self, manager: &Manager<'a>, rule: &Rule) -> Vec<Route<'a>> {
        if std::ptr::eq(manager, self.guard.manager) {
            return self.routes(rule);
        }
        let names = |it: &Route<'_>| it.node.text(RULE) == Some(rule.name.as_str());
        let by_name = self.routes(rule).iter().any(names);
        self.gateway.routes(manager, Traffic::beyond(rule, by_name))
    }

    /// A place in the listener that clients reach.
    pub(super) fn place(&self, path: &str) -> Place {
        self.place_in(self.guard.manager, path)
    }

    /// A place in another listener.
    pub(super) fn place_in(&self, manager: &Manager<'_>, path: &str) -> Place {
        self.gateway.place(path, Some(manager.listener_name()))
    }
}
