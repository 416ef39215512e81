//! The model: the rules of the core over a map. Every other store is compared with it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use latchkey_core::counter::{Counter, Counts};
use latchkey_core::identity::Identity;
use latchkey_core::operation::{Operation, Reply};
use latchkey_core::record::Record;
use latchkey_core::time::StoreTime;
use latchkey_core::transition::{self, Env};

use crate::outage::Stamps;
use crate::{Applied, InFlight, Page, StateStore, StoreClock, StoreError};

/// A store that forgets everything when it is dropped.
#[derive(Debug)]
pub struct MemoryStore {
    clock: StoreClock,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    records: BTreeMap<Identity, Record>,
    counts: Counts,
    stamps: Stamps,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new(clock: StoreClock) -> Self {
        Self { clock, inner: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // The transition function does not panic, so a poisoned lock guards sound records.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn apply(&mut self, operation: Operation, now: StoreTime) -> Reply {
        self.stamps = self.stamps.at(now);
        let env = Env::new(now, self.stamps.resumed_at);
        let record = self.records.remove(&operation.identity);
        let step = transition::apply(record, operation.event, &env);
        if let Some(record) = step.record {
            self.records.insert(operation.identity, record);
        }
        self.counts.add_all(&step.counts);
        step.reply
    }
}

#[async_trait]
impl StateStore for MemoryStore {
    async fn apply(&self, operations: Vec<Operation>) -> Result<Applied, StoreError> {
        let mut inner = self.inner();
        let now = self.clock.now();
        let results =
            operations.into_iter().map(|operation| Ok(inner.apply(operation, now))).collect();
        Ok(Applied { now, results })
    }

    async fn stamp(&self) -> Result<StoreTime, StoreError> {
        let now = self.clock.now();
        let mut inner = self.inner();
        inner.stamps = inner.stamps.at(now);
        Ok(now)
    }

    async fn sweep(&self, limit: usize) -> Result<usize, StoreError> {
        let mut inner = self.inner();
        let now = self.clock.now();
        let over = |(identity, record): (&Identity, &Record)| {
            (now > record.expires_at()).then(|| (*identity, record.unresolved()))
        };
        let expired: Vec<_> = inner.records.iter().filter_map(over).take(limit).collect();
        for (identity, unresolved) in &expired {
            inner.records.remove(identity);
            if *unresolved {
                inner.counts.add(Counter::ExpiredUnresolved, 1);
            }
        }
        Ok(expired.len())
    }

    async fn get(&self, identity: Identity) -> Result<Option<Record>, StoreError> {
        let now = self.clock.now();
        let record = self.inner().records.get(&identity).cloned();
        Ok(record.filter(|record| now <= record.expires_at()))
    }

    async fn in_flight(&self, page: Option<Page>, limit: usize) -> Result<InFlight, StoreError> {
        let now = self.clock.now();
        let inner = self.inner();
        let after = page.as_ref().map_or(&[][..], |page| &page.0);
        let records: Vec<_> = inner
            .records
            .iter()
            .filter(|(identity, _)| page.is_none() || &identity.0[..] > after)
            .filter(|(_, record)| record.unresolved() && now <= record.expires_at())
            .take(limit)
            .map(|(identity, record)| (*identity, record.clone()))
            .collect();
        let full = records.len() == limit;
        let next = records.last().filter(|_| full).map(|(last, _)| Page(last.0.to_vec()));
        Ok(InFlight { records, next })
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        Ok(self.inner().counts)
    }
}
