//! What outlives a server.

use latchkey_core::operation::{FailKind, Reply};
use latchkey_core::record::OnAmbiguous;
use latchkey_core::time::StoreTime;
use latchkey_state::StoreClock;
use tokio::task::JoinSet;

use crate::support::{
    LEASE_US, Lasting, SECOND_US, TTL_US, World, claim, claim_under, claiming, identity,
    in_progress, response,
};

impl<F: Lasting> World<F> {
    /// The server dies, and another starts whose clock reads `at`.
    async fn restart(&mut self, at: StoreTime) {
        self.clock = StoreClock::manual(at);
        self.fixture.reopen(self.clock.clone()).await;
    }
}

pub(crate) async fn records_and_counts_outlive_the_server<F: Lasting>() {
    let mut world = World::<F>::start().await;
    world.win(1, 1).await;
    let ticket = world.win(2, 1).await;
    world.complete(2, &ticket, response(1)).await;
    let ticket = world.win(3, 1).await;
    world.fail(3, &ticket, FailKind::Retryable).await;
    let ticket = world.win_as(4, claim_under(1, OnAmbiguous::Hold)).await;
    world.fail(4, &ticket, FailKind::Ambiguous).await;
    world.pass(LEASE_US).await;
    world.win(1, 2).await;
    let mut before = Vec::new();
    for key in 1..=4 {
        before.push(world.record(key).await.unwrap());
    }
    let counts = world.counts().await;
    assert_eq!((counts.holds, counts.take_overs, counts.suspected_duplicates), (1, 1, 1));

    world.restart(world.now()).await;

    for (key, record) in (1..).zip(before) {
        assert_eq!(world.record(key).await, Some(record));
    }
    assert_eq!(world.counts().await, counts);
    assert_eq!(world.listed(10).await.len(), 3);
}

pub(crate) async fn the_clock_goes_on_over_a_restart<F: Lasting>() {
    let mut world = World::<F>::start().await;
    world.win(1, 1).await;
    world.pass(LEASE_US + TTL_US + 1).await;
    let before = world.now();

    world.restart(StoreTime(before.0 - TTL_US)).await;

    assert_eq!(world.record(1).await, None, "what has expired does not come back");
    assert_eq!(world.store().stamp().await.unwrap(), before);
    let claimed = world.win(2, 1).await;
    assert!(claimed.fence.0 >= before.0, "{claimed:?}");
}

pub(crate) async fn a_restart_is_an_outage<F: Lasting>() {
    let mut world = World::<F>::start().await;
    world.win(1, 1).await;
    world.pass(SECOND_US).await;

    world.restart(world.now().plus(LEASE_US)).await;

    let age = LEASE_US + SECOND_US;
    assert_eq!(world.claim(1, 2).await, Reply::Refused(in_progress(age, LEASE_US)));
    world.pass(LEASE_US).await;
    assert_eq!(world.win(1, 2).await.attempt, 2);
}

pub(crate) async fn servers_side_by_side_claim_a_key_once<F: Lasting>() {
    let world = World::<F>::start().await;
    let stores = [world.store(), world.fixture.second(world.clock.clone()).await];
    let mut claims = JoinSet::new();
    for key in 0..20 {
        for (n, store) in (1..).zip(stores.iter().cloned()) {
            claims.spawn(async move {
                let batch = vec![claiming(identity(key), claim(n))];
                store.apply(batch).await.unwrap().results.remove(0).unwrap()
            });
        }
    }
    let replies = claims.join_all().await;
    let claimed = replies.iter().filter(|reply| matches!(reply, Reply::Claimed(_)));
    assert_eq!(claimed.count(), 20, "{replies:?}");
    for store in stores {
        assert_eq!(store.in_flight(None, 100).await.unwrap().records.len(), 20);
    }
}
