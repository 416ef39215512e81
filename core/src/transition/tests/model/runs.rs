//! The searches: with every rule nothing is found, and without any one of them something is.

use super::search::search;
use super::{Config, Manner, Plan, Violation};
use crate::transition::Rule;

/// Two ticks a lease, so that there is a time in it to renew, and messages that count in their
/// own tick only.
const BRISK: Config = Config {
    executions: &[],
    attempts_max: 3,
    lease: 2,
    void: 0,
    copies: 0,
    outages: 0,
    deaths: 0,
    acts: 0,
    retentions: 0,
    losses: 0,
    asks_again: false,
    without: None,
    unmannered: None,
};

/// With messages that are late by a tick, which takes several times as long.
const LATE: Config = Config { void: 1, ..BRISK };

/// The world of the searches that take the longest: `LATCHKEY_MODEL=full` makes it the larger.
fn world() -> Config {
    let full = std::env::var_os("LATCHKEY_MODEL").is_some_and(|it| it == "full");
    if full { LATE } else { BRISK }
}

const fn plan(gateway: u8, hold: bool) -> Plan {
    Plan { gateway, hold, request: 0 }
}

const REEXECUTE_2: &[Plan] = &[plan(0, false), plan(1, false)];
const REEXECUTE_3: &[Plan] = &[plan(0, false), plan(1, false), plan(0, false)];
const HOLD_2: &[Plan] = &[plan(0, true), plan(1, true)];
const HOLD_3: &[Plan] = &[plan(0, true), plan(1, true), plan(0, true)];
const MIXED_2: &[Plan] = &[plan(0, true), plan(1, false)];
const MIXED_3: &[Plan] = &[plan(0, false), plan(1, false), plan(0, true)];
const REQUESTS_2: &[Plan] = &[plan(0, false), Plan { request: 1, ..plan(1, false) }];
const REQUESTS_3: &[Plan] = &[plan(0, false), Plan { request: 1, ..plan(1, true) }, plan(1, false)];

/// More than any search here comes to.
const STATES_MAX: usize = 40_000_000;

/// With every rule on, nothing that must not be is found.
fn holds(name: &str, config: Config) {
    let found = search(&config, STATES_MAX, &Violation::ALL);
    println!("{}", found.summary(name));
    if let Some((violation, run)) = found.violation {
        panic!("{violation:?} in {config:?}\n  {}", run.join("\n  "));
    }
}

/// The search of a world with a rule taken out finds `expected`; with it, that is not found.
fn breaks(name: &str, config: Config, expected: Violation) {
    let found = search(&config, STATES_MAX, &[expected]);
    let Some((_, run)) = found.violation else {
        panic!("no {expected:?}: {}", found.summary(name))
    };
    println!("without {name}: {expected:?}\n  {}", run.join("\n  "));
    let with = Config { without: None, unmannered: None, ..config };
    let found = search(&with, STATES_MAX, &Violation::ALL);
    assert!(found.violation.is_none(), "{:?}", found.violation);
}

fn without(rule: Rule, config: Config, expected: Violation) {
    breaks(&format!("{rule:?}"), Config { without: Some(rule), ..config }, expected);
}

fn unmannered(manner: Manner, config: Config, expected: Violation) {
    breaks(&format!("{manner:?}"), Config { unmannered: Some(manner), ..config }, expected);
}

// --- every rule on ---

#[test]
fn three_executions_under_hold() {
    holds("3 hold", Config { executions: HOLD_3, ..world() });
}

#[test]
fn three_executions_under_reexecute() {
    holds("3 reexecute", Config { executions: REEXECUTE_3, ..world() });
}

#[test]
fn three_executions_under_mixed_policies() {
    holds("3 mixed", Config { executions: MIXED_3, asks_again: true, ..world() });
}

#[test]
fn three_executions_of_two_requests() {
    holds("3 of 2 requests", Config { executions: REQUESTS_3, asks_again: true, ..world() });
}

#[test]
fn three_executions_and_a_store_that_goes_away() {
    holds("3 hold outage", Config { executions: HOLD_3, outages: 1, ..world() });
}

#[test]
fn three_executions_and_a_gateway_that_dies() {
    holds("3 hold death", Config { executions: HOLD_3, deaths: 1, ..world() });
}

#[test]
fn three_executions_with_copies_an_outage_and_a_death_under_hold() {
    let config = Config { copies: 1, outages: 1, deaths: 1, ..BRISK };
    holds("3 hold misfortune", Config { executions: HOLD_3, ..config });
}

#[test]
#[ignore = "takes two minutes: `cargo test -p latchkey-core -- --ignored --nocapture`"]
fn three_executions_with_copies_and_a_death_under_reexecute() {
    let config = Config { copies: 1, deaths: 1, ..BRISK };
    holds("3 reexecute misfortune", Config { executions: REEXECUTE_3, ..config });
}

#[test]
fn misfortune_under_reexecute() {
    let all = Config { copies: 1, outages: 1, deaths: 1, retentions: 1, ..world() };
    holds("2 reexecute misfortune", Config { executions: REEXECUTE_2, ..all });
}

#[test]
fn misfortune_under_hold() {
    let all = Config { copies: 1, outages: 1, deaths: 1, retentions: 1, ..world() };
    holds("2 hold misfortune", Config { executions: HOLD_2, ..all });
}

#[test]
fn operators_with_a_stale_view_under_reexecute() {
    let operator = Config { acts: 1, copies: 1, ..world() };
    holds("2 reexecute operator", Config { executions: REEXECUTE_2, ..operator });
}

#[test]
fn operators_with_a_stale_view_under_hold() {
    let operator = Config { acts: 2, outages: 1, ..world() };
    holds("2 hold operator", Config { executions: HOLD_2, ..operator });
}

#[test]
fn a_store_that_loses_its_record() {
    let loses = Config { acts: 1, losses: 1, ..world() };
    holds("2 hold loss", Config { executions: HOLD_2, ..loses });
    holds("2 reexecute loss", Config { executions: REEXECUTE_2, ..loses });
}

// --- a rule of the transitions taken out ---

#[test]
fn without_mismatch_first() {
    let config = Config { executions: REQUESTS_2, ..BRISK };
    without(Rule::MismatchFirst, config, Violation::ForeignResponse);
}

#[test]
fn without_claims_once() {
    let config = Config { executions: REEXECUTE_2, copies: 1, ..BRISK };
    without(Rule::ClaimsOnce, config, Violation::Ghost);
}

#[test]
fn without_void_after() {
    let config = Config { executions: REEXECUTE_2, ..BRISK };
    without(Rule::VoidAfter, config, Violation::Ghost);
}

#[test]
fn without_fence_never_restarts() {
    let config = Config { executions: REEXECUTE_2, retentions: 1, ..BRISK };
    without(Rule::FenceNeverRestarts, config, Violation::FenceFalls);
    let config = Config { executions: REEXECUTE_2, acts: 1, ..BRISK };
    without(Rule::FenceNeverRestarts, config, Violation::FenceFalls);
}

#[test]
fn without_revision_compared() {
    let config = Config { executions: HOLD_2, acts: 1, ..BRISK };
    without(Rule::RevisionCompared, config, Violation::OpState);
}

#[test]
fn without_strictest_terms() {
    let config = Config { executions: MIXED_2, ..BRISK };
    without(Rule::StrictestTerms, config, Violation::HoldBroken);
}

#[test]
fn without_outage_is_not_a_lost_lease() {
    let config = Config { executions: REEXECUTE_2, outages: 1, ..BRISK };
    without(Rule::OutageIsNotALostLease, config, Violation::ReexecKnownSuccess);
}

#[test]
fn without_attempts_limited() {
    let config = Config { executions: REEXECUTE_2, attempts_max: 1, ..BRISK };
    without(Rule::AttemptsLimited, config, Violation::AttOver);
}

#[test]
fn without_late_success_kept() {
    let config = Config { executions: REEXECUTE_2, ..BRISK };
    without(Rule::LateSuccessKept, config, Violation::SuccessDropped);
}

#[test]
fn without_owner_returns() {
    let config = Config { executions: HOLD_2, ..BRISK };
    without(Rule::OwnerReturns, config, Violation::HeldNeverRan);
    without(Rule::OwnerReturns, config, Violation::HeldAllKnown);
    let config = Config { acts: 1, ..config };
    without(Rule::OwnerReturns, config, Violation::ReleasedLive);
}

// --- a rule of the senders taken out ---

#[test]
fn without_one_in_flight() {
    let config = Config { executions: REEXECUTE_2, ..LATE };
    unmannered(Manner::OneInFlight, config, Violation::Ghost);
}

#[test]
fn without_claim_window() {
    let config = Config { executions: REEXECUTE_2, ..BRISK };
    unmannered(Manner::ClaimWindow, config, Violation::ConcurrentLive);
}

#[test]
fn without_stale_claims_ask_again() {
    let config = Config { executions: REEXECUTE_2, acts: 1, ..BRISK };
    unmannered(Manner::StaleClaimsAskAgain, config, Violation::FenceFalls);
}

#[test]
fn without_acknowledged_first() {
    let config = Config { executions: REEXECUTE_2, ..BRISK };
    unmannered(Manner::AcknowledgedFirst, config, Violation::ConcurrentLive);
}

#[test]
fn without_fenced_carries_verdict() {
    let config = Config { executions: REEXECUTE_2, ..BRISK };
    unmannered(Manner::FencedCarriesVerdict, config, Violation::TwoOutcomes);
}

#[test]
fn without_never_sent_is_said() {
    let config = Config { executions: REEXECUTE_2, ..BRISK };
    unmannered(Manner::NeverSentIsSaid, config, Violation::Ghost);
}

#[test]
fn without_spent_is_an_end() {
    let config = Config { executions: HOLD_2, ..BRISK };
    unmannered(Manner::SpentIsAnEnd, config, Violation::HeldNeverRan);
}

#[test]
fn without_settles_until_answered() {
    let config = Config { executions: REEXECUTE_2, ..BRISK };
    unmannered(Manner::SettlesUntilAnswered, config, Violation::Ghost);
}

#[test]
fn without_refused_claims_are_not_repeated() {
    let config = Config { executions: REEXECUTE_2, copies: 1, ..BRISK };
    unmannered(Manner::RefusedClaimsAreNotRepeated, config, Violation::Ghost);
}

#[test]
fn without_forgets_slowly() {
    let config = Config { executions: REEXECUTE_2, acts: 1, copies: 1, ..BRISK };
    unmannered(Manner::ForgetsSlowly, config, Violation::Ghost);
}

/// Why a message may not count as long as a lease: a copy of a renewal would bring back a key
/// that is held, when its owner has already said that it does not know.
#[test]
fn a_message_that_counts_as_long_as_a_lease_leaves_a_ghost() {
    let config = Config { executions: HOLD_2, copies: 1, void: 2, ..BRISK };
    let found = search(&config, STATES_MAX, &[Violation::Ghost]);
    assert_eq!(found.violation.map(|(violation, _)| violation), Some(Violation::Ghost));
}
