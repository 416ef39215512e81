//! Free ports that stay the same while programs behind them come and go.
//!
//! A program that is killed and started again must be found where it was, so its port is chosen
//! first and then given to it. Ports are taken below the range that systems hand out by
//! themselves, so that no outgoing connection sits on one while its program is down.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};

use anyhow::bail;

/// Below Linux's range (from 32768) and that of the BSDs (from 49152), above well-known servers.
const RANGE: std::ops::Range<u16> = 12_000..32_000;

/// More than anyone would find occupied by chance.
const TRIES: usize = 1000;

/// Those given out already in this process.
static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);

/// An address on loopback that nothing listens on.
///
/// # Errors
/// When there is none.
pub fn free() -> anyhow::Result<SocketAddr> {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let given = given.get_or_insert_default();
    let random = RandomState::new();
    let width = u64::from(RANGE.end - RANGE.start);
    for turn in 0..TRIES {
        let offset = u16::try_from(random.hash_one(turn) % width)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, RANGE.start + offset));
        if !given.contains(&address.port()) && TcpListener::bind(address).is_ok() {
            given.insert(address.port());
            return Ok(address);
        }
    }
    bail!("no free port between {} and {}", RANGE.start, RANGE.end)
}
