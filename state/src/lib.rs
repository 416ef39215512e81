//! What Latchkey remembers.
//!
//! [`StateStore`] takes batches of operations and applies each in one atomic step, by the rules
//! of [`latchkey_core::transition`]. [`memory`] is the model: the rules over a map, and the
//! oracle that every other store is compared with. Only `redis` knows Redis key names.

#![forbid(unsafe_code)]

pub mod clock;
pub mod memory;
pub mod outage;
pub mod redis;
pub mod router;
pub mod sqlite;
mod store;

pub use clock::StoreClock;
pub use store::{Applied, InFlight, Page, StateStore, StoreError};
