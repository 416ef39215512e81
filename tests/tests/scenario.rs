//! Every step of the scenario, on every store, through an Envoy with two workers.

use latchkey_tests::scenario::{self, Act, Narrator};
use latchkey_tests::scenario_steps;
use latchkey_tests::stage::{Options, Stage, StoreKind};

async fn play(store: StoreKind, step: impl AsyncFnOnce(&mut Act<'_>) -> anyhow::Result<()>) {
    Stage::prove(Options::on(store), async |stage| step(&mut Act::new(stage, &Narrator)).await)
        .await;
}

macro_rules! on_sqlite {
    ($($step:ident),* $(,)?) => {
        mod on_sqlite {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $step() {
                    super::play(super::StoreKind::Sqlite, super::scenario::$step).await;
                }
            )*
        }
    };
}
scenario_steps!(on_sqlite);

macro_rules! on_redis {
    ($($step:ident),* $(,)?) => {
        mod on_redis {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $step() {
                    super::play(super::StoreKind::Redis, super::scenario::$step).await;
                }
            )*
        }
    };
}
scenario_steps!(on_redis);
