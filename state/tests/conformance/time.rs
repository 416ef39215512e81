//! Retention, sweeping, and outages.

use latchkey_core::operation::{FailKind, Reply};
use latchkey_core::record::OnAmbiguous;
use latchkey_state::outage::STAMP_GAP_US;

use crate::support::{
    Fixture, HELD_TTL_US, LEASE_US, SECOND_US, TTL_US, World, claim_under, in_progress, mismatched,
    response,
};

pub(crate) async fn retention_ends_and_the_fence_goes_on<F: Fixture>() {
    let world = World::<F>::start().await;
    let first = world.win(1, 1).await;
    world.pass(SECOND_US).await;
    world.complete(1, &first, response(1)).await;
    world.pass(TTL_US).await;
    assert!(world.record(1).await.is_some(), "up to its end, that included");
    world.pass(1).await;
    assert_eq!(world.record(1).await, None);

    let second = world.win_as(1, mismatched(2)).await;
    assert_eq!(second.attempt, 1);
    assert!(second.fence > first.fence);
    assert_eq!(world.counts().await.expired_unresolved, 0);
}

pub(crate) async fn what_expires_unresolved_is_counted_once<F: Fixture>() {
    let world = World::<F>::start().await;
    let ticket = world.win(1, 1).await;
    world.fail(1, &ticket, FailKind::Retryable).await;
    let held = world.win_as(2, claim_under(1, OnAmbiguous::Hold)).await;
    world.fail(2, &held, FailKind::Ambiguous).await;
    world.win(3, 1).await;
    world.win_as(4, claim_under(1, OnAmbiguous::Hold)).await;

    world.pass(TTL_US + 1).await;
    assert_eq!(world.record(1).await, None);
    assert!(world.record(2).await.is_some());
    assert!(world.record(3).await.is_some(), "lost: from the end of its lease");
    world.pass(LEASE_US).await;
    assert_eq!(world.record(3).await, None);
    world.pass(HELD_TTL_US - TTL_US - LEASE_US).await;
    assert_eq!(world.record(2).await, None);
    assert!(world.record(4).await.is_some(), "held or lost under hold: long");

    let counted = || async { world.counts().await.expired_unresolved };
    assert_eq!(counted().await, 0, "looking does not count");
    assert_eq!(world.fail(1, &ticket, FailKind::Retryable).await, Reply::Gone);
    assert_eq!(counted().await, 1, "an operation finds it");
    world.store().sweep(100).await.unwrap();
    assert_eq!(counted().await, 3, "a sweep finds the others");
    world.store().sweep(100).await.unwrap();
    assert_eq!(counted().await, 3);
}

pub(crate) async fn a_sweep_drops_what_has_expired_and_nothing_else<F: Fixture>() {
    let world = World::<F>::start().await;
    for key in 1..=3 {
        world.win(key, 1).await;
    }
    let ticket = world.win(4, 1).await;
    world.complete(4, &ticket, response(4)).await;
    world.pass(LEASE_US + TTL_US).await;
    world.win(5, 1).await;
    assert_eq!(world.counts().await.expired_unresolved, 0);
    world.pass(1).await;
    assert!(world.store().sweep(100).await.unwrap() >= 3);
    assert_eq!(world.counts().await.expired_unresolved, 3);
    assert_eq!(world.store().sweep(100).await.unwrap(), 0);
    for key in 1..=4 {
        assert_eq!(world.record(key).await, None);
    }
    assert!(world.record(5).await.is_some());
    assert_eq!(world.listed(10).await.len(), 1);
}

pub(crate) async fn a_sweep_keeps_to_its_limit<F: Fixture>() {
    let world = World::<F>::start().await;
    for key in 1..=5 {
        world.win(key, 1).await;
    }
    world.pass(LEASE_US + TTL_US + 1).await;
    for dropped in [2, 2, 1, 0] {
        assert_eq!(world.store().sweep(2).await.unwrap(), dropped);
    }
    assert_eq!(world.counts().await.expired_unresolved, 5);
}

pub(crate) async fn an_outage_is_not_a_lost_lease<F: Fixture>() {
    let world = World::<F>::start().await;
    let ticket = world.win(1, 1).await;
    world.outage(LEASE_US + SECOND_US);
    world.store().stamp().await.unwrap();
    let age = LEASE_US + SECOND_US;
    assert_eq!(world.claim(1, 2).await, Reply::Refused(in_progress(age, LEASE_US)));
    world.pass(LEASE_US - 1).await;
    let refused = Reply::Refused(in_progress(age + LEASE_US - 1, 1));
    assert_eq!(world.claim(1, 2).await, refused);
    let renewed = Reply::Renewed { lease_left_us: LEASE_US };
    assert_eq!(world.renew(1, &ticket).await, renewed, "its owner has come back");
    world.pass(LEASE_US).await;
    assert_eq!(world.win(1, 2).await.attempt, 2, "served all the time: lost");
}

pub(crate) async fn an_operation_notices_an_outage_too<F: Fixture>() {
    let world = World::<F>::start().await;
    world.win(1, 1).await;
    world.pass(LEASE_US - STAMP_GAP_US).await;
    world.outage(STAMP_GAP_US + 1);
    let refused = Reply::Refused(in_progress(LEASE_US + 1, LEASE_US));
    assert_eq!(world.claim(1, 2).await, refused);

    let world = World::<F>::start().await;
    world.win(1, 1).await;
    world.pass(LEASE_US - STAMP_GAP_US).await;
    world.outage(STAMP_GAP_US);
    assert_eq!(world.win(1, 2).await.attempt, 2, "no longer than servers may be late");
}
