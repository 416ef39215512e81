//! What a server does for its store, beside serving it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use latchkey_state::outage::STAMP_INTERVAL;
use latchkey_state::{StateStore, StoreError};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tracing::{debug, info, warn};

use super::health::{Change, StoreHealth};

/// How often records past their retention are dropped. They count as absent before that; only
/// the space waits.
pub(super) const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// How many records are dropped in one step, so that no batch waits long behind it.
pub(super) const SWEEP_RECORDS: usize = 500;

/// The pause between steps of one sweep, in which batches come first. With [`SWEEP_RECORDS`] it
/// allows for more records a second than can be made.
const SWEEP_PAUSE: Duration = Duration::from_millis(20);

/// How long the store may take over a stamp: after that the next is due.
pub(super) const STAMP_TIMEOUT: Duration = STAMP_INTERVAL;

/// Stamps `store` once, within [`STAMP_TIMEOUT`].
pub(super) async fn stamp_once(store: &dyn StateStore) -> Result<(), StoreError> {
    match timeout(STAMP_TIMEOUT, store.stamp()).await {
        Ok(stamped) => stamped.map(drop),
        Err(_) => {
            Err(StoreError::Unavailable(format!("no answer within {} s", STAMP_TIMEOUT.as_secs())))
        }
    }
}

/// Stamps `store` for ever, and keeps `health`.
pub(super) async fn stamp(store: Arc<dyn StateStore>, health: Arc<StoreHealth>) {
    let mut due = interval(STAMP_INTERVAL);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        let stamped = stamp_once(&*store).await.map_err(|error| error.to_string());
        let why = stamped.as_ref().err().cloned().unwrap_or_default();
        match health.note(stamped, Instant::now()) {
            Change::None => {}
            Change::Down => warn!(%why, "the store does not answer: batches are refused"),
            Change::Up(silent) => {
                info!(silent_s = silent.as_secs(), "the store answers again");
            }
        }
    }
}

/// Drops what is past its retention, for ever.
pub(super) async fn sweep(store: Arc<dyn StateStore>) {
    let mut failing = false;
    loop {
        match sweep_all(&*store).await {
            Ok(dropped) => {
                if dropped > 0 {
                    debug!(dropped, "swept");
                }
                if failing {
                    info!("sweeping again");
                }
                failing = false;
            }
            Err(error) => {
                if !failing {
                    warn!(%error, "cannot sweep: expired records stay where they are");
                }
                failing = true;
            }
        }
        sleep(SWEEP_INTERVAL).await;
    }
}

/// Sweeps step by step until a step finds less than it could take.
async fn sweep_all(store: &dyn StateStore) -> Result<usize, StoreError> {
    let mut dropped = 0;
    loop {
        let step = store.sweep(SWEEP_RECORDS).await?;
        dropped += step;
        if step < SWEEP_RECORDS {
            return Ok(dropped);
        }
        sleep(SWEEP_PAUSE).await;
    }
}
