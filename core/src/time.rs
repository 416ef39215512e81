//! Points on the store's clock.

/// A point in time on the store's clock: microseconds since the Unix epoch.
///
/// Only the store's clock counts for records; gateways reckon with their own monotonic clocks
/// and with durations that the store tells them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreTime(pub u64);

impl StoreTime {
    /// This point, `us` microseconds later; the end of time where that overflows.
    #[must_use]
    pub const fn plus(self, us: u64) -> Self {
        Self(self.0.saturating_add(us))
    }

    /// Microseconds from `earlier` to this point, 0 where `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
