//! What Latchkey decides, apart from every machine it runs on.
//!
//! This crate has no I/O, no clock, no randomness and no host: time and ids come in as
//! arguments, and decisions go out as values. The filter, the server and the stores translate
//! between the world and the types here; none of them decides an outcome by itself.
//!
//! * [`key`] reads the `Idempotency-Key` field, [`identity`] names a key across clients,
//!   [`fingerprint`] tells whether two requests are the same one;
//! * [`record`] is what is remembered of a key, [`transition`] is everything that can happen
//!   to it;
//! * [`budget`] says how many retries may execute;
//! * [`classify`] says what an upstream's answer means, [`headers`] what of it may be kept;
//! * [`problem`] is what clients are told, [`wire`] what filter and server say to each other;
//! * [`config`] is the filter's configuration.

#![cfg_attr(
    not(test),
    deny(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]
#![forbid(unsafe_code)]

pub mod budget;
pub mod classify;
pub mod config;
pub mod counter;
pub mod fingerprint;
pub mod headers;
pub mod hex;
pub mod identity;
pub mod key;
pub mod operation;
pub mod problem;
pub mod record;
pub mod time;
pub mod transition;
pub mod wire;
