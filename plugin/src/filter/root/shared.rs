//! What the streams of a root share with it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use latchkey_core::classify::{ATTEMPTS_HEADER, DETAILS_HEADER, OUTCOME_HEADER};
use latchkey_core::config::{Config, Execute};
use latchkey_core::fingerprint::Secret;
use latchkey_core::headers::{EXPOSE, ours};

use crate::answer::Answer;
use crate::filter::host::{Host, Map};
use crate::filter::mailbox::Mailbox;
use crate::filter::metrics::Metrics;

/// The filter state that tells a redirected request from a new one.
pub(in crate::filter) const PASS_STATE: &str = "latchkey_pass";

/// Where a stream stands that has submitted its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::filter) enum Course {
    /// It waits for what the root decides.
    Waiting,
    /// Its request was sent on by Envoy's router.
    Sent(Sent),
    /// Its answer is held until its outcome is stored.
    Held,
    /// Its request passed unguarded.
    Unguarded,
}

/// A request that was sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::filter) struct Sent {
    /// For which execution.
    pub(in crate::filter) execution: u64,
    /// The largest answer that is held.
    pub(in crate::filter) response_body_max_bytes: usize,
}

/// What the streams of a root share with it.
pub(in crate::filter) struct Shared {
    pub(in crate::filter) config: Config,
    pub(in crate::filter) secrets: Vec<Secret>,
    pub(in crate::filter) gateway: String,
    pub(in crate::filter) mailbox: Mailbox,
    pub(in crate::filter) metrics: Metrics,
    /// Whether any rule has Envoy's router execute.
    pub(in crate::filter) attaches: bool,
    /// Random, so that nobody else can write what a redirected request bears.
    worker: [u8; 16],
    courses: RefCell<BTreeMap<u32, Course>>,
    /// The content types of answers that Envoy gets wrong, by stream.
    types: RefCell<BTreeMap<u32, Option<Vec<u8>>>>,
    /// What the engine held when it last looked, and what was submitted since: executions and
    /// their bytes.
    held: Cell<(usize, u64)>,
}

// === impl Shared ===

impl Shared {
    pub(super) fn new(
        config: Config,
        secrets: Vec<Secret>,
        gateway: String,
        worker: [u8; 16],
        queue: Option<u32>,
        host: Rc<dyn Host>,
    ) -> Self {
        let attaches = config.rules.iter().any(|rule| rule.execute == Execute::Attached);
        let mailbox = Mailbox::default();
        mailbox.set_queue(queue);
        let (courses, types, held) = (RefCell::default(), RefCell::default(), Cell::default());
        let metrics = Metrics::define(host);
        Self { config, secrets, gateway, mailbox, metrics, attaches, worker, courses, types, held }
    }

    pub(in crate::filter) fn course(&self, stream: u32) -> Option<Course> {
        self.courses.try_borrow().ok()?.get(&stream).copied()
    }

    pub(in crate::filter) fn set_course(&self, stream: u32, course: Course) {
        if let Ok(mut courses) = self.courses.try_borrow_mut() {
            courses.insert(stream, course);
        }
    }

    /// The stream needs nothing more; where it stood.
    pub(in crate::filter) fn forget(&self, stream: u32) -> Option<Course> {
        let _ = self.take_type(stream);
        self.courses.try_borrow_mut().ok()?.remove(&stream)
    }

    /// Remembers the content type of an answer that Envoy gets wrong: it takes the type of an
    /// empty body away, and gives text/plain to a body without one (Envoy 1.40, local replies).
    pub(super) fn keep_type(&self, stream: u32, answer: &Answer) {
        let named = answer.headers.iter().find(|(name, _)| name == "content-type");
        if answer.body.is_empty() == named.is_some()
            && let Ok(mut types) = self.types.try_borrow_mut()
        {
            types.insert(stream, named.map(|(_, value)| value.clone()));
        }
    }

    /// The content type that a stream's answer has to have instead: none in `Some(None)`.
    pub(in crate::filter) fn take_type(&self, stream: u32) -> Option<Option<Vec<u8>>> {
        self.types.try_borrow_mut().ok()?.remove(&stream)
    }

    pub(in crate::filter) fn is_sent_on(&self, stream: u32) -> bool {
        matches!(self.course(stream), Some(Course::Sent(_) | Course::Unguarded))
    }

    /// Whether there is room for one more execution with a body of `size` bytes; takes it if so.
    /// Asked before the body is copied: a crowd of large ones must not outgrow the VM between
    /// two looks of the engine, which then counts exactly.
    pub(in crate::filter) fn make_room(&self, size: usize) -> bool {
        let limits = self.config.limits;
        let (executions, bytes) = self.held.get();
        let then = (executions.saturating_add(1), bytes.saturating_add(size as u64));
        let room = then.0 <= limits.executions_max as usize && then.1 <= limits.bytes_max;
        if room {
            self.held.set(then);
        }
        room
    }

    pub(super) fn set_held(&self, executions: usize, bytes: u64) {
        self.held.set((executions, bytes));
    }

    /// What a request bears that was sent on, wherever Envoy redirects it to.
    pub(super) fn pass(&self, sent: Sent) -> Vec<u8> {
        let max = sent.response_body_max_bytes as u64;
        [&self.worker[..], &sent.execution.to_be_bytes(), &max.to_be_bytes()].concat()
    }

    pub(in crate::filter) fn read_pass(&self, pass: &[u8]) -> Option<Sent> {
        let rest = pass.strip_prefix(&self.worker[..])?;
        let (execution, max) = rest.split_at_checked(8)?;
        let execution = u64::from_be_bytes(execution.try_into().ok()?);
        let max = u64::from_be_bytes(max.try_into().ok()?);
        Some(Sent { execution, response_body_max_bytes: usize::try_from(max).ok()? })
    }
}

/// Marks the upstream's answer, which Envoy holds, as the outcome of this very request.
pub(in crate::filter) fn mark_fresh(host: &dyn Host, unstored: bool, expose: bool) {
    let theirs = [
        ours::KEY,
        ours::ATTEMPT,
        ours::FENCE,
        ours::STATUS,
        OUTCOME_HEADER,
        DETAILS_HEADER,
        ATTEMPTS_HEADER,
    ];
    for name in theirs {
        host.remove_header(Map::ResponseHeaders, name);
    }
    host.set_header(Map::ResponseHeaders, ours::REPLAYED, b"false");
    if unstored {
        host.set_header(Map::ResponseHeaders, ours::STATUS, b"unstored");
    }
    if expose {
        host.add_header(Map::ResponseHeaders, EXPOSE.0, EXPOSE.1.as_bytes());
    }
}

/// Filter state for the access log: `%FILTER_STATE(wasm.latchkey_outcome:PLAIN)%`.
pub(in crate::filter) mod log {
    use super::Host;
    use crate::answer::{EXECUTED, REPLAYED};

    /// The rule's name.
    pub(in crate::filter) const RULE: &str = "latchkey_rule";
    /// What became of the request.
    pub(in crate::filter) const OUTCOME: &str = "latchkey_outcome";
    /// `true` or `false`.
    const REPLAY: &str = "latchkey_replayed";
    /// The number of the execution that this request caused.
    const ATTEMPT: &str = "latchkey_attempt";

    pub(in crate::filter) fn answered(host: &dyn Host, outcome: &str, attempt: Option<u32>) {
        let replayed: &[u8] = if outcome == REPLAYED { b"true" } else { b"false" };
        host.set_property(OUTCOME, outcome.as_bytes());
        host.set_property(REPLAY, replayed);
        if let Some(number) = attempt {
            self::attempt(host, number);
        }
    }

    pub(in crate::filter) fn executed(host: &dyn Host) {
        answered(host, EXECUTED, None);
    }

    pub(in crate::filter) fn attempt(host: &dyn Host, attempt: u32) {
        host.set_property(ATTEMPT, attempt.to_string().as_bytes());
    }
}
