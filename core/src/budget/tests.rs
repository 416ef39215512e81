//! The account against a book of everything that was ever posted.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Account, Budget, Denied, Entry, Limits, Posted, Posting, SLOTS, Scope};
use crate::time::StoreTime;

const LIMITS: Limits = Limits { ratio_permille: 100, min_per_s: 1, window_s: 10 };
const SECOND_US: u64 = 1_000_000;

fn post(account: &mut Account, limits: Limits, firsts: u64, entry: Entry, now_us: u64) -> Posted {
    account.post(&Posting { limits, firsts, entry }, StoreTime(now_us))
}

fn withdraw(account: &mut Account, limits: Limits, now_us: u64) -> Posted {
    post(account, limits, 0, Entry::Withdraw, now_us)
}

/// How many withdrawals are granted in a row.
fn granted(account: &mut Account, limits: Limits, now_us: u64) -> u64 {
    (0..1000).take_while(|_| withdraw(account, limits, now_us) == Posted::Done).count() as u64
}

#[test]
fn without_first_executions_there_is_the_minimum() {
    assert_eq!(granted(&mut Account::default(), LIMITS, 0), 10);
    let none = Limits { min_per_s: 0, ..LIMITS };
    assert_eq!(granted(&mut Account::default(), none, 0), 0);
}

#[test]
fn first_executions_earn_their_share_rounded_down() {
    let limits = Limits { min_per_s: 0, ..LIMITS };
    for (firsts, earned) in [(9, 0), (10, 1), (19, 1), (20, 2), (1000, 100)] {
        let mut account = Account::default();
        post(&mut account, limits, firsts, Entry::Deposit, 0);
        assert_eq!(granted(&mut account, limits, 0), earned, "{firsts} first executions");
    }
}

#[test]
fn what_is_deposited_with_a_withdrawal_counts_for_it() {
    let limits = Limits { min_per_s: 0, ..LIMITS };
    let mut account = Account::default();
    assert_eq!(post(&mut account, limits, 10, Entry::Withdraw, 0), Posted::Done);
}

#[test]
fn a_window_slides_by_tenths() {
    let mut account = Account::default();
    assert_eq!(granted(&mut account, LIMITS, 0), 10);
    let denied = Denied { quota: 10, after_us: 10 * SECOND_US };
    assert_eq!(withdraw(&mut account, LIMITS, 0), Posted::Denied(denied));
    let denied = Denied { quota: 10, after_us: 1 };
    assert_eq!(withdraw(&mut account, LIMITS, 10 * SECOND_US - 1), Posted::Denied(denied));
    assert_eq!(granted(&mut account, LIMITS, 10 * SECOND_US), 10);
}

#[test]
fn what_is_granted_bit_by_bit_comes_back_bit_by_bit() {
    let mut account = Account::default();
    for second in 0..10 {
        assert_eq!(withdraw(&mut account, LIMITS, second * SECOND_US), Posted::Done);
    }
    let denied = Denied { quota: 10, after_us: SECOND_US / 2 };
    assert_eq!(
        withdraw(&mut account, LIMITS, 9 * SECOND_US + SECOND_US / 2),
        Posted::Denied(denied)
    );
    assert_eq!(granted(&mut account, LIMITS, 10 * SECOND_US), 1);
}

#[test]
fn where_there_will_never_be_any_one_waits_for_a_window() {
    let limits = Limits { ratio_permille: 0, min_per_s: 0, window_s: 2 };
    let denied = Denied { quota: 0, after_us: 2 * SECOND_US };
    assert_eq!(withdraw(&mut Account::default(), limits, 0), Posted::Denied(denied));
}

#[test]
fn what_was_refunded_can_be_withdrawn_again_and_no_more() {
    let mut account = Account::default();
    assert_eq!(granted(&mut account, LIMITS, 0), 10);
    post(&mut account, LIMITS, 0, Entry::Refund, SECOND_US);
    assert_eq!(granted(&mut account, LIMITS, SECOND_US), 1);
    let mut account = Account::default();
    post(&mut account, LIMITS, 0, Entry::Refund, 0);
    assert_eq!(granted(&mut account, LIMITS, 0), 10, "nothing was there to be refunded");
}

#[test]
fn a_rule_and_its_clients_have_accounts_of_their_own() {
    let short = Limits { window_s: 1, ..LIMITS };
    let budget = Budget { rule: Some(LIMITS), client: Some(short) };
    let accounts: Vec<_> = budget.accounts("prod", "payments", "acme").collect();
    let told: Vec<_> = accounts
        .iter()
        .map(|(scope, id, limits)| (*scope, id.client.as_deref(), id.window_s, *limits))
        .collect();
    assert_eq!(told, [(Scope::Client, Some("acme"), 1, short), (Scope::Rule, None, 10, LIMITS)]);
    assert_eq!(Budget::default().accounts("prod", "payments", "acme").count(), 0);
}

/// Everything that was ever posted: when, and what.
#[derive(Default)]
struct Book(Vec<(u64, u64, u64)>);

impl Book {
    /// The sums of the window that ends with slot `current`.
    fn sums(&self, current: u64) -> (u64, u64) {
        let first = (current + 1).saturating_sub(SLOTS);
        let within = self.0.iter().filter(|(slot, ..)| (first..=current).contains(slot));
        within.fold((0, 0), |sums, (_, firsts, retries)| (sums.0 + firsts, sums.1 + retries))
    }
}

fn limits() -> impl Strategy<Value = Limits> {
    (0..=1000_u32, 0..4_u32, 1..=20_u32).prop_map(|(ratio_permille, min_per_s, window_s)| Limits {
        ratio_permille,
        min_per_s,
        window_s,
    })
}

proptest! {
    #[test]
    fn it_grants_what_the_formula_allows_and_nothing_else(
        limits in limits(),
        steps in vec((0..3_000_000_u64, 0..40_u64, any::<bool>()), 1..200),
    ) {
        let (mut account, mut book, mut now) = (Account::default(), Book::default(), 0);
        for (pause, firsts, asks) in steps {
            now += pause;
            let slot = now / limits.slot_us();
            book.0.push((slot, firsts, 0));
            let entry = if asks { Entry::Withdraw } else { Entry::Deposit };
            let posted = post(&mut account, limits, firsts, entry, now);
            let (firsts, retries) = book.sums(slot);
            let quota = firsts * u64::from(limits.ratio_permille) / 1000
                + u64::from(limits.min_per_s * limits.window_s);
            match posted {
                Posted::Done if asks => {
                    prop_assert!(retries < quota, "{retries} of {quota}");
                    book.0.push((slot, 0, 1));
                }
                Posted::Done => {}
                Posted::Denied(denied) => {
                    prop_assert!(asks && retries + 1 > quota, "{retries} of {quota}");
                    prop_assert_eq!(denied.quota, quota);
                    prop_assert!((1..=u64::from(limits.window_s) * SECOND_US).contains(&denied.after_us));
                    let mut then = account.clone();
                    let again = withdraw(&mut then, limits, now + denied.after_us);
                    let whole = denied.after_us > (SLOTS - 1) * limits.slot_us();
                    prop_assert!(again == Posted::Done || whole, "told to come in vain");
                    if denied.after_us > 1 {
                        let mut early = account.clone();
                        let again = withdraw(&mut early, limits, now + denied.after_us - 1);
                        prop_assert!(again != Posted::Done, "could have come earlier");
                    }
                }
            }
            prop_assert_eq!(account.sums(&limits, StoreTime(now)), book.sums(slot));
            prop_assert!(account.slots().len() <= SLOTS as usize, "it grows without end");
        }
    }
}
