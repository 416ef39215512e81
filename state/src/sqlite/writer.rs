//! The thread that writes, and the rounds that it writes in.

use std::thread::JoinHandle;

use latchkey_core::counter::{Counter, Counts};
use latchkey_core::operation::{Operation, Reply};
use latchkey_core::time::StoreTime;
use latchkey_core::transition::{self, Env};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use super::{rows, unavailable};
use crate::outage::Stamps;
use crate::{Applied, StoreClock, StoreError};

/// How many jobs may wait. More senders than this wait to get in, which is the back-pressure.
const QUEUE_JOBS_MAX: usize = 1024;

/// How many jobs share a transaction: enough that a flush is shared by all that came during
/// the last one, few enough that the log stays small.
const ROUND_JOBS_MAX: usize = 128;

/// What a job does in a round, or where there can be none.
type Job = Box<dyn FnOnce(Result<&mut Round<'_>, &StoreError>) -> Deliver + Send>;

/// Tells the one who waits, once it is known how the round ended.
type Deliver = Box<dyn FnOnce(&Result<(), StoreError>)>;

/// The thread that writes.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// One transaction.
pub(super) struct Round<'c> {
    transaction: Transaction<'c>,
    now: StoreTime,
    before: Stamps,
    stamps: Stamps,
    counts: Counts,
    /// Why it must not be committed.
    broken: Option<StoreError>,
}

// === impl Writer ===

impl Writer {
    pub(super) fn start(mut connection: Connection, clock: StoreClock) -> Result<Self, StoreError> {
        let (jobs, mut waiting) = mpsc::channel::<Job>(QUEUE_JOBS_MAX);
        let thread = std::thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || {
                let mut round = Vec::new();
                while waiting.blocking_recv_many(&mut round, ROUND_JOBS_MAX) > 0 {
                    run(&mut connection, &clock, round.drain(..));
                }
            })
            .map_err(|error| StoreError::Unavailable(format!("no thread to write: {error}")))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Has `work` done in the next round, and returns what came of it once it is committed.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Round<'_>) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let gone = || StoreError::Unavailable("SQLite: the writing thread has ended".to_owned());
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |round| {
            let done = match round {
                Ok(round) => round.attempt(work),
                Err(error) => Err(error.clone()),
            };
            Box::new(move |ended| {
                // Whoever does not wait any more does not need an answer.
                let _ = answer.send(ended.clone().and(done));
            })
        });
        let jobs = self.jobs.as_ref().ok_or_else(gone)?;
        jobs.send(job).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // The thread ends with the last sender; what was accepted is written first.
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the SQLite writing thread has panicked");
        }
    }
}

/// Does `jobs` in one transaction, and tells those who wait.
fn run(connection: &mut Connection, clock: &StoreClock, jobs: impl Iterator<Item = Job>) {
    let (answers, ended) = match Round::begin(connection, clock).map_err(unavailable) {
        Ok(mut round) => {
            let answers: Vec<_> = jobs.map(|job| job(Ok(&mut round))).collect();
            (answers, round.end())
        }
        Err(error) => (jobs.map(|job| job(Err(&error))).collect(), Err(error)),
    };
    if let Err(error) = &ended {
        tracing::warn!(%error, "transaction rolled back");
    }
    for deliver in answers {
        deliver(&ended);
    }
}

// === impl Round ===

impl<'c> Round<'c> {
    fn begin(connection: &'c mut Connection, clock: &StoreClock) -> rusqlite::Result<Self> {
        // Immediate: another server may write to the file, and what was read must still be so
        // when it is written.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let before = rows::stamps(&transaction)?;
        // Another server's clock, or this one's before a restart, may have been ahead.
        clock.not_before(before.stamped_at);
        let now = clock.now();
        Ok(Self {
            transaction,
            now,
            before,
            stamps: before,
            counts: Counts::default(),
            broken: None,
        })
    }

    /// Commits, unless a job has failed.
    fn end(self) -> Result<(), StoreError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        let write = || {
            if self.stamps != self.before {
                rows::write_stamps(&self.transaction, self.stamps)?;
            }
            rows::count(&self.transaction, &self.counts)
        };
        write().and_then(|()| self.transaction.commit()).map_err(unavailable)
    }

    /// Does `work`; where it fails, nothing of the round is committed.
    fn attempt<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let done = work(self).map_err(unavailable);
        if let Err(error) = &done {
            self.broken = Some(error.clone());
        }
        done
    }

    /// Applies `operations` by identity, so that neighbours in the index are written together,
    /// and answers in the order given.
    pub(super) fn apply(&mut self, operations: Vec<Operation>) -> Applied {
        self.stamp();
        let mut operations: Vec<_> = operations.into_iter().enumerate().collect();
        // Stable: operations on one identity stay in their order.
        operations.sort_by_key(|(_, operation)| operation.identity);
        let mut results: Vec<_> =
            operations.into_iter().map(|(at, operation)| (at, self.apply_one(operation))).collect();
        results.sort_by_key(|(at, _)| *at);
        Applied { now: self.now, results: results.into_iter().map(|(_, result)| result).collect() }
    }

    fn apply_one(&mut self, operation: Operation) -> Result<Reply, StoreError> {
        let identity = operation.identity;
        let env = Env::new(self.now, self.stamps.resumed_at);
        let record = rows::record(&self.transaction, &identity)?;
        let step = transition::apply(record, operation.event, &env);
        if step.changed {
            let mut write = || {
                let savepoint = self.transaction.savepoint()?;
                rows::write(&savepoint, &identity, step.record.as_ref())?;
                savepoint.commit()
            };
            write().map_err(unavailable)?;
        }
        self.counts.add_all(&step.counts);
        Ok(step.reply)
    }

    /// Says that the store is being served.
    pub(super) fn stamp(&mut self) -> StoreTime {
        self.stamps = self.stamps.at(self.now);
        self.now
    }

    pub(super) fn sweep(&mut self, limit: usize) -> rusqlite::Result<usize> {
        let (dropped, unresolved) = rows::sweep(&self.transaction, limit, self.now)?;
        self.counts.add(Counter::ExpiredUnresolved, unresolved);
        Ok(dropped)
    }
}
