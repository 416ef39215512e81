//! The ranges, each with its reason. The filter holds to them, and the published schema says them.

/// Half of the 1 GiB that Envoy gives a VM.
pub(super) const BYTES_MAX: u64 = 512 * 1024 * 1024;
pub(super) const EXECUTIONS_MAX: u32 = 65_536;
pub(super) const WAITERS_MAX: u32 = 65_536;
pub(super) const RULES_MAX: usize = 256;

/// Below, a call over a network is lost more often than not.
pub(super) const STATE_TIMEOUT_MIN_MS: u32 = 10;
/// Above, a copy of an operation could act for longer than the shortest lease lasts.
pub(super) const STATE_TIMEOUT_MAX_MS: u32 = 3_000;

/// Twice the longest gap that a store takes for no outage: an outage too short to be noticed
/// is then too short to lose a lease.
pub(super) const LEASE_MIN_MS: u64 = 4_000;
/// An hour: longer ones would keep a dead gateway's keys from their owners for as long.
pub(super) const LEASE_MAX_MS: u64 = 60 * 60 * 1_000;
/// 90 days: twice the longest that a provider documents.
pub(super) const TTL_MAX_S: u64 = 90 * 24 * 60 * 60;

/// An hour.
pub(super) const EXECUTE_TIMEOUT_MAX_MS: u32 = 60 * 60 * 1_000;
/// A completion carries the body in one state request, which is capped at 4 MiB.
pub(super) const RESPONSE_BODY_MAX_BYTES: u32 = 3 * 1024 * 1024;
/// Envoy's call-outs answer up to 32 MiB; requests are held whole in the VM's memory.
pub(super) const REQUEST_BODY_MAX_BYTES: u32 = 32 * 1024 * 1024;
pub(super) const ATTEMPTS_MAX: u32 = 100;
/// An hour.
pub(super) const RETRY_AFTER_MAX_S: u32 = 60 * 60;
/// Five minutes: Envoy's own bound for a stream on which nothing happens.
pub(super) const WAIT_MAX_MS: u32 = 5 * 60 * 1_000;

/// Final statuses: below, an answer is not the last one.
pub(super) const STATUS_MIN: u16 = 200;
/// A success that is executed again is what this filter exists to prevent.
pub(super) const STATUS_AGAIN_MIN: u16 = 300;
pub(super) const STATUS_MAX: u16 = 599;
/// What a key that belongs to another request may get: the draft's (§2.7), and what others give.
pub(super) const MISMATCH_STATUSES: [u16; 3] = [422, 409, 400];

/// Names are kept with every record and shown to people.
pub(super) const NAME_BYTES_MAX: usize = 128;
/// Each is looked for in every request.
pub(super) const HEADERS_MAX: usize = 32;
/// HTTP has fewer.
pub(super) const METHODS_MAX: usize = 16;
/// Each is tried on every request.
pub(super) const HOSTS_MAX: usize = 64;
/// What a request line may be in most servers.
pub(super) const PATH_BYTES_MAX: usize = 8 * 1024;
/// A regular expression is tried on every request.
pub(super) const PATTERN_BYTES_MAX: usize = 1024;
