//! The filter's configuration, as operators may write it.

use std::sync::LazyLock;

use latchkey_core::config::{Config, ConfigError, Execute, NO_RULE, Rule};
use latchkey_core::fingerprint::Secret;
use latchkey_core::operation::{Event, FilterEvent, Operation};
use latchkey_core::record::ExecutionId;
use latchkey_core::time::StoreTime;
use latchkey_core::wire::{CANDIDATES_MAX, decode_operation, encode_operation};
use latchkey_plugin::request::{Decision, Headers, admit};
use serde_json::{Number, Value};

use crate::bytes::Bytes;

/// The configuration with every field, as users find it in the documentation.
static DOCUMENTED: LazyLock<Value> = LazyLock::new(|| {
    let page = include_str!("../../docs/configuration.md");
    let after = |text: &'static str, mark| text.split_once(mark).map(|(_, after)| after);
    let example = after(page, "## The filter").and_then(|page| after(page, "```json\n"));
    let example = example.and_then(|text| text.split_once("```")).expect("there is an example").0;
    serde_json::from_str(example).expect("the example is JSON")
});

/// Texts that mean something somewhere in a configuration.
const TEXTS: [&str; 24] = [
    "",
    "off",
    "POST",
    "GET",
    "CONNECT",
    "/payments",
    "/(",
    "(a|b)*",
    "*.",
    "*.example",
    "a.b:80",
    "attached",
    "detached",
    "hold",
    "reexecute",
    "reject",
    "pass",
    "wait",
    "json",
    "strict",
    "idempotency-key",
    "x y",
    "\u{e9}",
    "payments",
];

/// Numbers at which something begins or ends.
const NUMBERS: [u64; 22] = [
    0,
    1,
    9,
    10,
    100,
    199,
    200,
    299,
    300,
    503,
    599,
    600,
    3_000,
    3_001,
    3_999,
    4_000,
    65_536,
    3_600_000,
    3_600_001,
    7_776_000,
    536_870_912,
    u64::MAX,
];

/// The first byte says whether the rest is a configuration by itself, or changes one.
pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    if bytes.below(4) == 3 {
        return read(bytes.rest());
    }
    let mut config = DOCUMENTED.clone();
    for _ in 0..=bytes.below(4) {
        change(&mut config, &mut bytes);
    }
    read(config.to_string().as_bytes());
}

fn read(json: &[u8]) {
    let outcome = Config::from_json(json);
    assert_eq!(outcome, Config::from_json(json), "one text, one meaning");
    match outcome {
        Ok(config) => accepted(&config),
        Err(ConfigError { path, reason }) => {
            assert!(!path.is_empty() && path != "?" && !reason.is_empty(), "{path}: {reason}");
        }
    }
}

/// Changes one thing somewhere in `config`.
fn change(config: &mut Value, bytes: &mut Bytes<'_>) {
    let mut pointers = Vec::new();
    everything(config, String::new(), &mut pointers);
    let at = (bytes.below(256) << 8 | bytes.below(256)) % pointers.len();
    let value = config.pointer_mut(&pointers[at]).expect("it was just found");
    match (bytes.below(5), value) {
        (0, Value::Object(members)) => {
            let name = members.keys().nth(bytes.below(members.len().max(1))).cloned();
            drop(name.and_then(|name| members.remove(&name)));
        }
        (1, Value::Object(members)) => {
            drop(members.insert(text(bytes), any(bytes, 2)));
        }
        (0, Value::Array(items)) => drop(items.pop()),
        (1, Value::Array(items)) => {
            let item = items.first().cloned().unwrap_or_else(|| any(bytes, 2));
            items.extend(std::iter::repeat_n(item, bytes.below(256)));
        }
        (2, value) => *value = Value::Number(Number::from(NUMBERS[bytes.below(NUMBERS.len())])),
        (_, value) => *value = any(bytes, 2),
    }
}

fn everything(value: &Value, pointer: String, out: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                everything(value, format!("{pointer}/{name}"), out);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                everything(item, format!("{pointer}/{at}"), out);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    out.push(pointer);
}

fn any(bytes: &mut Bytes<'_>, depth: usize) -> Value {
    match bytes.below(if depth == 0 { 6 } else { 8 }) {
        0 => Value::Null,
        1 => Value::Bool(bytes.flag()),
        2 => Value::from(NUMBERS[bytes.below(NUMBERS.len())]),
        3 => Value::from(bytes.word() as i64),
        4 => Number::from_f64(f64::from_bits(bytes.word())).map_or(Value::Null, Value::Number),
        5 => Value::from(text(bytes)),
        6 => (0..bytes.below(4)).map(|_| any(bytes, depth - 1)).collect(),
        _ => (0..bytes.below(4)).map(|_| (text(bytes), any(bytes, depth - 1))).collect(),
    }
}

fn text(bytes: &mut Bytes<'_>) -> String {
    match bytes.below(TEXTS.len() + 2) {
        24 => String::from_utf8_lossy(bytes.piece()).into_owned(),
        25 => "n".repeat(bytes.below(256) * 40),
        at => TEXTS[at].to_owned(),
    }
}

/// What was accepted keeps within what the documentation promises, and can be worked with.
fn accepted(config: &Config) {
    assert!((1..=CANDIDATES_MAX).contains(&config.secrets.len()));
    assert!((10..=3_000).contains(&config.state.timeout_ms));
    let limits = config.limits;
    assert!((1..=65_536).contains(&limits.executions_max) && limits.waiters_max <= 65_536);
    assert!((1..=512 << 20).contains(&limits.bytes_max));
    for (at, rule) in config.rules.iter().enumerate() {
        bounded(config, rule);
        let named = config.rule_named(rule.name.as_bytes());
        assert_eq!(named.map(|(index, _)| index), Some(at), "names are unique");
        for method in ["POST", "GET", "PUT"] {
            admitted(config, rule, method);
        }
    }
}

fn bounded(config: &Config, rule: &Rule) {
    let terms = rule.terms;
    assert!(rule.name != NO_RULE);
    assert!(terms.lease_us >= 6_000 * u64::from(config.state.timeout_ms));
    assert!((4_000_000..=3_600_000_000).contains(&terms.lease_us));
    assert!(terms.lease_us <= terms.ttl_us && terms.ttl_us <= terms.held_ttl_us);
    assert!(terms.held_ttl_us <= 90 * 86_400 * 1_000_000);
    assert!((1..=100).contains(&terms.attempts_max));
    assert!((1..=1024).contains(&rule.key.length_max) && !rule.key.headers.is_empty());
    assert!(rule.fingerprints.len() * config.secrets.len() <= CANDIDATES_MAX);
    assert!(!(rule.passes_without_state() && rule.key.required), "a promise would be broken");
    assert!(rule.on_conflict.wait_ms <= 300_000);
    assert!((1..=3_600).contains(&rule.on_conflict.retry_after_s));
    assert!([422, 409, 400].contains(&rule.mismatch_status));
    assert!(rule.request_body_max_bytes <= 32 << 20);
    assert!(rule.store.response_body_max_bytes <= 3 << 20);
    match &rule.execute {
        Execute::Detached { timeout_ms, .. } => assert!((1..=3_600_000).contains(timeout_ms)),
        Execute::Attached => {}
    }
    let again = rule.statuses.retryable.iter().chain(&rule.statuses.ambiguous);
    assert!(again.into_iter().all(|status| (300..=599).contains(status)), "a success again");
}

/// A request of a route that names the rule is guarded by it, where it has that method.
fn admitted(config: &Config, rule: &Rule, method: &str) {
    let header = &rule.key.headers[rule.key.headers.len() - 1];
    let pairs = [
        (":method", method),
        (":path", "/payments?a=1"),
        (":authority", "api.example"),
        ("x-client-id", "acme"),
        (header.as_str(), "key"),
    ];
    let pairs = pairs.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
    let headers = Headers(pairs.to_vec());
    let name = rule.name.clone().into_bytes();
    let admission = admit(config, &headers, &Named(name));
    let has_method = rule.matches.has_method(method.as_bytes());
    assert_eq!(admission.rule.is_some(), has_method, "a route's rule holds where its methods do");
    match admission.decision {
        Decision::Guard(plan) => {
            let secrets: Vec<_> =
                config.secrets.iter().map(|it| Secret::new(it.id.clone(), b"secret")).collect();
            let id = ExecutionId([7; 16]);
            let guarded = plan.complete(config, &secrets, id, "gateway", b"{}".to_vec());
            let guarded = guarded.expect("a plan of this configuration is completed by it");
            let event = FilterEvent::Claim(guarded.claim);
            let event = Event::Filter { void_after: StoreTime(1), event };
            let claim = Operation { identity: guarded.identity, event };
            let sent = encode_operation(&claim).expect("a filter's operation has a message");
            assert_eq!(decode_operation(sent).as_ref(), Ok(&claim), "the state understands it");
        }
        Decision::Pass => assert!(!has_method),
        Decision::Unkeyed => panic!("the request has a key"),
        Decision::Bypass | Decision::Refuse(_) => {}
    }
}

/// Attributes of a route that names a rule.
struct Named(Vec<u8>);

impl latchkey_plugin::request::Attributes for Named {
    fn get(&self, path: &[&str]) -> Option<Vec<u8>> {
        path.contains(&"route_metadata").then(|| self.0.clone())
    }
}
