//! What a request is to us: none of our business, refused, or to be guarded.

use latchkey_core::config::{Client, Config, MissingClient, Rule};
use latchkey_core::fingerprint::{Parts, RequestDigest, Secret};
use latchkey_core::headers::{connection_names, forwarded};
use latchkey_core::identity::Identity;
use latchkey_core::key::{self, Key};
use latchkey_core::operation::Claim;
use latchkey_core::problem::{Kind, Problem};
use latchkey_core::record::{ExecutionId, Subject};

/// A request's headers, names in lower case as Envoy gives them.
#[derive(Debug, Default)]
pub struct Headers(pub Vec<(Vec<u8>, Vec<u8>)>);

/// What to do with a request whose headers are here.
#[derive(Debug)]
pub enum Admission {
    /// Let it pass untouched.
    Pass,
    /// Answer with this.
    Refuse(Problem),
    /// Buffer its body, then guard it.
    Guard(Box<Plan>),
}

/// A request that will be guarded once its body is here.
#[derive(Debug)]
pub struct Plan {
    /// The index of its rule.
    pub rule: usize,
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
    /// What to send to the upstream once the claim is granted, but for our own headers.
    pub headers: Vec<(String, String)>,
    /// The body to send.
    pub body: Vec<u8>,
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

/// Decides on a request by its headers.
#[must_use]
pub fn admit(config: &Config, headers: &Headers) -> Admission {
    let (method, path) = (headers.first(":method"), headers.first(":path"));
    let (Some(method), Some(path)) = (method, path) else {
        // Only CONNECT has no path. What cannot be read must not go unguarded.
        let connect = method == Some(b"CONNECT");
        return if connect { Admission::Pass } else { Admission::Refuse(unreadable()) };
    };
    let Some((index, rule)) = config.rule_for(method, path) else { return Admission::Pass };
    if is_tunnel(method, headers) {
        return Admission::Pass;
    }
    let lines: Vec<_> = headers.all(&rule.key.header).collect();
    let key = match key::parse(&lines, rule.key.syntax, rule.key.length_max) {
        Ok(Some(key)) => key,
        Ok(None) if rule.key.required => return Admission::Refuse(key_missing(rule)),
        Ok(None) => return Admission::Pass,
        Err(error) => return Admission::Refuse(key_invalid(rule, &error)),
    };
    let client = match client(rule, headers) {
        Ok(Some(client)) => client,
        Ok(None) => return Admission::Pass,
        Err(problem) => return Admission::Refuse(problem),
    };
    match text(headers) {
        Ok(headers) => Admission::Guard(Box::new(Plan { rule: index, key, client, headers })),
        Err(problem) => Admission::Refuse(problem),
    }
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

/// The client's name, `None` where the request passes unguarded.
fn client(rule: &Rule, headers: &Headers) -> Result<Option<String>, Problem> {
    let (name, missing) = match &rule.client {
        Client::Fixed(client) => return Ok(Some(client.clone())),
        Client::Header { name, missing } => (name, missing),
    };
    let refused = |detail: &str| Problem::new(Kind::ClientUnknown, 400, detail);
    let mut lines = headers.all(name);
    match (lines.next(), lines.next()) {
        (Some(_), Some(_)) => Err(refused("The request names its client more than once.")),
        (Some(value), None) if !value.is_empty() && value.len() <= CLIENT_BYTES_MAX => {
            let client = std::str::from_utf8(value)
                .map_err(|_| refused("The client's name is not valid UTF-8."))?;
            Ok(Some(client.to_owned()))
        }
        (Some(value), None) if value.len() > CLIENT_BYTES_MAX => {
            Err(refused("The client's name is too long."))
        }
        (Some(_) | None, _) => match missing {
            MissingClient::Bypass => Ok(None),
            MissingClient::Reject => {
                Err(refused("Keys are kept by client, and this request has none. Authenticate."))
            }
        },
    }
}

/// A client's name is kept with every record. Longer than any certificate's or token's subject.
const CLIENT_BYTES_MAX: usize = 512;

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

fn key_missing(rule: &Rule) -> Problem {
    let detail = format!(
        "This operation requires a key. Send a new, unique `{}` with each operation, and the \
         same one with each retry of it.",
        rule.key.header
    );
    Problem::new(Kind::KeyMissing, 400, detail)
}

fn key_invalid(rule: &Rule, error: &key::KeyError) -> Problem {
    let detail = format!("`{}` is not valid: {error}. It was not executed.", rule.key.header);
    Problem::new(Kind::KeyInvalid, 400, detail)
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
        size_of(&self.headers).saturating_add(self.body.len()) as u64
    }
}

/// What headers hold of memory, in bytes.
pub(crate) fn size_of<V: AsRef<[u8]>>(headers: &[(String, V)]) -> usize {
    let sizes = headers.iter().map(|(name, value)| name.len().saturating_add(value.as_ref().len()));
    sizes.fold(0, usize::saturating_add)
}

// === impl Plan ===

impl Plan {
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
        let digest = self.digest(rule, &body);
        let candidates = secrets.iter().map(|secret| secret.candidate(&identity, &digest));
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
        let mut headers = self.headers;
        headers.retain(|(name, _)| is_pseudo(name) || forwarded(name, &rule.key.header));
        Some(Guarded { rule: self.rule, identity, claim, headers, body })
    }

    fn digest(&self, rule: &Rule, body: &[u8]) -> RequestDigest {
        let first = |wanted: &str| {
            let found = self.headers.iter().find(|(name, _)| name == wanted);
            found.map_or(&b""[..], |(_, value)| value.as_bytes())
        };
        let target = first(":path");
        let mut halves = target.splitn(2, |byte| *byte == b'?');
        let chosen: Vec<_> = rule
            .fingerprint_headers
            .iter()
            .flat_map(|wanted| self.headers.iter().filter(move |(name, _)| name == wanted))
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
            .collect();
        RequestDigest::new(&Parts {
            method: first(":method"),
            authority: first(":authority"),
            path: halves.next().unwrap_or_default(),
            query: halves.next().unwrap_or_default(),
            content_type: first("content-type"),
            content_encoding: first("content-encoding"),
            headers: &chosen,
            body,
        })
    }
}

fn is_pseudo(name: &str) -> bool {
    matches!(name, ":method" | ":path" | ":authority" | ":scheme")
}

#[cfg(test)]
mod tests;
