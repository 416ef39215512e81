//! The filter in Envoy: a thin translation between the host and what decides.
//!
//! * [`root`] owns the engine and every call-out of its worker;
//! * [`stream`] reads requests, puts them into the worker's [`mailbox`] and waits;
//! * [`host`] is the host's functions without the SDK's panics;
//! * [`metrics`] are defined once.
//!
//! A stream never dispatches: a call-out's answer goes to the context whose callback dispatched
//! it, and is dropped if that context is gone, as a stream's is when its client hangs up.

mod host;
mod mailbox;
mod metrics;
mod root;
mod stream;

use proxy_wasm::traits::RootContext;

proxy_wasm::main! {{
    proxy_wasm::set_root_context(|id| -> Box<dyn RootContext> { Box::new(root::Root::new(id)) });
}}
