//! The filter's metrics, in Envoy's statistics as `wasmcustom.latchkey_…`.
//!
//! Each `define` makes a new id, even for the same name, so they are defined once for each
//! root. There are no names of keys, clients or paths among them: metrics are never deleted.

use super::host::{self, MetricType};
use crate::engine::Metric;

/// In the order of [`index`].
const NAMES: [&str; 14] = [
    "latchkey_first_executions",
    "latchkey_reexecutions",
    "latchkey_replays",
    "latchkey_conflicts",
    "latchkey_mismatches",
    "latchkey_held",
    "latchkey_retry_later",
    "latchkey_exhausted",
    "latchkey_state_failures",
    "latchkey_overloads",
    "latchkey_unstored",
    "latchkey_fenced",
    "latchkey_ambiguous",
    "latchkey_state_calls_failed",
];

#[derive(Default)]
pub(super) struct Metrics {
    counters: Vec<Option<u32>>,
    executions_in_flight: Option<u32>,
    in_flight: i64,
}

impl Metrics {
    pub(super) fn define() -> Self {
        Self {
            counters: NAMES
                .iter()
                .map(|name| host::define_metric(MetricType::Counter, name))
                .collect(),
            executions_in_flight: host::define_metric(
                MetricType::Gauge,
                "latchkey_executions_in_flight",
            ),
            in_flight: 0,
        }
    }

    pub(super) fn count(&self, metric: Metric) {
        if let Some(Some(id)) = self.counters.get(index(metric)) {
            host::add(*id, 1);
        }
    }

    /// The gauge is one for all workers: each adds what changed at its own.
    pub(super) fn in_flight(&mut self, now: usize) {
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let change = now.saturating_sub(self.in_flight);
        if change != 0
            && let Some(id) = self.executions_in_flight
        {
            host::add(id, change);
            self.in_flight = now;
        }
    }
}

const fn index(metric: Metric) -> usize {
    match metric {
        Metric::FirstExecutions => 0,
        Metric::Reexecutions => 1,
        Metric::Replays => 2,
        Metric::Conflicts => 3,
        Metric::Mismatches => 4,
        Metric::Held => 5,
        Metric::RetryLater => 6,
        Metric::Exhausted => 7,
        Metric::StateFailures => 8,
        Metric::Overloads => 9,
        Metric::Unstored => 10,
        Metric::Fenced => 11,
        Metric::Ambiguous => 12,
        Metric::StateCallsFailed => 13,
    }
}
