//! What is checked, and what an error says.

mod checks;
mod rule;

use super::bounds::{
    BYTES_MAX, EXECUTIONS_MAX, RULES_MAX, STATE_TIMEOUT_MAX_MS, STATE_TIMEOUT_MIN_MS, WAITERS_MAX,
};
use super::{Config, ConfigError, Limits, Rule, SecretRef, StateEndpoint, raw};
use crate::wire::CANDIDATES_MAX;
use checks::{count, name, range, unique};

/// A lease is renewed after a third of it; what is left then must outlast two calls that are
/// lost and a third that is answered.
const LEASE_MIN_STATE_TIMEOUTS: u64 = 6;

type Checked<T> = Result<T, ConfigError>;

pub(super) fn config(raw: raw::Config) -> Checked<Config> {
    name("namespace", &raw.namespace)?;
    count("secrets", raw.secrets.len(), CANDIDATES_MAX)?;
    count("rules", raw.rules.len(), RULES_MAX)?;
    let secrets = raw.secrets.into_iter().enumerate().map(secret).collect::<Checked<Vec<_>>>()?;
    unique("secrets", "id", secrets.iter().map(|it| it.id.as_str()))?;
    let state = state(raw.state)?;
    let limits = limits(&raw.limits)?;
    let rules = raw.rules.into_iter().enumerate().map(rule::rule).collect::<Checked<Vec<_>>>()?;
    for (at, rule) in rules.iter().enumerate() {
        outlasts(at, rule, &state)?;
        recognises(at, rule, secrets.len())?;
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
    range("state.timeout_ms", raw.timeout_ms, STATE_TIMEOUT_MIN_MS, STATE_TIMEOUT_MAX_MS)?;
    Ok(StateEndpoint { cluster: raw.cluster, token_env: raw.token_env, timeout_ms: raw.timeout_ms })
}

fn limits(raw: &raw::Limits) -> Checked<Limits> {
    let raw::Limits { executions_max, bytes_max, waiters_max } = *raw;
    range("limits.executions_max", executions_max, 1, EXECUTIONS_MAX)?;
    range("limits.bytes_max", bytes_max, 1, BYTES_MAX)?;
    range("limits.waiters_max", waiters_max, 0, WAITERS_MAX)?;
    Ok(Limits { executions_max, bytes_max, waiters_max })
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

/// A claim carries one fingerprint for each recipe and secret.
fn recognises(at: usize, rule: &Rule, secrets: usize) -> Checked<()> {
    let recipes = rule.fingerprints.len();
    if recipes * secrets <= CANDIDATES_MAX {
        return Ok(());
    }
    let reason = format!(
        "{} fingerprints, {recipes} for each secret; at most {CANDIDATES_MAX} are recognised at \
         once, so take away what no key within retention was made with",
        recipes * secrets
    );
    Err(ConfigError { path: format!("rules[{at}].fingerprint.previous"), reason })
}
