//! Batches are not units.

use latchkey_core::operation::{Operation, Reply, Verdict};

use crate::support::{
    Fixture, LEASE_US, World, claim, claiming, completing, in_progress, response, scattered, ticket,
};

pub(crate) async fn an_empty_batch_tells_the_time<F: Fixture>() {
    let world = World::<F>::start().await;
    let applied = world.store().apply(vec![]).await.unwrap();
    assert_eq!((applied.now, applied.results), (world.now(), vec![]));
}

pub(crate) async fn answers_come_in_the_order_of_their_operations<F: Fixture>() {
    let world = World::<F>::start().await;
    // Identities go up and down, so that a store that sorts them has to put answers back.
    let keys: Vec<u8> = (0..40).map(|n: u8| n.wrapping_mul(97)).collect();
    let claims: Vec<_> = keys.iter().map(|key| claiming(scattered(*key), claim(*key))).collect();
    let applied = world.store().apply(claims.clone()).await.unwrap();
    assert_eq!(applied.now, world.now());
    let mut completions = Vec::new();
    for (key, result) in keys.iter().zip(applied.results) {
        let Ok(Reply::Claimed(claimed)) = result else { panic!("not claimed: {result:?}") };
        let ticket = ticket(&claim(*key), claimed);
        completions.push(completing(scattered(*key), &ticket, response(*key)));
    }
    for result in world.store().apply(completions).await.unwrap().results {
        assert_eq!(result, Ok(Reply::Settled));
    }
    for (key, result) in keys.iter().zip(world.store().apply(claims).await.unwrap().results) {
        assert_eq!(result, Ok(Reply::Refused(Verdict::Completed(response(*key)))));
    }
}

pub(crate) async fn operations_on_one_key_apply_in_their_order<F: Fixture>() {
    let world = World::<F>::start().await;
    let (one, two) = (scattered(200), scattered(3));
    let batch: Vec<Operation> = vec![
        claiming(one, claim(1)),
        claiming(two, claim(2)),
        claiming(one, claim(3)),
        claiming(two, claim(4)),
        claiming(one, claim(1)),
    ];
    let mut results = world.store().apply(batch).await.unwrap().results.into_iter();
    let mut next = || results.next().unwrap().unwrap();
    let Reply::Claimed(first) = next() else { panic!("the first claims key one") };
    assert!(matches!(next(), Reply::Claimed(_)));
    assert_eq!(next(), Reply::Refused(in_progress(0, LEASE_US)));
    assert_eq!(next(), Reply::Refused(in_progress(0, LEASE_US)));
    assert_eq!(next(), Reply::Claimed(first.clone()), "the first again");

    let ticket = ticket(&claim(1), first);
    let batch = vec![completing(one, &ticket, response(1)), claiming(one, claim(5))];
    let results = world.store().apply(batch).await.unwrap().results;
    let replay = Reply::Refused(Verdict::Completed(response(1)));
    assert_eq!(results, [Ok(Reply::Settled), Ok(replay)]);
}
