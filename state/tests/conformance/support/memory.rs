//! The model.

use std::sync::Arc;

use latchkey_state::memory::MemoryStore;
use latchkey_state::{StateStore, StoreClock};

use super::Fixture;

pub(crate) struct MemoryFixture(Arc<MemoryStore>);

impl Fixture for MemoryFixture {
    async fn start(clock: StoreClock) -> Self {
        Self(Arc::new(MemoryStore::new(clock)))
    }

    fn store(&self) -> Arc<dyn StateStore> {
        self.0.clone()
    }
}
