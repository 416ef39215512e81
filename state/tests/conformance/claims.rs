//! Claim, in every state.

use latchkey_core::operation::{Claim, FailKind, FilterEvent, Operation, Reply, Verdict};
use latchkey_core::operation::{Event, OperatorEvent};
use latchkey_core::record::{
    Fence, HISTORY_MAX, History, OnAmbiguous, Outcome, Record, State, Terms,
};

use crate::support::{
    Fixture, LEASE_US, SECOND_US, World, candidate, claim, claim_under, execution, fail, identity,
    in_progress, mismatched, response, subject, terms, tombstone,
};

pub(crate) async fn an_absent_key_is_claimed_and_recorded<F: Fixture>() {
    let world = World::<F>::start().await;
    assert_eq!(world.record(1).await, None);

    let ticket = world.win(1, 1).await;

    let now = world.now();
    assert_eq!(ticket.fence, Fence(now.0), "the fence is at least the clock");
    assert_eq!((ticket.attempt, ticket.sent), (1, 1));
    let expected = Record {
        subject: subject(),
        candidate: candidate(1, "2026-12"),
        terms: terms(OnAmbiguous::Reexecute),
        execution: execution(1),
        fence: ticket.fence,
        attempt: 1,
        sent: 1,
        revision: 1,
        created_at: now,
        changed_at: now,
        history: History::default(),
        state: State::InProgress {
            claimed_at: now,
            lease_until: now.plus(LEASE_US),
            gateway: "gateway 1".to_owned(),
        },
    };
    assert_eq!(world.record(1).await, Some(expected));
}

pub(crate) async fn a_live_claim_is_repeated_for_its_owner_and_refused_to_others<F: Fixture>() {
    let world = World::<F>::start().await;
    let ticket = world.win(1, 1).await;
    world.pass(4 * SECOND_US).await;

    let again = world.win(1, 1).await;
    assert_eq!(again, ticket);
    let left = LEASE_US - 4 * SECOND_US;
    assert_eq!(world.claim(1, 2).await, Reply::Refused(in_progress(4 * SECOND_US, left)));
    assert_eq!(world.record(1).await.unwrap().revision, 1);
}

pub(crate) async fn a_lost_claim_is_restarted_for_its_owner<F: Fixture>() {
    let world = World::<F>::start().await;
    let ticket = world.win(1, 1).await;
    world.pass(LEASE_US).await;

    let Reply::Claimed(again) = world.claim(1, 1).await else { panic!("not claimed") };
    assert_eq!((again.fence, again.attempt), (ticket.fence, 1));
    assert_eq!(again.lease_left_us, LEASE_US);
    let refused = Reply::Refused(in_progress(LEASE_US, LEASE_US));
    assert_eq!(world.claim(1, 2).await, refused);
}

pub(crate) async fn a_lost_claim_is_taken_over_under_reexecute<F: Fixture>() {
    let world = World::<F>::start().await;
    let first = world.win(1, 1).await;
    world.pass(LEASE_US - 1).await;
    assert_eq!(world.claim(1, 2).await, Reply::Refused(in_progress(LEASE_US - 1, 1)));
    world.pass(1).await;

    let second = world.win(1, 2).await;
    assert!(second.fence > first.fence);
    assert_eq!((second.attempt, second.sent), (2, 2));
    assert_eq!(second.candidate, first.candidate, "the derived key stays");
    let record = world.record(1).await.unwrap();
    let past: Vec<_> = record.history.iter().map(|it| (it.execution, it.suspected)).collect();
    assert_eq!(past, [(execution(1), true)]);
    let counts = world.counts().await;
    assert_eq!((counts.take_overs, counts.suspected_duplicates), (1, 1));
    world.pass(LEASE_US).await;
    assert_eq!(world.claim(1, 1).await, Reply::Refused(Verdict::Spent), "it claims once");
}

pub(crate) async fn a_lost_claim_is_held_under_hold<F: Fixture>() {
    let world = World::<F>::start().await;
    world.win_as(1, claim_under(1, OnAmbiguous::Hold)).await;
    world.pass(LEASE_US).await;

    let held = Reply::Refused(Verdict::Held { last_status: None });
    assert_eq!(world.claim_as(1, claim_under(2, OnAmbiguous::Hold)).await, held);
    assert_eq!(world.claim(1, 3).await, held, "the record's terms count");
    let record = world.record(1).await.unwrap();
    assert_eq!(record.state, State::Held { last_status: None, lost_lease: true });
    assert_eq!((record.execution, record.revision), (execution(1), 2));
    assert_eq!(world.counts().await.holds, 1);
}

pub(crate) async fn a_completed_key_is_replayed_byte_for_byte<F: Fixture>() {
    let world = World::<F>::start().await;
    let large = Outcome::Response(latchkey_core::record::Response {
        status: 200,
        headers: vec![],
        body: (0..1_000_000u32).flat_map(u32::to_le_bytes).collect(),
    });
    for (key, outcome) in [(1, response(1)), (2, tombstone()), (3, large)] {
        let ticket = world.win(key, 1).await;
        assert_eq!(world.complete(key, &ticket, outcome.clone()).await, Reply::Settled);
        let replay = Reply::Refused(Verdict::Completed(outcome));
        assert_eq!(world.claim(key, 2).await, replay);
        assert_eq!(world.claim(key, 1).await, replay, "also to the one that executed");
    }
}

pub(crate) async fn a_retryable_key_waits_then_executes_then_is_exhausted<F: Fixture>() {
    let world = World::<F>::start().await;
    for attempt in 1..=3 {
        let ticket = world.win(1, attempt).await;
        assert_eq!((ticket.attempt, ticket.sent), (attempt.into(), attempt.into()));
        let mut failed = fail(&ticket, FailKind::Retryable);
        failed.retry_after_us = 3 * SECOND_US;
        failed.status = Some(429);
        assert_eq!(world.filter(1, FilterEvent::Fail(failed)).await, Reply::Settled);
        world.pass(SECOND_US).await;
        let later = Verdict::RetryLater { after_us: 2 * SECOND_US };
        assert_eq!(world.claim(1, 9).await, Reply::Refused(later));
        assert_eq!(world.claim(1, attempt).await, Reply::Refused(Verdict::Spent));
        world.pass(2 * SECOND_US).await;
    }
    let exhausted = Verdict::Exhausted { last_status: Some(429) };
    assert_eq!(world.claim(1, 4).await, Reply::Refused(exhausted));
    assert_eq!(world.counts().await.suspected_duplicates, 0, "all are known to have failed");
}

pub(crate) async fn a_held_key_stays_held<F: Fixture>() {
    let world = World::<F>::start().await;
    let ticket = world.win_as(1, claim_under(1, OnAmbiguous::Hold)).await;
    assert_eq!(world.fail(1, &ticket, FailKind::Ambiguous).await, Reply::Settled);

    let held = Reply::Refused(Verdict::Held { last_status: Some(503) });
    assert_eq!(world.claim(1, 2).await, held);
    assert_eq!(world.claim(1, 1).await, Reply::Refused(Verdict::Spent));
    world.pass(LEASE_US).await;
    assert_eq!(world.claim(1, 2).await, held);
}

pub(crate) async fn another_request_is_a_mismatch_in_every_state<F: Fixture>() {
    let world = World::<F>::start().await;
    let live = 1;
    world.win(live, 1).await;
    let completed = 2;
    let ticket = world.win(completed, 1).await;
    world.complete(completed, &ticket, response(1)).await;
    let retryable = 3;
    let ticket = world.win(retryable, 1).await;
    world.fail(retryable, &ticket, FailKind::Retryable).await;
    let held = 4;
    let ticket = world.win_as(held, claim_under(1, OnAmbiguous::Hold)).await;
    world.fail(held, &ticket, FailKind::Ambiguous).await;

    for key in [live, completed, retryable, held] {
        let before = world.record(key).await;
        // With stricter terms too, which must not count.
        let claim = Claim { terms: terms(OnAmbiguous::Hold), ..mismatched(7) };
        assert_eq!(world.claim_as(key, claim).await, Reply::Refused(Verdict::Mismatch));
        assert_eq!(world.claim_as(key, mismatched(1)).await, Reply::Refused(Verdict::Mismatch));
        assert_eq!(world.record(key).await, before, "key {key}");
    }
    let none = Claim { candidates: vec![], ..claim(1) };
    assert_eq!(world.claim_as(5, none).await, Reply::Refused(Verdict::Mismatch));
    assert_eq!(world.record(5).await, None);
}

pub(crate) async fn any_known_secret_matches_and_the_first_stays<F: Fixture>() {
    let world = World::<F>::start().await;
    let old = candidate(1, "old");
    let both = vec![candidate(1, "new one"), old.clone()];
    world.win_as(1, Claim { candidates: vec![old.clone()], ..claim(1) }).await;
    world.pass(LEASE_US).await;

    let ticket = world.win_as(1, Claim { candidates: both, ..claim(2) }).await;
    assert_eq!(ticket.candidate, old);
    assert_eq!(world.record(1).await.unwrap().candidate, old);
    let new = Claim { candidates: vec![candidate(1, "new one")], ..claim(3) };
    assert_eq!(world.claim_as(1, new).await, Reply::Refused(Verdict::Mismatch));
}

pub(crate) async fn terms_only_become_stricter<F: Fixture>() {
    let world = World::<F>::start().await;
    world.win(1, 1).await;
    let strict = Terms { attempts_max: 2, ..terms(OnAmbiguous::Hold) };
    world.claim_as(1, Claim { terms: strict, ..claim(2) }).await;
    let record = world.record(1).await.unwrap();
    assert_eq!((record.terms, record.revision), (strict, 2));

    let lax = Terms { attempts_max: 9, ..terms(OnAmbiguous::Reexecute) };
    world.claim_as(1, Claim { terms: lax, ..claim(3) }).await;
    assert_eq!(world.record(1).await.unwrap(), record);
    world.pass(LEASE_US).await;
    let held = Reply::Refused(Verdict::Held { last_status: None });
    assert_eq!(world.claim_as(1, Claim { terms: lax, ..claim(3) }).await, held);
}

pub(crate) async fn stricter_terms_hold_what_was_left_to_be_executed_again<F: Fixture>() {
    let world = World::<F>::start().await;
    for key in 1..=2 {
        let ticket = world.win(key, 1).await;
        let mut failed = fail(&ticket, FailKind::Ambiguous);
        failed.retry_after_us = SECOND_US;
        world.filter(key, FilterEvent::Fail(failed)).await;
    }
    let held = Reply::Refused(Verdict::Held { last_status: Some(503) });
    assert_eq!(world.claim_as(1, claim_under(2, OnAmbiguous::Hold)).await, held);
    let record = world.record(1).await.unwrap();
    assert_eq!(record.state, State::Held { last_status: Some(503), lost_lease: false });
    assert_eq!(world.counts().await.holds, 1);

    world.operate(2, OperatorEvent::Release { force: false }).await;
    world.win_as(2, claim_under(2, OnAmbiguous::Hold)).await;
}

pub(crate) async fn a_long_history_forgets_its_oldest<F: Fixture>() {
    let world = World::<F>::start().await;
    let last = u8::try_from(HISTORY_MAX).unwrap() + 4;
    let terms = Terms { attempts_max: 100, ..terms(OnAmbiguous::Reexecute) };
    for n in 1..=last {
        let ticket = world.win_as(1, Claim { terms, ..claim(n) }).await;
        let kind = if n % 2 == 0 { FailKind::Ambiguous } else { FailKind::Retryable };
        world.fail(1, &ticket, kind).await;
    }
    let record = world.record(1).await.unwrap();
    let past: Vec<_> = record.history.iter().map(|it| (it.execution, it.suspected)).collect();
    let expected: Vec<_> = (4..last).map(|n| (execution(n), n % 2 == 0)).collect();
    assert_eq!(past, expected);
    assert!(record.history.iter().map(|it| it.fence).is_sorted());
    let remembered = world.claim_as(1, Claim { terms, ..claim(4) }).await;
    assert_eq!(remembered, Reply::Refused(Verdict::Spent));
    world.win_as(1, Claim { terms, ..claim(3) }).await;
}

pub(crate) async fn what_comes_too_late_does_nothing<F: Fixture>() {
    let world = World::<F>::start().await;
    let void_after = world.now();
    let event = Event::Filter { void_after, event: FilterEvent::Claim(claim(1)) };
    world.pass(1).await;
    assert_eq!(world.attempt(1, event.clone()).await.unwrap(), Reply::Void);
    assert_eq!(world.record(1).await, None);

    let ticket = world.win(2, 1).await;
    let before = world.record(2).await;
    let complete = FilterEvent::Complete { ticket: ticket.clone(), outcome: response(1) };
    for event in [
        FilterEvent::Claim(claim(1)),
        FilterEvent::Renew(ticket.clone()),
        complete,
        FilterEvent::Fail(fail(&ticket, FailKind::Retryable)),
    ] {
        let late = Event::Filter { void_after, event };
        let operation = Operation { identity: identity(2), event: late };
        let applied = world.store().apply(vec![operation]).await.unwrap();
        assert_eq!(applied.results, [Ok(Reply::Void)]);
        assert_eq!(world.record(2).await, before);
    }
    let on_time = Event::Filter { void_after: world.now(), event: FilterEvent::Claim(claim(1)) };
    assert!(matches!(world.attempt(1, on_time).await.unwrap(), Reply::Claimed(_)));
    world.operate(2, OperatorEvent::Release { force: true }).await;
}
