//! Whatever a client sends.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Names that mean something, others, and what is no name.
fn lines() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    let known = [
        ":method",
        ":path",
        ":protocol",
        "idempotency-key",
        "x-client",
        "upgrade",
        "connection",
        "content-type",
        "x-version",
    ];
    let names = prop_oneof![
        6 => proptest::sample::select(known.to_vec()).prop_map(|name| name.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..8),
    ];
    let values = prop_oneof![
        Just(b"POST".to_vec()),
        Just(b"/payments?a?b".to_vec()),
        Just(b"\"k1\"".to_vec()),
        Just(b"upgrade".to_vec()),
        vec(any::<u8>(), 0..40),
        Just(vec![b'k'; 2_000]),
    ];
    vec((names, values), 0..10)
}

proptest! {
    /// What is guarded has one key and one client, goes on as text, and takes nothing of ours
    /// along.
    #[test]
    fn no_headers_break_the_filter_and_what_is_guarded_is_fit_to_be_sent(
        lines in lines(),
        whole in any::<bool>(),
        body in vec(any::<u8>(), 0..40),
    ) {
        let config = config(&json!({
            "client": {"header": "x-client", "missing": "bypass"},
            "fingerprint": {"headers": ["x-version"]},
        }));
        let mut headers = if whole { request(&[("x-client", b"acme")]) } else { Headers::default() };
        headers.0.extend(lines);
        if let Ok(true) = admitted(&config, &headers) {
            prop_assert_eq!(headers.all("idempotency-key").count(), 1);
            prop_assert_eq!(headers.all("x-client").count(), 1);
            let guarded = complete(&config, &headers, &body);
            let (sent_headers, sent_body) = sent(guarded);
            prop_assert!(sent_headers.iter().all(|(name, _)| name != "idempotency-key"));
            prop_assert_eq!(sent_body, body);
        }
    }
}
