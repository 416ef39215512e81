//! The filter: streams and the root of a worker, against a [`host::Host`].
//!
//! A stream reads its request and puts it into the worker's mailbox; the root owns the engine
//! and every call-out, and answers streams, sends their requests on, or lets their answers go.

pub mod host;
mod mailbox;
mod metrics;
mod root;
mod stream;

pub use root::Root;
pub use stream::Stream;
