//! What a request is to us: none of our business, refused, or to be guarded.

mod client;

use latchkey_core::config::{Config, Execute, KeyRule, NO_RULE, Rule, UpstreamKey};
use latchkey_core::fingerprint::{Parts, RequestDigest, Secret};
use latchkey_core::headers::{connection_names, forwarded, kept_attached};
use latchkey_core::identity::Identity;
use latchkey_core::key::{self, Key};
use latchkey_core::operation::Claim;
use latchkey_core::problem::{Kind, Problem};
use latchkey_core::record::{ExecutionId, Subject};

/// A request's headers, names in lower case as Envoy gives them.
#[derive(Debug, Default)]
pub struct Headers(pub Vec<(Vec<u8>, Vec<u8>)>);

/// What else Envoy knows of a request: its attributes, by path.
pub trait Attributes {
    /// The value of an attribute, `None` where there is none.
    fn get(&self, path: &[&str]) -> Option<Vec<u8>>;
}

/// Nothing else is known.
impl Attributes for () {
    fn get(&self, _: &[&str]) -> Option<Vec<u8>> {
        None
    }
}

/// What to do with a request whose headers are here, and the index of its rule where it has one.
#[derive(Debug)]
pub struct Admission {
    /// The rule.
    pub rule: Option<usize>,
    /// What to do.
    pub decision: Decision,
}

/// What to do with a request whose headers are here.
#[derive(Debug)]
pub enum Decision {
    /// Let it pass untouched: no rule, or nothing that a rule can guard.
    Pass,
    /// Let it pass: it has no key, and needs none.
    Unkeyed,
    /// Let it pass although it has a key, and say so on its answer.
    Bypass,
    /// Answer with this.
    Refuse(Problem),
    /// Buffer its body, then guard it.
    Guard(Box<Plan>),
}

/// A request that will be guarded once its body is here.
#[derive(Debug)]
pub struct Plan {
    rule: usize,
    key: Key,
    client: String,
    headers: Vec<(String, String)>,
}

/// A guarded request, whole.
#[derive(Debug)]
pub struct Guarded {
    /// The index of its rule.
    pub rule: usize,
    /// The name of its key.
    pub identity: Identity,
    /// What to ask of the store.
    pub claim: Claim,
    /// How it is sent to the upstream once the claim is granted.
    pub send: Send,
    /// Whether a script of another origin asks, and has to be let read our fields.
    pub cross_origin: bool,
}

/// How a guarded request is sent, but for our own headers.
#[derive(Debug)]
pub enum Send {
    /// By a call of the gateway's own.
    Detached {
        /// With pseudo headers.
        headers: Vec<(String, String)>,
        /// The body.
        body: Vec<u8>,
    },
    /// By Envoy's router, which has it already.
    Attached {
        /// The headers that have to be taken out.
        remove: Vec<String>,
    },
}

// === impl Headers ===

impl Headers {
    /// The value of the only line of `name`, or of the first of several.
    #[must_use]
    pub fn first<'a>(&'a self, name: &'a str) -> Option<&'a [u8]> {
        self.all(name).next()
    }

    /// The values of all lines of `name`.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let named = move |(it, _): &&(Vec<u8>, Vec<u8>)| it.as_slice() == name.as_bytes();
        self.0.iter().filter(named).map(|(_, value)| value.as_slice())
    }
}

/// Decides on a request by its headers and attributes.
#[must_use]
pub fn admit(config: &Config, headers: &Headers, attributes: &dyn Attributes) -> Admission {
    let (method, path) = (headers.first(":method"), headers.first(":path"));
    let (Some(method), Some(path)) = (method, path) else {
        // Only CONNECT has no path. What cannot be read must not go unguarded.
        let connect = method == Some(b"CONNECT");
        let decision = if connect { Decision::Pass } else { Decision::Refuse(unreadable()) };
        return Admission { rule: None, decision };
    };
    match rule(config, headers, method, path, attributes) {
        Ok(None) => Admission { rule: None, decision: Decision::Pass },
        Ok(Some((index, rule))) => {
            let decision = if is_tunnel(method, headers) {
                Decision::Pass
            } else {
                decide(index, rule, headers, attributes).unwrap_or_else(Decision::Refuse)
            };
            Admission { rule: Some(index), decision }
        }
        Err(problem) => Admission { rule: None, decision: Decision::Refuse(problem) },
    }
}

/// The rule that the route names in its metadata, or the first that matches.
fn rule<'a>(
    config: &'a Config,
    headers: &Headers,
    method: &[u8],
    path: &[u8],
    attributes: &dyn Attributes,
) -> Result<Option<(usize, &'a Rule)>, Problem> {
    let authority = headers.first(":authority").unwrap_or_default();
    let Some(named) = attributes.get(&ROUTE_RULE).filter(|name| !name.is_empty()) else {
        return Ok(config.rule_for(method, authority, path));
    };
    if named == NO_RULE.as_bytes() {
        return Ok(None);
    }
    match config.rule_named(&named) {
        Some((index, rule)) => Ok(rule.matches.has_method(method).then_some((index, rule))),
        None => Err(rule_unknown()),
    }
}

/// Where a route names its rule: `metadata: {filter_metadata: {latchkey: {rule: payments}}}`.
const ROUTE_RULE: [&str; 5] = ["xds", "route_metadata", "filter_metadata", "latchkey", "rule"];

fn decide(
    index: usize,
    rule: &Rule,
    headers: &Headers,
    attributes: &dyn Attributes,
) -> Result<Decision, Problem> {
    let lines: Vec<_> = rule.key.headers.iter().flat_map(|name| headers.all(name)).collect();
    let key = match key::parse(&lines, rule.key.syntax, rule.key.length_max) {
        Ok(Some(key)) => key,
        Ok(None) if rule.key.required => return Err(key_missing(rule)),
        Ok(None) => return Ok(Decision::Unkeyed),
        Err(error) => return Err(key_invalid(rule, &error)),
    };
    let Some(client) = client::name(&rule.client, headers, attributes)? else {
        return Ok(Decision::Bypass);
    };
    let headers = text(headers)?;
    Ok(Decision::Guard(Box::new(Plan { rule: index, key, client, headers })))
}

/// Upgrades, CONNECT and gRPC: their bodies never end or their answers cannot be replayed. Read
/// as Envoy reads them, so that nothing else goes unguarded.
fn is_tunnel(method: &[u8], headers: &Headers) -> bool {
    let upgrade = headers.first("upgrade").is_some()
        && headers
            .all("connection")
            .any(|value| connection_names(value).iter().any(|name| name == "upgrade"));
    method == b"CONNECT" || headers.first(":protocol").is_some() || upgrade || is_grpc(headers)
}

fn is_grpc(headers: &Headers) -> bool {
    headers
        .first("content-type")
        .and_then(|media_type| media_type.strip_prefix(b"application/grpc"))
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"+") || rest.starts_with(b";"))
}

/// The SDK dispatches text only.
fn text(headers: &Headers) -> Result<Vec<(String, String)>, Problem> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec());
    headers
        .0
        .iter()
        .map(|(name, value)| Ok((text(name)?, text(value)?)))
        .collect::<Result<_, std::string::FromUtf8Error>>()
        .map_err(|_| {
            Problem::new(
                Kind::HeaderInvalid,
                400,
                "A header of the request is not valid UTF-8, so that the request cannot be \
                 passed on. It was not executed.",
            )
        })
}

fn unreadable() -> Problem {
    Problem::new(
        Kind::HeaderInvalid,
        400,
        "The request's method or path cannot be read. It was not executed.",
    )
}

fn rule_unknown() -> Problem {
    Problem::new(
        Kind::RuleUnknown,
        500,
        "The route names a rule that the gateway does not have, so the request was not executed.",
    )
}

fn key_missing(rule: &Rule) -> Problem {
    let detail = format!(
        "This operation requires a key. Send a new, unique `{}` with each operation, and the \
         same one with each retry of it.",
        name(&rule.key)
    );
    Problem::new(Kind::KeyMissing, 400, detail)
}

fn key_invalid(rule: &Rule, error: &key::KeyError) -> Problem {
    let detail = format!("`{}` is not valid: {error}. It was not executed.", name(&rule.key));
    Problem::new(Kind::KeyInvalid, 400, detail)
}

/// What clients know the key's field by.
fn name(key: &KeyRule) -> &str {
    key.headers.first().map_or("", String::as_str)
}

/// A body is larger than its rule allows.
#[must_use]
pub fn too_large(rule: &Rule) -> Problem {
    let detail = format!(
        "The body is larger than {} bytes, the most that this operation takes. It was not \
         executed.",
        rule.request_body_max_bytes
    );
    Problem::new(Kind::PayloadTooLarge, 413, detail)
}

// === impl Guarded ===

impl Guarded {
    /// What it holds of memory, in bytes: body and headers.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match &self.send {
            Send::Detached { headers, body } => size_of(headers).saturating_add(body.len()) as u64,
            Send::Attached { .. } => 0,
        }
    }
}

/// What headers hold of memory, in bytes.
pub(crate) fn size_of<V: AsRef<[u8]>>(headers: &[(String, V)]) -> usize {
    let sizes = headers.iter().map(|(name, value)| name.len().saturating_add(value.as_ref().len()));
    sizes.fold(0, usize::saturating_add)
}

// === impl Plan ===

impl Plan {
    /// The index of its rule.
    #[must_use]
    pub const fn rule(&self) -> usize {
        self.rule
    }

    /// The request, now that its `body` is here.
    #[must_use]
    pub fn complete(
        self,
        config: &Config,
        secrets: &[Secret],
        execution: ExecutionId,
        gateway: &str,
        body: Vec<u8>,
    ) -> Option<Guarded> {
        let rule = config.rules.get(self.rule)?;
        let identity = Identity::new(&config.namespace, &self.client, &self.key);
        let digests = self.digests(rule, &body);
        let candidates = digests
            .iter()
            .flat_map(|digest| secrets.iter().map(|secret| secret.candidate(&identity, digest)));
        let claim = Claim {
            execution,
            candidates: candidates.collect(),
            terms: rule.terms,
            subject: Subject {
                namespace: config.namespace.clone(),
                rule: rule.name.clone(),
                client: self.client,
                key: self.key.as_str().to_owned(),
            },
            gateway: gateway.to_owned(),
        };
        let cross_origin = self.headers.iter().any(|(name, _)| name == "origin");
        let send = send(rule, self.headers, body);
        Some(Guarded { rule: self.rule, identity, claim, send, cross_origin })
    }

    fn digests(&self, rule: &Rule, body: &[u8]) -> Vec<RequestDigest> {
        let first = |wanted: &str| {
            let found = self.headers.iter().find(|(name, _)| name == wanted);
            found.map_or(&b""[..], |(_, value)| value.as_bytes())
        };
        let target = first(":path");
        let mut halves = target.splitn(2, |byte| *byte == b'?');
        let parts = Parts {
            method: first(":method"),
            authority: first(":authority"),
            path: halves.next().unwrap_or_default(),
            query: halves.next().unwrap_or_default(),
            content_type: first("content-type"),
            content_encoding: first("content-encoding"),
            headers: &self.headers,
            body,
        };
        rule.fingerprints.iter().map(|recipe| recipe.digest(&parts)).collect()
    }
}

fn send(rule: &Rule, mut headers: Vec<(String, String)>, body: Vec<u8>) -> Send {
    match rule.execute {
        Execute::Detached { .. } => {
            headers.retain(|(name, _)| is_pseudo(name) || forwarded(name, &rule.key));
            Send::Detached { headers, body }
        }
        Execute::Attached => {
            let mut remove: Vec<_> = headers.into_iter().map(|(name, _)| name).collect();
            remove.retain(|name| !kept_attached(name, &rule.key));
            Send::Attached { remove }
        }
    }
}

/// Whether the upstream gets the derived key.
#[must_use]
pub fn derives_key(rule: &Rule) -> bool {
    match rule.key.upstream {
        UpstreamKey::Derived => true,
        UpstreamKey::Client => false,
    }
}

fn is_pseudo(name: &str) -> bool {
    matches!(name, ":method" | ":path" | ":authority" | ":scheme")
}

#[cfg(test)]
mod tests;
