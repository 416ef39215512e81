//! The host's functions (Proxy-Wasm ABI 0.2.1), without panics.
//!
//! The SDK's own wrappers panic on any status they do not expect, and its text getters on bytes
//! that are not UTF-8: a client could kill a worker's VM with one header. Here every failure is
//! an `Option` or a `bool`. Only call-outs are dispatched through the SDK, which has to know
//! their tokens.

#![expect(unsafe_code, reason = "the host's functions are foreign functions")]

use std::time::Duration;

use proxy_wasm::hostcalls;
use proxy_wasm::types::LogLevel;

/// Buffers of the host.
#[derive(Clone, Copy)]
pub(super) enum Buffer {
    RequestBody = 0,
    CallBody = 4,
    Configuration = 7,
}

/// Header maps of the host.
#[derive(Clone, Copy)]
pub(super) enum Map {
    RequestHeaders = 0,
    CallHeaders = 6,
}

/// Metric types of the host.
#[derive(Clone, Copy)]
pub(super) enum MetricType {
    Counter = 0,
    Gauge = 1,
}

/// The status of a host function that did what it was asked.
const OK: u32 = 0;

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

pub(super) fn warn(message: &str) {
    // SAFETY: the host reads `message` during the call. Here and below, pointers come from
    // live slices with their lengths, or to live variables that the host writes.
    unsafe { proxy_log(LogLevel::Warn as u32, message.as_ptr(), message.len()) };
}

pub(super) fn set_tick_period_ms(period: u32) {
    // SAFETY: no pointers.
    unsafe { proxy_set_tick_period_milliseconds(period) };
}

/// Up to `max` bytes of a buffer. A buffer that is not there is empty.
pub(super) fn buffer(buffer: Buffer, max: usize) -> Vec<u8> {
    // SAFETY: as above.
    fetched(|data, size| unsafe { proxy_get_buffer_bytes(buffer as u32, 0, max, data, size) })
        .unwrap_or_default()
}

/// All pairs of a map, in order. A map that is not there is empty.
pub(super) fn map(map: Map) -> Vec<(Vec<u8>, Vec<u8>)> {
    // SAFETY: as above.
    fetched(|data, size| unsafe { proxy_get_header_map_pairs(map as u32, data, size) })
        .and_then(|bytes| pairs(&bytes))
        .unwrap_or_default()
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

/// A property by its path, if the host has it.
pub(super) fn property(path: &[&str]) -> Option<Vec<u8>> {
    let path = path.join("\0");
    // SAFETY: as above.
    fetched(|data, size| unsafe { proxy_get_property(path.as_ptr(), path.len(), data, size) })
}

pub(super) fn register_queue(name: &str) -> Option<u32> {
    let mut id = 0;
    // SAFETY: as above.
    let status = unsafe { proxy_register_shared_queue(name.as_ptr(), name.len(), &raw mut id) };
    (status == OK).then_some(id)
}

/// Wakes whoever registered the queue, at its worker's next turn.
pub(super) fn enqueue(queue: u32) -> bool {
    let message = [0_u8];
    // SAFETY: as above.
    unsafe { proxy_enqueue_shared_queue(queue, message.as_ptr(), message.len()) == OK }
}

/// Takes a message off; false where there is none.
pub(super) fn dequeue(queue: u32) -> bool {
    // SAFETY: as above.
    fetched(|data, size| unsafe { proxy_dequeue_shared_queue(queue, data, size) }).is_some()
}

/// Makes `context` the one that the next host functions act on; false where it is gone.
pub(super) fn set_effective_context(context: u32) -> bool {
    // SAFETY: no pointers.
    unsafe { proxy_set_effective_context(context) == OK }
}

/// Answers the effective stream.
pub(super) fn answer(
    status: u16,
    headers: &[(String, Vec<u8>)],
    body: &[u8],
    details: &str,
) -> bool {
    let headers = serialized(headers);
    // SAFETY: as above.
    let done = unsafe {
        proxy_send_local_response(
            u32::from(status),
            details.as_ptr(),
            details.len(),
            body.as_ptr(),
            body.len(),
            headers.as_ptr(),
            headers.len(),
            NOT_GRPC,
        )
    };
    done == OK
}

/// Dispatches a call-out for the context whose callback runs, and gives its token.
pub(super) fn call(
    cluster: &str,
    headers: Vec<(&str, &str)>,
    body: &[u8],
    timeout_ms: u32,
) -> Option<u32> {
    let timeout = Duration::from_millis(u64::from(timeout_ms));
    hostcalls::dispatch_http_call(cluster, headers, Some(body), Vec::new(), timeout).ok()
}

/// Tells the host that a context which was not done is now. Only once, and only after the
/// context's `on_done` has answered false.
pub(super) fn done() {
    // SAFETY: no pointers.
    unsafe { proxy_done() };
}

pub(super) fn define_metric(kind: MetricType, name: &str) -> Option<u32> {
    let mut id = 0;
    // SAFETY: as above.
    let status =
        unsafe { proxy_define_metric(kind as u32, name.as_ptr(), name.len(), &raw mut id) };
    (status == OK).then_some(id)
}

/// Adds to a metric. A counter takes only what is above zero.
pub(super) fn add(metric: u32, offset: i64) {
    // SAFETY: no pointers.
    unsafe { proxy_increment_metric(metric, offset) };
}
