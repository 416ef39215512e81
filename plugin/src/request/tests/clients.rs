//! Who a request's client is.

use super::*;

const CLAIM: &str = "metadata/filter_metadata/envoy.filters.http.jwt_authn/jwt_payload/sub";
const SAN: &str = "connection/uri_san_peer_certificate";

fn client(rule: &Value, attributes: &dyn Attributes) -> String {
    plan_with(&config(&json!({"client": rule})), &request(&[]), attributes).client
}

#[test]
fn a_claim_of_a_verified_token_names_the_client() {
    assert_eq!(client(&json!({"jwt_claim": "sub"}), &Known(&[(CLAIM, b"acme")])), "acme");
    let config = config(&json!({"client": {"jwt_claim": "sub", "jwt_payload": "other"}}));
    let elsewhere = admitted_with(&config, &request(&[]), &Known(&[(CLAIM, b"acme")]));
    assert_eq!(elsewhere, Err((400, Kind::ClientUnknown)));
}

#[test]
fn a_certificate_names_the_client() {
    let known = Known(&[(SAN, b"spiffe://a.example/payer")]);
    assert_eq!(client(&json!({"uri_san": true}), &known), "spiffe://a.example/payer");
}

#[test]
fn a_claim_that_is_no_text_is_refused_however_missing_names_are_treated() {
    for missing in ["reject", "anonymous", "bypass"] {
        let config = config(&json!({"client": {"jwt_claim": "sub", "missing": missing}}));
        for claim in [&Known(&[(CLAIM, b"\0\0\0\0\0\0Y@")]), &Known(&[(CLAIM, b"a\nb")])] {
            let refused = Err((400, Kind::ClientUnknown));
            assert_eq!(admitted_with(&config, &request(&[]), claim), refused);
        }
    }
}

#[test]
fn clients_without_a_name_are_one_where_the_rule_says_so_and_no_named_one_is_it() {
    let rule = json!({"header": "x-client", "missing": "anonymous"});
    let config = config(&json!({"client": rule}));
    let of = |lines: &[(&str, &[u8])]| complete(&config, &request(lines), b"").identity;
    assert_eq!(of(&[]), of(&[("x-client", b"")]));
    for name in [&b"anonymous"[..], b"-", b"null"] {
        assert_ne!(of(&[]), of(&[("x-client", name)]));
    }
}

#[test]
fn a_bypass_is_told_from_a_pass() {
    let rule = json!({"header": "x-client", "missing": "bypass"});
    let config = config(&json!({"client": rule}));
    let decision = admit(&config, &request(&[]), &()).decision;
    assert!(matches!(decision, Decision::Bypass), "{decision:?}");
}
