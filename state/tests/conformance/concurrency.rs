//! Many at once.

use std::sync::Arc;

use latchkey_core::operation::{Reply, Ticket, Verdict};
use latchkey_core::record::Terms;
use latchkey_state::StateStore;
use tokio::task::JoinSet;

use crate::support::{
    Fixture, LEASE_US, World, claim, claiming, completing, identity, response, scattered, ticket,
};

/// What one operation is answered.
async fn one(store: Arc<dyn StateStore>, operation: latchkey_core::operation::Operation) -> Reply {
    store.apply(vec![operation]).await.unwrap().results.remove(0).unwrap()
}

pub(crate) async fn one_of_many_claims_wins<F: Fixture>() {
    let world = World::<F>::start().await;
    for key in 1..=5 {
        let mut claims = JoinSet::new();
        for n in 1..=40 {
            claims.spawn(one(world.store(), claiming(identity(key), claim(n))));
        }
        let replies = claims.join_all().await;
        let claimed = replies.iter().filter(|reply| matches!(reply, Reply::Claimed(_))).count();
        let running = |reply: &&Reply| matches!(reply, Reply::Refused(Verdict::InProgress { .. }));
        assert_eq!((claimed, replies.iter().filter(running).count()), (1, 39));
    }
}

pub(crate) async fn a_take_over_never_overwrites_a_completion<F: Fixture>() {
    let world = World::<F>::start().await;
    let mut taken_over = 0;
    for key in 0..60 {
        let first = world.win(key, 1).await;
        world.pass(LEASE_US).await;
        let mut both = JoinSet::new();
        let completing = completing(identity(key), &first, response(1));
        both.spawn(one(world.store(), completing));
        both.spawn(one(world.store(), claiming(identity(key), claim(2))));
        let replies = both.join_all().await;
        let settled = replies.contains(&Reply::Settled);
        let claimed = replies.iter().any(|reply| matches!(reply, Reply::Claimed(_)));
        assert!(settled != claimed, "one of the two: {replies:?}");
        if settled {
            let replay = Reply::Refused(Verdict::Completed(response(1)));
            assert!(replies.contains(&replay), "{replies:?}");
            assert_eq!(world.claim(key, 3).await, replay);
        } else {
            taken_over += 1;
        }
    }
    assert_eq!(world.counts().await.take_overs, taken_over);
}

pub(crate) async fn batches_side_by_side_lose_nothing<F: Fixture>() {
    let world = World::<F>::start().await;
    let mut gateways = JoinSet::new();
    for gateway in 1..=8_u8 {
        gateways.spawn(serve(world.store(), gateway));
    }
    let mut executed: Vec<u8> = gateways.join_all().await.into_iter().flatten().collect();
    executed.sort_unstable();
    assert_eq!(executed, (0..50).collect::<Vec<_>>(), "each key once");
}

/// Claims fifty keys that others claim too, completes what it wins, and returns those.
async fn serve(store: Arc<dyn StateStore>, gateway: u8) -> Vec<u8> {
    let keys: Vec<u8> = (0..50).map(|n| (n + gateway * 6) % 50).collect();
    let mut won = Vec::new();
    for keys in keys.chunks(10) {
        let claims = keys.iter().map(|key| claiming(scattered(*key), of(gateway))).collect();
        let applied = store.apply(claims).await.unwrap();
        let mut completions = Vec::new();
        for (key, result) in keys.iter().zip(applied.results) {
            if let Reply::Claimed(claimed) = result.unwrap() {
                let ticket: Ticket = ticket(&of(gateway), claimed);
                completions.push(completing(scattered(*key), &ticket, response(*key)));
                won.push(*key);
            }
        }
        for result in store.apply(completions).await.unwrap().results {
            assert_eq!(result, Ok(Reply::Settled));
        }
    }
    won
}

fn of(gateway: u8) -> latchkey_core::operation::Claim {
    let claim = claim(gateway);
    // Longer than the test may take on any machine, so that no lease is lost in it.
    let terms = Terms { lease_us: 1000 * LEASE_US, ..claim.terms };
    latchkey_core::operation::Claim { terms, ..claim }
}
