//! The file: how it is opened, and what is in it.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::{SqliteOptions, Synchronous, unavailable};
use crate::StoreError;

/// Says that a file is ours: "LKEY". In SQLite's header, where `file` shows it.
const APPLICATION_ID: i32 = 0x4c4b_4559;

/// The schema below. Raised with every change to it, together with a step in [`migrate`].
const SCHEMA_VERSION: i32 = 1;

/// `records` is an ordinary table, since its rows may hold a response each: looking for one
/// walks the small index of identities and not the large rows.
///
/// `expires_at_us` and `unresolved` repeat what is in `record`, for the two indexes: sweeping
/// costs what has expired, and listing costs what is unresolved.
const SCHEMA: &str = "
    CREATE TABLE records (
        id INTEGER PRIMARY KEY,
        identity BLOB NOT NULL UNIQUE,
        expires_at_us INTEGER NOT NULL,
        unresolved INTEGER NOT NULL,
        record BLOB NOT NULL
    ) STRICT;
    CREATE INDEX records_expiring ON records (expires_at_us);
    CREATE INDEX records_unresolved ON records (identity) WHERE unresolved;
    CREATE TABLE counts (name TEXT PRIMARY KEY, n INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE stamps (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        stamped_at_us INTEGER NOT NULL,
        resumed_at_us INTEGER NOT NULL
    ) STRICT;
    INSERT INTO stamps VALUES (1, 0, 0);
";

/// A connection to the file at `path`, which is made where it is absent.
pub(super) fn open(path: &Path, options: SqliteOptions) -> Result<Connection, StoreError> {
    make_private(path).map_err(|error| {
        StoreError::Unavailable(format!("cannot create {}: {error}", path.display()))
    })?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| {
        StoreError::Unavailable(format!("cannot open {}: {error}", path.display()))
    })?;
    connection.busy_timeout(options.busy_timeout).map_err(unavailable)?;
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))
        .map_err(|error| not_a_store(path, error))?;
    if mode != "wal" {
        return Err(StoreError::Unfit(format!(
            "{} cannot have a write-ahead log (its journal is `{mode}`): \
             put it on a local file system",
            path.display()
        )));
    }
    let synchronous = match options.synchronous {
        Synchronous::Full => "FULL",
        Synchronous::Normal => "NORMAL",
    };
    connection.pragma_update(None, "synchronous", synchronous).map_err(unavailable)?;
    Ok(connection)
}

/// Brings the file's schema up to date, or says why that cannot be.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    // Exclusive from the start, so that two servers that start at once make one schema.
    let transaction = connection
        .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
        .map_err(unavailable)?;
    let pragma = |name| transaction.pragma_query_value(None, name, |row| row.get(0));
    let application: i32 = pragma("application_id").map_err(unavailable)?;
    let version: i32 = pragma("user_version").map_err(unavailable)?;
    let tables: i64 = transaction
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(unavailable)?;
    let path = path.display();
    match (application, version) {
        (APPLICATION_ID, SCHEMA_VERSION) => return Ok(()),
        (APPLICATION_ID, newer) if newer > SCHEMA_VERSION => {
            return Err(StoreError::Unfit(format!(
                "{path} was written by a newer Latchkey (schema {newer}; this one knows up to \
                 {SCHEMA_VERSION}): upgrade this server, or give it another file"
            )));
        }
        (0, 0) if tables == 0 => {}
        _ => {
            return Err(StoreError::Unfit(format!(
                "{path} is a SQLite file, but not one of Latchkey's: give the server another file"
            )));
        }
    }
    transaction.execute_batch(SCHEMA).map_err(unavailable)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(unavailable)?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION).map_err(unavailable)?;
    transaction.commit().map_err(unavailable)
}

/// Makes the file and its directory where they are absent, for their owner alone: responses
/// are other people's payments. SQLite gives its log the same rights.
fn make_private(path: &Path) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new();
    let mut directory = std::fs::DirBuilder::new();
    #[cfg(unix)]
    {
        std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
        std::os::unix::fs::DirBuilderExt::mode(&mut directory, 0o700);
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        directory.recursive(true).create(parent)?;
    }
    file.write(true).create(true).truncate(false).open(path).map(drop)
}

fn not_a_store(path: &Path, error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => StoreError::Unfit(format!(
            "{} is not a SQLite file: give the server another file",
            path.display()
        )),
        _ => unavailable(error),
    }
}
