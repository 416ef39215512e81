//! The filter's configuration within Envoy's, and what has to fit it around.

use latchkey_core::config::{ClientName, Config, Execute, ExecuteTo, Rule};

use super::edits::Edits;
use super::{STATE, UPSTREAM};
use crate::check::{Document, InputError};

/// The internal listener, and the cluster that leads to it.
const INNER: &str = "latchkey_execute";
const INGRESS: &str = "ingress";

/// What the document's timeouts and buffer outlast and hold as they stand.
const TIMEOUTS_MS: u64 = 60_000;
const BUFFER_BYTES: u64 = 2 * 1024 * 1024;

/// How much longer than the longest execution a timeout is.
const MARGIN_MS: u64 = 30_000;

pub(super) fn embed(
    document: &Document,
    config: &Config,
    edits: &mut Edits,
) -> Result<(), InputError> {
    let plugin = edits.plugin()?;
    edits.set_block(&format!("{plugin}.configuration.value"), &document.text)?;
    let secrets = config.secrets.iter().map(|it| it.env.as_str());
    let mut variables = Vec::new();
    for variable in secrets.chain(config.state.token_env.as_deref()) {
        if !variables.contains(&variable) {
            variables.push(variable);
        }
    }
    let keys = format!("{plugin}.vm_config.environment_variables.host_env_keys");
    edits.set_items(&keys, &variables)?;
    clusters(document, config, edits)?;
    client(config, edits)?;
    limits(config, edits)
}

/// Gives the clusters the names that the configuration has for them.
fn clusters(document: &Document, config: &Config, edits: &mut Edits) -> Result<(), InputError> {
    let state = config.state.cluster.as_str();
    let execute = config.rules.iter().find_map(through).unwrap_or(INNER);
    if [state, execute].contains(&UPSTREAM) || state == execute {
        let path = if state == UPSTREAM { "state.cluster" } else { "rules" };
        let reason = format!(
            "the clusters of the state (`{state}`), of executions (`{execute}`) and of the service \
             (`{UPSTREAM}`, here) have to have different names"
        );
        let document = document.name.clone();
        return Err(InputError { document, path: path.to_owned(), line: None, reason });
    }
    for (from, to) in [(STATE, state), (INNER, execute)] {
        if from != to {
            let cluster = edits.cluster(from)?;
            edits.set_text(&format!("{cluster}.name"), to)?;
            edits.set_text(&format!("{cluster}.load_assignment.cluster_name"), to)?;
        }
    }
    Ok(())
}

fn through(rule: &Rule) -> Option<&str> {
    match &rule.execute {
        Execute::Detached { to: ExecuteTo::Cluster(cluster), .. } => Some(cluster),
        Execute::Detached { to: ExecuteTo::Direct, .. } | Execute::Attached => None,
    }
}

/// Lets the authentication filter set the header that the first rule reads.
fn client(config: &Config, edits: &mut Edits) -> Result<(), InputError> {
    let header = config.rules.iter().find_map(|rule| match &rule.client.name {
        ClientName::Header(header) => Some(header),
        ClientName::JwtClaim { .. } | ClientName::UriSan | ClientName::Fixed(_) => None,
    });
    match header {
        Some(header) => {
            let filter = edits.http_filter("envoy.filters.http.api_key_auth")?;
            edits.set_text(&format!("{filter}.forwarding.header"), header)
        }
        None => Ok(()),
    }
}

/// Raises what the rules exceed.
fn limits(config: &Config, edits: &mut Edits) -> Result<(), InputError> {
    let longest = config.rules.iter().map(longest_ms).max().unwrap_or_default();
    if longest >= TIMEOUTS_MS {
        let seconds = format!("{}s", longest.saturating_add(MARGIN_MS).div_ceil(1_000));
        let (outer, inner) = (edits.manager(INGRESS)?, edits.manager(INNER)?);
        edits.set(&format!("{outer}.request_timeout"), seconds.clone())?;
        edits.set(&format!("{outer}.stream_idle_timeout"), seconds.clone())?;
        edits.set(&format!("{inner}.stream_idle_timeout"), seconds)?;
    }
    let largest = config.rules.iter().map(held_bytes).max().unwrap_or_default();
    if largest >= BUFFER_BYTES {
        let listener = edits.listener(INGRESS)?;
        let limit = largest.saturating_mul(2).to_string();
        edits.set(&format!("{listener}.per_connection_buffer_limit_bytes"), limit)?;
    }
    Ok(())
}

fn longest_ms(rule: &Rule) -> u64 {
    let execution = match rule.execute {
        Execute::Detached { timeout_ms, .. } => timeout_ms,
        Execute::Attached => 0,
    };
    execution.max(rule.on_conflict.wait_ms).into()
}

fn held_bytes(rule: &Rule) -> u64 {
    rule.request_body_max_bytes.max(rule.store.response_body_max_bytes).into()
}
