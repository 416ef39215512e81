//! Records in Redis (6.2 or later) or Valkey: the store for fleets.
//!
//! Redis' atomic step is a script, so the rules of the core stand here a second time, in one
//! Lua file for each operation; the conformance suite holds them to the model. A batch is one
//! pipeline of scripts. A record is one hash; it, the indexes of unresolved records, the counts
//! and the stamps of its shard lie in one slot and change in one script (`prelude.lua` says what
//! they look like). Outcomes are bytes that no script looks into.
//!
//! Time is Redis' own, so that all servers agree on it, and never goes back: a shard's time is
//! at least its last stamp. Stamps are a shard's, not the store's, since in a cluster a shard
//! can be away by itself; servers stamp all of them.
//!
//! How durable an answer is depends on how Redis is set up: with `appendonly yes` and
//! `appendfsync always` it survives a crash. Without, and after a fail-over to a replica that
//! lags behind, claims may be lost; a running execution restores its own record when it renews.
//!
//! Deliberately absent: reading from replicas, which may lag, and several keys in one step.

mod connection;
mod decode;
mod encode;
mod keys;
mod record;
mod scripts;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use latchkey_core::counter::{Counter, Counts};
use latchkey_core::identity::Identity;
use latchkey_core::operation::{Operation, Reply};
use latchkey_core::record::Record;
use latchkey_core::time::StoreTime;
use redis::Value;

use self::connection::{Call, Connection};
use self::decode::Words;
use self::encode::Args;
use self::keys::Shard;
use self::scripts::Script;
use crate::{Applied, InFlight, Page, StateStore, StoreClock, StoreError};

/// How a Redis store is set up.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// How long anything asked of Redis may take before it is answered as unavailable.
    pub timeout: Duration,
    /// A clock to go by instead of Redis' own: for tests.
    pub clock: Option<StoreClock>,
}

/// A store in Redis or Valkey, for any number of servers.
#[derive(Debug)]
pub struct RedisStore {
    connection: Connection,
    shards: Vec<Shard>,
    clock: Option<StoreClock>,
    /// The latest time that Redis told, in µs.
    latest_us: AtomicU64,
}

// === impl RedisOptions ===

impl Default for RedisOptions {
    fn default() -> Self {
        // Less than the 500 ms that gateways wait by default, so that they hear of it.
        Self { timeout: Duration::from_millis(400), clock: None }
    }
}

// === impl RedisStore ===

impl RedisStore {
    /// Connects to the Redis at `url` (`redis://user:password@host:port/database`).
    ///
    /// # Errors
    /// [`StoreError::Unfit`] where the URL, the password or Redis' eviction policy will not do;
    /// [`StoreError::Unavailable`] where Redis cannot be reached, in which case it may be tried
    /// again.
    pub async fn connect(url: &str, options: RedisOptions) -> Result<Self, StoreError> {
        let connection = Connection::open(url, options.timeout).await?;
        Ok(Self {
            connection,
            shards: keys::shards(),
            clock: options.clock,
            latest_us: AtomicU64::new(0),
        })
    }

    /// A script's first argument: the time, empty for Redis' own.
    fn time(&self) -> Vec<u8> {
        self.clock.as_ref().map(|clock| clock.now().0.to_string().into_bytes()).unwrap_or_default()
    }

    fn args(&self) -> Args {
        Args(vec![self.time()])
    }

    /// The shard of `identity`.
    fn shard(&self, identity: &Identity) -> &Shard {
        // There are as many shards as there are first digits.
        &self.shards[keys::shard_of(identity)]
    }

    /// A run of `script` on the record of `identity`.
    fn on_record(&self, script: Script, identity: &Identity, args: Args) -> Call {
        let shard = self.shard(identity);
        let mut call = on_shard(script, shard, args);
        call.keys.push(shard.record(identity));
        call
    }

    /// Reads what a script returned, and remembers its time.
    fn words(&self, value: Value) -> Result<Words, StoreError> {
        let words = Words::new(value)?;
        self.latest_us.fetch_max(words.now.0, Ordering::Relaxed);
        Ok(words)
    }

    /// Redis' time, as of no earlier than anything that was answered.
    async fn now(&self) -> Result<StoreTime, StoreError> {
        if let Some(clock) = &self.clock {
            return Ok(clock.now());
        }
        let mut pipeline = redis::pipe();
        pipeline.cmd("TIME");
        let values = self.connection.read(&pipeline).await?;
        let read = || {
            let Some(Value::Array(parts)) = values.into_iter().next() else { return None };
            let mut parts = parts.into_iter().filter_map(decode::text);
            let seconds: u64 = parts.next()?.parse().ok()?;
            let us: u64 = parts.next()?.parse().ok()?;
            seconds.checked_mul(1_000_000)?.checked_add(us)
        };
        let now = read().ok_or_else(|| decode::malformed_reply("no time"))?;
        Ok(StoreTime(now.max(self.latest_us.fetch_max(now, Ordering::Relaxed))))
    }

    /// What `identities` are in Redis, each also past its retention, with the time of looking.
    async fn records(
        &self,
        identities: &[Identity],
    ) -> Result<Vec<Result<Option<Record>, StoreError>>, StoreError> {
        let call = |identity| self.on_record(Script::Get, identity, self.args());
        let calls: Vec<_> = identities.iter().map(call).collect();
        let values = self.connection.run(&calls).await?;
        let read = |(identity, value): (&Identity, Result<Value, StoreError>)| {
            let mut words = self.words(value?)?;
            let now = words.now;
            let record = match words.what.as_str() {
                "record" => record::read(&mut words).map_err(|error| error.to_string()),
                _ => Err(words.text("why").unwrap_or_default()),
            };
            let record = record.map_err(|why| report(identity, why))?;
            Ok(record.filter(|record| now <= record.expires_at()))
        };
        Ok(identities.iter().zip(values).map(read).collect())
    }
}

/// Says in the log that a record is unreadable.
fn report(identity: &Identity, why: String) -> StoreError {
    tracing::error!(identity = identity.to_hex(), why, "record cannot be understood");
    StoreError::Unreadable(why)
}

/// A run of `script` on what `shard`'s records share.
fn on_shard(script: Script, shard: &Shard, args: Args) -> Call {
    let Shard { clock, resumed, counts, inflight, expiring, .. } = shard;
    let keys = [clock, resumed, counts, inflight, expiring].into_iter().cloned().collect();
    Call { script, keys, args: args.0 }
}

#[async_trait]
impl StateStore for RedisStore {
    async fn apply(&self, operations: Vec<Operation>) -> Result<Applied, StoreError> {
        if operations.is_empty() {
            return Ok(Applied { now: self.now().await?, results: Vec::new() });
        }
        let mut identities = Vec::with_capacity(operations.len());
        let mut calls = Vec::with_capacity(operations.len());
        for Operation { identity, event } in operations {
            let (script, args) = encode::event(self.time(), event);
            calls.push(self.on_record(script, &identity, args));
            identities.push(identity);
        }
        let values = self.connection.run(&calls).await?;
        let mut now = StoreTime(0);
        let mut read = |identity: &Identity, value: Result<Value, StoreError>| {
            let mut words = self.words(value?)?;
            now = now.max(words.now);
            decode::reply(&mut words).map_err(|error| match error {
                StoreError::Unreadable(why) => report(identity, why),
                StoreError::Unavailable(_) | StoreError::Unfit(_) => error,
            })
        };
        let results: Vec<Result<Reply, _>> =
            identities.iter().zip(values).map(|(identity, value)| read(identity, value)).collect();
        if now == StoreTime(0) {
            // Nothing was answered with a time: nothing is known of any operation.
            let why = results.into_iter().find_map(Result::err);
            return Err(why.unwrap_or_else(|| decode::malformed_reply("no time")));
        }
        Ok(Applied { now, results })
    }

    async fn stamp(&self) -> Result<StoreTime, StoreError> {
        let stamp = |shard: &Shard| Call {
            script: Script::Stamp,
            keys: vec![shard.clock.clone(), shard.resumed.clone()],
            args: self.args().0,
        };
        let calls: Vec<_> = self.shards.iter().map(stamp).collect();
        let mut now = StoreTime(0);
        for value in self.connection.run(&calls).await? {
            now = now.max(self.words(value?)?.now);
        }
        Ok(now)
    }

    async fn sweep(&self, limit: usize) -> Result<usize, StoreError> {
        let expired = |shard: &Shard| {
            let mut args = self.args();
            args.number(limit as u64);
            on_shard(Script::Expired, shard, args)
        };
        let calls: Vec<_> = self.shards.iter().map(expired).collect();
        let mut identities = Vec::new();
        for value in self.connection.run(&calls).await? {
            identities
                .extend(decode::identities(self.words(value?)?.value().unwrap_or(Value::Nil)));
        }
        identities.truncate(limit);
        let drop = |identity| self.on_record(Script::Sweep, identity, self.args());
        let calls: Vec<_> = identities.iter().map(drop).collect();
        let mut dropped = 0;
        for value in self.connection.run(&calls).await? {
            let swept = self.words(value?)?.number("swept").unwrap_or(0);
            dropped += usize::from(swept > 0);
        }
        Ok(dropped)
    }

    async fn get(&self, identity: Identity) -> Result<Option<Record>, StoreError> {
        let mut records = self.records(&[identity]).await?;
        records.pop().unwrap_or(Ok(None))
    }

    async fn in_flight(&self, page: Option<Page>, limit: usize) -> Result<InFlight, StoreError> {
        let after = page.and_then(|page| Some(Identity(page.0.try_into().ok()?)));
        let first = after.as_ref().map_or(0, keys::shard_of);
        let from = after.map_or_else(|| "-".to_owned(), |it| format!("({}", it.to_hex()));
        let mut pipeline = redis::pipe();
        for shard in &self.shards[first..] {
            // Identities are in the order of their shards, so that what is after one in its
            // shard is after it in all later ones.
            pipeline.cmd("ZRANGEBYLEX").arg(&shard.inflight).arg(&from).arg("+");
            pipeline.arg("LIMIT").arg(0).arg(limit);
        }
        let listed = self.connection.read(&pipeline).await?;
        let mut identities: Vec<_> = listed.into_iter().flat_map(decode::identities).collect();
        identities.truncate(limit);
        let full = identities.len() == limit;
        let next = identities.last().filter(|_| full).map(|last| Page(last.0.to_vec()));
        let mut records = Vec::new();
        for (identity, record) in identities.iter().zip(self.records(&identities).await?) {
            match record {
                // It may have been resolved since it was listed.
                Ok(record) => {
                    let open = record.filter(Record::unresolved);
                    records.extend(open.map(|record| (*identity, record)));
                }
                // Reported when it was read; the others are listed all the same.
                Err(StoreError::Unreadable(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(InFlight { records, next })
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        let mut pipeline = redis::pipe();
        for shard in &self.shards {
            pipeline.cmd("HMGET").arg(&shard.counts).arg(&Counter::ALL.map(Counter::name));
        }
        let mut counts = Counts::default();
        for shard in self.connection.read(&pipeline).await? {
            let Value::Array(values) = shard else { continue };
            for (counter, value) in Counter::ALL.into_iter().zip(values) {
                let n = decode::text(value).and_then(|text| text.parse().ok());
                counts.add(counter, n.unwrap_or(0));
            }
        }
        Ok(counts)
    }
}
