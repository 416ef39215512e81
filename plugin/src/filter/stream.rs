//! One request: read, then passed, refused or submitted; where it is sent on by Envoy's router,
//! also its answer.
//!
//! A stream is in exactly one [`Latch`]. It resumes nothing by itself and answers at most once:
//! the host would execute a request twice, or crash, if a callback did both. From the moment it
//! is guarded, every callback says Pause until the root has decided, since one Continue would
//! send the request upstream. What the root decides, it writes into [`Shared`]; the stream looks
//! there when its next callback comes.

use std::rc::Rc;

use latchkey_core::classify::{ATTEMPTS_HEADER, DETAILS_HEADER};
use latchkey_core::config::{Execute, ExecuteTo, Rule};
use latchkey_core::headers::{EXPOSE, ours};
use latchkey_core::problem::Problem;
use latchkey_core::record::ExecutionId;

use super::host::{Buffer, Host, Map, Turn};
use super::mailbox::Note;
use super::root::{Course, PASS_STATE, Sent, Shared, log, mark_fresh};
use crate::answer::{self, Answer};
use crate::engine::{CallAnswer, Metric};
use crate::request::{self, Admission, Attributes, Decision, Headers, Plan};

/// How far a stream has come.
enum Latch {
    /// Its headers are not here yet.
    New,
    /// None of our business, or not any more.
    Passed,
    /// It passes although it has a key; its answer has to say so.
    Bypassed,
    /// Its body is being buffered.
    Buffering { plan: Box<Plan>, cluster: Option<String>, size: usize },
    /// Submitted; the root decides.
    Submitted,
    /// Its answer is being buffered.
    Responding { sent: Sent, answer: Response },
    /// Its answer is held; the root lets it go or replaces it.
    Held,
    /// Answered.
    Answered,
}

/// An answer of which the headers are here.
struct Response {
    status: Option<u16>,
    headers: Vec<(String, Vec<u8>)>,
    size: usize,
}

/// A request's context.
pub struct Stream {
    id: u32,
    host: Rc<dyn Host>,
    shared: Option<Rc<Shared>>,
    latch: Latch,
}

struct HostAttributes<'a>(&'a dyn Host);

impl Attributes for HostAttributes<'_> {
    fn get(&self, path: &[&str]) -> Option<Vec<u8>> {
        self.0.property(path)
    }
}

// === impl Stream ===

impl Stream {
    pub(super) fn new(id: u32, host: Rc<dyn Host>, shared: Option<Rc<Shared>>) -> Self {
        Self { id, host, shared, latch: Latch::New }
    }

    /// The request's headers are here.
    pub fn request_headers(&mut self, end_of_stream: bool) -> Turn {
        let Some(shared) = self.shared.clone() else {
            return self.refuse(&answer::overloaded());
        };
        if let Some(sent) = self.redirected(&shared) {
            shared.set_course(self.id, Course::Sent(sent));
            let note = Note::Adopted { execution: sent.execution, stream: self.id };
            shared.mailbox.put(self.host.as_ref(), note);
            self.latch = Latch::Submitted;
            return Turn::Continue;
        }
        let headers = Headers(self.host.map(Map::RequestHeaders));
        let attributes = HostAttributes(self.host.as_ref());
        let Admission { rule, decision } = request::admit(&shared.config, &headers, &attributes);
        let rule = rule.and_then(|index| shared.config.rules.get(index));
        if let Some(rule) = rule {
            self.host.set_property(log::RULE, rule.name.as_bytes());
        }
        match (decision, rule) {
            (Decision::Pass, _) => self.pass(Latch::Passed, None),
            (Decision::Unkeyed, _) => {
                shared.metrics.count(Metric::Unkeyed);
                self.pass(Latch::Passed, Some("unkeyed"))
            }
            (Decision::Bypass, _) => {
                shared.metrics.count(Metric::Bypassed);
                self.pass(Latch::Bypassed, Some("bypassed"))
            }
            (Decision::Refuse(problem), _) => self.refuse(&problem),
            (Decision::Guard(_), None) => self.refuse(&answer::overloaded()),
            (Decision::Guard(plan), Some(rule)) => self.guard(plan, rule, end_of_stream),
        }
    }

    fn guard(&mut self, plan: Box<Plan>, rule: &Rule, end_of_stream: bool) -> Turn {
        let direct = match &rule.execute {
            Execute::Detached { to: ExecuteTo::Direct, .. } => true,
            Execute::Detached { to: ExecuteTo::Cluster(_), .. } | Execute::Attached => false,
        };
        let cluster = if direct { route_cluster(self.host.as_ref()) } else { None };
        if direct && cluster.is_none() {
            // A redirect or a direct response: there is nothing to execute.
            return self.pass(Latch::Passed, None);
        }
        self.latch = Latch::Buffering { plan, cluster, size: 0 };
        if end_of_stream { self.submit() } else { Turn::Pause }
    }

    fn pass(&mut self, latch: Latch, outcome: Option<&str>) -> Turn {
        if let Some(outcome) = outcome {
            self.host.set_property(log::OUTCOME, outcome.as_bytes());
        }
        self.latch = latch;
        Turn::Continue
    }

    /// The execution whose request Envoy has redirected to this stream, if it has.
    fn redirected(&self, shared: &Shared) -> Option<Sent> {
        // Asking costs every request; only attached executions are redirected.
        if !shared.attaches {
            return None;
        }
        shared.read_pass(&self.host.property(&[PASS_STATE])?)
    }

    /// More of the request's body is here: `size` bytes in all.
    pub fn request_body(&mut self, size: usize, end_of_stream: bool) -> Turn {
        match (&mut self.latch, &self.shared) {
            (Latch::Passed | Latch::Bypassed, _) => Turn::Continue,
            (Latch::Buffering { plan, size: seen, .. }, Some(shared)) => {
                *seen = size;
                let rule = shared.config.rules.get(plan.rule());
                match rule.filter(|rule| size > rule.request_body_max_bytes as usize) {
                    Some(rule) => {
                        let problem = request::too_large(rule);
                        self.refuse(&problem)
                    }
                    None if end_of_stream => self.submit(),
                    None => Turn::Pause,
                }
            }
            (Latch::Submitted, Some(shared)) if shared.is_sent_on(self.id) => Turn::Continue,
            (
                Latch::New
                | Latch::Buffering { .. }
                | Latch::Submitted
                | Latch::Responding { .. }
                | Latch::Held
                | Latch::Answered,
                Some(_) | None,
            ) => Turn::Pause,
        }
    }

    /// The request's trailers are here: they end the body without another word.
    pub fn request_trailers(&mut self) -> Turn {
        match (&self.latch, &self.shared) {
            (Latch::Passed | Latch::Bypassed, _) => Turn::Continue,
            (Latch::Buffering { .. }, _) => self.submit(),
            (Latch::Submitted, Some(shared)) if shared.is_sent_on(self.id) => Turn::Continue,
            (
                Latch::New
                | Latch::Submitted
                | Latch::Responding { .. }
                | Latch::Held
                | Latch::Answered,
                Some(_) | None,
            ) => Turn::Pause,
        }
    }

    fn refuse(&mut self, problem: &Problem) -> Turn {
        if let Some(shared) = &self.shared {
            shared.metrics.count(Metric::Refused);
        }
        let answer = Answer::problem(problem).exposed();
        self.host.set_property(log::OUTCOME, answer.outcome.as_bytes());
        self.latch = Latch::Answered;
        self.host.answer(&answer);
        Turn::Pause
    }

    /// The request is whole: submit it.
    fn submit(&mut self) -> Turn {
        let latch = std::mem::replace(&mut self.latch, Latch::Submitted);
        let (Latch::Buffering { plan, cluster, size }, Some(shared)) = (latch, self.shared.clone())
        else {
            return Turn::Pause;
        };
        if !shared.make_room(size) {
            shared.mailbox.put(self.host.as_ref(), Note::Overloaded);
            return self.refuse(&answer::overloaded());
        }
        let body = if size == 0 { Vec::new() } else { self.host.buffer(Buffer::RequestBody, size) };
        let mut execution = [0; 16];
        // A short body would be another request; without randomness no execution has a name.
        if body.len() != size || !self.host.random(&mut execution) {
            return self.refuse(&answer::overloaded());
        }
        let execution = ExecutionId(execution);
        let complete =
            plan.complete(&shared.config, &shared.secrets, execution, &shared.gateway, body);
        let Some(guarded) = complete else { return self.refuse(&answer::overloaded()) };
        shared.set_course(self.id, Course::Waiting);
        let request = Box::new(guarded);
        let note = Note::Submit { stream: self.id, request, cluster };
        shared.mailbox.put(self.host.as_ref(), note);
        Turn::Pause
    }

    /// The response's headers are here.
    pub fn response_headers(&mut self, end_of_stream: bool) -> Turn {
        if let (Latch::Submitted, Some(shared)) = (&self.latch, self.shared.clone()) {
            match shared.course(self.id) {
                Some(Course::Sent(sent)) => return self.respond(sent, end_of_stream),
                Some(Course::Unguarded) => self.latch = Latch::Bypassed,
                Some(Course::Waiting | Course::Held) | None => self.mend_type(&shared),
            }
        }
        if let Latch::Bypassed = self.latch {
            self.host.set_header(Map::ResponseHeaders, ours::STATUS, b"bypassed");
            self.host.add_header(Map::ResponseHeaders, EXPOSE.0, EXPOSE.1.as_bytes());
        }
        Turn::Continue
    }

    /// Our own answer comes by: its content type is as it was given again.
    fn mend_type(&self, shared: &Shared) {
        match shared.take_type(self.id) {
            Some(Some(value)) => {
                self.host.set_header(Map::ResponseHeaders, "content-type", &value);
            }
            Some(None) => self.host.remove_header(Map::ResponseHeaders, "content-type"),
            None => {}
        }
    }

    /// An answer to a request that was sent on. An answer that is too large to be held, or that
    /// has no end, goes to the client while its outcome is being stored.
    fn respond(&mut self, sent: Sent, end_of_stream: bool) -> Turn {
        let response = self.response();
        let streams = answer::is_event_stream(&response.headers) || {
            let length = response.headers.iter().find(|(name, _)| name == "content-length");
            let length =
                length.and_then(|(_, value)| std::str::from_utf8(value).ok()?.parse().ok());
            length.is_some_and(|length: usize| length > sent.response_body_max_bytes)
        };
        self.latch = Latch::Responding { sent, answer: response };
        if streams && !end_of_stream {
            self.stream_through()
        } else if end_of_stream {
            self.hold()
        } else {
            Turn::Pause
        }
    }

    /// The answer's headers, with Envoy's word on who answered in place of the upstream's.
    fn response(&self) -> Response {
        let pairs = self.host.map(Map::ResponseHeaders);
        let status = pairs
            .iter()
            .find(|(name, _)| name == b":status")
            .and_then(|(_, value)| std::str::from_utf8(value).ok()?.parse().ok());
        let mut headers: Vec<_> = pairs
            .into_iter()
            .filter(|(name, _)| !name.starts_with(b":") && !name.starts_with(b"x-latchkey-"))
            .map(|(name, value)| (String::from_utf8_lossy(&name).into_owned(), value))
            .collect();
        headers.extend(self.who_answered());
        Response { status, headers, size: 0 }
    }

    fn who_answered(&self) -> Vec<(String, Vec<u8>)> {
        let details = self.host.property(&["response", "code_details"]).unwrap_or_default();
        // A number of the host's: eight bytes, little-endian.
        let attempts = self
            .host
            .property(&["upstream", "request_attempt_count"])
            .and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
        let attempts = attempts.map_or_else(Vec::new, |count| count.to_string().into_bytes());
        vec![(DETAILS_HEADER.to_owned(), details), (ATTEMPTS_HEADER.to_owned(), attempts)]
    }

    /// More of the response's body is here: `size` bytes in all.
    pub fn response_body(&mut self, size: usize, end_of_stream: bool) -> Turn {
        match (&mut self.latch, &self.shared) {
            (Latch::Responding { sent, answer }, Some(_)) => {
                answer.size = size;
                if size > sent.response_body_max_bytes {
                    self.stream_through()
                } else if end_of_stream {
                    self.hold()
                } else {
                    Turn::Pause
                }
            }
            (Latch::Held, _) => self.held(),
            (
                Latch::New
                | Latch::Passed
                | Latch::Bypassed
                | Latch::Buffering { .. }
                | Latch::Submitted
                | Latch::Responding { .. }
                | Latch::Answered,
                _,
            ) => Turn::Continue,
        }
    }

    /// The response's trailers are here: they end the body without another word.
    pub fn response_trailers(&mut self) -> Turn {
        match self.latch {
            Latch::Responding { .. } => self.hold(),
            Latch::Held => self.held(),
            Latch::New
            | Latch::Passed
            | Latch::Bypassed
            | Latch::Buffering { .. }
            | Latch::Submitted
            | Latch::Answered => Turn::Continue,
        }
    }

    /// Whether an answer that was held still is.
    fn held(&mut self) -> Turn {
        let course = self.shared.as_ref().and_then(|shared| shared.course(self.id));
        match course {
            Some(Course::Held) => Turn::Pause,
            Some(Course::Waiting | Course::Sent(_) | Course::Unguarded) | None => {
                self.latch = Latch::Passed;
                Turn::Continue
            }
        }
    }

    /// The answer is whole: it is held until its outcome is stored.
    fn hold(&mut self) -> Turn {
        let latch = std::mem::replace(&mut self.latch, Latch::Held);
        let (Latch::Responding { sent, answer }, Some(shared)) = (latch, &self.shared) else {
            return Turn::Pause;
        };
        let execution = sent.execution;
        let Response { status, headers, size } = answer;
        let body =
            if size == 0 { Vec::new() } else { self.host.buffer(Buffer::ResponseBody, size) };
        let whole = body.len() == size;
        shared.set_course(self.id, Course::Held);
        let answer = CallAnswer::Ended { status, headers, body };
        let note = Note::Responded { execution, answer, whole, held: true };
        shared.mailbox.put(self.host.as_ref(), note);
        Turn::Pause
    }

    /// The answer goes to the client as it comes. What is stored says only that there was one.
    fn stream_through(&mut self) -> Turn {
        let latch = std::mem::replace(&mut self.latch, Latch::Passed);
        let (Latch::Responding { sent, answer }, Some(shared)) = (latch, &self.shared) else {
            return Turn::Continue;
        };
        let execution = sent.execution;
        shared.forget(self.id);
        log::executed(self.host.as_ref());
        mark_fresh(self.host.as_ref(), true, true);
        let Response { status, headers, .. } = answer;
        let answer = CallAnswer::Ended { status, headers, body: Vec::new() };
        let note = Note::Responded { execution, answer, whole: false, held: false };
        shared.mailbox.put(self.host.as_ref(), note);
        Turn::Continue
    }

    /// The stream is over. If nobody has answered it, its client has hung up, or Envoy has
    /// answered in our place.
    pub fn over(&mut self) {
        let Some(shared) = self.shared.clone() else { return };
        let latch = std::mem::replace(&mut self.latch, Latch::Answered);
        let note = match (latch, shared.forget(self.id)) {
            (Latch::Responding { sent: Sent { execution, .. }, answer }, _) => {
                // The upstream's answer was more than Envoy's buffers hold: what it was is known.
                let known = self.details() == b"response_payload_too_large";
                let Response { status, headers, .. } = answer;
                let status = status.filter(|_| known);
                let answer = CallAnswer::Ended { status, headers, body: Vec::new() };
                Note::Responded { execution, answer, whole: false, held: false }
            }
            (Latch::Submitted, Some(Course::Sent(Sent { execution, .. }))) => {
                if self.details() == b"internal_redirect" {
                    Note::Redirected { execution }
                } else {
                    let answer =
                        CallAnswer::Ended { status: None, headers: Vec::new(), body: Vec::new() };
                    Note::Responded { execution, answer, whole: true, held: false }
                }
            }
            (Latch::Submitted, Some(Course::Waiting)) | (Latch::Held, Some(Course::Held)) => {
                Note::Gone { stream: self.id }
            }
            (
                Latch::New
                | Latch::Passed
                | Latch::Bypassed
                | Latch::Buffering { .. }
                | Latch::Submitted
                | Latch::Held
                | Latch::Answered,
                _,
            ) => return,
        };
        shared.mailbox.put(self.host.as_ref(), note);
    }

    fn details(&self) -> Vec<u8> {
        self.host.property(&["response", "code_details"]).unwrap_or_default()
    }
}

/// The cluster that the route chose, if it leads to one.
fn route_cluster(host: &dyn Host) -> Option<String> {
    host.property(&["xds", "cluster_name"])
        .and_then(|name| String::from_utf8(name).ok())
        .filter(|name| !name.is_empty())
}
