//! What is guarded, what passes and what is refused.

mod admission;
mod clients;
mod completion;
mod properties;

use latchkey_core::config::Config;
use latchkey_core::fingerprint::Secret;
use latchkey_core::problem::Kind;
use latchkey_core::record::ExecutionId;
use serde_json::{Value, json};

use super::{Attributes, Decision, Guarded, Headers, Plan, Send, admit};

/// One rule for `POST /payments`, with `fields` in place of its own.
fn config(fields: &Value) -> Config {
    let mut rule = json!({
        "name": "payments",
        "match": {"methods": ["POST"], "path_prefix": "/payments"},
        "client": {"fixed": "acme"},
        "execute": {"direct": true},
        "on_ambiguous": "hold",
    });
    for (name, value) in fields.as_object().unwrap() {
        rule[name] = value.clone();
    }
    let config = json!({
        "namespace": "test",
        "secrets": [{"id": "new", "env": "NEW"}, {"id": "old", "env": "OLD"}],
        "state": {"cluster": "latchkey"},
        "rules": [rule],
    });
    Config::from_json(config.to_string().as_bytes()).unwrap()
}

/// A POST to `/payments` with key `k1`, without the headers named in `lines`, then `lines`.
fn request(lines: &[(&str, &[u8])]) -> Headers {
    let base: [(&str, &[u8]); 5] = [
        (":method", b"POST"),
        (":path", b"/payments"),
        (":authority", b"api.example"),
        (":scheme", b"https"),
        ("idempotency-key", b"k1"),
    ];
    let kept = base.iter().filter(|(name, _)| lines.iter().all(|(other, _)| other != name));
    let all = kept.chain(lines).map(|(name, value)| (name.as_bytes().to_vec(), value.to_vec()));
    Headers(all.collect())
}

fn without(name: &str, lines: &[(&str, &[u8])]) -> Headers {
    let mut headers = request(lines);
    headers.0.retain(|(it, _)| it != name.as_bytes());
    headers
}

/// `Ok(true)` where it is guarded, `Ok(false)` where it passes, or why it is refused.
fn admitted(config: &Config, headers: &Headers) -> Result<bool, (u16, Kind)> {
    admitted_with(config, headers, &())
}

fn admitted_with(
    config: &Config,
    headers: &Headers,
    attributes: &dyn Attributes,
) -> Result<bool, (u16, Kind)> {
    match admit(config, headers, attributes).decision {
        Decision::Pass | Decision::Unkeyed | Decision::Bypass => Ok(false),
        Decision::Guard(_) => Ok(true),
        Decision::Refuse(problem) => Err((problem.status, problem.kind)),
    }
}

fn plan(config: &Config, headers: &Headers) -> Plan {
    plan_with(config, headers, &())
}

fn plan_with(config: &Config, headers: &Headers, attributes: &dyn Attributes) -> Plan {
    let Decision::Guard(plan) = admit(config, headers, attributes).decision else {
        panic!("it is guarded")
    };
    *plan
}

/// Attributes by their paths, joined with slashes.
struct Known(&'static [(&'static str, &'static [u8])]);

impl Attributes for Known {
    fn get(&self, path: &[&str]) -> Option<Vec<u8>> {
        let path = path.join("/");
        self.0.iter().find(|(it, _)| *it == path).map(|(_, value)| value.to_vec())
    }
}

/// What a detached call sends.
fn sent(guarded: Guarded) -> (Vec<(String, String)>, Vec<u8>) {
    let Send::Detached { headers, body } = guarded.send else { panic!("it is detached") };
    (headers, body)
}

fn complete(config: &Config, headers: &Headers, body: &[u8]) -> Guarded {
    let secrets = ["new", "old"].map(|id| Secret::new(id.to_owned(), id.as_bytes()));
    let plan = plan(config, headers);
    plan.complete(config, &secrets, ExecutionId([7; 16]), "gateway-1", body.to_vec()).unwrap()
}
