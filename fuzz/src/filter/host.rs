//! A host that keeps Envoy's rules and says when the filter breaks one: what it resumes or
//! answers twice, or at a moment when Envoy would execute a request twice or crash.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

use latchkey_plugin::answer::Answer;
use latchkey_plugin::filter::host::{Buffer, Host, Map, MetricType};

use super::stream::{Fate, Model, Pairs, Reply};

/// Whose callback runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Running {
    #[default]
    Nobody,
    Root(u32),
    Stream(u32),
    /// A stream's last words: it can neither be answered nor resumed any more.
    Log(u32),
}

/// A call-out that is under way.
pub(super) struct Call {
    pub(super) root: u32,
    pub(super) cluster: String,
    pub(super) headers: Pairs,
    pub(super) body: Vec<u8>,
    pub(super) until_us: u64,
}

/// A root's context.
#[derive(Debug, Default)]
pub(super) struct RootModel {
    pub(super) queue: u32,
    pub(super) messages: u32,
    pub(super) owes_done: bool,
    pub(super) done: bool,
    metrics: Vec<(String, MetricType, i64)>,
}

/// What fails for now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub(super) dispatch: bool,
    pub(super) enqueue: bool,
    pub(super) random: bool,
    pub(super) buffers: bool,
}

/// Envoy.
#[derive(Default)]
pub(super) struct Envoy {
    pub(super) now_us: Cell<u64>,
    pub(super) configuration: RefCell<Vec<u8>>,
    pub(super) streams: RefCell<BTreeMap<u32, Model>>,
    pub(super) roots: RefCell<BTreeMap<u32, RootModel>>,
    pub(super) calls: RefCell<BTreeMap<u32, Call>>,
    /// Streams whose answers come by the filter once its callback has returned.
    pub(super) answered: RefCell<VecDeque<u32>>,
    pub(super) faults: Cell<Faults>,
    /// The call-out whose answer is being delivered.
    pub(super) ended: RefCell<(Pairs, Vec<u8>)>,
    running: Cell<Running>,
    effective: Cell<u32>,
    last_id: Cell<u32>,
    seed: Cell<u64>,
}

// === impl Envoy ===

impl Envoy {
    pub(super) fn fresh_id(&self) -> u32 {
        self.last_id.set(self.last_id.get() + 1);
        self.last_id.get()
    }

    /// Runs a callback.
    pub(super) fn enter<T>(&self, running: Running, callback: impl FnOnce() -> T) -> T {
        let (Running::Root(context) | Running::Stream(context) | Running::Log(context)) = running
        else {
            panic!("somebody's callback runs")
        };
        self.effective.set(context);
        self.running.set(running);
        let out = callback();
        self.running.set(Running::Nobody);
        out
    }

    /// The context that functions act on is a stream's, and that stream is there.
    fn stream<T>(&self, act: impl FnOnce(&mut Model) -> T) -> T {
        let mut streams = self.streams.borrow_mut();
        act(streams.get_mut(&self.effective.get()).expect("this needs a stream that is there"))
    }

    fn root<T>(&self, act: impl FnOnce(&mut RootModel) -> T) -> T {
        let Running::Root(id) = self.running.get() else { panic!("this is a root's to do") };
        act(self.roots.borrow_mut().get_mut(&id).expect("a root whose callback runs is there"))
    }

    /// What the gauges of a root say.
    pub(super) fn gauges(&self, root: u32) -> i64 {
        let roots = self.roots.borrow();
        let gauges = roots[&root].metrics.iter().filter(|(_, kind, _)| *kind == MetricType::Gauge);
        gauges.map(|(_, _, sum)| sum).sum()
    }

    fn read(&self, bytes: &[u8], max: usize) -> Vec<u8> {
        let size = bytes.len().min(max);
        let lost = usize::from(self.faults.get().buffers && size > 0);
        bytes[..size - lost].to_vec()
    }

    /// A map that may be written now.
    fn write(&self, map: Map, act: impl FnOnce(&mut Pairs)) {
        self.stream(|stream| match map {
            Map::RequestHeaders => {
                assert_eq!(stream.fate, Fate::Open, "the request has gone on");
                act(&mut stream.request);
            }
            Map::ResponseHeaders => {
                let ours = stream.fate == Fate::Answered;
                assert!(ours || stream.reply == Reply::Open, "the answer has gone on");
                act(&mut stream.response);
            }
            Map::CallHeaders => panic!("the answer of a call-out cannot be written"),
        });
    }

    fn of_root(&self) -> bool {
        matches!(self.running.get(), Running::Root(_))
    }
}

impl Host for Envoy {
    fn warn(&self, message: &str) {
        assert!(message.starts_with("latchkey: "), "operators see who says {message}");
    }

    fn set_tick_period_ms(&self, _: u32) {}

    fn buffer(&self, buffer: Buffer, max: usize) -> Vec<u8> {
        match buffer {
            Buffer::Configuration => self.configuration.borrow().clone(),
            Buffer::CallBody => self.read(&self.ended.borrow().1, max),
            Buffer::RequestBody => self.stream(|stream| self.read(&stream.body, max)),
            Buffer::ResponseBody => self.stream(|stream| self.read(&stream.response_body, max)),
        }
    }

    fn map(&self, map: Map) -> Pairs {
        match map {
            Map::CallHeaders => self.ended.borrow().0.clone(),
            Map::RequestHeaders => self.stream(|stream| stream.request.clone()),
            Map::ResponseHeaders => self.stream(|stream| stream.response.clone()),
        }
    }

    fn set_header(&self, map: Map, name: &str, value: &[u8]) {
        self.write(map, |pairs| {
            pairs.retain(|(it, _)| it != name.as_bytes());
            pairs.push((name.as_bytes().to_vec(), value.to_vec()));
        });
    }

    fn add_header(&self, map: Map, name: &str, value: &[u8]) {
        self.write(map, |pairs| pairs.push((name.as_bytes().to_vec(), value.to_vec())));
    }

    fn remove_header(&self, map: Map, name: &str) {
        self.write(map, |pairs| pairs.retain(|(it, _)| it != name.as_bytes()));
    }

    fn property(&self, path: &[&str]) -> Option<Vec<u8>> {
        match path {
            ["xds", "node", "id"] => None,
            ["xds", "cluster_name"] => self.stream(|stream| stream.cluster).map(Into::into),
            ["xds", "route_metadata", ..] => self.stream(|stream| stream.rule).map(Into::into),
            ["response", "code_details"] => Some(self.stream(|stream| stream.details.clone())),
            ["upstream", "request_attempt_count"] => {
                Some(self.stream(|stream| stream.attempts.to_le_bytes().to_vec()))
            }
            [name] => self.stream(|stream| stream.state.get(*name).cloned()),
            _ => None,
        }
    }

    fn set_property(&self, name: &str, value: &[u8]) {
        self.stream(|stream| stream.state.insert(name.to_owned(), value.to_vec()));
    }

    fn declare_for_request(&self, name: &str) {
        self.stream(|stream| {
            assert!(!stream.state.contains_key(name), "what is set cannot be declared any more");
            stream.declared.insert(name.to_owned());
        });
    }

    fn register_queue(&self, name: &str) -> Option<u32> {
        assert!(name.len() > 16, "other VMs have queues too");
        let queue = self.fresh_id();
        self.root(|root| root.queue = queue);
        Some(queue)
    }

    fn enqueue(&self, queue: u32) -> bool {
        let mut roots = self.roots.borrow_mut();
        let root = roots.values_mut().find(|root| root.queue == queue);
        let root = root.filter(|_| !self.faults.get().enqueue);
        root.map(|root| root.messages += 1).is_some()
    }

    fn dequeue(&self, queue: u32) -> bool {
        self.root(|root| {
            assert_eq!(root.queue, queue, "this queue is another's");
            let is_there = root.messages > 0;
            root.messages = root.messages.saturating_sub(1);
            is_there
        })
    }

    fn set_effective_context(&self, context: u32) -> bool {
        let known = self.roots.borrow().contains_key(&context)
            || self.streams.borrow().contains_key(&context);
        if known {
            self.effective.set(context);
        }
        known
    }

    fn answer(&self, answer: &Answer) -> bool {
        assert!((200..=599).contains(&answer.status), "Envoy makes nonsense of {}", answer.status);
        let id = self.effective.get();
        let own = self.running.get() == Running::Stream(id);
        assert!(own || self.of_root(), "a stream answers itself, and nobody when it is over");
        if self.stream(|stream| stream.answered(answer)) {
            self.answered.borrow_mut().push_back(id);
        }
        true
    }

    fn resume_request(&self) {
        assert!(self.of_root(), "resumed within its own callback, it goes upstream twice");
        self.stream(Model::resumed);
    }

    fn resume_response(&self) {
        assert!(self.of_root(), "resumed within its own callback, its headers are sent twice");
        self.stream(Model::released);
    }

    fn call(
        &self,
        cluster: &str,
        headers: Vec<(&str, &str)>,
        body: &[u8],
        timeout_ms: u32,
    ) -> Option<u32> {
        let Running::Root(root) = self.running.get() else {
            panic!("the answer of a stream's call-out is dropped when its client hangs up")
        };
        if self.faults.get().dispatch || cluster == "nowhere" {
            return None;
        }
        let bytes = |text: &str| text.as_bytes().to_vec();
        let headers = headers.into_iter().map(|(name, value)| (bytes(name), bytes(value)));
        let until_us = self.now_us.get() + u64::from(timeout_ms) * 1_000;
        let (cluster, headers, body) = (cluster.to_owned(), headers.collect(), body.to_vec());
        let token = self.fresh_id();
        let call = Call { root, cluster, headers, body, until_us };
        self.calls.borrow_mut().insert(token, call);
        Some(token)
    }

    fn done(&self) {
        let id = self.effective.get();
        assert!(!self.calls.borrow().values().any(|call| call.root == id), "it is cancelled");
        self.root(|root| {
            assert!(root.owes_done && !root.done, "done is said once, when it is owed");
            root.done = true;
        });
        assert_eq!(
            self.running.get(),
            Running::Root(id),
            "this root is done, and no other context"
        );
    }

    fn define_metric(&self, kind: MetricType, name: &str) -> Option<u32> {
        self.root(|root| {
            assert!(root.metrics.iter().all(|(it, ..)| it != name), "{name} is defined twice");
            root.metrics.push((name.to_owned(), kind, 0));
            u32::try_from(root.metrics.len() - 1).ok()
        })
    }

    fn add(&self, metric: u32, offset: i64) {
        // Its own id in each root: a stream counts for the root that it belongs to.
        let root = match self.running.get() {
            Running::Root(root) => root,
            Running::Stream(id) | Running::Log(id) => self.streams.borrow()[&id].root,
            Running::Nobody => panic!("nobody counts"),
        };
        let mut roots = self.roots.borrow_mut();
        let root = roots.get_mut(&root).expect("whoever counts is there");
        let (_, kind, sum) = &mut root.metrics[metric as usize];
        assert!(*kind == MetricType::Gauge || offset > 0, "a counter only rises");
        *sum += offset;
        assert!(*sum >= 0, "there is less than nothing under way");
    }

    fn random(&self, bytes: &mut [u8]) -> bool {
        for byte in bytes {
            self.seed.set(self.seed.get().wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1));
            *byte = (self.seed.get() >> 56) as u8;
        }
        !self.faults.get().random
    }

    fn now_us(&self) -> u64 {
        self.now_us.get()
    }

    fn environment(&self, _: &str) -> Option<String> {
        Some("a secret of enough bytes".to_owned())
    }
}
