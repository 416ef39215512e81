//! What tells a server to end.

use tokio::sync::mpsc;

/// Requests to end: the first to drain, the second to stop draining.
#[derive(Debug)]
pub struct Signals(mpsc::UnboundedReceiver<()>);

// === impl Signals ===

impl Signals {
    /// SIGTERM and SIGINT (Ctrl-C) of this process, which no longer end it by themselves.
    ///
    /// # Errors
    /// Where they cannot be listened for.
    pub fn of_process() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let (send, signals) = Self::channel();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                if send.send(()).is_err() {
                    return;
                }
            }
        });
        Ok(signals)
    }

    /// Signals that the caller gives.
    #[must_use]
    pub fn channel() -> (mpsc::UnboundedSender<()>, Self) {
        let (send, receive) = mpsc::unbounded_channel();
        (send, Self(receive))
    }

    /// Waits for the next one. Without anybody who could send one it waits for ever.
    pub async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
