//! A Redis in a directory of its own.

pub(crate) mod server;

use std::sync::Arc;
use std::time::Duration;

use latchkey_core::identity::Identity;
use latchkey_state::redis::{RedisOptions, RedisStore};
use latchkey_state::{StateStore, StoreClock};

use self::server::RedisServer;
use super::{Damage, Fixture, Lasting};

/// Longer than a busy machine may keep an answer: no test of what a store answers is one of
/// how soon.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct RedisFixture {
    server: RedisServer,
    store: Arc<RedisStore>,
}

pub(crate) fn options(clock: StoreClock) -> RedisOptions {
    RedisOptions { timeout: PATIENCE, clock: Some(clock) }
}

impl RedisFixture {
    async fn connect(server: &RedisServer, clock: StoreClock) -> Arc<RedisStore> {
        Arc::new(RedisStore::connect(&server.url(), options(clock)).await.unwrap())
    }

    /// The name of a record, as the store itself gives it.
    async fn name(&self, identity: Identity) -> String {
        let pattern = format!("*{}", identity.to_hex());
        let names: Vec<String> = self.server.ask(redis::cmd("KEYS").arg(pattern)).await;
        let [name] = &names[..] else { panic!("one record, not {names:?}") };
        name.clone()
    }
}

/// What only tests of Redis do.
impl RedisFixture {
    /// How long until Redis itself drops a record, if it ever does.
    pub(crate) async fn expires_in(&self, identity: Identity) -> Option<Duration> {
        let name = self.name(identity).await;
        let ms: i64 = self.server.ask(redis::cmd("PTTL").arg(name)).await;
        u64::try_from(ms).ok().map(Duration::from_millis)
    }

    /// Writes into the indexes that a record is unresolved and has expired.
    pub(crate) async fn index_as_expired(&self, identity: Identity) {
        let name = self.name(identity).await;
        let shard = name.split_once(":r:").unwrap().0;
        for (index, score) in [("inflight", 0), ("expiring", 1)] {
            let mut add = redis::cmd("ZADD");
            add.arg(format!("{shard}:{index}")).arg(score).arg(identity.to_hex());
            let () = self.server.ask(&add).await;
        }
    }

    /// Puts something that is no record in its place.
    pub(crate) async fn replace(&self, identity: Identity) {
        let name = self.name(identity).await;
        let () = self.server.ask(redis::cmd("SET").arg(name).arg("text")).await;
    }
}

impl Fixture for RedisFixture {
    async fn start(clock: StoreClock) -> Self {
        let server = RedisServer::start(&[]).await;
        let store = Self::connect(&server, clock).await;
        Self { server, store }
    }

    fn store(&self) -> Arc<dyn StateStore> {
        self.store.clone()
    }
}

impl Lasting for RedisFixture {
    async fn reopen(&mut self, clock: StoreClock) {
        self.store = Self::connect(&self.server, clock).await;
    }

    async fn second(&self, clock: StoreClock) -> Arc<dyn StateStore> {
        Self::connect(&self.server, clock).await
    }

    async fn damage(&self, identity: Identity, damage: Damage) {
        let name = self.name(identity).await;
        let head: String = self.server.ask(redis::cmd("HGET").arg(&name).arg("head")).await;
        let head = match damage {
            Damage::Garbage => "2 \u{0} not a head".to_owned(),
            Damage::NoLease => {
                let mut words: Vec<_> = head.split(' ').collect();
                assert_eq!(words[1], "p", "in progress");
                let lease_until = words.len() - 2;
                words[lease_until] = "0";
                words.join(" ")
            }
        };
        let () = self.server.ask(redis::cmd("HSET").arg(&name).arg("head").arg(head)).await;
    }

    async fn raw(&self, identity: Identity) -> Vec<u8> {
        let name = self.name(identity).await;
        let fields: Vec<Vec<u8>> = self.server.ask(redis::cmd("HGETALL").arg(name)).await;
        fields.join(&b'\n')
    }
}
