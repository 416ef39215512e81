//! Waiting for what will be, with a deadline: never by sleeping and hoping.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// How long anything may take that should take far less. Generous, since it only ends tests that
/// have failed; a loaded machine is slow.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Looks until `look` answers something.
///
/// # Errors
/// When it has not within [`DEADLINE`]; the last error of `look`, if it had one, is told.
pub async fn until<T>(
    what: &str,
    mut look: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let started = Instant::now();
    loop {
        let seen = look().await;
        if let Ok(Some(value)) = seen {
            return Ok(value);
        }
        if started.elapsed() > DEADLINE {
            return match seen {
                Err(error) => Err(error.context(format!("waited {DEADLINE:?} until {what}"))),
                Ok(_) => bail!("waited {DEADLINE:?} until {what}"),
            };
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The answer of `work`, which must come within [`DEADLINE`].
///
/// # Errors
/// When it does not, or `work` fails.
pub async fn within<T>(
    what: &str,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    tokio::time::timeout(DEADLINE, work)
        .await
        .with_context(|| format!("{what} took longer than {DEADLINE:?}"))?
}
