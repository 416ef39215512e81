//! The end of a run: everything answers, and then nothing must be left.

use super::host::Faults;
use super::stream::{Fate, Model, Reply};
use super::upstream::Upstream;
use super::world::World;

/// More than any time-out, wait or lease of the configuration, in ticks.
const TICKS_MAX: u32 = 2_000;
const TICK_US: u64 = 50_000;

impl World {
    /// Nothing fails any more, everybody is answered, and time goes by.
    pub(super) fn come_to_rest(&mut self) {
        self.envoy.faults.set(Faults::default());
        for _ in 0..TICKS_MAX {
            if self.is_at_rest() {
                break;
            }
            self.answer_all();
            self.pass_time(TICK_US);
        }
        let left = self.envoy.streams.borrow();
        assert!(left.is_empty(), "streams without an end: {left:#?}");
        drop(left);
        for (id, root) in &self.roots {
            assert_eq!(root.executions_in_flight(), 0, "executions without an end");
            assert_eq!(self.envoy.gauges(*id), 0, "the gauge says that there are some");
        }
        self.replace();
        for _ in 0..TICKS_MAX {
            if self.roots.len() == 1 {
                break;
            }
            self.answer_all();
            self.pass_time(TICK_US);
        }
        assert_eq!(self.roots.len(), 1, "roots that were replaced do not end");
    }

    fn is_at_rest(&self) -> bool {
        self.streams.is_empty() && self.roots.values().all(|root| root.executions_in_flight() == 0)
    }

    fn answer_all(&mut self) {
        for id in self.streams_that(|model| !model.request_is_whole) {
            self.end_of_request(id);
        }
        self.wake();
        let calls: Vec<(u32, bool)> = {
            let calls = self.envoy.calls.borrow();
            calls.iter().map(|(token, call)| (*token, call.cluster == "state")).collect()
        };
        for (token, is_state) in calls {
            if is_state {
                self.state_answers(token);
            } else {
                self.upstream_answers(token, Upstream::paid());
            }
        }
        let is_sent = |model: &Model| model.fate == Fate::Forwarded && model.reply == Reply::None;
        for id in self.streams_that(is_sent) {
            self.answer_with(id, &Upstream::paid(), 0);
        }
    }

    fn streams_that(&self, wanted: impl Fn(&Model) -> bool) -> Vec<u32> {
        let streams = self.envoy.streams.borrow();
        streams.iter().filter(|(_, model)| wanted(model)).map(|(id, _)| *id).collect()
    }
}
