//! One request: read, then passed, refused or submitted.
//!
//! A stream is in exactly one [`Latch`]. It resumes nothing and answers at most once: the host
//! would execute a request twice, or crash, if a callback did both. From the moment it is
//! guarded, every callback says Pause, since one Continue would send the request upstream.

use std::rc::Rc;

use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;

use latchkey_core::config::ExecuteTo;
use latchkey_core::problem::Problem;
use latchkey_core::record::ExecutionId;

use super::host::{self, Buffer, Map};
use super::mailbox::Note;
use super::root::Shared;
use crate::answer::{self, Answer};
use crate::request::{self, Admission, Headers, Plan};

/// How far a stream has come.
enum Latch {
    /// Its headers are not here yet.
    New,
    /// None of our business.
    Passed,
    /// Its body is being buffered.
    Buffering { plan: Box<Plan>, cluster: Option<String>, size: usize },
    /// Submitted; the root answers it.
    Waiting,
    /// Answered here.
    Answered,
}

/// A request's context.
pub(super) struct Stream {
    id: u32,
    shared: Option<Rc<Shared>>,
    latch: Latch,
}

impl Stream {
    pub(super) fn new(id: u32, shared: Option<Rc<Shared>>) -> Self {
        Self { id, shared, latch: Latch::New }
    }

    fn refuse(&mut self, problem: &Problem) -> Action {
        let Answer { status, headers, body, details } = Answer::problem(problem);
        host::answer(status, &headers, &body, details);
        self.latch = Latch::Answered;
        Action::Pause
    }

    /// The request is whole: submit it.
    fn submit(&mut self) -> Action {
        let latch = std::mem::replace(&mut self.latch, Latch::Waiting);
        let (Latch::Buffering { plan, cluster, size }, Some(shared)) = (latch, self.shared.clone())
        else {
            return Action::Pause;
        };
        if !shared.make_room(size) {
            shared.mailbox.put(Note::Overloaded);
            return self.refuse(&answer::overloaded());
        }
        let body = if size == 0 { Vec::new() } else { host::buffer(Buffer::RequestBody, size) };
        let mut execution = [0; 16];
        // A short body would be another request; without randomness no execution has a name.
        if body.len() != size || getrandom::fill(&mut execution).is_err() {
            return self.refuse(&answer::overloaded());
        }
        let execution = ExecutionId(execution);
        let complete =
            plan.complete(&shared.config, &shared.secrets, execution, &shared.gateway, body);
        let Some(guarded) = complete else { return self.refuse(&answer::overloaded()) };
        shared.wait(self.id);
        let request = Box::new(guarded);
        shared.mailbox.put(Note::Submit { stream: self.id, request, cluster });
        Action::Pause
    }
}

/// The cluster that the route chose, if it leads to one.
fn route_cluster() -> Option<String> {
    host::property(&["xds", "cluster_name"])
        .and_then(|name| String::from_utf8(name).ok())
        .filter(|name| !name.is_empty())
}

impl Context for Stream {}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _: usize, end_of_stream: bool) -> Action {
        let Some(shared) = self.shared.clone() else {
            return self.refuse(&answer::overloaded());
        };
        match request::admit(&shared.config, &Headers(host::map(Map::RequestHeaders))) {
            Admission::Pass => {
                self.latch = Latch::Passed;
                Action::Continue
            }
            Admission::Refuse(problem) => self.refuse(&problem),
            Admission::Guard(plan) => {
                let rule = shared.config.rules.get(plan.rule);
                let direct = rule.is_some_and(|rule| rule.execute.to == ExecuteTo::Direct);
                let cluster = if direct { route_cluster() } else { None };
                if direct && cluster.is_none() {
                    // A redirect or a direct response: there is nothing to execute.
                    self.latch = Latch::Passed;
                    return Action::Continue;
                }
                self.latch = Latch::Buffering { plan, cluster, size: 0 };
                if end_of_stream { self.submit() } else { Action::Pause }
            }
        }
    }

    /// `size` counts what is buffered so far.
    fn on_http_request_body(&mut self, size: usize, end_of_stream: bool) -> Action {
        match (&mut self.latch, &self.shared) {
            (Latch::Passed, _) => Action::Continue,
            (Latch::Buffering { plan, size: seen, .. }, Some(shared)) => {
                *seen = size;
                let rule = shared.config.rules.get(plan.rule);
                match rule.filter(|rule| size > rule.request_body_max_bytes as usize) {
                    Some(rule) => {
                        let problem = request::too_large(rule);
                        self.refuse(&problem)
                    }
                    None if end_of_stream => self.submit(),
                    None => Action::Pause,
                }
            }
            (
                Latch::New | Latch::Buffering { .. } | Latch::Waiting | Latch::Answered,
                Some(_) | None,
            ) => Action::Pause,
        }
    }

    /// Trailers end the body without another word.
    fn on_http_request_trailers(&mut self, _: usize) -> Action {
        match self.latch {
            Latch::Passed => Action::Continue,
            Latch::Buffering { .. } => self.submit(),
            Latch::New | Latch::Waiting | Latch::Answered => Action::Pause,
        }
    }

    /// The stream is over. If nobody has answered it, its client has hung up.
    fn on_log(&mut self) {
        if let (Latch::Waiting, Some(shared)) = (&self.latch, &self.shared)
            && shared.stop_waiting(self.id)
        {
            shared.mailbox.put(Note::Gone { stream: self.id });
        }
    }
}
