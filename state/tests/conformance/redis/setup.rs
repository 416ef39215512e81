//! How Redis has to be set up, and what lies in it.

use std::time::Duration;

use latchkey_core::operation::{FilterEvent, Reply};
use latchkey_state::redis::{RedisOptions, RedisStore};
use latchkey_state::{StateStore, StoreError};

use crate::support::redis::server::RedisServer;
use crate::support::redis::{PATIENCE, RedisFixture};
use crate::support::{
    LEASE_US, TTL_US, World, claim, claiming, completing, identity, in_time, response, scattered,
    ticket,
};

async fn connect(url: &str) -> Result<RedisStore, StoreError> {
    RedisStore::connect(url, RedisOptions { timeout: PATIENCE, clock: None }).await
}

#[tokio::test]
async fn a_redis_that_evicts_is_refused() {
    let server = RedisServer::start(&["--maxmemory-policy", "allkeys-lru"]).await;
    let Err(StoreError::Unfit(why)) = connect(&server.url()).await else { panic!("connected") };
    assert!(why.contains("allkeys-lru") && why.contains("noeviction"), "{why}");
}

#[tokio::test]
async fn a_redis_that_does_not_tell_its_settings_is_used() {
    let server = RedisServer::start(&["--rename-command", "CONFIG", ""]).await;
    let store = connect(&server.url()).await.unwrap();
    store.stamp().await.unwrap();
}

#[tokio::test]
async fn a_wrong_password_is_an_error_that_does_not_tell_it() {
    let server = RedisServer::start(&[]).await;
    let mut set = redis::cmd("CONFIG");
    let () = server.ask(set.arg("SET").arg("requirepass").arg("right")).await;
    let url = server.url().replace("redis://", "redis://:hunter2@");
    let refused = connect(&url).await;
    let Err(StoreError::Unfit(why)) = refused else { panic!("not refused: {refused:?}") };
    assert!(!why.contains("hunter2"), "{why}");
    let url = server.url().replace("redis://", "redis://:right@");
    connect(&url).await.unwrap();
}

#[tokio::test]
async fn a_url_that_is_none_is_unfit_and_a_dead_port_is_unavailable() {
    for url in ["localhost", "http://127.0.0.1/", "redis://127.0.0.1:port/"] {
        let refused = connect(url).await;
        assert!(matches!(refused, Err(StoreError::Unfit(_))), "{refused:?}");
    }
    let mut server = RedisServer::start(&[]).await;
    server.kill();
    let refused = connect(&server.url()).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
}

/// A cluster of one refuses scripts whose keys lie in two slots, as any cluster does.
#[tokio::test]
async fn every_script_keeps_to_one_slot() {
    let server = RedisServer::start(&["--cluster-enabled", "yes"]).await;
    let mut slots = redis::cmd("CLUSTER");
    let () = server.ask(slots.arg("ADDSLOTSRANGE").arg(0).arg(16383)).await;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let info: String = server.ask(redis::cmd("CLUSTER").arg("INFO")).await;
        if info.contains("cluster_state:ok") {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{info}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let store = connect(&server.url()).await.unwrap();
    store.stamp().await.unwrap();
    let keys: Vec<u8> = (0..32).collect();
    let claims = keys.iter().map(|key| claiming(scattered(*key), claim(1))).collect();
    let mut completions = Vec::new();
    for (key, result) in keys.iter().zip(store.apply(claims).await.unwrap().results) {
        let Ok(Reply::Claimed(claimed)) = result else { panic!("not claimed: {result:?}") };
        completions.push(completing(scattered(*key), &ticket(&claim(1), claimed), response(1)));
    }
    for result in store.apply(completions.split_off(16)).await.unwrap().results {
        assert_eq!(result, Ok(Reply::Settled));
    }
    assert_eq!(store.in_flight(None, 100).await.unwrap().records.len(), 16);
    assert_eq!(store.sweep(100).await, Ok(0));
    store.counts().await.unwrap();
}

#[tokio::test]
async fn redis_own_clock_keeps_every_digit() {
    let server = RedisServer::start(&[]).await;
    let store = connect(&server.url()).await.unwrap();
    let before = store.apply(vec![]).await.unwrap().now;
    let applied = store.apply(vec![claiming(identity(1), claim(1))]).await.unwrap();
    let Ok(Reply::Claimed(claimed)) = &applied.results[0] else { panic!("{applied:?}") };
    assert!(before <= applied.now, "{before:?} {applied:?}");
    assert_eq!(claimed.fence.0, applied.now.0);
    let record = store.get(identity(1)).await.unwrap().unwrap();
    assert_eq!((record.fence, record.created_at), (claimed.fence, applied.now));
    let system = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let apart = system.as_micros().abs_diff(applied.now.0.into());
    assert!(apart < 3_600_000_000, "both read this machine's clock: {apart} µs apart");
}

#[tokio::test]
async fn redis_itself_drops_completed_records_and_no_others() {
    let world = World::<RedisFixture>::start().await;
    let ticket = world.win(1, 1).await;
    assert_eq!(world.fixture.expires_in(identity(1)).await, None, "a sweep counts it");
    world.complete(1, &ticket, response(1)).await;
    let left = world.fixture.expires_in(identity(1)).await.unwrap();
    let retention = Duration::from_micros(TTL_US);
    assert!(left > retention && left <= retention + Duration::from_secs(60), "{left:?}");
}

#[tokio::test]
async fn a_sweep_mends_an_index_that_has_fallen_behind() {
    let world = World::<RedisFixture>::start().await;
    let done = world.win(1, 1).await;
    world.complete(1, &done, response(1)).await;
    world.win(2, 1).await;
    for key in [1, 2] {
        world.fixture.index_as_expired(identity(key)).await;
    }
    assert_eq!(world.listed(10).await.len(), 1, "what is completed is not listed");
    assert_eq!(world.store().sweep(10).await, Ok(0));
    assert!(world.record(1).await.is_some() && world.record(2).await.is_some());
    world.pass(LEASE_US + TTL_US + 1).await;
    assert_eq!(world.store().sweep(10).await, Ok(1), "key 2 in its own time");
}

#[tokio::test]
async fn a_record_of_another_kind_is_unreadable() {
    let world = World::<RedisFixture>::start().await;
    world.win(1, 1).await;
    world.fixture.replace(identity(1)).await;
    let claimed = world.attempt(1, in_time(FilterEvent::Claim(claim(2)))).await;
    assert!(matches!(claimed, Err(StoreError::Unreadable(_))), "{claimed:?}");
    let got = world.store().get(identity(1)).await;
    assert!(matches!(got, Err(StoreError::Unreadable(_))), "{got:?}");
}
