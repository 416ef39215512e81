//! Opening the store.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use latchkey_state::redis::{RedisOptions, RedisStore};
use latchkey_state::sqlite::{SqliteOptions, SqliteStore, Synchronous};
use latchkey_state::{StateStore, StoreClock, StoreError};
use tokio::time::sleep;
use tracing::{info, warn};

use super::{ServeError, keeper};
use crate::config::StoreConfig;

/// The pause between tries.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// Opens the store and stamps it. One that is a server of its own is tried again for `wait`;
/// a file that cannot be opened now cannot be opened later.
pub(super) async fn open(
    config: &StoreConfig,
    wait: Duration,
) -> Result<Arc<dyn StateStore>, ServeError> {
    let started = Instant::now();
    let location = location(config);
    let is_server = match config {
        StoreConfig::Sqlite { .. } => false,
        StoreConfig::Redis(_) => true,
    };
    let mut waiting = false;
    loop {
        let why = match try_open(config).await {
            Ok(store) => {
                info!(store = location, "store opened");
                return Ok(store);
            }
            Err(StoreError::Unfit(why) | StoreError::Unreadable(why)) => {
                return Err(ServeError::StoreUnfit { location, why });
            }
            Err(StoreError::Unavailable(why)) if !is_server => {
                return Err(ServeError::StoreUnfit { location, why });
            }
            Err(StoreError::Unavailable(why)) => why,
        };
        let waited = started.elapsed();
        if waited >= wait {
            return Err(ServeError::StoreUnavailable { location, waited, why });
        }
        if !waiting {
            warn!(store = location, why, wait_s = wait.as_secs(), "waiting for the store");
            waiting = true;
        }
        sleep(TRY_AGAIN.min(wait - waited)).await;
    }
}

async fn try_open(config: &StoreConfig) -> Result<Arc<dyn StateStore>, StoreError> {
    let store: Arc<dyn StateStore> = match config {
        StoreConfig::Sqlite { path, synchronous } => {
            Arc::new(open_sqlite(path, *synchronous).await?)
        }
        StoreConfig::Redis(url) => {
            Arc::new(RedisStore::connect(url.secret(), RedisOptions::default()).await?)
        }
    };
    keeper::stamp_once(&*store).await?;
    Ok(store)
}

async fn open_sqlite(path: &Path, synchronous: Synchronous) -> Result<SqliteStore, StoreError> {
    let path = path.to_owned();
    let options = SqliteOptions { synchronous, ..SqliteOptions::default() };
    let open = move || SqliteStore::open(&path, options, StoreClock::system());
    let opened = tokio::task::spawn_blocking(open).await;
    opened.map_err(|error| StoreError::Unavailable(error.to_string()))?
}

/// Where the store is, without passwords.
fn location(config: &StoreConfig) -> String {
    match config {
        StoreConfig::Sqlite { path, .. } => path.display().to_string(),
        StoreConfig::Redis(url) => url.to_string(),
    }
}
