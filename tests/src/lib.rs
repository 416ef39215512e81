//! Proves Latchkey end to end, on real parts: Envoy with the filter, the server, Redis, and a
//! payments service that counts what it executes.

pub mod bench;
pub mod chaos;
pub mod client;
pub mod http1;
pub mod interruption;
pub mod payments;
pub mod ports;
pub mod processes;
pub mod scenario;
pub mod scripted;
pub mod stage;
pub mod tools;
pub mod wait;
