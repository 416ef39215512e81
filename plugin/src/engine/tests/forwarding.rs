//! What the upstream gets.

use latchkey_core::operation::{Claimed, Reply};
use latchkey_core::record::Fence;
use latchkey_core::wire::encode_reply;

use super::fixture::{Fixture, LEASE};
use super::replies::*;
use crate::engine::{Call, Metric};

fn values<'a>(call: &'a Call, name: &str) -> Vec<&'a str> {
    call.headers.iter().filter(|(it, _)| it == name).map(|(_, value)| value.as_str()).collect()
}

#[test]
fn the_request_goes_to_the_routes_cluster_with_our_headers_once() {
    let mut it = Fixture::greeted();
    let derived_key = it.request("k1", b"").claim.candidates[0].derived_key.clone();
    let call = it.running("k1").call;
    assert_eq!((call.cluster.as_str(), call.timeout_ms), ("upstream", 20_000));
    assert_eq!(call.body, b"pay k1");
    assert_eq!(values(&call, ":method"), ["POST"]);
    assert_eq!(values(&call, "x-note"), ["as sent"]);
    assert_eq!(values(&call, "idempotency-key"), [derived_key]);
    assert_eq!(values(&call, "idempotency-attempt"), ["1"]);
    assert_eq!(values(&call, "idempotency-fence"), [FENCE.to_string()]);
    assert_eq!(it.counts, [Metric::FirstExecutions]);
}

#[test]
fn a_further_attempt_carries_the_records_derived_key_and_its_own_number_and_fence() {
    let mut it = Fixture::greeted();
    it.submit("k1");
    let claim = it.call();
    let mut candidate = claim.claim().candidates[0].clone();
    candidate.derived_key = "made with an older secret".to_owned();
    let claimed = Claimed {
        fence: Fence(99),
        attempt: 3,
        sent: 2,
        lease_left_us: LEASE,
        candidate,
        terms: claim.claim().terms,
    };
    it.reply(&claim, vec![encode_reply(Reply::Claimed(claimed))]);
    let (_, call) = it.sent();
    assert_eq!(values(&call, "idempotency-key"), ["made with an older secret"]);
    assert_eq!(values(&call, "idempotency-attempt"), ["3"]);
    assert_eq!(values(&call, "idempotency-fence"), ["99"]);
    assert_eq!(it.counts, [Metric::Reexecutions]);
}

#[test]
fn a_rule_that_names_a_cluster_overrides_the_routes() {
    let mut it = Fixture::greeted_with(|json| {
        json["rules"][0]["execute"] = serde_json::json!({"cluster": "latchkey_execute"});
    });
    assert_eq!(it.running("k1").call.cluster, "latchkey_execute");
}
