//! Redis dies, freezes, forgets and fills up.

use std::sync::Arc;
use std::time::Duration;

use latchkey_core::operation::{Reply, Verdict};
use latchkey_state::redis::{RedisOptions, RedisStore};
use latchkey_state::{StateStore, StoreClock, StoreError};

use crate::support::redis::server::RedisServer;
use crate::support::redis::{PATIENCE, options};
use crate::support::{
    Fixture, LEASE_US, START, World, claim, claiming, completing, identity, in_progress, response,
    scattered, ticket,
};

/// As durable as Redis gets.
const DURABLE: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

/// A store whose server the test can harm.
struct Harmed {
    server: RedisServer,
    store: Arc<RedisStore>,
}

impl Harmed {
    /// On `clock`, on a server with `settings`.
    async fn on(clock: StoreClock, settings: &[&str]) -> Self {
        let server = RedisServer::start(settings).await;
        let store = RedisStore::connect(&server.url(), options(clock)).await.unwrap();
        Self { server, store: Arc::new(store) }
    }

    /// On Redis' own clock, and with a time-out that the test may wait for.
    async fn ordinary(settings: &[&str]) -> Self {
        let server = RedisServer::start(settings).await;
        let options = RedisOptions { timeout: Duration::from_secs(2), clock: None };
        let store = RedisStore::connect(&server.url(), options).await.unwrap();
        Self { server, store: Arc::new(store) }
    }

    /// What a claim of `key` is answered; never nothing.
    async fn claim(&self, key: u8) -> Result<Reply, StoreError> {
        let applying = self.store.apply(vec![claiming(identity(key), claim(1))]);
        let applied = tokio::time::timeout(PATIENCE, applying).await.expect("it hangs");
        applied?.results.remove(0)
    }

    async fn recovers(&self, key: u8) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while let Err(error) = self.claim(key).await {
            assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
            assert!(tokio::time::Instant::now() < deadline, "it does not recover: {error}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Fixture for Harmed {
    async fn start(clock: StoreClock) -> Self {
        Self::on(clock, DURABLE).await
    }

    fn store(&self) -> Arc<dyn StateStore> {
        self.store.clone()
    }
}

#[tokio::test]
async fn what_was_acknowledged_survives_kill_9_with_an_append_only_file() {
    let mut harmed = Harmed::on(StoreClock::manual(START), DURABLE).await;
    let claims = (0..50).map(|key| claiming(scattered(key), claim(key))).collect();
    let applied = harmed.store.apply(claims).await.unwrap();
    let completion = |(key, result)| {
        let Ok(Reply::Claimed(claimed)) = result else { panic!("not claimed: {result:?}") };
        completing(scattered(key), &ticket(&claim(key), claimed), response(key))
    };
    let completions = (0..25).zip(applied.results).map(completion).collect();
    for result in harmed.store.apply(completions).await.unwrap().results {
        assert_eq!(result, Ok(Reply::Settled));
    }

    harmed.server.kill();
    harmed.server.restart().await;
    harmed.recovers(1).await;

    for key in 0..50 {
        let record = harmed.store.get(scattered(key)).await.unwrap();
        let unresolved = record.map(|record| record.unresolved());
        assert_eq!(unresolved, Some(key >= 25), "key {key}");
    }
}

#[tokio::test]
async fn a_restart_in_between_loses_no_lease() {
    let mut world = World::<Harmed>::start().await;
    let ticket = world.win(1, 1).await;
    world.fixture.server.kill();
    world.outage(2 * LEASE_US);
    world.fixture.server.restart().await;
    world.fixture.recovers(9).await;

    let refused = Reply::Refused(in_progress(2 * LEASE_US, LEASE_US));
    assert_eq!(world.claim(1, 2).await, refused);
    let renewed = Reply::Renewed { lease_left_us: LEASE_US };
    assert_eq!(world.renew(1, &ticket).await, renewed);
}

#[tokio::test]
async fn a_redis_that_has_forgotten_everything_is_told_by_who_executes() {
    let clock = StoreClock::manual(START);
    let mut harmed = Harmed::on(clock.clone(), &[]).await;
    let Ok(Reply::Claimed(claimed)) = harmed.claim(1).await else { panic!("not claimed") };
    harmed.server.kill();
    harmed.server.restart().await;
    harmed.recovers(9).await;

    let world = World { fixture: harmed, clock };
    assert_eq!(world.record(1).await, None);
    let ticket = ticket(&claim(1), claimed);
    let renewed = Reply::Renewed { lease_left_us: LEASE_US };
    assert_eq!(world.renew(1, &ticket).await, renewed);
    assert_eq!(world.claim(1, 2).await, Reply::Refused(in_progress(0, LEASE_US)));
    assert_eq!(world.counts().await.restored, 1);
}

#[tokio::test]
async fn a_dead_redis_is_an_error_and_its_return_is_noticed() {
    let mut harmed = Harmed::ordinary(&[]).await;
    harmed.recovers(1).await;
    harmed.server.kill();
    for _ in 0..5 {
        let dead = harmed.claim(1).await;
        assert!(matches!(dead, Err(StoreError::Unavailable(_))), "{dead:?}");
    }
    let stamped = harmed.store.stamp().await;
    assert!(matches!(stamped, Err(StoreError::Unavailable(_))), "{stamped:?}");
    let got = harmed.store.get(identity(1)).await;
    assert!(matches!(got, Err(StoreError::Unavailable(_))), "{got:?}");

    harmed.server.restart().await;
    harmed.recovers(1).await;
}

#[tokio::test]
async fn a_frozen_redis_is_an_error_and_its_return_is_noticed() {
    let harmed = Harmed::ordinary(&[]).await;
    harmed.recovers(1).await;
    harmed.server.freeze();
    let frozen = harmed.claim(2).await;
    assert!(matches!(frozen, Err(StoreError::Unavailable(_))), "{frozen:?}");
    harmed.server.thaw();
    harmed.recovers(2).await;
}

#[tokio::test]
async fn forgotten_scripts_are_loaded_again_within_the_batch() {
    let harmed = Harmed::on(StoreClock::manual(START), &[]).await;
    let Ok(Reply::Claimed(claimed)) = harmed.claim(1).await else { panic!("not claimed") };
    let () = harmed.server.ask(redis::cmd("SCRIPT").arg("FLUSH")).await;
    let ticket = ticket(&claim(1), claimed);
    let batch = vec![
        completing(identity(1), &ticket, response(1)),
        claiming(identity(1), claim(2)),
        claiming(identity(2), claim(2)),
    ];
    let results = harmed.store.apply(batch).await.unwrap().results;
    assert_eq!(results[0], Ok(Reply::Settled));
    assert_eq!(results[1], Ok(Reply::Refused(Verdict::Completed(response(1)))));
    assert!(matches!(results[2], Ok(Reply::Claimed(_))), "{results:?}");
}

#[tokio::test]
async fn a_full_redis_refuses_without_half_a_record_and_can_be_swept() {
    let clock = StoreClock::manual(START);
    let harmed = Harmed::on(clock.clone(), &[]).await;
    let world = World { fixture: harmed, clock };
    world.win(1, 1).await;
    world.pass(LEASE_US).await;
    let before = world.record(1).await;
    let limit = async |bytes: &str| {
        let mut set = redis::cmd("CONFIG");
        let () = world.fixture.server.ask(set.arg("SET").arg("maxmemory").arg(bytes)).await;
    };

    limit("1").await;
    for key in [1, 2] {
        let full = world.fixture.claim(key).await;
        assert!(matches!(full, Err(StoreError::Unavailable(_))), "{full:?}");
    }
    assert_eq!(world.record(1).await, before);
    assert_eq!(world.record(2).await, None);
    assert_eq!(world.listed(10).await.len(), 1);
    world.outage(1000 * LEASE_US);
    assert_eq!(world.store().sweep(10).await, Ok(1));
    assert_eq!(world.counts().await.expired_unresolved, 1);

    limit("0").await;
    world.win(2, 1).await;
}
