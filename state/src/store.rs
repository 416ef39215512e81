//! The contract that every store keeps.

use async_trait::async_trait;
use latchkey_core::counter::Counts;
use latchkey_core::identity::Identity;
use latchkey_core::operation::{Operation, Reply};
use latchkey_core::record::Record;
use latchkey_core::time::StoreTime;

/// Where records are kept.
///
/// Every operation is atomic and stands alone: in a batch some may succeed and some fail. A
/// store's own clock counts, and never goes back.
#[async_trait]
pub trait StateStore: Send + Sync + 'static {
    /// Applies `operations`, each in one atomic step, and answers in their order.
    ///
    /// Operations on one identity are applied in the order given.
    ///
    /// # Errors
    /// Where nothing is known of any operation. What is known of single ones is in
    /// [`Applied::results`].
    async fn apply(&self, operations: Vec<Operation>) -> Result<Applied, StoreError>;

    /// Says that the store is being served. Servers call it when they start and then every
    /// [`outage::STAMP_INTERVAL`](crate::outage::STAMP_INTERVAL), so that an outage can be told
    /// from a lost lease. Returns the store's clock.
    ///
    /// # Errors
    /// Where the store cannot be reached.
    async fn stamp(&self) -> Result<StoreTime, StoreError>;

    /// Drops up to `limit` records whose retention is over, and counts those that were
    /// unresolved. Returns how many were dropped; a store that drops completed records by
    /// itself finds only the unresolved ones.
    ///
    /// # Errors
    /// Where the store cannot be reached.
    async fn sweep(&self, limit: usize) -> Result<usize, StoreError>;

    /// One record, or `None` where it is absent or past its retention.
    ///
    /// # Errors
    /// Where the store cannot be reached, or the record cannot be understood.
    async fn get(&self, identity: Identity) -> Result<Option<Record>, StoreError>;

    /// The unresolved records (in progress, retryable or held), up to `limit` of them after
    /// `page`, in an order of the store's own. Costs what is unresolved, not what is kept.
    ///
    /// # Errors
    /// Where the store cannot be reached.
    async fn in_flight(&self, page: Option<Page>, limit: usize) -> Result<InFlight, StoreError>;

    /// What the store has counted, over all servers and restarts.
    ///
    /// # Errors
    /// Where the store cannot be reached.
    async fn counts(&self) -> Result<Counts, StoreError>;
}

/// What came of a batch.
#[derive(Debug)]
pub struct Applied {
    /// The store's clock.
    pub now: StoreTime,
    /// One for each operation, in their order.
    pub results: Vec<Result<Reply, StoreError>>,
}

/// Where the next page begins. Opaque outside the store that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page(pub Vec<u8>);

/// A page of unresolved records.
#[derive(Debug)]
pub struct InFlight {
    /// The records.
    pub records: Vec<(Identity, Record)>,
    /// Where the next page begins, `None` after the last.
    pub next: Option<Page>,
}

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached, or did not answer. Whether the operation was applied is unknown;
    /// asking again is safe.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// A record is there but cannot be understood: corrupt, without a lease, or of a newer
    /// version. Nothing was changed, and asking again will not help.
    #[error("the record cannot be understood: {0}")]
    Unreadable(String),
    /// It cannot be used as it is set up: another schema, an eviction policy that drops claims.
    /// Only opening a store says so; somebody has to change something first.
    #[error("the store cannot be used: {0}")]
    Unfit(String),
}
