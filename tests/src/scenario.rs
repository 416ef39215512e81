//! What a newcomer is shown, and what must always hold: payments that are retried through a real
//! gateway, whatever dies in between.
//!
//! Each step is one function. The demo runs all of them on one stage and tells what it sees; the
//! end-to-end tests run each on a stage of its own, on every store.

mod act;
mod crashes;
mod keys;
mod modes;
mod numbers;
mod retries;
mod upstreams;

use crate::stage::{Options, Setup, Stage, StoreKind};
pub use act::{
    Act, IN_PROGRESS, Later, Narrator, OUTCOME_UNKNOWN, check_problem, check_replay, check_status,
    is_in_progress, pay, pay_without_key,
};
pub use crashes::*;
pub use keys::*;
pub use modes::{EVERY_MODE, EVERY_MODE_AND_STORE, Mode, Place, play_scripted};
pub use numbers::{check_number, check_unguarded, number_answers};
pub use retries::*;
pub use upstreams::*;

/// Plays one step by itself, on a SQLite store behind one gateway that is set up as `change` has
/// it.
///
/// # Panics
/// With the logs, when the step fails or there is no stage.
pub async fn play(
    change: impl Fn(&mut Setup) -> anyhow::Result<()>,
    step: impl AsyncFnOnce(&mut Act<'_>) -> anyhow::Result<()>,
) {
    let options = Options::on(StoreKind::Sqlite);
    Stage::prove_with(options, change, async |stage| step(&mut Act::new(stage, &Narrator)).await)
        .await;
}

/// Calls a macro with the names of all steps, in the order in which the demo shows them.
#[macro_export]
macro_rules! scenario_steps {
    ($with:ident) => {
        $with! {
            five_parallel_retries_execute_once,
            another_body_or_path_is_refused,
            a_key_that_is_none_is_refused,
            each_client_has_its_own_keys,
            a_503_is_executed_again,
            a_refused_connection_is_executed_again,
            a_lost_answer_is_held,
            a_lost_answer_is_executed_again_where_the_rule_says_so,
            a_client_that_hangs_up_gets_its_answer_later,
            a_gateway_that_dies_leaves_its_key_held,
            a_gateway_that_dies_is_replaced_where_the_rule_says_so,
            the_server_dies_and_returns_while_a_payment_runs,
            the_server_is_away_for_longer_than_a_lease,
            the_store_restarts_while_a_payment_runs,
        }
    };
}
