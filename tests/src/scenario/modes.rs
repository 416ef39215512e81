//! The ways in which a rule's executions can be made.

use serde_json::json;

use super::act::{Act, Narrator};
use crate::scripted::Scripted;
use crate::stage::{EXECUTE_TIMEOUT_MS, Options, Setup, Stage, StoreKind};

/// How the rules `payments` and `orders` execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By calls of the gateway's own, through the internal listener.
    Detached,
    /// By calls of the gateway's own, straight to the cluster that the route chose.
    Direct,
    /// By Envoy's router, for as long as the client waits.
    Attached,
}

/// Where a step plays.
pub type Place = (Mode, StoreKind);

/// Every mode.
pub const EVERY_MODE: [Place; 3] = [
    (Mode::Detached, StoreKind::Sqlite),
    (Mode::Direct, StoreKind::Sqlite),
    (Mode::Attached, StoreKind::Sqlite),
];

/// Every mode, and every store.
pub const EVERY_MODE_AND_STORE: [Place; 5] = [
    (Mode::Detached, StoreKind::Sqlite),
    (Mode::Direct, StoreKind::Sqlite),
    (Mode::Attached, StoreKind::Sqlite),
    (Mode::Detached, StoreKind::Redis),
    (Mode::Attached, StoreKind::Redis),
];

/// Plays one step at each of `places`, on a stage of its own that is set up as `change` has it,
/// before an upstream that the step writes the answers of.
///
/// # Panics
/// With the logs, when the step fails or there is no stage.
pub async fn play_scripted(
    places: &[Place],
    change: impl Fn(&mut Setup) -> anyhow::Result<()>,
    step: impl AsyncFn(&mut Act<'_>, &Scripted, Mode) -> anyhow::Result<()>,
) {
    for &(mode, store) in places {
        println!("--- {mode:?}, {store:?}");
        let scripted = match Scripted::start().await {
            Ok(scripted) => scripted,
            Err(error) => panic!("there is no upstream: {error:#}"),
        };
        let change = |setup: &mut Setup| {
            mode.set(setup);
            scripted.stand_behind(setup)?;
            change(setup)
        };
        let step =
            async |stage: &mut Stage| step(&mut Act::new(stage, &Narrator), &scripted, mode).await;
        Stage::prove_with(Options::on(store), change, step).await;
    }
}

// === impl Mode ===

impl Mode {
    /// Has the rules of `setup` execute so.
    pub fn set(self, setup: &mut Setup) {
        let execute = match self {
            Self::Detached => return,
            Self::Direct => json!({ "direct": true, "timeout_ms": EXECUTE_TIMEOUT_MS }),
            Self::Attached => json!({ "mode": "attached" }),
        };
        for book in ["payments", "orders"] {
            setup.rule(book)["execute"] = execute.clone();
        }
    }
}
