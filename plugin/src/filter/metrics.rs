//! The filter's metrics in Envoy's statistics.
//!
//! Each `define` makes a new id, even for the same name, so they are defined once for each
//! root. There are no names of keys, clients or paths among them: metrics are never deleted.

use std::cell::Cell;
use std::rc::Rc;

use super::host::{Host, MetricType};
use crate::engine::{EXECUTIONS_IN_FLIGHT, Metric};

pub(super) struct Metrics {
    host: Rc<dyn Host>,
    counters: Vec<(Metric, u32)>,
    executions_in_flight: Option<u32>,
    in_flight: Cell<i64>,
}

impl Metrics {
    pub(super) fn define(host: Rc<dyn Host>) -> Self {
        let counter = |metric: Metric| {
            host.define_metric(MetricType::Counter, metric.name()).map(|id| (metric, id))
        };
        Self {
            counters: Metric::ALL.into_iter().filter_map(counter).collect(),
            executions_in_flight: host.define_metric(MetricType::Gauge, EXECUTIONS_IN_FLIGHT),
            in_flight: Cell::new(0),
            host,
        }
    }

    pub(super) fn count(&self, metric: Metric) {
        if let Some((_, id)) = self.counters.iter().find(|(it, _)| *it == metric) {
            self.host.add(*id, 1);
        }
    }

    /// The gauge is one for all workers: each adds what changed at its own.
    pub(super) fn in_flight(&self, now: usize) {
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let change = now.saturating_sub(self.in_flight.get());
        if change != 0
            && let Some(id) = self.executions_in_flight
        {
            self.host.add(id, change);
            self.in_flight.set(now);
        }
    }
}
