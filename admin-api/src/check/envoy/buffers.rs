//! What Envoy may hold.

use latchkey_core::config::Execute;

use super::{Case, Findings, Lint};

/// Envoy's default (`Listener.per_connection_buffer_limit_bytes`).
const LIMIT_DEFAULT_BYTES: u64 = 1024 * 1024;

const FIELD: &str = "per_connection_buffer_limit_bytes";

pub(super) fn check(case: &Case<'_>, found: &mut Findings) {
    let listener = &case.guard.manager.listener;
    let limit = listener.number(FIELD).unwrap_or(LIMIT_DEFAULT_BYTES);
    let mut add = |lint, needed: u64, field: &str| {
        if limit <= needed {
            let what = format!("{limit} bytes are not more than the {needed} of {field}");
            let instead = format!("{FIELD}: {}", needed.saturating_mul(2));
            found.add(lint, case.place(&listener.path_of(FIELD)), what, instead);
        }
    };
    let rules = &case.config.rules;
    if let Some(most) = rules.iter().map(|it| it.request_body_max_bytes).max() {
        add(Lint::BufferTooSmall, most.into(), "request_body_max_bytes");
    }
    let attached = rules.iter().filter(|it| it.execute == Execute::Attached);
    if let Some(most) = attached.map(|it| it.store.response_body_max_bytes).max() {
        add(Lint::BufferTooSmallToStore, most.into(), "store.response_body_max_bytes");
    }
}
