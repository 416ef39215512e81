//! Release, Resolve and Forget.

use latchkey_core::operation::{FailKind, OperatorEvent, OperatorReply, Reply, Seen, Verdict};
use latchkey_core::record::{CompletedBy, Fence, OnAmbiguous, State};

use crate::support::{
    Fixture, LEASE_US, SECOND_US, World, claim, claim_under, in_progress, response,
};

const RELEASE: OperatorEvent = OperatorEvent::Release { force: false };

fn resolve(force: bool) -> OperatorEvent {
    OperatorEvent::Resolve { outcome: response(9), force }
}

pub(crate) async fn a_release_lets_the_next_retry_execute<F: Fixture>() {
    let world = World::<F>::start().await;
    let ticket = world.win_as(1, claim_under(1, OnAmbiguous::Hold)).await;
    world.fail(1, &ticket, FailKind::Ambiguous).await;
    assert_eq!(world.operate(1, RELEASE).await, OperatorReply::Released);
    assert_eq!(world.operate(1, RELEASE).await, OperatorReply::AlreadyReleased);
    let record = world.record(1).await.unwrap();
    assert_eq!((record.sent, record.revision), (0, 3));
    let second = world.win(1, 2).await;
    assert_eq!((second.attempt, second.sent), (2, 1), "the budget starts again");
    assert_eq!(world.counts().await.suspected_duplicates, 1, "it was held for a reason");

    let lost = world.win(2, 1).await;
    world.pass(LEASE_US).await;
    assert_eq!(world.operate(2, RELEASE).await, OperatorReply::Released);
    world.complete(2, &lost, response(1)).await;
    assert_eq!(world.operate(2, RELEASE).await, OperatorReply::AlreadyCompleted);
    let absent = Seen { fence: Fence(1), revision: 1 };
    assert_eq!(world.operate_seeing(3, absent, RELEASE).await, OperatorReply::NotFound);
}

pub(crate) async fn a_running_execution_is_released_by_force_alone<F: Fixture>() {
    let world = World::<F>::start().await;
    world.win(1, 1).await;
    world.pass(SECOND_US).await;
    assert_eq!(world.operate(1, RELEASE).await, OperatorReply::Live);
    assert_eq!(world.operate(1, resolve(false)).await, OperatorReply::Live);
    let running = Reply::Refused(in_progress(SECOND_US, LEASE_US - SECOND_US));
    assert_eq!(world.claim(1, 2).await, running);
    let force = OperatorEvent::Release { force: true };
    assert_eq!(world.operate(1, force).await, OperatorReply::Released);
    assert_eq!(world.win(1, 2).await.attempt, 2);
}

pub(crate) async fn a_resolution_is_what_everybody_gets<F: Fixture>() {
    let world = World::<F>::start().await;
    let ticket = world.win(1, 1).await;
    assert_eq!(world.operate(1, resolve(true)).await, OperatorReply::Resolved);
    let record = world.record(1).await.unwrap();
    let state = State::Completed { outcome: response(9), by: CompletedBy::Operator };
    assert_eq!(record.state, state);
    let fenced = Reply::Fenced(Verdict::Completed(response(9)));
    assert_eq!(world.complete(1, &ticket, response(1)).await, fenced);
    assert_eq!(world.claim(1, 2).await, Reply::Refused(Verdict::Completed(response(9))));
    assert_eq!(world.operate(1, resolve(true)).await, OperatorReply::AlreadyCompleted);
    assert!(world.listed(10).await.is_empty());
}

pub(crate) async fn forgetting_needs_an_outcome_or_a_retryable_key<F: Fixture>() {
    let world = World::<F>::start().await;
    let ticket = world.win(1, 1).await;
    assert_eq!(world.operate(1, OperatorEvent::Forget).await, OperatorReply::Refused);
    world.complete(1, &ticket, response(1)).await;
    assert_eq!(world.operate(1, OperatorEvent::Forget).await, OperatorReply::Forgotten);
    assert_eq!(world.record(1).await, None);
    world.clock.advance(1);
    assert!(world.win(1, 2).await.fence > ticket.fence, "the fence never restarts");

    let ticket = world.win_as(2, claim_under(1, OnAmbiguous::Hold)).await;
    world.fail(2, &ticket, FailKind::Ambiguous).await;
    assert_eq!(world.operate(2, OperatorEvent::Forget).await, OperatorReply::Refused);
    world.operate(2, RELEASE).await;
    assert_eq!(world.operate(2, OperatorEvent::Forget).await, OperatorReply::Forgotten);
    assert_eq!(world.record(2).await, None);
    assert_eq!(world.listed(10).await.len(), 1, "key 1 alone");
}

pub(crate) async fn a_stale_view_changes_nothing<F: Fixture>() {
    let world = World::<F>::start().await;
    world.win_as(1, claim_under(1, OnAmbiguous::Hold)).await;
    world.pass(LEASE_US).await;
    let lost = world.seen(1).await;
    world.claim(1, 2).await;
    let before = world.record(1).await;
    for event in [RELEASE, resolve(true), OperatorEvent::Forget] {
        assert_eq!(world.operate_seeing(1, lost, event.clone()).await, OperatorReply::Changed);
        let older = Seen { fence: Fence(lost.fence.0 - 1), ..world.seen(1).await };
        assert_eq!(world.operate_seeing(1, older, event).await, OperatorReply::Changed);
    }
    assert_eq!(world.record(1).await, before);
    assert!(matches!(world.claim_as(1, claim(3)).await, Reply::Refused(Verdict::Held { .. })));
}
