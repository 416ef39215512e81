//! The clock of stores that run inside the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use latchkey_core::time::StoreTime;

/// Where a store reads the time. It never goes back, also where the system's clock does.
#[derive(Clone, Debug)]
pub struct StoreClock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    manual: bool,
    latest_us: AtomicU64,
}

impl StoreClock {
    /// The system's clock.
    #[must_use]
    pub fn system() -> Self {
        Self(Arc::new(Inner { manual: false, latest_us: AtomicU64::new(0) }))
    }

    /// A clock that stands at `start` until it is told otherwise: for tests.
    #[must_use]
    pub fn manual(start: StoreTime) -> Self {
        Self(Arc::new(Inner { manual: true, latest_us: AtomicU64::new(start.0) }))
    }

    /// Whether this is a clock that only [`StoreClock::advance`] moves.
    #[must_use]
    pub fn is_manual(&self) -> bool {
        self.0.manual
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> StoreTime {
        if self.0.manual {
            return StoreTime(self.0.latest_us.load(Ordering::SeqCst));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        StoreTime(self.0.latest_us.fetch_max(now, Ordering::SeqCst).max(now))
    }

    /// Moves the clock on by at least `us`; a store calls it with what it remembers from
    /// before a restart, tests to let time pass.
    pub fn advance(&self, us: u64) {
        self.0.latest_us.fetch_add(us, Ordering::SeqCst);
    }

    /// The clock will not read earlier than `time`.
    pub fn not_before(&self, time: StoreTime) {
        self.0.latest_us.fetch_max(time.0, Ordering::SeqCst);
    }
}
