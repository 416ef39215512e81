//! What Envoy knows of a stream, and what a filter may do with it at which moment.

use std::collections::{BTreeMap, BTreeSet};

use latchkey_plugin::answer::Answer;
use latchkey_plugin::filter::host::Turn;

pub(super) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// What became of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fate {
    /// A callback is running, or the filter holds it.
    #[default]
    Open,
    /// The router has it.
    Forwarded,
    /// The filter has answered it.
    Answered,
}

/// What became of an answer of the router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Reply {
    /// There is none yet.
    #[default]
    None,
    /// A callback of it is running, or the filter holds it.
    Open,
    /// The client has it, or is getting it.
    Told,
}

/// A stream's context.
#[derive(Debug, Default)]
pub(super) struct Model {
    /// The root that it belongs to.
    pub(super) root: u32,
    pub(super) fate: Fate,
    pub(super) reply: Reply,
    /// Whether the request, or else the response, waits for the filter.
    pub(super) paused: bool,
    pub(super) request: Pairs,
    /// What is buffered of the request's body, and the piece that is being shown.
    pub(super) body: Vec<u8>,
    /// The body until now.
    pub(super) whole_body: Vec<u8>,
    pub(super) request_is_whole: bool,
    pub(super) response: Pairs,
    pub(super) response_body: Vec<u8>,
    pub(super) response_is_whole: bool,
    /// What the filter answered.
    pub(super) answer: Option<Answer>,
    /// `response.code_details`.
    pub(super) details: Vec<u8>,
    /// `upstream.request_attempt_count`.
    pub(super) attempts: u64,
    /// `xds.cluster_name`.
    pub(super) cluster: Option<&'static str>,
    /// The rule that the route names.
    pub(super) rule: Option<&'static str>,
    /// Filter state, and the names of what outlives redirects of it.
    pub(super) state: BTreeMap<String, Vec<u8>>,
    pub(super) declared: BTreeSet<String>,
    /// Whether the filter may not let it pass on its own.
    pub(super) is_guarded: bool,
}

/// The filter state by which the filter knows a redirected request.
pub(super) const PASS: &str = "latchkey_pass";

// === impl Model ===

impl Model {
    pub(super) fn request_header(&self, name: &str) -> Option<&[u8]> {
        header(&self.request, name)
    }

    /// Whether the filter sent it on under a claim.
    pub(super) fn is_claimed(&self) -> bool {
        self.state.contains_key(PASS)
    }

    /// Whether its client has all it will get.
    pub(super) fn is_over(&self) -> bool {
        match self.fate {
            Fate::Open => false,
            Fate::Answered => true,
            Fate::Forwarded => self.reply == Reply::Told && self.response_is_whole,
        }
    }

    /// A request callback has returned; true where the request goes on by that.
    pub(super) fn request_turn(&mut self, turn: Turn) -> bool {
        match (turn, self.fate) {
            (Turn::Continue, Fate::Open) => {
                assert!(!self.paused, "one Continue sends upstream what was held");
                let passes = !self.is_guarded || self.is_claimed();
                assert!(passes, "a request with a key passes unguarded");
                self.fate = Fate::Forwarded;
                self.body.clear();
                return true;
            }
            (Turn::Continue, Fate::Forwarded) => self.body.clear(),
            (Turn::Continue, Fate::Answered) => panic!("answered, and sent upstream too"),
            (Turn::Pause, Fate::Open) => self.paused = true,
            (Turn::Pause, Fate::Forwarded) => panic!("held back, though nobody will resume it"),
            (Turn::Pause, Fate::Answered) => {}
        }
        false
    }

    /// A response callback has returned. A guarded answer of up to `held_max` bytes goes to
    /// nobody before it is stored.
    pub(super) fn response_turn(&mut self, turn: Turn, held_max: usize) {
        if self.fate == Fate::Answered || !self.is_claimed() {
            assert_eq!(turn, Turn::Continue, "nobody will let this answer go");
            self.reply = Reply::Told;
            return;
        }
        match (turn, self.reply) {
            (Turn::Continue, Reply::Open) => {
                let length = header(&self.response, "content-length");
                let length = length.and_then(|it| std::str::from_utf8(it).ok()?.parse().ok());
                let is_stream = header(&self.response, "content-type")
                    .is_some_and(|it| it.starts_with(b"text/event-stream"));
                let streams = is_stream
                    || self.response_body.len() > held_max
                    || length.is_some_and(|length: usize| length > held_max);
                assert!(streams, "told before it was stored");
                self.reply = Reply::Told;
                self.paused = false;
                self.response_body.clear();
            }
            (Turn::Continue, Reply::Told) => self.response_body.clear(),
            (Turn::Pause, Reply::Open) => self.paused = true,
            (Turn::Pause, Reply::Told) => panic!("the rest of an answer is held back"),
            (_, Reply::None) => panic!("there is no answer"),
        }
    }

    /// The filter answers; true where its answer comes by the filter.
    pub(super) fn answered(&mut self, answer: &Answer) -> bool {
        let comes_by = match (self.fate, self.reply) {
            (Fate::Open, Reply::None) => {
                self.fate = Fate::Answered;
                true
            }
            (Fate::Forwarded, Reply::Open) => {
                assert!(self.paused, "answered while an answer is being looked at");
                (self.reply, self.response_is_whole) = (Reply::Told, true);
                false
            }
            other => panic!("answered in {other:?}: Envoy would answer and execute"),
        };
        self.paused = false;
        self.answer = Some(answer.clone());
        let pairs = answer.headers.iter();
        self.response =
            pairs.map(|(name, value)| (name.clone().into_bytes(), value.clone())).collect();
        self.mistype(answer.body.is_empty());
        comes_by
    }

    /// What Envoy 1.40 makes of the content type of local replies.
    fn mistype(&mut self, is_empty: bool) {
        if is_empty {
            self.response.retain(|(name, _)| name != b"content-type");
        } else if header(&self.response, "content-type").is_none() {
            self.response.push((b"content-type".to_vec(), b"text/plain".to_vec()));
        }
    }

    /// The answer as its client gets it is the one that the filter gave.
    pub(super) fn check_answer(&self) {
        let Some(answer) = &self.answer else { return };
        let given = answer.headers.iter().find(|(name, _)| name == "content-type");
        let given = given.map(|(_, value)| value.as_slice());
        if self.fate == Fate::Answered {
            assert_eq!(header(&self.response, "content-type"), given, "the type that was given");
        }
    }

    pub(super) fn resumed(&mut self) {
        assert_eq!(self.fate, Fate::Open, "Envoy would execute it twice");
        assert!(self.paused && self.request_is_whole, "only what is held whole can be resumed");
        (self.fate, self.paused) = (Fate::Forwarded, false);
    }

    pub(super) fn released(&mut self) {
        assert_eq!(self.reply, Reply::Open, "Envoy would crash");
        assert!(self.paused && self.response_is_whole, "only what is held whole can be resumed");
        (self.reply, self.paused) = (Reply::Told, false);
    }
}

pub(super) fn header<'a>(pairs: &'a Pairs, name: &str) -> Option<&'a [u8]> {
    pairs.iter().find(|(it, _)| it == name.as_bytes()).map(|(_, value)| value.as_slice())
}
