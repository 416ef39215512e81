//! Payments that wait for a person.

use std::collections::HashSet;

use tokio::sync::watch;

/// The references that were approved.
#[derive(Debug, Default)]
pub(super) struct Approvals {
    approved: watch::Sender<HashSet<String>>,
}

// === impl Approvals ===

impl Approvals {
    /// Lets every payment under `reference` go on, now and from now on.
    pub(super) fn approve(&self, reference: String) {
        self.approved.send_modify(|approved| {
            approved.insert(reference);
        });
    }

    /// Waits until `reference` is approved.
    pub(super) async fn wait_for(&self, reference: &str) {
        let mut approved = self.approved.subscribe();
        // It cannot fail: the sender is `self`.
        let _ = approved.wait_for(|approved| approved.contains(reference)).await;
    }
}
