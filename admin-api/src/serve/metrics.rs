//! Metrics in Prometheus' text format.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use latchkey_core::counter::{Counter, Counts};
use latchkey_state::StateStore;
use latchkey_state::router::{BatchResult, Endpoint, OperationKind, ResultKind};
use tokio::time::timeout;

use super::StoreHealth;
use super::door::Connections;

/// How long the store may take to say what it has counted: less than a scrape's usual 10 s.
const COUNTS_TIMEOUT: Duration = Duration::from_secs(2);

/// A metric's name, type and meaning, each written once.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
}

const BUILD_INFO: Family = Family {
    name: "latchkey_build_info",
    kind: "gauge",
    help: "Always 1; the version is in the label.",
};
const STORE_UP: Family =
    Family { name: "latchkey_store_up", kind: "gauge", help: "1 while the store answers, else 0." };
const CONNECTIONS: Family = Family {
    name: "latchkey_connections",
    kind: "gauge",
    help: "Connections to the state endpoint.",
};
const GATEWAY_WORKERS: Family = Family {
    name: "latchkey_gateway_workers",
    kind: "gauge",
    help: "Workers of gateways that called this server within the last minute.",
};
const GATEWAY_EXECUTIONS: Family = Family {
    name: "latchkey_gateway_executions_in_flight",
    kind: "gauge",
    help: "Executions that those workers said they had in flight when they last called.",
};
const BATCHES: Family = Family {
    name: "latchkey_batches_total",
    kind: "counter",
    help: "Batches of operations, by what became of them.",
};
const OPERATIONS: Family = Family {
    name: "latchkey_operations_total",
    kind: "counter",
    help: "Operations in answered batches, by what was asked and what was answered.",
};

/// Everything that metrics are read from.
#[derive(Clone)]
pub(super) struct Metrics {
    endpoint: Endpoint,
    store: Arc<dyn StateStore>,
    health: Arc<StoreHealth>,
    connections: Connections,
}

// === impl Metrics ===

impl Metrics {
    /// Metrics of a server with these parts.
    #[must_use]
    pub(super) fn new(
        endpoint: Endpoint,
        store: Arc<dyn StateStore>,
        health: Arc<StoreHealth>,
        connections: Connections,
    ) -> Self {
        Self { endpoint, store, health, connections }
    }

    /// All of them, as they are now. What the store counts is left out while it does not answer.
    pub(super) async fn text(&self) -> String {
        let counts = timeout(COUNTS_TIMEOUT, self.store.counts()).await;
        let mut text = Text(String::with_capacity(8 << 10));
        self.of_server(&mut text);
        self.of_callers(&mut text);
        if let Ok(Ok(counts)) = counts {
            of_store(&mut text, &counts);
        }
        text.0
    }

    fn of_server(&self, text: &mut Text) {
        text.family(&BUILD_INFO);
        text.sample(&BUILD_INFO, &[("version", env!("CARGO_PKG_VERSION"))], 1);
        text.family(&STORE_UP);
        text.sample(&STORE_UP, &[], self.health.ready(Instant::now()).is_ok().into());
        text.family(&CONNECTIONS);
        text.sample(&CONNECTIONS, &[], self.connections.count() as u64);
    }

    fn of_callers(&self, text: &mut Text) {
        let live = self.endpoint.gateways().live(Instant::now());
        text.family(&GATEWAY_WORKERS);
        text.sample(&GATEWAY_WORKERS, &[], live.workers);
        text.family(&GATEWAY_EXECUTIONS);
        text.sample(&GATEWAY_EXECUTIONS, &[], live.executions_in_flight);
        let meters = self.endpoint.meters();
        text.family(&BATCHES);
        for result in BatchResult::ALL {
            text.sample(&BATCHES, &[("result", result.name())], meters.batches(*result));
        }
        text.family(&OPERATIONS);
        for kind in OperationKind::ALL {
            for result in ResultKind::ALL {
                let labels = [("kind", kind.name()), ("result", result.name())];
                text.sample(&OPERATIONS, &labels, meters.operations(*kind, *result));
            }
        }
    }
}

fn of_store(text: &mut Text, counts: &Counts) {
    for counter in Counter::ALL {
        let family = family_of(counter);
        text.family(&family);
        text.sample(&family, &[], counts.get(counter));
    }
}

/// The metric of what a store counts, which is the same on all servers of the store.
const fn family_of(counter: Counter) -> Family {
    let (name, help) = match counter {
        Counter::Restored => (
            "latchkey_restored_total",
            "Records made anew by their execution after the store had lost them.",
        ),
        Counter::SuspectedDuplicates => {
            ("latchkey_suspected_duplicates_total", "Executions that may have been duplicates.")
        }
        Counter::TakeOvers => (
            "latchkey_take_overs_total",
            "Retries that took over from an execution whose lease was lost.",
        ),
        Counter::Holds => ("latchkey_holds_total", "Keys that came to be held."),
        Counter::ExpiredUnresolved => (
            "latchkey_expired_unresolved_total",
            "Records whose retention ended before their outcome was known.",
        ),
    };
    Family { name, kind: "counter", help }
}

/// A text in the making. Names, labels and their values are ours, so that nothing in them has
/// to be escaped.
struct Text(String);

// === impl Text ===

impl Text {
    fn family(&mut self, family: &Family) {
        let Family { name, kind, help } = family;
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, family: &Family, labels: &[(&str, &str)], value: u64) {
        self.0.push_str(family.name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{label}=\"{text}\"");
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{after} {value}");
    }
}
