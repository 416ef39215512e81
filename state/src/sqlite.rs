//! Records in one SQLite file: the store that needs no set-up.
//!
//! One thread owns the connection that writes. It takes jobs from a bounded queue, and all jobs
//! that wait when it looks share one transaction, so that they share one flush to the disk; none
//! is answered before that. In it every operation has a savepoint, so that one that cannot be
//! written does not take its neighbours along. A second connection reads, on the runtime's
//! blocking threads, and sees what was committed.
//!
//! A round is either committed, and its jobs are told what came of them, or rolled back, and
//! they are told that nothing is known. There is no other state to recover: after a crash the
//! file is what the last committed round made it.
//!
//! Deliberately absent: waiting for another process longer than the busy time-out, and giving
//! the disk back what was swept (SQLite uses it again).

mod rows;
mod schema;
mod writer;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use latchkey_core::counter::Counts;
use latchkey_core::identity::Identity;
use latchkey_core::operation::Operation;
use latchkey_core::record::Record;
use latchkey_core::time::StoreTime;
use rusqlite::Connection;

use self::writer::Writer;
use crate::{Applied, InFlight, Page, StateStore, StoreClock, StoreError};

/// How a SQLite store is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqliteOptions {
    /// How durable an answer is.
    pub synchronous: Synchronous,
    /// How long to wait for another process that has the file locked, before the operation is
    /// answered as unavailable.
    pub busy_timeout: Duration,
}

/// What a committed transaction survives. All of them survive the server being killed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// Power failure too: the log is flushed with every transaction.
    #[default]
    Full,
    /// Not power failure, which may lose the last transactions; the file stays sound. Several
    /// times as fast on slow disks.
    Normal,
}

/// A store in one file, for servers on one machine.
#[derive(Debug)]
pub struct SqliteStore {
    clock: StoreClock,
    writer: Writer,
    reader: Arc<Mutex<Connection>>,
}

// === impl SqliteOptions ===

impl Default for SqliteOptions {
    fn default() -> Self {
        // Longer than any round takes, so that two servers can share a file; no longer, since
        // gateways do not wait that long either.
        Self { synchronous: Synchronous::default(), busy_timeout: Duration::from_secs(2) }
    }
}

// === impl SqliteStore ===

impl SqliteStore {
    /// Opens the store in the file at `path`, and makes file and directory, readable by their
    /// owner alone, where there are none. Blocks on the disk.
    ///
    /// # Errors
    /// [`StoreError::Unfit`] where the file is of a newer schema or is not a store;
    /// [`StoreError::Unavailable`] where it cannot be opened.
    pub fn open(
        path: &Path,
        options: SqliteOptions,
        clock: StoreClock,
    ) -> Result<Self, StoreError> {
        let mut writing = schema::open(path, options)?;
        schema::migrate(&mut writing, path)?;
        let reading = schema::open(path, options)?;
        let stamps = rows::stamps(&writing).map_err(unavailable)?;
        // The clock goes on from where it stood before a restart, whatever the system's says.
        clock.not_before(stamps.stamped_at);
        let writer = Writer::start(writing, clock.clone())?;
        Ok(Self { clock, writer, reader: Arc::new(Mutex::new(reading)) })
    }

    /// Runs `read` on the reading connection, with the time.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection, StoreTime) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let reader = Arc::clone(&self.reader);
        let clock = self.clock.clone();
        let reading = tokio::task::spawn_blocking(move || {
            // Reading leaves nothing half done that a poisoned lock would have to guard.
            let connection = reader.lock().unwrap_or_else(PoisonError::into_inner);
            read(&connection, clock.now())
        });
        reading.await.map_err(|error| StoreError::Unavailable(error.to_string()))?
    }
}

#[async_trait]
impl StateStore for SqliteStore {
    async fn apply(&self, operations: Vec<Operation>) -> Result<Applied, StoreError> {
        if operations.is_empty() {
            return Ok(Applied { now: self.clock.now(), results: Vec::new() });
        }
        self.writer.write(move |round| Ok(round.apply(operations))).await
    }

    async fn stamp(&self) -> Result<StoreTime, StoreError> {
        self.writer.write(|round| Ok(round.stamp())).await
    }

    async fn sweep(&self, limit: usize) -> Result<usize, StoreError> {
        self.writer.write(move |round| round.sweep(limit)).await
    }

    async fn get(&self, identity: Identity) -> Result<Option<Record>, StoreError> {
        let record = self.read(move |connection, now| {
            let record = rows::record(connection, &identity)?;
            Ok(record.filter(|record| now <= record.expires_at()))
        });
        record.await
    }

    async fn in_flight(&self, page: Option<Page>, limit: usize) -> Result<InFlight, StoreError> {
        self.read(move |connection, now| {
            rows::in_flight(connection, page.as_ref(), limit, now).map_err(unavailable)
        })
        .await
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        self.read(|connection, _| rows::counts(connection).map_err(unavailable)).await
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn unavailable(error: rusqlite::Error) -> StoreError {
    StoreError::Unavailable(format!("SQLite: {error}"))
}
