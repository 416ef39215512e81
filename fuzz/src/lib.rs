//! Properties of everything that strangers can write, checked for any bytes.
//!
//! Each module has one `run`, which reads an input's bytes as it needs them and panics where a
//! property does not hold: [`key`] reads a request's key, [`fingerprint`] compares requests,
//! [`config`] reads configurations, and [`filter`] drives the filter through a model of Envoy,
//! whose rules it must never break.
//!
//! `cargo xtask fuzz` searches for inputs with coverage as its guide and keeps what reaches new
//! code in `corpus/`; the test `corpus` runs these and thousands that are made from them.

mod bytes;
pub mod config;
pub mod filter;
pub mod fingerprint;
pub mod key;

/// A property that takes any bytes.
pub type Target = fn(&[u8]);

/// All of them, by name.
pub const TARGETS: [(&str, Target); 4] = [
    ("key", key::run),
    ("fingerprint", fingerprint::run),
    ("config", config::run),
    ("filter", filter::run),
];
