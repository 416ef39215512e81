//! Renew, Complete and Fail.

use latchkey_core::operation::{
    Fail, FailKind, FilterEvent, OperatorEvent, Reply, Ticket, Verdict,
};
use latchkey_core::record::{CompletedBy, Fence, OnAmbiguous, State};

use crate::support::{
    Fixture, LEASE_US, SECOND_US, World, candidate, claim, claim_under, execution, fail,
    in_progress, mismatched, response, subject, terms,
};

const RENEWED: Reply = Reply::Renewed { lease_left_us: LEASE_US };

/// What an execution holds that the store knows nothing of.
fn foreign(fence: Fence) -> Ticket {
    Ticket {
        execution: execution(9),
        fence,
        attempt: 4,
        sent: 3,
        candidate: candidate(1, "2026-12"),
        terms: terms(OnAmbiguous::Reexecute),
        subject: subject(),
        gateway: "gateway 9".to_owned(),
    }
}

pub(crate) async fn the_owner_renews_and_others_are_fenced<F: Fixture>() {
    let world = World::<F>::start().await;
    let ticket = world.win(1, 1).await;
    world.pass(LEASE_US - 1).await;
    assert_eq!(world.renew(1, &ticket).await, RENEWED);
    let record = world.record(1).await.unwrap();
    assert_eq!(record.revision, 1, "a renewal is no transition");
    world.pass(LEASE_US + SECOND_US).await;
    assert_eq!(world.renew(1, &ticket).await, RENEWED, "lost, and nobody has taken over");

    let age = world.now().0 - ticket.fence.0;
    let fenced = Reply::Fenced(in_progress(age, LEASE_US));
    let other = Ticket { execution: execution(2), ..ticket.clone() };
    assert_eq!(world.renew(1, &other).await, fenced);
    let stale = Ticket { fence: Fence(ticket.fence.0 - 1), ..ticket.clone() };
    assert_eq!(world.renew(1, &stale).await, fenced);

    world.complete(1, &ticket, response(1)).await;
    let fenced = Reply::Fenced(Verdict::Completed(response(1)));
    assert_eq!(world.renew(1, &ticket).await, fenced);
    let mismatched = Ticket { candidate: candidate(2, "2026-12"), ..ticket };
    assert_eq!(world.renew(1, &mismatched).await, Reply::Fenced(Verdict::Mismatch));
}

pub(crate) async fn an_owner_returns_from_a_hold_for_its_lost_lease<F: Fixture>() {
    let world = World::<F>::start().await;
    let ticket = world.win_as(1, claim_under(1, OnAmbiguous::Hold)).await;
    world.pass(LEASE_US).await;
    world.claim(1, 2).await;
    let other = Ticket { execution: execution(2), ..ticket.clone() };
    let held = Reply::Fenced(Verdict::Held { last_status: None });
    assert_eq!(world.renew(1, &other).await, held);

    assert_eq!(world.renew(1, &ticket).await, RENEWED);
    let record = world.record(1).await.unwrap();
    assert!(matches!(record.state, State::InProgress { .. }), "{record:?}");
    assert_eq!(record.revision, 3);
    world.fail(1, &ticket, FailKind::Ambiguous).await;
    let held = Reply::Fenced(Verdict::Held { last_status: Some(503) });
    assert_eq!(world.renew(1, &ticket).await, held, "held for what it said itself");
    assert_eq!(world.counts().await.holds, 2);
}

pub(crate) async fn a_renewal_restores_a_lost_record<F: Fixture>() {
    let world = World::<F>::start().await;
    let ticket = foreign(Fence(world.now().0 - SECOND_US));
    assert_eq!(world.renew(1, &ticket).await, RENEWED);
    let record = world.record(1).await.unwrap();
    assert_eq!((record.fence, record.attempt, record.sent), (ticket.fence, 4, 3));
    assert_eq!((&record.subject, &record.candidate), (&subject(), &ticket.candidate));
    assert_eq!(record.revision, world.now().0, "above any that an operator has seen");
    assert_eq!(world.claim(1, 1).await, Reply::Refused(in_progress(0, LEASE_US)));
    assert_eq!(world.counts().await.restored, 1);
    assert_eq!(world.listed(10).await.len(), 1);
}

pub(crate) async fn a_completion_is_final_and_may_be_repeated<F: Fixture>() {
    let world = World::<F>::start().await;
    let ticket = world.win(1, 1).await;
    world.pass(SECOND_US).await;
    assert_eq!(world.complete(1, &ticket, response(1)).await, Reply::Settled);
    let record = world.record(1).await.unwrap();
    let by = CompletedBy::Execution(execution(1));
    assert_eq!(record.state, State::Completed { outcome: response(1), by });
    assert_eq!((record.revision, record.changed_at), (2, world.now()));

    assert_eq!(world.complete(1, &ticket, response(2)).await, Reply::Settled);
    let fenced = Reply::Fenced(Verdict::Completed(response(1)));
    assert_eq!(world.fail(1, &ticket, FailKind::Retryable).await, fenced);
    let other = Ticket { execution: execution(2), ..ticket };
    assert_eq!(world.complete(1, &other, response(2)).await, fenced);
    assert_eq!(world.complete(1, &other, response(2)).await, fenced);
    let after = world.record(1).await.unwrap();
    assert_eq!(after.state, record.state);
    assert_eq!(world.counts().await.suspected_duplicates, 1, "once for each execution");
}

pub(crate) async fn a_completion_keeps_the_fingerprint<F: Fixture>() {
    let world = World::<F>::start().await;
    let ticket = world.win(1, 1).await;
    let before = world.record(1).await.unwrap();
    world.complete(1, &ticket, response(1)).await;
    let after = world.record(1).await.unwrap();
    assert_eq!((after.candidate, after.subject), (before.candidate, before.subject));
    let replay = Reply::Refused(Verdict::Completed(response(1)));
    assert_eq!(world.claim(1, 2).await, replay);
    assert_eq!(world.claim_as(1, mismatched(3)).await, Reply::Refused(Verdict::Mismatch));
}

pub(crate) async fn a_completion_restores_a_lost_record<F: Fixture>() {
    let world = World::<F>::start().await;
    let ticket = foreign(Fence(world.now().0 - SECOND_US));
    assert_eq!(world.complete(1, &ticket, response(1)).await, Reply::Settled);
    assert_eq!(world.claim(1, 1).await, Reply::Refused(Verdict::Completed(response(1))));
    assert_eq!(world.claim_as(1, mismatched(2)).await, Reply::Refused(Verdict::Mismatch));
    assert_eq!(world.counts().await.restored, 1);
    assert!(world.listed(10).await.is_empty());
}

pub(crate) async fn a_late_success_is_kept_and_counted_once<F: Fixture>() {
    let world = World::<F>::start().await;
    let first = world.win(1, 1).await;
    world.pass(LEASE_US).await;
    let second = world.win(1, 2).await;
    world.fail(1, &second, FailKind::Retryable).await;
    assert_eq!(world.complete(1, &first, response(1)).await, Reply::Settled);
    assert_eq!(world.claim(1, 3).await, Reply::Refused(Verdict::Completed(response(1))));
    assert_eq!(world.counts().await.suspected_duplicates, 1, "counted at the take-over");

    let last = world.win_as(2, claim_under(1, OnAmbiguous::Hold)).await;
    world.pass(LEASE_US).await;
    world.claim(2, 2).await;
    assert_eq!(world.complete(2, &last, response(2)).await, Reply::Settled);
    assert_eq!(world.counts().await.suspected_duplicates, 1, "it was the last, so no duplicate");

    let foreign = foreign(Fence(world.now().0));
    let ticket = world.win(3, 1).await;
    world.fail(3, &ticket, FailKind::Retryable).await;
    assert_eq!(world.complete(3, &foreign, response(3)).await, Reply::Settled);
    assert_eq!(world.counts().await.suspected_duplicates, 2, "forgotten, but the truth");
    let record = world.record(3).await.unwrap();
    assert_eq!(record.execution, execution(1));
    let by = CompletedBy::Execution(execution(9));
    assert_eq!(record.state, State::Completed { outcome: response(3), by });
}

pub(crate) async fn a_fenced_completion_gets_what_counts_now<F: Fixture>() {
    let world = World::<F>::start().await;
    let first = world.win(1, 1).await;
    world.pass(LEASE_US).await;
    let second = world.win(1, 2).await;
    let running = Reply::Fenced(in_progress(0, LEASE_US));
    assert_eq!(world.complete(1, &first, response(1)).await, running);
    assert_eq!(world.complete(1, &first, response(1)).await, running);
    assert_eq!(world.complete(1, &second, response(2)).await, Reply::Settled);
    let done = Reply::Fenced(Verdict::Completed(response(2)));
    assert_eq!(world.complete(1, &first, response(1)).await, done);
    assert_eq!(world.counts().await.suspected_duplicates, 1);
}

pub(crate) async fn a_completion_for_another_request_is_a_mismatch<F: Fixture>() {
    let world = World::<F>::start().await;
    let ticket = world.win(1, 1).await;
    let before = world.record(1).await;
    let other = Ticket { candidate: candidate(2, "2026-12"), ..ticket };
    let mismatch = Reply::Fenced(Verdict::Mismatch);
    assert_eq!(world.complete(1, &other, response(1)).await, mismatch);
    assert_eq!(world.record(1).await, before);
}

pub(crate) async fn failures_end_as_the_terms_say<F: Fixture>() {
    let world = World::<F>::start().await;
    let retryable = |unknown| State::Retryable {
        last_status: Some(503),
        not_before: world.now(),
        unknown,
        released: false,
    };
    let cases = [
        (OnAmbiguous::Reexecute, FailKind::NeverSent, 0, retryable(false)),
        (OnAmbiguous::Reexecute, FailKind::Retryable, 1, retryable(false)),
        (OnAmbiguous::Reexecute, FailKind::Ambiguous, 1, retryable(true)),
        (OnAmbiguous::Hold, FailKind::NeverSent, 0, retryable(false)),
        (OnAmbiguous::Hold, FailKind::Retryable, 1, retryable(false)),
        (
            OnAmbiguous::Hold,
            FailKind::Ambiguous,
            1,
            State::Held { last_status: Some(503), lost_lease: false },
        ),
    ];
    for (key, (on_ambiguous, kind, sent, state)) in (1..).zip(cases) {
        let ticket = world.win_as(key, claim_under(1, on_ambiguous)).await;
        assert_eq!(world.fail(key, &ticket, kind).await, Reply::Settled);
        let record = world.record(key).await.unwrap();
        assert_eq!((record.sent, &record.state), (sent, &state), "{on_ambiguous:?} {kind:?}");
        assert_eq!(world.fail(key, &ticket, kind).await, Reply::Settled, "repeated");
        assert_eq!(world.record(key).await.unwrap(), record);
        let other = Ticket { execution: execution(2), ..ticket };
        assert!(matches!(world.fail(key, &other, kind).await, Reply::Fenced(_)));
    }
    assert_eq!(world.counts().await.holds, 1);
}

pub(crate) async fn a_failure_without_a_fence_ends_only_what_was_never_sent<F: Fixture>() {
    let world = World::<F>::start().await;
    let ticket = world.win(1, 1).await;
    let unanswered = |kind| {
        let fail = Fail { fence: None, fingerprint: None, status: None, ..fail(&ticket, kind) };
        FilterEvent::Fail(fail)
    };
    let fenced = Reply::Fenced(Verdict::Mismatch);
    assert_eq!(world.filter(1, unanswered(FailKind::Ambiguous)).await, fenced);
    assert_eq!(world.filter(1, unanswered(FailKind::Retryable)).await, fenced);
    assert_eq!(world.filter(1, unanswered(FailKind::NeverSent)).await, Reply::Settled);
    let record = world.record(1).await.unwrap();
    assert!(matches!(record.state, State::Retryable { last_status: None, .. }), "{record:?}");
}

pub(crate) async fn a_failure_after_a_hold_for_its_lost_lease_ends_it<F: Fixture>() {
    let world = World::<F>::start().await;
    for (key, kind) in
        [(1, FailKind::NeverSent), (2, FailKind::Retryable), (3, FailKind::Ambiguous)]
    {
        let ticket = world.win_as(key, claim_under(1, OnAmbiguous::Hold)).await;
        world.pass(LEASE_US).await;
        world.claim(key, 2).await;
        assert_eq!(world.fail(key, &ticket, kind).await, Reply::Settled);
        let ended = matches!(world.record(key).await.unwrap().state, State::Retryable { .. });
        assert_eq!(ended, kind != FailKind::Ambiguous, "{kind:?}");
    }
}

pub(crate) async fn a_failure_of_an_absent_key_is_gone<F: Fixture>() {
    let world = World::<F>::start().await;
    let ticket = foreign(Fence(1));
    assert_eq!(world.fail(1, &ticket, FailKind::NeverSent).await, Reply::Gone);
    assert_eq!(world.record(1).await, None);
    let ticket = world.win(1, 1).await;
    world.fail(1, &ticket, FailKind::Retryable).await;
    world.operate(1, OperatorEvent::Forget).await;
    assert_eq!(world.fail(1, &ticket, FailKind::Retryable).await, Reply::Gone);
    assert!(matches!(world.claim_as(1, claim(2)).await, Reply::Claimed(_)));
}
