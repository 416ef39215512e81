//! What the payments service executed, one row for each execution it began.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::{Deserialize, Serialize};

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    CREATE TABLE IF NOT EXISTS executions (
        id        INTEGER PRIMARY KEY,
        reference TEXT NOT NULL,
        method    TEXT NOT NULL,
        path      TEXT NOT NULL,
        headers   TEXT NOT NULL,
        body      BLOB NOT NULL,
        key       TEXT,
        attempt   INTEGER,
        fence     INTEGER,
        paid      INTEGER NOT NULL
    );
    CREATE INDEX IF NOT EXISTS executions_by_reference ON executions (reference);
    CREATE INDEX IF NOT EXISTS executions_by_key ON executions (key);
";

/// A request, as it reached the service.
#[derive(Debug)]
pub(super) struct Arrival {
    /// The caller's own name for what is paid.
    pub(super) reference: String,
    /// The method.
    pub(super) method: String,
    /// Path and query.
    pub(super) path: String,
    /// Every header line in its order.
    pub(super) headers: Vec<(String, String)>,
    /// The body.
    pub(super) body: Vec<u8>,
}

/// An execution in the ledger.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Execution {
    /// Its number in the ledger, rising in the order in which executions began.
    pub id: i64,
    /// The caller's own name for what is paid.
    pub reference: String,
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Every header line in its order.
    pub headers: Vec<(String, String)>,
    /// The `Idempotency-Key` that the request bore.
    pub key: Option<String>,
    /// Its `Idempotency-Attempt`.
    pub attempt: Option<i64>,
    /// Its `Idempotency-Fence`.
    pub fence: Option<i64>,
    /// Whether money was moved.
    pub paid: bool,
}

/// The ledger's file.
pub(super) struct Ledger {
    connection: Mutex<Connection>,
}

// === impl Arrival ===

impl Arrival {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(line, _)| line == name).map(|(_, value)| value.as_str())
    }
}

// === impl Execution ===

impl Execution {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let headers: String = row.get("headers")?;
        Ok(Self {
            id: row.get("id")?,
            reference: row.get("reference")?,
            method: row.get("method")?,
            path: row.get("path")?,
            headers: serde_json::from_str(&headers).unwrap_or_default(),
            key: row.get("key")?,
            attempt: row.get("attempt")?,
            fence: row.get("fence")?,
            paid: row.get("paid")?,
        })
    }
}

// === impl Ledger ===

impl Ledger {
    /// Opens the file, and makes it if it is not there.
    pub(super) fn open(path: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(path)?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self { connection: Mutex::new(connection) })
    }

    /// How many executions bore `key` so far; none for a request without a key.
    pub(super) fn earlier(&self, arrival: &Arrival) -> rusqlite::Result<u64> {
        let Some(key) = arrival.header("idempotency-key") else { return Ok(0) };
        self.connection().query_row(
            "SELECT count(*) FROM executions WHERE key = ?1",
            params![key],
            |row| row.get::<_, i64>(0).map(i64::unsigned_abs),
        )
    }

    /// Writes an execution down, and answers its number.
    pub(super) fn write(&self, arrival: &Arrival, paid: bool) -> rusqlite::Result<i64> {
        let connection = self.connection();
        let number = |name| arrival.header(name).and_then(|value| value.parse::<i64>().ok());
        connection.execute(
            "INSERT INTO executions
                 (reference, method, path, headers, body, key, attempt, fence, paid)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                arrival.reference,
                arrival.method,
                arrival.path,
                serde_json::to_string(&arrival.headers).unwrap_or_default(),
                arrival.body,
                arrival.header("idempotency-key"),
                number("idempotency-attempt"),
                number("idempotency-fence"),
                paid,
            ],
        )?;
        Ok(connection.last_insert_rowid())
    }

    /// One execution.
    pub(super) fn find(&self, id: i64) -> rusqlite::Result<Option<Execution>> {
        self.connection()
            .query_row("SELECT * FROM executions WHERE id = ?1", params![id], Execution::from_row)
            .optional()
    }

    /// Executions in the order in which they began: those of one reference, or all.
    pub(super) fn list(&self, reference: Option<&str>) -> rusqlite::Result<Vec<Execution>> {
        self.connection()
            .prepare("SELECT * FROM executions WHERE ?1 IS NULL OR reference = ?1 ORDER BY id")?
            .query_map(params![reference], Execution::from_row)?
            .collect()
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // Every statement stands alone, so a panic in another leaves nothing half done.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
