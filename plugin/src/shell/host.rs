//! The host's functions (Proxy-Wasm ABI 0.2.1), without panics.
//!
//! The SDK's own wrappers panic on any status they do not expect, and its text getters on bytes
//! that are not UTF-8: a client could kill a worker's VM with one header. Here every failure is
//! an `Option` or a `bool`. Only call-outs are dispatched through the SDK, which has to know
//! their tokens.

#![expect(unsafe_code, reason = "the host's functions are foreign functions")]

use std::time::{Duration, Instant};

use proxy_wasm::hostcalls;
use proxy_wasm::types::LogLevel;

use crate::answer::Answer;
use crate::filter::host::{Buffer, Host, Map, MetricType};

/// Envoy.
pub(super) struct Envoy {
    started: Instant,
}

/// Envoy's life span of filter state that internal redirects carry over (`foreign.cc`,
/// `DeclarePropertyArguments.span`, `DownstreamRequest`).
const SPAN_DOWNSTREAM_REQUEST: u8 = 1;

/// The status of a host function that did what it was asked.
const OK: u32 = 0;

/// What is resumed.
const STREAM_REQUEST: u32 = 0;
const STREAM_RESPONSE: u32 = 1;

/// The gRPC status of answers that are not gRPC.
const NOT_GRPC: i32 = -1;

#[link(wasm_import_module = "env")]
unsafe extern "C" {
    fn proxy_log(level: u32, message: *const u8, size: usize) -> u32;
    fn proxy_set_tick_period_milliseconds(period: u32) -> u32;
    fn proxy_get_buffer_bytes(
        buffer: u32,
        start: usize,
        max_size: usize,
        data: *mut *mut u8,
        size: *mut usize,
    ) -> u32;
    fn proxy_get_header_map_pairs(map: u32, data: *mut *mut u8, size: *mut usize) -> u32;
    fn proxy_replace_header_map_value(
        map: u32,
        name: *const u8,
        name_size: usize,
        value: *const u8,
        value_size: usize,
    ) -> u32;
    fn proxy_add_header_map_value(
        map: u32,
        name: *const u8,
        name_size: usize,
        value: *const u8,
        value_size: usize,
    ) -> u32;
    fn proxy_remove_header_map_value(map: u32, name: *const u8, name_size: usize) -> u32;
    fn proxy_set_property(
        path: *const u8,
        path_size: usize,
        value: *const u8,
        value_size: usize,
    ) -> u32;
    fn proxy_call_foreign_function(
        name: *const u8,
        name_size: usize,
        arguments: *const u8,
        arguments_size: usize,
        result: *mut *mut u8,
        result_size: *mut usize,
    ) -> u32;
    fn proxy_continue_stream(kind: u32) -> u32;
    fn proxy_get_property(
        path: *const u8,
        path_size: usize,
        data: *mut *mut u8,
        size: *mut usize,
    ) -> u32;
    fn proxy_register_shared_queue(name: *const u8, size: usize, id: *mut u32) -> u32;
    fn proxy_enqueue_shared_queue(id: u32, data: *const u8, size: usize) -> u32;
    fn proxy_dequeue_shared_queue(id: u32, data: *mut *mut u8, size: *mut usize) -> u32;
    fn proxy_send_local_response(
        status: u32,
        details: *const u8,
        details_size: usize,
        body: *const u8,
        body_size: usize,
        headers: *const u8,
        headers_size: usize,
        grpc_status: i32,
    ) -> u32;
    fn proxy_set_effective_context(context: u32) -> u32;
    fn proxy_done() -> u32;
    fn proxy_define_metric(kind: u32, name: *const u8, size: usize, id: *mut u32) -> u32;
    fn proxy_increment_metric(id: u32, offset: i64) -> u32;
}

/// Takes over what the host has written into memory that it had the SDK's allocator allocate.
fn taken(data: *mut u8, size: usize) -> Vec<u8> {
    if data.is_null() {
        return Vec::new();
    }
    // SAFETY: the host got `data` from `proxy_on_memory_allocate(size)`, which the SDK answers
    // with the buffer of a leaked `Vec<u8>` of exactly that capacity, and hands it over once.
    unsafe { Vec::from_raw_parts(data, size, size) }
}

fn fetched(fetch: impl FnOnce(*mut *mut u8, *mut usize) -> u32) -> Option<Vec<u8>> {
    let (mut data, mut size) = (std::ptr::null_mut(), 0);
    let status = fetch(&raw mut data, &raw mut size);
    (status == OK).then(|| taken(data, size))
}

/// The ABI's form of a map: the count, each pair's lengths, then name and value, each followed
/// by a zero byte. Little-endian.
fn pairs(bytes: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let number = |at: usize| -> Option<usize> {
        let four = bytes.get(at..at.checked_add(4)?)?;
        usize::try_from(u32::from_le_bytes(four.try_into().ok()?)).ok()
    };
    let count = number(0)?;
    let mut data = count.checked_mul(8)?.checked_add(4)?;
    let mut text = |size: usize| -> Option<Vec<u8>> {
        let end = data.checked_add(size)?;
        let text = bytes.get(data..end)?.to_vec();
        data = end.checked_add(1)?;
        Some(text)
    };
    (0..count)
        .map(|pair| {
            let sizes = pair.checked_mul(8)?.checked_add(4)?;
            let name = text(number(sizes)?)?;
            let value = text(number(sizes.checked_add(4)?)?)?;
            Some((name, value))
        })
        .collect()
}

/// A map in the ABI's form.
fn serialized(pairs: &[(String, Vec<u8>)]) -> Vec<u8> {
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes();
    let mut bytes = number(pairs.len()).to_vec();
    for (name, value) in pairs {
        bytes.extend(number(name.len()));
        bytes.extend(number(value.len()));
    }
    for (name, value) in pairs {
        bytes.extend(name.as_bytes());
        bytes.push(0);
        bytes.extend(value);
        bytes.push(0);
    }
    bytes
}

// === impl Envoy ===

impl Envoy {
    pub(super) fn new() -> Self {
        Self { started: Instant::now() }
    }
}

// SAFETY of all below: the host reads during the call. Pointers come from live slices with their
// lengths, or to live variables that the host writes.
impl Host for Envoy {
    fn warn(&self, message: &str) {
        // SAFETY: as above.
        unsafe { proxy_log(LogLevel::Warn as u32, message.as_ptr(), message.len()) };
    }

    fn set_tick_period_ms(&self, period: u32) {
        // SAFETY: no pointers.
        unsafe { proxy_set_tick_period_milliseconds(period) };
    }

    fn buffer(&self, buffer: Buffer, max: usize) -> Vec<u8> {
        // SAFETY: as above.
        fetched(|data, size| unsafe { proxy_get_buffer_bytes(buffer as u32, 0, max, data, size) })
            .unwrap_or_default()
    }

    fn map(&self, map: Map) -> Vec<(Vec<u8>, Vec<u8>)> {
        // SAFETY: as above.
        fetched(|data, size| unsafe { proxy_get_header_map_pairs(map as u32, data, size) })
            .and_then(|bytes| pairs(&bytes))
            .unwrap_or_default()
    }

    fn set_header(&self, map: Map, name: &str, value: &[u8]) {
        // SAFETY: as above.
        unsafe {
            proxy_replace_header_map_value(
                map as u32,
                name.as_ptr(),
                name.len(),
                value.as_ptr(),
                value.len(),
            )
        };
    }

    fn add_header(&self, map: Map, name: &str, value: &[u8]) {
        // SAFETY: as above.
        unsafe {
            proxy_add_header_map_value(
                map as u32,
                name.as_ptr(),
                name.len(),
                value.as_ptr(),
                value.len(),
            )
        };
    }

    fn remove_header(&self, map: Map, name: &str) {
        // SAFETY: as above.
        unsafe { proxy_remove_header_map_value(map as u32, name.as_ptr(), name.len()) };
    }

    fn property(&self, path: &[&str]) -> Option<Vec<u8>> {
        let path = path.join("\0");
        // SAFETY: as above.
        fetched(|data, size| unsafe { proxy_get_property(path.as_ptr(), path.len(), data, size) })
    }

    fn set_property(&self, name: &str, value: &[u8]) {
        // SAFETY: as above.
        unsafe { proxy_set_property(name.as_ptr(), name.len(), value.as_ptr(), value.len()) };
    }

    fn declare_for_request(&self, name: &str) {
        const FUNCTION: &str = "declare_property";
        // `DeclarePropertyArguments`: 1 name, 5 span; the rest (bytes, read-only never) as it is.
        let Ok(length) = u8::try_from(name.len()) else { return };
        let mut arguments = vec![0x0a, length];
        arguments.extend(name.as_bytes());
        arguments.extend([0x28, SPAN_DOWNSTREAM_REQUEST]);
        // SAFETY: as above.
        let _ = fetched(|data, size| unsafe {
            proxy_call_foreign_function(
                FUNCTION.as_ptr(),
                FUNCTION.len(),
                arguments.as_ptr(),
                arguments.len(),
                data,
                size,
            )
        });
    }

    fn register_queue(&self, name: &str) -> Option<u32> {
        let mut id = 0;
        // SAFETY: as above.
        let status = unsafe { proxy_register_shared_queue(name.as_ptr(), name.len(), &raw mut id) };
        (status == OK).then_some(id)
    }

    fn enqueue(&self, queue: u32) -> bool {
        let message = [0_u8];
        // SAFETY: as above.
        unsafe { proxy_enqueue_shared_queue(queue, message.as_ptr(), message.len()) == OK }
    }

    fn dequeue(&self, queue: u32) -> bool {
        // SAFETY: as above.
        fetched(|data, size| unsafe { proxy_dequeue_shared_queue(queue, data, size) }).is_some()
    }

    fn set_effective_context(&self, context: u32) -> bool {
        // SAFETY: no pointers.
        unsafe { proxy_set_effective_context(context) == OK }
    }

    fn answer(&self, answer: &Answer) -> bool {
        let headers = serialized(&answer.headers);
        let details = format!("latchkey_{}", answer.outcome);
        // SAFETY: as above.
        let done = unsafe {
            proxy_send_local_response(
                u32::from(answer.status),
                details.as_ptr(),
                details.len(),
                answer.body.as_ptr(),
                answer.body.len(),
                headers.as_ptr(),
                headers.len(),
                NOT_GRPC,
            )
        };
        done == OK
    }

    fn resume_request(&self) {
        // SAFETY: no pointers.
        unsafe { proxy_continue_stream(STREAM_REQUEST) };
    }

    fn resume_response(&self) {
        // SAFETY: no pointers.
        unsafe { proxy_continue_stream(STREAM_RESPONSE) };
    }

    fn call(
        &self,
        cluster: &str,
        headers: Vec<(&str, &str)>,
        body: &[u8],
        timeout_ms: u32,
    ) -> Option<u32> {
        let timeout = Duration::from_millis(u64::from(timeout_ms));
        hostcalls::dispatch_http_call(cluster, headers, Some(body), Vec::new(), timeout).ok()
    }

    fn done(&self) {
        // SAFETY: no pointers.
        unsafe { proxy_done() };
    }

    fn define_metric(&self, kind: MetricType, name: &str) -> Option<u32> {
        let mut id = 0;
        // SAFETY: as above.
        let status =
            unsafe { proxy_define_metric(kind as u32, name.as_ptr(), name.len(), &raw mut id) };
        (status == OK).then_some(id)
    }

    fn add(&self, metric: u32, offset: i64) {
        // SAFETY: no pointers.
        unsafe { proxy_increment_metric(metric, offset) };
    }

    fn random(&self, bytes: &mut [u8]) -> bool {
        getrandom::fill(bytes).is_ok()
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn environment(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}
