//! Whether the store answers.
//!
//! Known from the stamps, which go to the store once a second anyway: asking for readiness
//! costs the store nothing, however often it is done.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The oldest good stamp with which a store counts as answering: two missed stamps.
pub(super) const READY: Duration = Duration::from_secs(3);

/// How the store was at its last stamp.
#[derive(Debug)]
pub(super) struct StoreHealth(Mutex<Last>);

#[derive(Debug)]
struct Last {
    good: Instant,
    failure: Option<String>,
}

/// What the last stamp has changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing.
    None,
    /// The store has stopped answering.
    Down,
    /// The store answers again, after this long.
    Up(Duration),
}

// === impl StoreHealth ===

impl StoreHealth {
    /// A store that has just answered.
    #[must_use]
    pub(super) fn up() -> Self {
        Self(Mutex::new(Last { good: Instant::now(), failure: None }))
    }

    /// Notes how a stamp went at `now`.
    pub(super) fn note(&self, stamp: Result<(), String>, now: Instant) -> Change {
        let mut last = self.last();
        match stamp {
            Ok(()) => {
                let silent = now.saturating_duration_since(last.good);
                last.good = now;
                match last.failure.take() {
                    Some(_) => Change::Up(silent),
                    None => Change::None,
                }
            }
            Err(why) => match last.failure.replace(why) {
                Some(_) => Change::None,
                None => Change::Down,
            },
        }
    }

    /// Whether the store answers at `now`, or why not.
    ///
    /// # Errors
    /// Where it does not.
    pub(super) fn ready(&self, now: Instant) -> Result<(), String> {
        let last = self.last();
        if let Some(why) = &last.failure {
            return Err(why.clone());
        }
        let age = now.saturating_duration_since(last.good);
        if age > READY {
            return Err(format!("the store was last heard of {} s ago", age.as_secs()));
        }
        Ok(())
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        // Both fields are sound on their own, so a poisoned lock guards nothing broken.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_once() {
        let health = StoreHealth::up();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(health.note(Ok(()), at(1)), Change::None);
        assert_eq!(health.note(Err("refused".into()), at(2)), Change::Down);
        assert_eq!(health.note(Err("time-out".into()), at(3)), Change::None);
        assert_eq!(health.ready(at(3)), Err("time-out".into()), "the last reason");
        assert_eq!(health.note(Ok(()), at(4)), Change::Up(Duration::from_secs(3)));
        assert_eq!(health.ready(at(4)), Ok(()));
    }

    #[test]
    fn silence_is_not_readiness() {
        let health = StoreHealth::up();
        let later = Instant::now() + READY + Duration::from_secs(1);
        assert!(health.ready(later).is_err());
    }
}
