//! Proves Latchkey end to end, on real parts: Envoy with the filter, the server, Redis, and a
//! payments service that counts what it executes.

pub mod payments;
