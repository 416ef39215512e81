//! What the store's clock reads, at least.
//!
//! A gateway does not have the store's clock, but each answer of the store says what it read
//! when the answer was made; later it cannot read less than that plus the time since the answer
//! arrived. From this lower bound an operation's `void_after` is reckoned: once the call's
//! time-out has passed here, the store's clock is past `void_after` there, so that no copy can
//! act behind its sender's back. Clocks are taken to run at one rate over a time-out.

/// A lower bound of the store's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockEstimate {
    /// (store's clock, our clock at the same moment or later), in µs.
    seen: Option<(u64, u64)>,
}

impl ClockEstimate {
    /// Takes in an answer that arrived at `now_us` and was made at `store_us`.
    ///
    /// The tightest bound is kept; where the store's clock turns out to be behind it by more
    /// than `timeout_us`, more than an answer can take, it is another clock.
    pub fn observe(&mut self, store_us: u64, now_us: u64, timeout_us: u64) {
        let known = self.at(now_us).filter(|known| store_us.saturating_add(timeout_us) >= *known);
        self.seen = Some((known.map_or(store_us, |known| known.max(store_us)), now_us));
    }

    /// What the store's clock reads at least when ours reads `now_us`; `None` before the first
    /// answer.
    #[must_use]
    pub fn at(&self, now_us: u64) -> Option<u64> {
        self.seen.map(|(store, ours)| store.saturating_add(now_us.saturating_sub(ours)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_moves_with_our_clock_and_keeps_the_tightest() {
        let mut clock = ClockEstimate::default();
        assert_eq!(clock.at(5), None);
        clock.observe(1_000_000, 100, 500_000);
        assert_eq!(clock.at(150), Some(1_000_050));
        clock.observe(1_000_040, 200, 500_000);
        assert_eq!(clock.at(200), Some(1_000_100), "a slow answer says less");
        clock.observe(1_000_300, 300, 500_000);
        assert_eq!(clock.at(300), Some(1_000_300), "a quick one says more");
    }

    #[test]
    fn a_clock_that_jumped_back_is_another_clock() {
        let mut clock = ClockEstimate::default();
        clock.observe(9_000_000, 100, 500_000);
        clock.observe(1_000_000, 200, 500_000);
        assert_eq!(clock.at(200), Some(1_000_000));
    }
}
