//! What is checked of a rule.

mod matching;

use super::Checked;
use super::checks::{at_most, error, header, name, range};
use crate::classify::Statuses;
use crate::config::bounds::{
    ATTEMPTS_MAX, EXECUTE_TIMEOUT_MAX_MS, HEADERS_MAX, LEASE_MAX_MS, LEASE_MIN_MS,
    MISMATCH_STATUSES, REQUEST_BODY_MAX_BYTES, RESPONSE_BODY_MAX_BYTES, RETRY_AFTER_MAX_S,
    STATUS_AGAIN_MIN, STATUS_MAX, STATUS_MIN, TTL_MAX_S, WAIT_MAX_MS,
};
use crate::config::{
    ClientName, ClientRule, Execute, ExecuteTo, KeyRule, OnConflict, OnStateFailure, Rule,
    StoreRule, raw,
};
use crate::fingerprint::Recipe;
use crate::key::KEY_LENGTH_MAX_BYTES;
use crate::record::Terms;
use matching::matches;

/// Twice Envoy's route default: what runs is not the client's to wait for.
const EXECUTE_TIMEOUT_DEFAULT_MS: u32 = 30_000;
/// What `jwt_authn` is told in most examples.
const JWT_PAYLOAD: &str = "jwt_payload";
/// Routes name it to have no rule.
const NO_RULE: &str = crate::config::NO_RULE;

/// The path of a field within its rule.
type At<'a> = &'a dyn Fn(&str) -> String;

pub(super) fn rule((at, raw): (usize, raw::Rule)) -> Checked<Rule> {
    let path = |field: &str| format!("rules[{at}].{field}");
    name(&path("name"), &raw.name)?;
    if raw.name == NO_RULE {
        return error(path("name"), format!("`{NO_RULE}` is what routes without a rule say"));
    }
    let terms = terms(&path, &raw)?;
    let max = raw.request_body_max_bytes;
    range(&path("request_body_max_bytes"), max, 0, REQUEST_BODY_MAX_BYTES)?;
    if !MISMATCH_STATUSES.contains(&raw.on_mismatch.status) {
        let reason = format!("{} is not one of 422, 409 and 400", raw.on_mismatch.status);
        return error(path("on_mismatch.status"), reason);
    }
    let key = key(&path, &raw.key)?;
    if raw.on_state_failure == OnStateFailure::Pass && key.required {
        let reason = "`pass` lets requests through unguarded, which a required key forbids; say \
                      `reject`, or set key.required to false";
        return error(path("on_state_failure"), reason);
    }
    Ok(Rule {
        matches: matches(&path, raw.matches)?,
        key,
        client: client(&path, raw.client)?,
        fingerprints: fingerprints(&path, raw.fingerprint)?,
        execute: execute(&path, raw.execute)?,
        name: raw.name,
        terms,
        on_conflict: on_conflict(&path, &raw.on_conflict)?,
        mismatch_status: raw.on_mismatch.status,
        on_state_failure: raw.on_state_failure,
        statuses: statuses(&path, &raw.outcomes)?,
        request_body_max_bytes: max,
        store: store(&path, &raw.store)?,
    })
}

fn terms(path: At<'_>, raw: &raw::Rule) -> Checked<Terms> {
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
        return error(path("lease_ms"), reason);
    }
    if raw.held_ttl_s < raw.ttl_s {
        let reason = format!(
            "{} s is less than ttl_s ({} s); a held key must not be forgotten before others",
            raw.held_ttl_s, raw.ttl_s
        );
        return error(path("held_ttl_s"), reason);
    }
    Ok(Terms {
        on_ambiguous: raw.on_ambiguous,
        attempts_max: raw.retry.attempts_max,
        lease_us: raw.lease_ms * 1_000,
        ttl_us: raw.ttl_s * 1_000_000,
        held_ttl_us: raw.held_ttl_s * 1_000_000,
    })
}

fn key(path: At<'_>, raw: &raw::Key) -> Checked<KeyRule> {
    range(&path("key.length_max"), raw.length_max, 1, KEY_LENGTH_MAX_BYTES)?;
    at_most(&path("key.also"), raw.also.len(), HEADERS_MAX)?;
    let mut headers = vec![header(&path("key.header"), &raw.header)?];
    for (at, also) in raw.also.iter().enumerate() {
        let field = path(&format!("key.also[{at}]"));
        let also = header(&field, also)?;
        if headers.contains(&also) {
            return error(field, format!("`{also}` is there twice"));
        }
        headers.push(also);
    }
    Ok(KeyRule {
        headers,
        required: raw.required,
        syntax: raw.syntax,
        length_max: raw.length_max,
        upstream: raw.upstream,
    })
}

fn client(path: At<'_>, raw: raw::Client) -> Checked<ClientRule> {
    let one = "give exactly one of `header`, `jwt_claim`, `uri_san` and `fixed`";
    if raw.jwt_payload.is_some() && raw.jwt_claim.is_none() {
        return error(path("client.jwt_payload"), "belongs to `jwt_claim`, which is not there");
    }
    let client = match (raw.header, raw.jwt_claim, raw.uri_san, raw.fixed) {
        (Some(it), None, false, None) => ClientName::Header(header(&path("client.header"), &it)?),
        (None, Some(claim), false, None) => {
            name(&path("client.jwt_claim"), &claim)?;
            let payload = raw.jwt_payload.unwrap_or_else(|| JWT_PAYLOAD.to_owned());
            name(&path("client.jwt_payload"), &payload)?;
            ClientName::JwtClaim { payload, claim }
        }
        (None, None, true, None) => ClientName::UriSan,
        (None, None, false, Some(fixed)) => {
            name(&path("client.fixed"), &fixed)?;
            if raw.missing.is_some() {
                let reason = "a fixed client is never missing; leave `missing` out";
                return error(path("client.missing"), reason);
            }
            ClientName::Fixed(fixed)
        }
        (None | Some(_), None | Some(_), false | true, None | Some(_)) => {
            return error(path("client"), one);
        }
    };
    Ok(ClientRule { name: client, missing: raw.missing.unwrap_or_default() })
}

fn fingerprints(path: At<'_>, raw: raw::Fingerprint) -> Checked<Vec<Recipe>> {
    let raw::Fingerprint { body, headers, query_exclude, previous } = raw;
    let first = raw::Recipe { body, headers, query_exclude };
    let mut recipes = vec![recipe(&path("fingerprint"), first)?];
    for (at, raw) in previous.into_iter().enumerate() {
        recipes.push(recipe(&path(&format!("fingerprint.previous[{at}]")), raw)?);
    }
    Ok(recipes)
}

fn recipe(path: &str, raw: raw::Recipe) -> Checked<Recipe> {
    let raw::Recipe { body, headers, query_exclude } = raw;
    at_most(&format!("{path}.headers"), headers.len(), HEADERS_MAX)?;
    at_most(&format!("{path}.query_exclude"), query_exclude.len(), HEADERS_MAX)?;
    for (at, parameter) in query_exclude.iter().enumerate() {
        name(&format!("{path}.query_exclude[{at}]"), parameter)?;
    }
    let lower = |(at, it): (usize, &String)| header(&format!("{path}.headers[{at}]"), it);
    let headers = headers.iter().enumerate().map(lower).collect::<Checked<_>>()?;
    Ok(Recipe { body, headers, query_exclude })
}

fn execute(path: At<'_>, raw: raw::Execute) -> Checked<Execute> {
    match raw.mode {
        raw::Mode::Detached => {
            let timeout_ms = raw.timeout_ms.unwrap_or(EXECUTE_TIMEOUT_DEFAULT_MS);
            range(&path("execute.timeout_ms"), timeout_ms, 1, EXECUTE_TIMEOUT_MAX_MS)?;
            let to = match (raw.cluster, raw.direct) {
                (Some(cluster), false) => {
                    name(&path("execute.cluster"), &cluster)?;
                    ExecuteTo::Cluster(cluster)
                }
                (None, true) => ExecuteTo::Direct,
                (Some(_), true) | (None, false) => {
                    let reason = "a detached call skips what stands between this filter and the \
                                  upstream: name the `cluster` that leads to it, or say `direct: \
                                  true` where nothing stands there";
                    return error(path("execute"), reason);
                }
            };
            Ok(Execute::Detached { to, timeout_ms })
        }
        raw::Mode::Attached => {
            if raw.timeout_ms.is_some() {
                let reason = "belongs to the route where execution is attached: set its `timeout`";
                return error(path("execute.timeout_ms"), reason);
            }
            if raw.cluster.is_some() || raw.direct {
                let reason = "an attached execution goes where the route says; leave `cluster` \
                              and `direct` out";
                return error(path("execute"), reason);
            }
            Ok(Execute::Attached)
        }
    }
}

fn on_conflict(path: At<'_>, raw: &raw::OnConflict) -> Checked<OnConflict> {
    let (field, wait_ms, retry_after_s) = match (&raw.reject, &raw.wait) {
        (Some(reject), None) => ("on_conflict.reject", 0, reject.retry_after_s),
        (None, Some(wait)) => {
            range(&path("on_conflict.wait.timeout_ms"), wait.timeout_ms, 1, WAIT_MAX_MS)?;
            ("on_conflict.wait", wait.timeout_ms, wait.retry_after_s)
        }
        (Some(_), Some(_)) | (None, None) => {
            return error(path("on_conflict"), "give exactly one of `reject` and `wait`");
        }
    };
    range(&path(&format!("{field}.retry_after_s")), retry_after_s, 1, RETRY_AFTER_MAX_S)?;
    Ok(OnConflict { wait_ms, retry_after_s })
}

fn statuses(path: At<'_>, raw: &raw::Outcomes) -> Checked<Statuses> {
    let lists = [
        ("outcomes.final", &raw.final_, STATUS_MIN),
        ("outcomes.retryable", &raw.retryable, STATUS_AGAIN_MIN),
        ("outcomes.ambiguous", &raw.ambiguous, STATUS_AGAIN_MIN),
    ];
    let mut seen = std::collections::BTreeSet::new();
    for (field, list, least) in lists {
        for (at, status) in list.iter().enumerate() {
            let field = path(&format!("{field}[{at}]"));
            range(&field, *status, least, STATUS_MAX)?;
            if !seen.insert(*status) {
                return error(field, format!("{status} is there twice"));
            }
        }
    }
    Ok(Statuses {
        finals: raw.final_.clone(),
        retryable: raw.retryable.clone(),
        ambiguous: raw.ambiguous.clone(),
    })
}

fn store(path: At<'_>, raw: &raw::Store) -> Checked<StoreRule> {
    let raw::Store { response_body_max_bytes, set_cookie, no_store } = *raw;
    let field = path("store.response_body_max_bytes");
    range(&field, response_body_max_bytes, 0, RESPONSE_BODY_MAX_BYTES)?;
    Ok(StoreRule { response_body_max_bytes, set_cookie, no_store })
}
