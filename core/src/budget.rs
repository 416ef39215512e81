//! Retry budgets: how many re-executions may be made for so many first executions.
//!
//! A service that fails makes its clients retry, and their retries keep it from standing up. The
//! key shows which requests are retries, so that they can be counted: first executions deposit,
//! re-executions withdraw, and what was deposited or withdrawn more than a window ago counts no
//! more. The window slides by tenths of its length, on the store's clock.
//!
//! Accounts are a rule's, and where the rule says so its clients' too. Stores keep them, one
//! [`Account::post`] being one atomic step; what a first and what a re-execution is, the
//! transitions say.
//!
//! Deliberately absent: bursts beyond the window, and debts. A withdrawal that is denied changes
//! nothing.

#[cfg(test)]
mod tests;

use crate::time::StoreTime;

/// How many slots a window has.
pub const SLOTS: u64 = 10;

/// What a budget allows within its window: re-executions up to
/// `ratio_permille` / 1000 × first executions, rounded down, + `min_per_s` × `window_s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Limits {
    /// Re-executions for a thousand first executions.
    pub ratio_permille: u32,
    /// Re-executions a second that need no first ones, so that little traffic can retry at all.
    pub min_per_s: u32,
    /// The window's length, in s; at least 1.
    pub window_s: u32,
}

/// What a claim's re-execution is paid from. Without either it is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// All clients of the rule together.
    pub rule: Option<Limits>,
    /// Each client of the rule by itself.
    pub client: Option<Limits>,
}

/// Whose an account is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// All clients of a rule together.
    Rule,
    /// One client of a rule.
    Client,
}

/// The name of an account. Other limits of the same rule are another account only where their
/// window is another: slots of different lengths cannot be added up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId {
    /// The deployment's namespace.
    pub namespace: String,
    /// The rule.
    pub rule: String,
    /// The client; `None` for all of them together.
    pub client: Option<String>,
    /// The window's length, in s.
    pub window_s: u32,
}

/// What is posted to an account in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posting {
    /// The limits in force.
    pub limits: Limits,
    /// First executions to deposit; before anything is withdrawn.
    pub firsts: u64,
    /// What else.
    pub entry: Entry,
}

/// What is posted besides deposits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Nothing.
    Deposit,
    /// One re-execution is asked for.
    Withdraw,
    /// One that was granted was not made.
    Refund,
}

/// What came of a posting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It was granted, or there was nothing to grant.
    Done,
    /// Nothing was withdrawn.
    Denied(Denied),
}

/// Why nothing was withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied {
    /// How many re-executions the window allows as it is.
    pub quota: u64,
    /// When there would be one again if nothing else were posted, in µs from now. Where there
    /// never would, when the window is over.
    pub after_us: u64,
}

/// A tenth of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Counted from the beginning of the store's clock.
    pub number: u64,
    /// First executions.
    pub firsts: u64,
    /// Re-executions.
    pub retries: u64,
}

/// What was deposited and withdrawn within a window, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account(Vec<Slot>);

// === impl Limits ===

impl Limits {
    /// How long a slot is, in µs.
    #[must_use]
    pub const fn slot_us(&self) -> u64 {
        // A tenth of a whole number of seconds is a whole number of µs, and never 0.
        self.window_s as u64 * (1_000_000 / SLOTS) + (self.window_s == 0) as u64
    }

    /// How many re-executions a window with so many first ones allows.
    #[must_use]
    pub const fn quota(&self, firsts: u64) -> u64 {
        let earned = firsts.saturating_mul(self.ratio_permille as u64) / 1000;
        earned.saturating_add(self.min_per_s as u64 * self.window_s as u64)
    }
}

// === impl Budget ===

impl Budget {
    /// The accounts that a claim under this budget is paid from.
    pub fn accounts(
        &self,
        namespace: &str,
        rule: &str,
        client: &str,
    ) -> impl Iterator<Item = (Scope, AccountId, Limits)> {
        let account = |client: Option<&str>, limits: Limits| AccountId {
            namespace: namespace.to_owned(),
            rule: rule.to_owned(),
            client: client.map(str::to_owned),
            window_s: limits.window_s,
        };
        let own = self.client.map(|it| (Scope::Client, account(Some(client), it), it));
        let all = self.rule.map(|it| (Scope::Rule, account(None, it), it));
        own.into_iter().chain(all)
    }
}

// === impl Account ===

impl Account {
    /// Restores what a store has kept, oldest first.
    #[must_use]
    pub const fn restore(slots: Vec<Slot>) -> Self {
        Self(slots)
    }

    /// Oldest first.
    #[must_use]
    pub fn slots(&self) -> &[Slot] {
        &self.0
    }

    /// First executions and re-executions within the window that ends at `now`.
    #[must_use]
    pub fn sums(&self, limits: &Limits, now: StoreTime) -> (u64, u64) {
        self.sums_at(now.0 / limits.slot_us())
    }

    fn sums_at(&self, current: u64) -> (u64, u64) {
        let counts = self.0.iter().filter(|slot| slot.number.saturating_add(SLOTS) > current);
        counts.fold((0, 0), |sums, slot| (sums.0 + slot.firsts, sums.1 + slot.retries))
    }

    /// Posts to the account, at `now` by the store's clock.
    pub fn post(&mut self, posting: &Posting, now: StoreTime) -> Posted {
        let Posting { limits, firsts, entry } = posting;
        let current = now.0 / limits.slot_us();
        self.0.retain(|slot| slot.number.saturating_add(SLOTS) > current);
        if *firsts > 0 {
            self.count(current, *firsts, 0);
        }
        match entry {
            Entry::Deposit => Posted::Done,
            Entry::Withdraw => self.withdraw(limits, current, now),
            Entry::Refund => {
                if let Some(slot) = self.0.iter_mut().rev().find(|slot| slot.retries > 0) {
                    slot.retries -= 1;
                }
                Posted::Done
            }
        }
    }

    fn withdraw(&mut self, limits: &Limits, current: u64, now: StoreTime) -> Posted {
        let allows = |(firsts, retries): (u64, u64)| retries < limits.quota(firsts);
        let sums = self.sums_at(current);
        if allows(sums) {
            self.count(current, 0, 1);
            return Posted::Done;
        }
        let later = (1..=SLOTS).find(|ahead| allows(self.sums_at(current + ahead)));
        let then = (current + later.unwrap_or(SLOTS)).saturating_mul(limits.slot_us());
        let after_us = then.saturating_sub(now.0);
        Posted::Denied(Denied { quota: limits.quota(sums.0), after_us })
    }

    /// Counts in the slot of this number, which no other is younger than.
    fn count(&mut self, number: u64, firsts: u64, retries: u64) {
        // A clock that was set back stays in the youngest slot that there is.
        match self.0.last_mut().filter(|slot| slot.number >= number) {
            Some(slot) => {
                slot.firsts += firsts;
                slot.retries += retries;
            }
            None => self.0.push(Slot { number, firsts, retries }),
        }
    }
}
