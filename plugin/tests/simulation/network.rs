//! What is under way: every event of the world, by the time at which it happens.

use std::collections::BTreeMap;

use latchkey_plugin::engine::{Call, CallAnswer};

pub(crate) enum Happening {
    /// A client sends a request with the key of this number.
    ClientSends { key: usize, gateway: usize },
    /// A client hangs up.
    ClientLeaves { gateway: usize, stream: u32 },
    /// A batch reaches the store; its reply goes back, or is lost.
    BatchArrives { gateway: usize, life: u32, batch: u64, body: Vec<u8>, reply_after: Option<u64> },
    /// A call to the state ends for its gateway.
    StateAnswers { gateway: usize, life: u32, batch: u64, answer: CallAnswer },
    /// A request reaches the upstream.
    UpstreamGets { gateway: usize, life: u32, execution: u64, call: Call },
    /// The upstream's call ends for its gateway.
    UpstreamAnswers { gateway: usize, life: u32, execution: u64, answer: CallAnswer },
    /// A gateway's clock ticks.
    Tick { gateway: usize },
    /// The servers stamp the store, where it can be reached.
    Stamp,
    /// The store can be reached, or cannot.
    Store { up: bool },
    /// One gateway can reach the store, or cannot.
    Partition { gateway: usize, up: bool },
    /// A gateway dies and starts again, with nothing.
    GatewayDies { gateway: usize },
}

/// Happenings in order of time, and of making where times are equal.
#[derive(Default)]
pub(crate) struct Schedule {
    made: u64,
    queue: BTreeMap<(u64, u64), Happening>,
}

impl Schedule {
    pub(crate) fn at(&mut self, time: u64, happening: Happening) {
        self.made += 1;
        self.queue.insert((time, self.made), happening);
    }

    pub(crate) fn next(&mut self) -> Option<(u64, Happening)> {
        self.queue.pop_first().map(|((time, _), happening)| (time, happening))
    }
}
