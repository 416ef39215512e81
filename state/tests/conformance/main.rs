//! What every store must do, run on each of them.
//!
//! A test is written once, over a [`Fixture`](support::Fixture), and becomes one named test for
//! every store. The random histories compare a store with the model, reply by reply and record
//! by record.

mod batches;
mod claims;
mod concurrency;
mod histories;
mod listing;
mod operators;
mod persistence;
mod settling;
mod support;
mod time;
mod unreadable;

/// Turns the named functions into tests of one store.
macro_rules! suite {
    ($fixture:ty: $($part:ident { $($test:ident),+ $(,)? })+) => {
        $(mod $part {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                crate::$part::$test::<$fixture>().await;
            })+
        })+
    };
}

/// What holds for the model too.
macro_rules! suite_of_all {
    ($fixture:ty) => {
        suite! { $fixture:
            claims {
                an_absent_key_is_claimed_and_recorded,
                a_live_claim_is_repeated_for_its_owner_and_refused_to_others,
                a_lost_claim_is_restarted_for_its_owner,
                a_lost_claim_is_taken_over_under_reexecute,
                a_lost_claim_is_held_under_hold,
                a_completed_key_is_replayed_byte_for_byte,
                a_retryable_key_waits_then_executes_then_is_exhausted,
                a_held_key_stays_held,
                another_request_is_a_mismatch_in_every_state,
                any_known_secret_matches_and_the_first_stays,
                terms_only_become_stricter,
                stricter_terms_hold_what_was_left_to_be_executed_again,
                a_long_history_forgets_its_oldest,
                what_comes_too_late_does_nothing,
            }
            settling {
                the_owner_renews_and_others_are_fenced,
                an_owner_returns_from_a_hold_for_its_lost_lease,
                a_renewal_restores_a_lost_record,
                a_completion_is_final_and_may_be_repeated,
                a_completion_keeps_the_fingerprint,
                a_completion_restores_a_lost_record,
                a_late_success_is_kept_and_counted_once,
                a_fenced_completion_gets_what_counts_now,
                a_completion_for_another_request_is_a_mismatch,
                failures_end_as_the_terms_say,
                a_failure_without_a_fence_ends_only_what_was_never_sent,
                a_failure_after_a_hold_for_its_lost_lease_ends_it,
                a_failure_of_an_absent_key_is_gone,
            }
            operators {
                a_release_lets_the_next_retry_execute,
                a_running_execution_is_released_by_force_alone,
                a_resolution_is_what_everybody_gets,
                forgetting_needs_an_outcome_or_a_retryable_key,
                a_stale_view_changes_nothing,
            }
            batches {
                an_empty_batch_tells_the_time,
                answers_come_in_the_order_of_their_operations,
                operations_on_one_key_apply_in_their_order,
            }
            time {
                retention_ends_and_the_fence_goes_on,
                what_expires_unresolved_is_counted_once,
                a_sweep_drops_what_has_expired_and_nothing_else,
                a_sweep_keeps_to_its_limit,
                an_outage_is_not_a_lost_lease,
                an_operation_notices_an_outage_too,
            }
            listing {
                unresolved_keys_are_listed_and_completed_ones_are_not,
                pages_meet_without_gap_or_overlap,
                expired_keys_are_not_listed,
            }
            concurrency {
                one_of_many_claims_wins,
                a_take_over_never_overwrites_a_completion,
                batches_side_by_side_lose_nothing,
            }
            histories { random_histories_end_as_in_the_model }
        }
    };
}

/// What holds for stores that outlive their server.
macro_rules! suite_of_lasting {
    ($fixture:ty) => {
        suite_of_all!($fixture);
        suite! { $fixture:
            persistence {
                records_and_counts_outlive_the_server,
                the_clock_goes_on_over_a_restart,
                a_restart_is_an_outage,
                servers_side_by_side_claim_a_key_once,
            }
            unreadable {
                a_corrupt_record_is_refused_and_left_alone,
                a_record_without_a_lease_is_not_taken_over,
                neighbours_of_an_unreadable_record_are_served,
            }
        }
    };
}

mod memory {
    suite_of_all!(crate::support::memory::MemoryFixture);
}

mod sqlite {
    mod file;

    suite_of_lasting!(crate::support::sqlite::SqliteFixture);
}

mod redis {
    mod outages;
    mod setup;

    suite_of_lasting!(crate::support::redis::RedisFixture);
}
