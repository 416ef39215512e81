//! What enforces: the proxy-wasm filter.
//!
//! [`request`] decides what a request is to us, [`engine`] runs executions from claim to
//! settlement, [`answer`] says what clients get. None of them knows the host: time, ids and
//! events come in, commands go out. [`filter`] is the state of streams and workers against a
//! host's functions; `shell` is Envoy as that host, and is all that is built for WebAssembly
//! only.
//!
//! A panic would kill the VM of a worker, with every request in it: nothing here may panic, and
//! the lints of this crate see to it.

#![cfg_attr(
    test,
    allow(
        clippy::panic,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unreachable,
        reason = "tests may panic"
    )
)]

pub mod answer;
pub mod engine;
pub mod filter;
pub mod request;

#[cfg(target_arch = "wasm32")]
mod shell;
