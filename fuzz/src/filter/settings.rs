//! The configuration of a run.

use serde_json::{Value, json};

use crate::bytes::Bytes;

/// How executions are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// By calls to the cluster that the route chose.
    Direct,
    /// By calls to an internal listener.
    Cluster,
    /// By Envoy's router.
    Attached,
}

/// What is chosen of a configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) manner: Manner,
    waits: bool,
    /// Whether requests pass when the state is away; keys are optional then.
    pub(super) passes: bool,
    /// Under `hold`, nothing is ever executed twice.
    pub(super) holds: bool,
    narrow: u8,
    pub(super) response_body_max_bytes: usize,
}

pub(super) const STATE_TIMEOUT_MS: u64 = 500;

// === impl Settings ===

impl Settings {
    pub(super) fn read(bytes: &mut Bytes<'_>) -> Self {
        let flags = bytes.byte();
        let manner = match flags & 3 {
            0 => Manner::Direct,
            1 => Manner::Cluster,
            _ => Manner::Attached,
        };
        let flag = |bit: u8| flags >> bit & 1 == 1;
        let response_body_max_bytes = if flag(5) { 16 } else { 1 << 20 };
        let narrow = bytes.byte();
        Self {
            manner,
            waits: flag(2),
            passes: flag(3),
            holds: flag(4),
            narrow,
            response_body_max_bytes,
        }
    }

    pub(super) fn json(&self) -> Value {
        let execute = match self.manner {
            Manner::Direct => json!({"direct": true, "timeout_ms": 20_000}),
            Manner::Cluster => json!({"cluster": "inner", "timeout_ms": 20_000}),
            Manner::Attached => json!({"mode": "attached"}),
        };
        let on_conflict =
            if self.waits { json!({"wait": {"timeout_ms": 9_000}}) } else { json!({"reject": {}}) };
        let narrow = |bit: u8, tight: u64, wide: u64| {
            if self.narrow >> bit & 1 == 1 { tight } else { wide }
        };
        json!({
            "namespace": "fuzz",
            "secrets": [{"id": "s", "env": "S"}],
            "state": {"cluster": "state", "timeout_ms": STATE_TIMEOUT_MS},
            "limits": {
                "executions_max": narrow(0, 2, 4096),
                "bytes_max": narrow(1, 200, 1 << 20),
                "waiters_max": narrow(2, 1, 1024),
            },
            "rules": [{
                "name": "payments",
                "match": {"path_prefix": "/payments"},
                "key": {"required": !self.passes},
                "client": {"fixed": "acme"},
                "execute": execute,
                "on_conflict": on_conflict,
                "on_state_failure": if self.passes { "pass" } else { "reject" },
                "on_ambiguous": if self.holds { "hold" } else { "reexecute" },
                "lease_ms": 4_000,
                "ttl_s": 7_776_000,
                "held_ttl_s": 7_776_000,
                "retry": {"attempts_max": narrow(3, 2, 100)},
                "request_body_max_bytes": narrow(4, 24, 1 << 20),
                "store": {"response_body_max_bytes": self.response_body_max_bytes},
            }]
        })
    }
}
