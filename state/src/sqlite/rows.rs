//! The statements.

use latchkey_core::counter::{Counter, Counts};
use latchkey_core::hex;
use latchkey_core::identity::Identity;
use latchkey_core::record::Record;
use latchkey_core::time::StoreTime;
use latchkey_core::wire;
use rusqlite::{Connection, OptionalExtension, Result, params};

use super::unavailable;
use crate::outage::Stamps;
use crate::{InFlight, Page, StoreError};

/// Walks the index of unresolved records only.
const IN_FLIGHT: &str = "
    SELECT identity, record FROM records
    WHERE unresolved AND identity > ?1 AND expires_at_us >= ?2
    ORDER BY identity LIMIT ?3";

/// Walks the index of expiries only as far as they are past.
const SWEEP: &str = "
    DELETE FROM records WHERE id IN
        (SELECT id FROM records WHERE expires_at_us < ?1 ORDER BY expires_at_us LIMIT ?2)
    RETURNING unresolved";

/// The record of `identity`, also past its retention.
pub(super) fn record(
    connection: &Connection,
    identity: &Identity,
) -> std::result::Result<Option<Record>, StoreError> {
    let read = || {
        connection
            .prepare_cached("SELECT record FROM records WHERE identity = ?1")?
            .query_row([&identity.0[..]], |row| row.get::<_, Vec<u8>>(0))
            .optional()
    };
    let Some(bytes) = read().map_err(unavailable)? else { return Ok(None) };
    wire::decode_record(&bytes).map(Some).map_err(|error| {
        tracing::error!(identity = identity.to_hex(), %error, "record cannot be understood");
        StoreError::Unreadable(error.to_string())
    })
}

/// Writes the record of `identity`, or deletes it.
pub(super) fn write(
    connection: &Connection,
    identity: &Identity,
    record: Option<&Record>,
) -> Result<()> {
    let Some(record) = record else {
        return connection
            .prepare_cached("DELETE FROM records WHERE identity = ?1")?
            .execute([&identity.0[..]])
            .map(drop);
    };
    connection
        .prepare_cached(
            "INSERT INTO records (identity, expires_at_us, unresolved, record)
             VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (identity) DO UPDATE SET
                 expires_at_us = excluded.expires_at_us,
                 unresolved = excluded.unresolved,
                 record = excluded.record",
        )?
        .execute(params![
            &identity.0[..],
            integer(record.expires_at()),
            record.unresolved(),
            wire::encode_record(record),
        ])
        .map(drop)
}

/// Deletes up to `limit` records that expired before `now`. Returns how many there were, and
/// how many of them were unresolved.
pub(super) fn sweep(connection: &Connection, limit: usize, now: StoreTime) -> Result<(usize, u64)> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let unresolved: Vec<bool> = connection
        .prepare_cached(SWEEP)?
        .query_map(params![integer(now), limit], |row| row.get(0))?
        .collect::<Result<_>>()?;
    let open = unresolved.iter().filter(|open| **open).count();
    Ok((unresolved.len(), open as u64))
}

/// Up to `limit` unresolved records after `page`, by identity. One that cannot be understood
/// is left out, and logged.
pub(super) fn in_flight(
    connection: &Connection,
    page: Option<&Page>,
    limit: usize,
    now: StoreTime,
) -> Result<InFlight> {
    let after = page.map_or(&[][..], |page| &page.0);
    let rows: Vec<(Vec<u8>, Vec<u8>)> = connection
        .prepare_cached(IN_FLIGHT)?
        .query_map(params![after, integer(now), i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?
        .collect::<Result<_>>()?;
    let full = rows.len() == limit;
    let next = rows.last().filter(|_| full).map(|(identity, _)| Page(identity.clone()));
    let records = rows.iter().filter_map(|(identity, record)| {
        let read = wire::decode_record(record).inspect_err(|error| {
            let identity = hex::encode(identity);
            tracing::error!(identity, %error, "record cannot be understood");
        });
        Some((Identity(identity.as_slice().try_into().ok()?), read.ok()?))
    });
    Ok(InFlight { records: records.collect(), next })
}

pub(super) fn stamps(connection: &Connection) -> Result<Stamps> {
    connection
        .prepare_cached("SELECT stamped_at_us, resumed_at_us FROM stamps WHERE id = 1")?
        .query_row([], |row| {
            Ok(Stamps { stamped_at: time(row.get(0)?), resumed_at: time(row.get(1)?) })
        })
}

pub(super) fn write_stamps(connection: &Connection, stamps: Stamps) -> Result<()> {
    connection
        .prepare_cached("UPDATE stamps SET stamped_at_us = ?1, resumed_at_us = ?2 WHERE id = 1")?
        .execute(params![integer(stamps.stamped_at), integer(stamps.resumed_at)])
        .map(drop)
}

pub(super) fn counts(connection: &Connection) -> Result<Counts> {
    let mut counts = Counts::default();
    let mut statement = connection.prepare_cached("SELECT n FROM counts WHERE name = ?1")?;
    for counter in Counter::ALL {
        let n: Option<i64> = statement.query_row([counter.name()], |row| row.get(0)).optional()?;
        counts.add(counter, n.map_or(0, i64::unsigned_abs));
    }
    Ok(counts)
}

/// Adds `counts` to what is counted.
pub(super) fn count(connection: &Connection, counts: &Counts) -> Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO counts (name, n) VALUES (?1, ?2)
         ON CONFLICT (name) DO UPDATE SET n = n + excluded.n",
    )?;
    for counter in Counter::ALL {
        let n = counts.get(counter);
        if n > 0 {
            statement.execute(params![counter.name(), i64::try_from(n).unwrap_or(i64::MAX)])?;
        }
    }
    Ok(())
}

/// SQLite's integers have a sign; times beyond them are the end of time.
fn integer(time: StoreTime) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

fn time(integer: i64) -> StoreTime {
    StoreTime(u64::try_from(integer).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::{SqliteOptions, schema};

    /// How SQLite goes about `statement`.
    fn plan(statement: &str, parameters: &[&dyn rusqlite::ToSql]) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("latchkey.db");
        let mut connection = schema::open(&path, SqliteOptions::default()).unwrap();
        schema::migrate(&mut connection, &path).unwrap();
        let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
        let steps = explain.query_map(parameters, |row| row.get::<_, String>(3)).unwrap();
        steps.collect::<Result<Vec<_>>>().unwrap().join("; ")
    }

    #[test]
    fn listing_costs_what_is_unresolved() {
        let plan = plan(IN_FLIGHT, &[&&[0_u8][..], &0, &10]);
        assert!(plan.contains("USING INDEX records_unresolved (identity>?)"), "{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "it sorts: {plan}");
    }

    #[test]
    fn sweeping_costs_what_has_expired() {
        let plan = plan(SWEEP, &[&0, &10]);
        assert!(plan.contains("USING COVERING INDEX records_expiring (expires_at_us<?)"), "{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "it sorts: {plan}");
    }
}
