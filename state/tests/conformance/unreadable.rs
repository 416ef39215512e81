//! Records that cannot be understood: refused, reported, not executed, left alone.

use latchkey_core::identity::Identity;
use latchkey_core::operation::{
    Event, FailKind, FilterEvent, Operation, OperatorEvent, Reply, Seen,
};
use latchkey_state::StoreError;

use crate::support::{
    Damage, LEASE_US, Lasting, World, claim, claiming, fail, identity, in_time, response,
};

/// Everything that can be asked of key 1 after it was damaged.
async fn refuses_everything<F: Lasting>(damage: Damage) {
    let world = World::<F>::start().await;
    let ticket = world.win(1, 1).await;
    let seen = world.seen(1).await;
    world.win(2, 1).await;
    world.pass(LEASE_US).await;
    world.fixture.damage(identity(1), damage).await;
    let before = world.fixture.raw(identity(1)).await;

    let resolve = OperatorEvent::Resolve { outcome: response(1), force: true };
    let complete = FilterEvent::Complete { ticket: ticket.clone(), outcome: response(1) };
    let operator = |seen: Seen, event| Event::Operator { seen, event };
    for event in [
        in_time(FilterEvent::Claim(claim(1))),
        in_time(FilterEvent::Claim(claim(2))),
        in_time(FilterEvent::Renew(ticket.clone())),
        in_time(complete),
        in_time(FilterEvent::Fail(fail(&ticket, FailKind::Retryable))),
        operator(seen, OperatorEvent::Release { force: true }),
        operator(seen, resolve),
        operator(seen, OperatorEvent::Forget),
    ] {
        let result = world.attempt(1, event.clone()).await;
        assert!(matches!(result, Err(StoreError::Unreadable(_))), "{event:?}: {result:?}");
    }
    let got = world.store().get(identity(1)).await;
    assert!(matches!(got, Err(StoreError::Unreadable(_))), "{got:?}");
    let listed: Vec<Identity> = world.listed(1).await.into_iter().map(|(it, _)| it).collect();
    assert_eq!(listed, [identity(2)], "others are listed, beyond it too");
    assert_eq!(world.fixture.raw(identity(1)).await, before, "nothing was changed");
    assert_eq!(world.counts().await, latchkey_core::counter::Counts::default());
}

pub(crate) async fn a_corrupt_record_is_refused_and_left_alone<F: Lasting>() {
    refuses_everything::<F>(Damage::Garbage).await;
}

pub(crate) async fn a_record_without_a_lease_is_not_taken_over<F: Lasting>() {
    refuses_everything::<F>(Damage::NoLease).await;
}

pub(crate) async fn neighbours_of_an_unreadable_record_are_served<F: Lasting>() {
    let world = World::<F>::start().await;
    world.win(2, 1).await;
    world.fixture.damage(identity(2), Damage::Garbage).await;
    let batch: Vec<Operation> = (1..=3).map(|key| claiming(identity(key), claim(1))).collect();
    let results = world.store().apply(batch).await.unwrap().results;
    assert!(matches!(results[0], Ok(Reply::Claimed(_))), "{results:?}");
    assert!(matches!(results[1], Err(StoreError::Unreadable(_))), "{results:?}");
    assert!(matches!(results[2], Ok(Reply::Claimed(_))), "{results:?}");
    assert!(world.record(1).await.is_some() && world.record(3).await.is_some());
}
