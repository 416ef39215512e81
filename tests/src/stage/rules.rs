//! The rules that the demo and the tests run under.

use serde_json::{Value, json};

use super::LEASE_MS;

/// Longer than any payment of the tests takes, shorter than their patience.
pub const EXECUTE_TIMEOUT_MS: u64 = 20_000;

/// The filter's configuration: one rule for each book of the payments service. `/payments` holds
/// what it does not know, `/orders` executes it again, and `/direct` goes to the route's own
/// cluster instead of through the internal listener.
pub(super) fn configuration() -> Value {
    json!({
        "namespace": "demo",
        "secrets": [{ "id": "1", "env": "LATCHKEY_SECRET" }],
        "state": { "cluster": "latchkey" },
        "rules": [
            rule("payments", &json!({ "cluster": "latchkey_execute" }), "hold"),
            rule("orders", &json!({ "cluster": "latchkey_execute" }), "reexecute"),
            rule("direct", &json!({ "direct": true }), "hold"),
        ],
    })
}

fn rule(book: &str, execute: &Value, on_ambiguous: &str) -> Value {
    let mut rule = json!({
        "name": book,
        "match": { "methods": ["POST"], "path_prefix": format!("/{book}") },
        "client": { "header": "x-client-id", "missing": "reject" },
        "execute": execute,
        "lease_ms": LEASE_MS,
        "on_ambiguous": on_ambiguous,
    });
    rule["execute"]["timeout_ms"] = EXECUTE_TIMEOUT_MS.into();
    rule
}

#[cfg(test)]
mod tests {
    use latchkey_core::config::Config;

    #[test]
    fn the_rules_are_a_configuration_that_the_filter_takes() {
        let config = Config::from_json(super::configuration().to_string().as_bytes()).unwrap();
        assert_eq!(config.rules.len(), 3);
    }
}
