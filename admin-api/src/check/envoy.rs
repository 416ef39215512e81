//! What is looked for in Envoy's configuration, around each filter of ours.

mod buffers;
mod clusters;
mod cors;
mod elsewhere;
mod identity;
mod markers;
mod order;
mod paths;
mod plugin;
mod repeats;
mod replies;
mod timeouts;

use latchkey_core::config::{Config, Execute, ExecuteTo, Rule};

use super::finding::{Findings, Place};
use super::gateway::{Case, Gateway, Guard, Inner, Manager};
use super::input::{Document, InputError};
use super::lint::Lint;
use super::rules;

/// A configuration of the filter within Envoy's.
struct Embedded {
    /// Where.
    at: String,
    text: String,
    config: Config,
}

/// Looks around every filter of ours. `file` is the configuration that counts; where there is
/// none, it is what is embedded at each filter.
///
/// # Errors
/// When an embedded configuration is not one that the filter would take.
pub(super) fn check(
    gateway: &Gateway<'_>,
    document: &Document,
    file: Option<&Config>,
    found: &mut Findings,
) -> Result<(), InputError> {
    let guards = gateway.guards();
    let discovered = gateway.discovered();
    for (manager, filter) in &discovered {
        let place = gateway.place(filter.node.path(), Some(manager.listener_name()));
        let what =
            format!("`{}`: what it is comes from elsewhere (config_discovery)", filter.name());
        found.add(Lint::NotJudged, place, what, "a document with the filter in it, for this check");
    }
    if guards.is_empty() && discovered.is_empty() {
        let instead = "the filter, before the router, as `latchkey envoy-config` prints it";
        let place = gateway.place("", None);
        found.add(Lint::FilterNotFound, place, "there is no filter of ours", instead);
    }
    for guard in &guards {
        let embedded = embedded(guard, document)?;
        let config = match (file, &embedded) {
            (Some(file), _) => file,
            (None, Some(embedded)) => &embedded.config,
            (None, None) => {
                let reason = "has no configuration of the filter; name a file that has";
                let at = guard.plugin.path();
                return Err(InputError::whole(&document.name, &format!("{at}: {reason}")));
            }
        };
        let case = Case { gateway, guard, config };
        if let (None, Some(Embedded { at, text, .. })) = (file, &embedded) {
            let listener = guard.manager.listener_name();
            let place = |field: &str| gateway.place_within(at, text, field, listener);
            rules::check(config, &place, found);
        }
        plugin::check(&case, embedded.as_ref(), found);
        order::check(&case, found);
        identity::check(&case, found);
        buffers::check(&case, found);
        replies::check(&case, found);
        markers::check(&case, found);
        repeats::check(&case, found);
        timeouts::check(&case, found);
        paths::check(&case, found);
        clusters::check(&case, found);
        elsewhere::check(&case, found);
        cors::check(&case, found);
    }
    Ok(())
}

/// What is embedded at this filter, and where that is.
fn embedded(guard: &Guard<'_>, document: &Document) -> Result<Option<Embedded>, InputError> {
    let Some((at, text)) = guard.embedded() else { return Ok(None) };
    match Config::from_json(text.as_bytes()) {
        Ok(config) => Ok(Some(Embedded { at, text, config })),
        Err(error) => Err(InputError::config(document, &at, error)),
    }
}

/// The cluster of an internal listener, and the timeout, where the rule executes through one.
fn through(rule: &Rule) -> Option<(&str, u32)> {
    match &rule.execute {
        Execute::Detached { to: ExecuteTo::Cluster(cluster), timeout_ms } => {
            Some((cluster, *timeout_ms))
        }
        Execute::Detached { to: ExecuteTo::Direct, .. } | Execute::Attached => None,
    }
}

/// The managers that the rule's executions pass: of internal listeners, or where they are
/// attached the one of our filter.
fn executing<'a>(case: &Case<'a>, rule: &Rule) -> Vec<&'a Manager<'a>> {
    match &rule.execute {
        Execute::Detached { to: ExecuteTo::Cluster(cluster), .. } => {
            match case.gateway.inner(cluster) {
                Inner::Managers(managers) => managers,
                Inner::NoCluster | Inner::Elsewhere(_) | Inner::NoListener(..) => Vec::new(),
            }
        }
        Execute::Detached { to: ExecuteTo::Direct, .. } => Vec::new(),
        Execute::Attached => vec![case.guard.manager],
    }
}
