//! A SQLite file in a directory of its own.

use std::path::PathBuf;
use std::sync::Arc;

use latchkey_core::identity::Identity;
use latchkey_core::wire::{Message, record_v1};
use latchkey_state::sqlite::{SqliteOptions, SqliteStore};
use latchkey_state::{StateStore, StoreClock};
use rusqlite::Connection;
use tempfile::TempDir;

use super::{Damage, Fixture, Lasting};

pub(crate) struct SqliteFixture {
    directory: TempDir,
    store: Arc<SqliteStore>,
}

impl SqliteFixture {
    fn path(&self) -> PathBuf {
        self.directory.path().join("latchkey.db")
    }
}

impl Fixture for SqliteFixture {
    async fn start(clock: StoreClock) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("latchkey.db");
        let store = SqliteStore::open(&path, SqliteOptions::default(), clock).unwrap();
        Self { directory, store: Arc::new(store) }
    }

    fn store(&self) -> Arc<dyn StateStore> {
        self.store.clone()
    }
}

impl Lasting for SqliteFixture {
    async fn reopen(&mut self, clock: StoreClock) {
        // The old connections stay open, with their log unmerged, as a killed server leaves it.
        let store = SqliteStore::open(&self.path(), SqliteOptions::default(), clock).unwrap();
        self.store = Arc::new(store);
    }

    async fn second(&self, clock: StoreClock) -> Arc<dyn StateStore> {
        Arc::new(SqliteStore::open(&self.path(), SqliteOptions::default(), clock).unwrap())
    }

    async fn damage(&self, identity: Identity, damage: Damage) {
        let bytes = match damage {
            Damage::Garbage => b"\xffnot a record".to_vec(),
            Damage::NoLease => {
                let mut record = record_v1::Record::decode(&*self.raw(identity).await).unwrap();
                let Some(record_v1::record::State::InProgress(state)) = &mut record.state else {
                    panic!("not in progress: {record:?}");
                };
                state.lease_until_us = 0;
                record.encode_to_vec()
            }
        };
        let updated = Connection::open(self.path())
            .unwrap()
            .execute(
                "UPDATE records SET record = ?1 WHERE identity = ?2",
                rusqlite::params![bytes, &identity.0[..]],
            )
            .unwrap();
        assert_eq!(updated, 1);
    }

    async fn raw(&self, identity: Identity) -> Vec<u8> {
        Connection::open(self.path())
            .unwrap()
            .query_row("SELECT record FROM records WHERE identity = ?1", [&identity.0[..]], |row| {
                row.get(0)
            })
            .unwrap()
    }
}
