//! A suspected duplicate execution is counted, once.

use super::fixture::*;

#[test]
fn an_execution_is_suspected_once_however_often_it_shows() {
    let (mut store, first) = lost(REEXECUTE);
    let second = store.claimed(2, REEXECUTE);
    assert_eq!(store.counts.suspected_duplicates, 1, "taken over");
    store.complete(&first);
    store.complete(&first);
    store.complete(&second);
    store.complete(&first);
    assert_eq!(store.counts.suspected_duplicates, 1);
    assert!(!store.changed, "a repeat has nothing left to write");
}

#[test]
fn a_repeated_success_of_who_was_not_suspected_is_counted_once() {
    let (mut store, first) = retryable(REEXECUTE);
    store.claimed(2, REEXECUTE);
    assert_eq!(store.counts.suspected_duplicates, 0);
    store.complete(&first);
    assert!(store.changed, "the suspicion is written");
    assert_eq!(store.counts.suspected_duplicates, 1);
    store.complete(&first);
    assert!(!store.changed);
    assert_eq!(store.counts.suspected_duplicates, 1);
}

#[test]
fn each_suspected_execution_is_counted() {
    let (mut store, first) = lost(REEXECUTE);
    let second = store.claimed(2, REEXECUTE);
    store.pass(LEASE);
    let third = store.claimed(3, REEXECUTE);
    assert_eq!((store.counts.suspected_duplicates, store.counts.take_overs), (2, 2));
    for ticket in [&third, &second, &first] {
        store.complete(ticket);
    }
    assert_eq!(store.counts.suspected_duplicates, 2);
}
