//! What Envoy's router does of an attached execution: it sends the request that a stream holds,
//! and holds the answer until the filter lets it go.

use latchkey_core::classify::{ATTEMPTS_HEADER, DETAILS_HEADER};
use latchkey_plugin::answer::Answer;
use latchkey_plugin::engine::{Call, CallAnswer, Forward, Input};

use super::world::World;

/// Where a stream stands whose request was sent on.
pub(crate) enum Routed {
    /// The router waits for the upstream.
    Sent { execution: u64 },
    /// The router's answer is held.
    Held { answer: Answer },
}

impl World {
    pub(crate) fn forward(
        &mut self,
        gateway: usize,
        stream: u32,
        execution: u64,
        forward: Forward,
    ) {
        let it = &mut self.gateways[gateway];
        if !it.waiting.contains_key(&stream) {
            return self.feed(gateway, Input::NotForwarded { execution });
        }
        it.routed.insert(stream, Routed::Sent { execution });
        let (life, headers) = (it.life, forward.set);
        let call = Call { cluster: String::new(), headers, body: vec![], timeout_ms: 0 };
        self.send(gateway, life, execution, call);
    }

    /// The upstream's answer has come to the router, as the access log would tell it.
    pub(crate) fn routed(&mut self, gateway: usize, execution: u64, answer: CallAnswer) {
        let of =
            |routed: &Routed| matches!(routed, Routed::Sent { execution: it } if *it == execution);
        let found = self.gateways[gateway].routed.iter().find(|(_, routed)| of(routed));
        let Some((&stream, _)) = found else { return };
        match answer {
            CallAnswer::Ended { status: Some(status), headers, body } => {
                let details = details(&headers, &body);
                let outcome = "executed";
                let held = Answer { status, headers: vec![], body: body.clone(), outcome };
                self.gateways[gateway].routed.insert(stream, Routed::Held { answer: held });
                let told = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
                let headers = vec![told(DETAILS_HEADER, &details), told(ATTEMPTS_HEADER, "1")];
                let answer = CallAnswer::Ended { status: Some(status), headers, body };
                self.feed(gateway, Input::Responded { execution, answer, whole: true, held: true });
            }
            CallAnswer::Ended { status: None, .. } | CallAnswer::NotDispatched => {
                // The answer broke off in the middle, and the client's connection with it.
                self.leaves(gateway, stream);
            }
        }
    }

    pub(crate) fn leaves(&mut self, gateway: usize, stream: u32) {
        if self.gateways[gateway].waiting.remove(&stream).is_none() {
            return;
        }
        let input = match self.gateways[gateway].routed.remove(&stream) {
            Some(Routed::Sent { execution }) => {
                let answer = CallAnswer::Ended { status: None, headers: vec![], body: vec![] };
                Input::Responded { execution, answer, whole: true, held: false }
            }
            Some(Routed::Held { .. }) | None => Input::StreamGone { stream },
        };
        self.feed(gateway, input);
    }

    pub(crate) fn release(&mut self, gateway: usize, stream: u32, unstored: bool) {
        let routed = self.gateways[gateway].routed.remove(&stream);
        if !self.gateways[gateway].waiting.contains_key(&stream) {
            return assert!(routed.is_none(), "an answer is held for nobody");
        }
        let Some(Routed::Held { answer }) = routed else { panic!("nothing is held to be let go") };
        self.tell(gateway, stream, if unstored { answer.unstored() } else { answer });
    }
}

/// Envoy's words for what the model's calls answer.
fn details(headers: &[(String, Vec<u8>)], body: &[u8]) -> String {
    if headers.iter().any(|(name, _)| name == "x-envoy-upstream-service-time") {
        return "via_upstream".to_owned();
    }
    let body = String::from_utf8_lossy(body);
    let reason = body.rsplit(": ").next().unwrap_or_default().replace(' ', "_");
    format!("upstream_reset_before_response_started{{{reason}}}")
}
