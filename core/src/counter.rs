//! What the state counts, beside each record.

/// Rare events that a store counts in the same atomic step that causes them, so that the count
/// survives restarts and adds up over a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counter {
    /// A record was made anew from what its execution knew, since the store had lost it.
    Restored,
    /// An execution may have been a duplicate: another started while its outcome was unknown,
    /// or it brought an outcome after another had taken its place. Once for each execution.
    SuspectedDuplicates,
    /// A retry took over from an execution whose lease was lost.
    TakeOvers,
    /// A key came to be held.
    Holds,
    /// A record's retention ended before its outcome was known.
    ExpiredUnresolved,
}

impl Counter {
    /// All of them, in the order that stores keep them.
    pub const ALL: [Self; 5] = [
        Self::Restored,
        Self::SuspectedDuplicates,
        Self::TakeOvers,
        Self::Holds,
        Self::ExpiredUnresolved,
    ];

    /// The name in stores, metrics and the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Restored => "restored",
            Self::SuspectedDuplicates => "suspected_duplicates",
            Self::TakeOvers => "take_overs",
            Self::Holds => "holds",
            Self::ExpiredUnresolved => "expired_unresolved",
        }
    }
}

/// How often each [`Counter`] has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    /// [`Counter::Restored`].
    pub restored: u64,
    /// [`Counter::SuspectedDuplicates`].
    pub suspected_duplicates: u64,
    /// [`Counter::TakeOvers`].
    pub take_overs: u64,
    /// [`Counter::Holds`].
    pub holds: u64,
    /// [`Counter::ExpiredUnresolved`].
    pub expired_unresolved: u64,
}

impl Counts {
    /// What `counter` stands at.
    #[must_use]
    pub const fn get(&self, counter: Counter) -> u64 {
        match counter {
            Counter::Restored => self.restored,
            Counter::SuspectedDuplicates => self.suspected_duplicates,
            Counter::TakeOvers => self.take_overs,
            Counter::Holds => self.holds,
            Counter::ExpiredUnresolved => self.expired_unresolved,
        }
    }

    /// Adds `n` to `counter`.
    pub const fn add(&mut self, counter: Counter, n: u64) {
        let slot = match counter {
            Counter::Restored => &mut self.restored,
            Counter::SuspectedDuplicates => &mut self.suspected_duplicates,
            Counter::TakeOvers => &mut self.take_overs,
            Counter::Holds => &mut self.holds,
            Counter::ExpiredUnresolved => &mut self.expired_unresolved,
        };
        *slot = slot.saturating_add(n);
    }

    /// Adds all of `other`.
    pub fn add_all(&mut self, other: &Self) {
        for counter in Counter::ALL {
            self.add(counter, other.get(counter));
        }
    }
}
