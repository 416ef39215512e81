//! Which gateways have called.
//!
//! Each worker of each gateway introduces itself with every batch. The list is for operators:
//! nothing is decided by it, it lives in memory, and every server knows only its own callers.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use latchkey_core::hex;
use latchkey_core::wire::TEXT_BYTES_MAX;
use latchkey_core::wire::state_v1::Gateway;

/// The most workers that are remembered; the one that was silent for longest is dropped for a
/// new one. More than any fleet has on one server, and under 4 MiB.
pub const GATEWAYS_MAX: usize = 4096;

/// The longest worker id and configuration hash, in bytes: a SHA-512.
const ID_BYTES_MAX: usize = 64;

/// How long a worker counts as live after its last batch. Workers with executions renew their
/// leases several times within it.
pub const GATEWAY_LIVE: Duration = Duration::from_secs(60);

/// The workers that have called.
#[derive(Debug, Default)]
pub struct Gateways(Mutex<HashMap<WorkerId, Worker>>);

type WorkerId = (String, Vec<u8>);

#[derive(Debug)]
struct Worker {
    filter_version: String,
    configuration_hash: Vec<u8>,
    executions_in_flight: u32,
    last_seen: Instant,
}

/// A worker that has called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewaySeen {
    /// The gateway's name.
    pub node: String,
    /// The worker's id, in hexadecimal.
    pub worker: String,
    /// The version of its filter.
    pub filter_version: String,
    /// The hash of its configuration, in hexadecimal.
    pub configuration_hash: String,
    /// How many executions it had in flight when it last called.
    pub executions_in_flight: u32,
    /// When it last called.
    pub last_seen: Instant,
}

/// The workers that have called within [`GATEWAY_LIVE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveGateways {
    /// How many.
    pub workers: u64,
    /// The executions that they have in flight.
    pub executions_in_flight: u64,
}

// === impl Gateways ===

impl Gateways {
    /// Remembers that `gateway` called at `now`. One whose names are too long to be a filter's
    /// is not listed.
    pub(super) fn note(&self, gateway: Gateway, now: Instant) {
        let Gateway { node, worker, filter_version, configuration_hash, executions_in_flight } =
            gateway;
        let texts = [node.len(), filter_version.len()];
        let ids = [worker.len(), configuration_hash.len()];
        if texts.iter().any(|len| *len > TEXT_BYTES_MAX)
            || ids.iter().any(|len| *len > ID_BYTES_MAX)
        {
            return;
        }
        let id = (node, worker);
        let mut workers = self.workers();
        if workers.len() >= GATEWAYS_MAX && !workers.contains_key(&id) {
            drop_most_silent(&mut workers);
        }
        workers.insert(
            id,
            Worker { filter_version, configuration_hash, executions_in_flight, last_seen: now },
        );
    }

    /// All that are remembered, by node and worker.
    #[must_use]
    pub fn list(&self) -> Vec<GatewaySeen> {
        let seen = |((node, id), worker): (&WorkerId, &Worker)| GatewaySeen {
            node: node.clone(),
            worker: hex::encode(id),
            filter_version: worker.filter_version.clone(),
            configuration_hash: hex::encode(&worker.configuration_hash),
            executions_in_flight: worker.executions_in_flight,
            last_seen: worker.last_seen,
        };
        let mut list: Vec<_> = self.workers().iter().map(seen).collect();
        list.sort_by(|a, b| (&a.node, &a.worker).cmp(&(&b.node, &b.worker)));
        list
    }

    /// How many are live at `now`, and how much they do.
    #[must_use]
    pub fn live(&self, now: Instant) -> LiveGateways {
        let workers = self.workers();
        let live = workers
            .values()
            .filter(|worker| now.saturating_duration_since(worker.last_seen) <= GATEWAY_LIVE);
        live.fold(LiveGateways::default(), |sum, worker| LiveGateways {
            workers: sum.workers + 1,
            executions_in_flight: sum.executions_in_flight + u64::from(worker.executions_in_flight),
        })
    }

    fn workers(&self) -> MutexGuard<'_, HashMap<WorkerId, Worker>> {
        // Each change is one insert or remove, so a poisoned lock guards a sound map.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn drop_most_silent(workers: &mut HashMap<WorkerId, Worker>) {
    let silent = workers.iter().min_by_key(|(_, worker)| worker.last_seen);
    if let Some(id) = silent.map(|(id, _)| id.clone()) {
        workers.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway(node: &str, executions_in_flight: u32) -> Gateway {
        Gateway {
            node: node.to_owned(),
            worker: vec![1],
            filter_version: "0.1.0".to_owned(),
            configuration_hash: vec![0xab],
            executions_in_flight,
        }
    }

    #[test]
    fn a_worker_is_listed_once_with_what_it_last_said() {
        let gateways = Gateways::default();
        let now = Instant::now();
        gateways.note(gateway("b", 1), now);
        gateways.note(gateway("a", 1), now);
        gateways.note(gateway("a", 7), now);
        let list = gateways.list();
        let seen: Vec<_> =
            list.iter().map(|it| (it.node.as_str(), it.executions_in_flight)).collect();
        assert_eq!(seen, [("a", 7), ("b", 1)]);
        assert_eq!((list[0].worker.as_str(), list[0].configuration_hash.as_str()), ("01", "ab"));
    }

    #[test]
    fn only_those_that_called_lately_count_as_live() {
        let gateways = Gateways::default();
        let start = Instant::now();
        let later = start + GATEWAY_LIVE + Duration::from_secs(1);
        gateways.note(gateway("a", 3), start);
        gateways.note(gateway("b", 5), later);
        assert_eq!(
            gateways.live(later),
            LiveGateways { workers: 1, executions_in_flight: 5 },
            "a was silent for too long"
        );
    }

    #[test]
    fn the_list_is_bounded_and_the_most_silent_is_dropped() {
        let gateways = Gateways::default();
        let start = Instant::now();
        for nth in 0..=GATEWAYS_MAX {
            let at = start + Duration::from_millis(nth as u64);
            gateways.note(gateway(&format!("{nth:05}"), 0), at);
        }
        let list = gateways.list();
        assert_eq!(list.len(), GATEWAYS_MAX);
        assert_eq!(list[0].node, "00001", "the first to call is gone");
    }

    #[test]
    fn names_that_are_too_long_are_not_kept() {
        let gateways = Gateways::default();
        gateways.note(gateway(&"x".repeat(TEXT_BYTES_MAX + 1), 0), Instant::now());
        assert_eq!(gateways.list(), []);
    }
}
