//! Telling an outage from a lost lease.
//!
//! A gateway that cannot reach the state loses its leases although it is alive. Servers
//! therefore stamp the store while they serve it. Where the stamp is found to be old, the store
//! was not served for that long, whoever was to blame; it has *resumed* just now, and no lease
//! is lost before its owner has had a whole lease to come back.
//!
//! A store keeps two times: the last stamp and the last resumption. [`Stamps::at`] brings both
//! up to date; stores call it in every operation, so that none is judged by a stale pair.

use std::time::Duration;

use latchkey_core::time::StoreTime;

/// How often servers stamp the store.
pub const STAMP_INTERVAL: Duration = Duration::from_secs(1);

/// A stamp older than this means that the store was not served: two missed stamps. The shortest
/// lease that a rule may have is twice as long, so that an outage too short to be noticed is
/// too short to lose one.
pub const STAMP_GAP_US: u64 = 2_000_000;

/// What a store remembers of having been served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// When it was last stamped; 0 if never.
    pub stamped_at: StoreTime,
    /// When it was last found to have resumed; 0 if never.
    pub resumed_at: StoreTime,
}

impl Stamps {
    /// Both, as of `now`. A store that was never stamped has nothing to resume.
    #[must_use]
    pub fn at(self, now: StoreTime) -> Self {
        let gap = self.stamped_at.0 > 0 && now.since(self.stamped_at) > STAMP_GAP_US;
        Self {
            stamped_at: now.max(self.stamped_at),
            resumed_at: if gap { now } else { self.resumed_at },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_gap_resumes() {
        let stamps = Stamps::default().at(StoreTime(10_000_000));
        assert_eq!(stamps.resumed_at, StoreTime(0), "a new store has nothing to resume");
        let stamps = stamps.at(StoreTime(12_000_000));
        assert_eq!(stamps.resumed_at, StoreTime(0), "within the gap");
        let stamps = stamps.at(StoreTime(14_000_001));
        assert_eq!(stamps.resumed_at, StoreTime(14_000_001));
        let stamps = stamps.at(StoreTime(15_000_000));
        assert_eq!(stamps.resumed_at, StoreTime(14_000_001), "until the next gap");
    }
}
