//! The unresolved keys.

use std::collections::BTreeMap;

use latchkey_core::operation::{FailKind, OperatorEvent};
use latchkey_core::record::OnAmbiguous;

use crate::support::{
    Fixture, LEASE_US, TTL_US, World, claim, claim_under, claiming, identity, response, scattered,
};

pub(crate) async fn unresolved_keys_are_listed_and_completed_ones_are_not<F: Fixture>() {
    let world = World::<F>::start().await;
    world.win(1, 1).await;
    let ticket = world.win(2, 1).await;
    world.fail(2, &ticket, FailKind::Retryable).await;
    let ticket = world.win_as(3, claim_under(1, OnAmbiguous::Hold)).await;
    world.fail(3, &ticket, FailKind::Ambiguous).await;
    let ticket = world.win(4, 1).await;
    world.complete(4, &ticket, response(1)).await;
    let ticket = world.win(5, 1).await;
    world.fail(5, &ticket, FailKind::Retryable).await;
    world.operate(5, OperatorEvent::Forget).await;

    let listed: BTreeMap<_, _> = world.listed(10).await.into_iter().collect();
    assert_eq!(listed.len(), 3);
    for key in 1..=3 {
        assert_eq!(listed.get(&identity(key)), world.record(key).await.as_ref());
    }
}

pub(crate) async fn pages_meet_without_gap_or_overlap<F: Fixture>() {
    let world = World::<F>::start().await;
    let keys: Vec<u8> = (0..30).collect();
    let claims = keys.iter().map(|key| claiming(scattered(*key), claim(*key))).collect();
    world.store().apply(claims).await.unwrap();
    let mut expected: Vec<_> = keys.iter().map(|key| scattered(*key)).collect();
    expected.sort();
    for limit in [1, 7, 30, 1000] {
        let mut listed: Vec<_> = world.listed(limit).await.into_iter().map(|(it, _)| it).collect();
        listed.sort();
        assert_eq!(listed, expected, "{limit} to the page");
    }
}

pub(crate) async fn expired_keys_are_not_listed<F: Fixture>() {
    let world = World::<F>::start().await;
    world.win(1, 1).await;
    world.pass(LEASE_US + TTL_US).await;
    assert_eq!(world.listed(10).await.len(), 1);
    world.pass(1).await;
    assert!(world.listed(10).await.is_empty());
}
