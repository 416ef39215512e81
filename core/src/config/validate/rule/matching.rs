//! What is checked of a rule's match.

use super::super::checks::{at_most, count, error, name};
use super::{At, Checked};
use crate::config::bounds::{HOSTS_MAX, METHODS_MAX, PATH_BYTES_MAX, PATTERN_BYTES_MAX};
use crate::config::{Host, Match, PathMatch, PathRegex, raw};

pub(super) fn matches(path: At<'_>, raw: raw::Match) -> Checked<Match> {
    methods(path, &raw.methods)?;
    at_most(&path("match.hosts"), raw.hosts.len(), HOSTS_MAX)?;
    let hosts = raw.hosts.iter().enumerate();
    let hosts = hosts.map(|(at, it)| host(&path(&format!("match.hosts[{at}]")), it));
    let hosts = hosts.collect::<Checked<Vec<_>>>()?;
    let by_path = match (raw.path_prefix, raw.path_exact, raw.path_regex) {
        (None, None, None) if hosts.is_empty() => None,
        (None, None, None) => {
            let reason = "hosts alone match nothing; say `\"path_prefix\": \"/\"` for all paths";
            return error(path("match"), reason);
        }
        (Some(prefix), None, None) => {
            slash(&path("match.path_prefix"), &prefix)?;
            Some(PathMatch::Prefix(prefix))
        }
        (None, Some(exact), None) => {
            slash(&path("match.path_exact"), &exact)?;
            Some(PathMatch::Exact(exact))
        }
        (None, None, Some(pattern)) => {
            Some(PathMatch::Regex(regex(&path("match.path_regex"), &pattern)?))
        }
        (None | Some(_), None | Some(_), None | Some(_)) => {
            let reason = "give at most one of `path_prefix`, `path_exact` and `path_regex`";
            return error(path("match"), reason);
        }
    };
    Ok(Match { methods: raw.methods, hosts, path: by_path })
}

fn methods(path: At<'_>, methods: &[String]) -> Checked<()> {
    let field = path("match.methods");
    count(&field, methods.len(), METHODS_MAX)?;
    let upper = |method: &String| {
        !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
    };
    if !methods.iter().all(upper) {
        return error(field, "methods are written in capitals, as in [\"POST\"]");
    }
    // A tunnel has no end, and the others ask about a resource without touching it; browsers
    // send OPTIONS by themselves, without a key (Fetch, CORS preflight).
    match methods.iter().find(|method| matches!(method.as_str(), "CONNECT" | "OPTIONS" | "TRACE")) {
        Some(method) => error(field, format!("{method} cannot be guarded")),
        None => Ok(()),
    }
}

fn host(path: &str, written: &str) -> Checked<Host> {
    name(path, written)?;
    let label = |it: &str| !it.is_empty() && !it.contains(['*', '/', '@', ':']);
    let literal = written.starts_with('[') && written.ends_with(']');
    let below = written.strip_prefix("*.").is_some_and(label);
    if !(below || literal || label(written)) {
        let reason = "a host is written `api.example`, or `*.example` for all below it, without a \
                      port";
        return error(path, reason);
    }
    Ok(Host::new(written))
}

fn slash(field: &str, written: &str) -> Checked<()> {
    if written.len() > PATH_BYTES_MAX {
        return error(field, format!("is longer than {PATH_BYTES_MAX} bytes"));
    }
    if !written.starts_with('/') {
        return error(field, "a path begins with `/`");
    }
    if written.contains(['?', '#']) {
        return error(field, "the query is no part of what is matched; end it before `?`");
    }
    Ok(())
}

fn regex(field: &str, pattern: &str) -> Checked<PathRegex> {
    if pattern.is_empty() || pattern.len() > PATTERN_BYTES_MAX {
        return error(
            field,
            format!("has {} bytes; 1 to {PATTERN_BYTES_MAX} are allowed", pattern.len()),
        );
    }
    PathRegex::new(pattern)
        .or_else(|why| error(field, format!("is not a regular expression: {why}")))
}
