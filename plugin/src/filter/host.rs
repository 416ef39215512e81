//! What the filter asks of Envoy (Proxy-Wasm ABI 0.2.1).
//!
//! A trait, so that the very code that runs in Envoy also runs against scripted hosts, whose
//! rules are those that Envoy has: some calls, made twice or at the wrong moment, execute a
//! request twice or crash the process.

use crate::answer::Answer;

/// Buffers of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// What is buffered of the effective stream's request.
    RequestBody = 0,
    /// What is buffered of the effective stream's response.
    ResponseBody = 1,
    /// The body of the call-out that has ended.
    CallBody = 4,
    /// The filter's configuration.
    Configuration = 7,
}

/// Header maps of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Map {
    /// The effective stream's.
    RequestHeaders = 0,
    /// The effective stream's.
    ResponseHeaders = 2,
    /// Those of the call-out that has ended.
    CallHeaders = 6,
}

/// Metric types of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    /// Only rises.
    Counter = 0,
    /// Rises and falls.
    Gauge = 1,
}

/// What a callback tells the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Go on to the next filter.
    Continue,
    /// Hold what there is until it is resumed or answered.
    Pause,
}

/// Envoy, as a filter sees it. No function panics; what fails says so.
pub trait Host {
    /// Tells the operator of this gateway.
    fn warn(&self, message: &str);
    /// Asks for ticks.
    fn set_tick_period_ms(&self, period: u32);
    /// Up to `max` bytes of a buffer. A buffer that is not there is empty.
    fn buffer(&self, buffer: Buffer, max: usize) -> Vec<u8>;
    /// All pairs of a map, in order. A map that is not there is empty.
    fn map(&self, map: Map) -> Vec<(Vec<u8>, Vec<u8>)>;
    /// Sets a header of a map to one line.
    fn set_header(&self, map: Map, name: &str, value: &[u8]);
    /// Adds a line to a map.
    fn add_header(&self, map: Map, name: &str, value: &[u8]);
    /// Takes all lines of a header out of a map.
    fn remove_header(&self, map: Map, name: &str);
    /// An attribute by its path, if the host has it.
    fn property(&self, path: &[&str]) -> Option<Vec<u8>>;
    /// Sets the effective stream's filter state `wasm.<name>`.
    fn set_property(&self, name: &str, value: &[u8]);
    /// Lets the filter state `wasm.<name>` outlive internal redirects.
    fn declare_for_request(&self, name: &str);
    /// Registers a queue of this VM under a name that no other has.
    fn register_queue(&self, name: &str) -> Option<u32>;
    /// Wakes whoever registered the queue, at its worker's next turn.
    fn enqueue(&self, queue: u32) -> bool;
    /// Takes a message off; false where there is none.
    fn dequeue(&self, queue: u32) -> bool;
    /// Makes `context` the one that the next functions act on; false where it is gone.
    fn set_effective_context(&self, context: u32) -> bool;
    /// Answers the effective stream.
    fn answer(&self, answer: &Answer) -> bool;
    /// Lets the effective stream's request go on.
    fn resume_request(&self);
    /// Lets the effective stream's response go on. Only while one is held: Envoy 1.40 crashes
    /// otherwise.
    fn resume_response(&self);
    /// Dispatches a call-out for the context whose callback runs, and gives its token.
    fn call(
        &self,
        cluster: &str,
        headers: Vec<(&str, &str)>,
        body: &[u8],
        timeout_ms: u32,
    ) -> Option<u32>;
    /// Tells the host that a context which was not done is now. Only once, and only after the
    /// context's `on_done` has answered false.
    fn done(&self);
    /// Defines a metric; only once for each name.
    fn define_metric(&self, kind: MetricType, name: &str) -> Option<u32>;
    /// Adds to a metric. A counter takes only what is above zero.
    fn add(&self, metric: u32, offset: i64);
    /// Fills `bytes` with randomness; false where there is none.
    fn random(&self, bytes: &mut [u8]) -> bool;
    /// A monotonic clock, in µs.
    fn now_us(&self) -> u64;
    /// A variable of the VM's environment.
    fn environment(&self, name: &str) -> Option<String>;
}
