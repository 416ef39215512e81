//! Programs that clean up when they are told to end.

use std::process::ExitCode;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What shells say of a program that a signal ended, plus the signal's number.
const SIGNAL_EXIT_BASE: u8 = 128;

/// The signals that end a program.
struct Interruption {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

// === impl Interruption ===

impl Interruption {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// The number of the first that comes.
    async fn any(&mut self) -> u8 {
        let kind = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.hang_up.recv() => SignalKind::hangup(),
        };
        u8::try_from(kind.as_raw_value()).unwrap_or_default()
    }
}

/// Runs `work` to its end, or until a signal asks the program to end: then `work` is dropped, and
/// with it every process and folder that it holds.
///
/// # Errors
/// Those of `work`.
pub async fn until_interrupted(
    work: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    let mut interrupted = Interruption::listen()?;
    tokio::select! {
        done = work => done,
        signal = interrupted.any() => {
            eprintln!("\ninterrupted: everything is stopped and removed");
            Ok(ExitCode::from(SIGNAL_EXIT_BASE + signal))
        }
    }
}
