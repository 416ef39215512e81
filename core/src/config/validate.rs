//! The ranges, each with its reason.

use super::raw;
use super::{
    Client, Config, ConfigError, Execute, ExecuteTo, KeyRule, Limits, Match, MissingClient, Rule,
    SecretRef, StateEndpoint,
};
use crate::key::KEY_LENGTH_MAX_BYTES;
use crate::record::Terms;
use crate::wire::CANDIDATES_MAX;

/// Twice the longest gap that a store takes for no outage: an outage too short to be noticed
/// is then too short to lose a lease.
const LEASE_MIN_MS: u64 = 4_000;
/// A lease is renewed after a third of it; what is left then must outlast two calls that are
/// lost and a third that is answered.
const LEASE_MIN_STATE_TIMEOUTS: u64 = 6;
/// An hour: longer ones would keep a dead gateway's keys from their owners for as long.
const LEASE_MAX_MS: u64 = 60 * 60 * 1_000;
/// 90 days: twice the longest that a provider documents.
const TTL_MAX_S: u64 = 90 * 24 * 60 * 60;
/// Below, a call over a network is lost more often than not. Above, a copy of an operation
/// could act for longer than the shortest lease lasts.
const STATE_TIMEOUT_MS: (u32, u32) = (10, 3_000);
/// An hour.
const EXECUTE_TIMEOUT_MAX_MS: u32 = 60 * 60 * 1_000;
/// A completion carries the body in one state request, which is capped at 4 MiB.
const RESPONSE_BODY_MAX_BYTES: u32 = 3 * 1024 * 1024;
/// Envoy's call-outs answer up to 32 MiB; requests are held whole in the VM's memory.
const REQUEST_BODY_MAX_BYTES: u32 = 32 * 1024 * 1024;
/// Half of the 1 GiB that Envoy gives a VM.
const BYTES_MAX: u64 = 512 * 1024 * 1024;
const EXECUTIONS_MAX: u32 = 65_536;
const ATTEMPTS_MAX: u32 = 100;
/// An hour.
const RETRY_AFTER_MAX_S: u32 = 60 * 60;
const RULES_MAX: usize = 256;
/// Names are kept with every record and shown to people.
const NAME_BYTES_MAX: usize = 128;

type Checked<T> = Result<T, ConfigError>;

pub(super) fn config(raw: raw::Config) -> Checked<Config> {
    name("namespace", &raw.namespace)?;
    count("secrets", raw.secrets.len(), CANDIDATES_MAX)?;
    count("rules", raw.rules.len(), RULES_MAX)?;
    let secrets = raw.secrets.into_iter().enumerate().map(secret).collect::<Checked<Vec<_>>>()?;
    unique("secrets", "id", secrets.iter().map(|it| it.id.as_str()))?;
    let state = state(raw.state)?;
    range("limits.executions_max", raw.limits.executions_max, 1, EXECUTIONS_MAX)?;
    range("limits.bytes_max", raw.limits.bytes_max, 1, BYTES_MAX)?;
    let limits =
        Limits { executions_max: raw.limits.executions_max, bytes_max: raw.limits.bytes_max };
    let rules = raw.rules.into_iter().enumerate().map(rule).collect::<Checked<Vec<_>>>()?;
    for (at, rule) in rules.iter().enumerate() {
        outlasts(at, rule, &state)?;
    }
    unique("rules", "name", rules.iter().map(|it| it.name.as_str()))?;
    Ok(Config { namespace: raw.namespace, secrets, state, limits, rules })
}

fn secret((at, raw): (usize, raw::Secret)) -> Checked<SecretRef> {
    name(&format!("secrets[{at}].id"), &raw.id)?;
    name(&format!("secrets[{at}].env"), &raw.env)?;
    Ok(SecretRef { id: raw.id, env: raw.env })
}

fn state(raw: raw::State) -> Checked<StateEndpoint> {
    name("state.cluster", &raw.cluster)?;
    if let Some(env) = &raw.token_env {
        name("state.token_env", env)?;
    }
    range("state.timeout_ms", raw.timeout_ms, STATE_TIMEOUT_MS.0, STATE_TIMEOUT_MS.1)?;
    Ok(StateEndpoint { cluster: raw.cluster, token_env: raw.token_env, timeout_ms: raw.timeout_ms })
}

fn rule((at, raw): (usize, raw::Rule)) -> Checked<Rule> {
    let path = |field: &str| format!("rules[{at}].{field}");
    name(&path("name"), &raw.name)?;
    let terms = terms(&path, &raw)?;
    let raw::OnConflict::Reject(raw::Reject { retry_after_s }) = raw.on_conflict;
    let raw::OnStateFailure::Reject = raw.on_state_failure;
    let raw::FingerprintBody::Raw = raw.fingerprint.body;
    range(&path("on_conflict.reject.retry_after_s"), retry_after_s, 1, RETRY_AFTER_MAX_S)?;
    let request_body_max_bytes = raw.request_body_max_bytes;
    range(&path("request_body_max_bytes"), request_body_max_bytes, 0, REQUEST_BODY_MAX_BYTES)?;
    let response_body_max_bytes = raw.store.response_body_max_bytes;
    let field = path("store.response_body_max_bytes");
    range(&field, response_body_max_bytes, 0, RESPONSE_BODY_MAX_BYTES)?;
    let headers = raw.fingerprint.headers.iter().enumerate();
    Ok(Rule {
        matches: matches(&path, raw.matches)?,
        key: key(&path, &raw.key)?,
        client: client(&path, raw.client)?,
        fingerprint_headers: headers
            .map(|(at, it)| header(&path(&format!("fingerprint.headers[{at}]")), it))
            .collect::<Checked<_>>()?,
        execute: execute(&path, raw.execute)?,
        name: raw.name,
        terms,
        retry_after_s,
        request_body_max_bytes,
        response_body_max_bytes,
    })
}

fn terms(path: &dyn Fn(&str) -> String, raw: &raw::Rule) -> Checked<Terms> {
    range(&path("lease_ms"), raw.lease_ms, LEASE_MIN_MS, LEASE_MAX_MS)?;
    range(&path("ttl_s"), raw.ttl_s, 1, TTL_MAX_S)?;
    range(&path("held_ttl_s"), raw.held_ttl_s, 1, TTL_MAX_S)?;
    range(&path("retry.attempts_max"), raw.retry.attempts_max, 1, ATTEMPTS_MAX)?;
    if raw.lease_ms > raw.ttl_s * 1_000 {
        let reason = format!(
            "a lease of {} ms is longer than the retention of {} s; make lease_ms smaller or \
             ttl_s larger",
            raw.lease_ms, raw.ttl_s
        );
        return Err(ConfigError { path: path("lease_ms"), reason });
    }
    if raw.held_ttl_s < raw.ttl_s {
        let reason = format!(
            "{} s is less than ttl_s ({} s); a held key must not be forgotten before others",
            raw.held_ttl_s, raw.ttl_s
        );
        return Err(ConfigError { path: path("held_ttl_s"), reason });
    }
    Ok(Terms {
        on_ambiguous: raw.on_ambiguous,
        attempts_max: raw.retry.attempts_max,
        lease_us: raw.lease_ms * 1_000,
        ttl_us: raw.ttl_s * 1_000_000,
        held_ttl_us: raw.held_ttl_s * 1_000_000,
    })
}

fn outlasts(at: usize, rule: &Rule, state: &StateEndpoint) -> Checked<()> {
    let lease_ms = rule.terms.lease_us / 1_000;
    let least_ms = u64::from(state.timeout_ms) * LEASE_MIN_STATE_TIMEOUTS;
    if lease_ms >= least_ms {
        return Ok(());
    }
    let reason = format!(
        "a lease of {lease_ms} ms is lost with one call to the state that times out; make it at \
         least {least_ms} ms, six times state.timeout_ms"
    );
    Err(ConfigError { path: format!("rules[{at}].lease_ms"), reason })
}

fn matches(path: &dyn Fn(&str) -> String, raw: raw::Match) -> Checked<Match> {
    count(&path("match.methods"), raw.methods.len(), 16)?;
    let upper = |method: &String| {
        !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase())
    };
    if !raw.methods.iter().all(upper) {
        let reason = "methods are written in capitals, as in [\"POST\"]".to_owned();
        return Err(ConfigError { path: path("match.methods"), reason });
    }
    if !raw.path_prefix.starts_with('/') {
        let reason = "a path begins with `/`".to_owned();
        return Err(ConfigError { path: path("match.path_prefix"), reason });
    }
    Ok(Match { methods: raw.methods, path_prefix: raw.path_prefix })
}

fn key(path: &dyn Fn(&str) -> String, raw: &raw::Key) -> Checked<KeyRule> {
    range(&path("key.length_max"), raw.length_max, 1, KEY_LENGTH_MAX_BYTES)?;
    let header = header(&path("key.header"), &raw.header)?;
    Ok(KeyRule { header, required: raw.required, syntax: raw.syntax, length_max: raw.length_max })
}

fn client(path: &dyn Fn(&str) -> String, raw: raw::Client) -> Checked<Client> {
    match (raw.header, raw.fixed, raw.missing) {
        (Some(it), None, missing) => Ok(Client::Header {
            name: header(&path("client.header"), &it)?,
            missing: missing.unwrap_or(MissingClient::Reject),
        }),
        (None, Some(fixed), None) => {
            name(&path("client.fixed"), &fixed)?;
            Ok(Client::Fixed(fixed))
        }
        (None, Some(_), Some(_)) => {
            let reason = "a fixed client is never missing; leave `missing` out".to_owned();
            Err(ConfigError { path: path("client.missing"), reason })
        }
        (Some(_), Some(_), _) | (None, None, _) => {
            let reason = "give exactly one of `header` and `fixed`".to_owned();
            Err(ConfigError { path: path("client"), reason })
        }
    }
}

fn execute(path: &dyn Fn(&str) -> String, raw: raw::Execute) -> Checked<Execute> {
    let raw::Mode::Detached = raw.mode;
    range(&path("execute.timeout_ms"), raw.timeout_ms, 1, EXECUTE_TIMEOUT_MAX_MS)?;
    let to = match (raw.cluster, raw.direct) {
        (Some(cluster), false) => {
            name(&path("execute.cluster"), &cluster)?;
            ExecuteTo::Cluster(cluster)
        }
        (None, true) => ExecuteTo::Direct,
        (Some(_), true) | (None, false) => {
            let reason = "a detached call skips what stands between this filter and the \
                          upstream: name the `cluster` that leads to it, or say `direct: true` \
                          where nothing stands there"
                .to_owned();
            return Err(ConfigError { path: path("execute"), reason });
        }
    };
    Ok(Execute { to, timeout_ms: raw.timeout_ms })
}

// === checks ===

fn range<T: PartialOrd + Copy + std::fmt::Display>(
    path: &str,
    it: T,
    min: T,
    max: T,
) -> Checked<()> {
    if it >= min && it <= max {
        return Ok(());
    }
    let reason = format!("{it} is out of range; it must be from {min} to {max}");
    Err(ConfigError { path: path.to_owned(), reason })
}

fn count(path: &str, count: usize, max: usize) -> Checked<()> {
    if (1..=max).contains(&count) {
        return Ok(());
    }
    let reason = format!("has {count} entries; it must have from 1 to {max}");
    Err(ConfigError { path: path.to_owned(), reason })
}

fn name(path: &str, name: &str) -> Checked<()> {
    let reason = if name.is_empty() {
        "is empty".to_owned()
    } else if name.len() > NAME_BYTES_MAX {
        format!("has {} bytes; at most {NAME_BYTES_MAX} are allowed", name.len())
    } else if !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        "must be printable ASCII without spaces".to_owned()
    } else {
        return Ok(());
    };
    Err(ConfigError { path: path.to_owned(), reason })
}

fn header(path: &str, header: &str) -> Checked<String> {
    name(path, header)?;
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if header.bytes().all(token) {
        return Ok(header.to_ascii_lowercase());
    }
    let reason = "is not a header's name (RFC 9110 §5.1)".to_owned();
    Err(ConfigError { path: path.to_owned(), reason })
}

fn unique<'a>(path: &str, field: &str, names: impl Iterator<Item = &'a str>) -> Checked<()> {
    let mut seen = std::collections::BTreeSet::new();
    for (at, name) in names.enumerate() {
        if !seen.insert(name) {
            let reason = format!("`{name}` is there twice");
            return Err(ConfigError { path: format!("{path}[{at}].{field}"), reason });
        }
    }
    Ok(())
}
