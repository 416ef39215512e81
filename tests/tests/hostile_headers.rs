//! Header bytes that no decent client sends: the filter survives all of them.

use anyhow::ensure;
use latchkey_tests::client::{Request, raw};
use latchkey_tests::stage::{Options, Stage, StoreKind};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use tokio::runtime::Runtime;

/// Each is a request through a real Envoy, of some ms.
const CASES: u32 = 1000;

/// How often Envoy has made a VM: one more means that one has died.
const VMS_CREATED: &str = "wasm.envoy.wasm.runtime.v8.created";

/// Headers that the filter or Envoy looks at.
const KNOWN: [&str; 16] = [
    "idempotency-key",
    "idempotency-attempt",
    "idempotency-fence",
    "idempotency-outcome",
    "idempotent-replayed",
    "x-client-id",
    "x-latchkey-details",
    "x-envoy-max-retries",
    "content-type",
    "content-encoding",
    "connection",
    "expect",
    "te",
    "upgrade",
    "cookie",
    "accept",
];

#[derive(Clone, Debug)]
struct Hostile {
    path: &'static str,
    headers: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
}

// === impl Hostile ===

impl Hostile {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = format!("POST {} HTTP/1.1\r\nhost: gateway\r\n", self.path).into_bytes();
        bytes.extend_from_slice(b"x-api-key: acme-demo-key\r\n");
        for (name, value) in &self.headers {
            bytes.extend_from_slice(&[name, b": ".as_slice(), value, b"\r\n"].concat());
        }
        bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", self.body.len()).as_bytes());
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// Mostly bytes that Envoy lets pass to filters: visible ones, and all above ASCII, UTF-8 or
/// not. Some times any byte at all, even the end of a line.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let passes = prop_oneof![32_u8..=126, 128_u8..=255];
    prop_oneof![
        8 => prop::collection::vec(passes, 0..300),
        1 => prop::collection::vec(any::<u8>(), 0..64),
        1 => Just(vec![0xFF; 20_000]),
    ]
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => prop::sample::select(&KNOWN[..]).prop_map(|name| name.as_bytes().to_vec()),
        2 => "[a-z][a-z0-9-]{0,40}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 1..20),
    ]
}

fn hostile() -> impl Strategy<Value = Hostile> {
    let path = prop::sample::select(&["/payments", "/orders", "/direct", "/unguarded"][..]);
    // Two times in three there is a good key, so that the request goes all the way.
    let key = prop_oneof![2 => "[a-z0-9]{8,20}".prop_map(Some), 1 => Just(None)];
    let headers = prop::collection::vec((name(), value()), 1..8);
    let body = prop::collection::vec(any::<u8>(), 0..200);
    (path, key, headers, body).prop_map(|(path, key, mut headers, body)| {
        if let Some(key) = key {
            headers.push((b"idempotency-key".to_vec(), key.into_bytes()));
        }
        Hostile { path, headers, body }
    })
}

/// A good payment, on a connection to whichever worker: its VM must still be there.
async fn pays(stage: &Stage, name: &str) -> anyhow::Result<()> {
    let body = serde_json::json!({ "amount": 1, "currency": "EUR", "reference": name });
    let answer = Request::post("/payments").key(name).json(&body).send(stage.gateway()).await?;
    ensure!(answer.status == 201, "a good payment was answered {answer}");
    Ok(())
}

#[test]
fn the_filter_survives_any_header_bytes() {
    let runtime = Runtime::new().unwrap();
    let started = runtime.block_on(Stage::start(Options::on(StoreKind::Sqlite)));
    let mut stage = started.unwrap_or_else(|error| panic!("there is no stage: {error:#}"));
    let vms = || runtime.block_on(stage.gateways()[0].statistic(VMS_CREATED)).unwrap();
    let before = vms();
    assert!(before > 0, "Envoy does not count VMs as {VMS_CREATED}");

    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let proved = TestRunner::new(config).run(&hostile(), |hostile| {
        let answered = runtime.block_on(raw::exchange(stage.gateway(), &hostile.bytes()));
        let answer = answered.map_err(|error| TestCaseError::fail(format!("{error:#}")))?;
        // Envoy answers what it cannot parse with 400. No answer, or a VM more, is a death.
        prop_assert!(raw::status(&answer).is_some(), "no answer");
        prop_assert_eq!(vms(), before, "a VM has died");
        Ok(())
    });
    let survived = proved.map_err(anyhow::Error::from).and_then(|()| {
        runtime.block_on(async {
            for number in 0..8 {
                pays(&stage, &format!("afterwards-{number}")).await?;
            }
            Ok(())
        })
    });
    stage.gateway_process().check_alive().unwrap();
    if let Err(error) = survived {
        panic!("{:#}", stage.explain(error));
    }
}
