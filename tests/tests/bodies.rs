//! Bodies of requests and answers: at their limits, in every framing, byte for byte.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use latchkey_tests::client::{Request, raw};
use latchkey_tests::ports;
use latchkey_tests::scenario::{Act, check_problem, check_replay, check_status, play};
use latchkey_tests::stage::Setup;
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// What a rule allows by default; half of what the listener of `deploy/envoy.yaml` buffers.
const DEFAULT_MAX_BYTES: usize = 1024 * 1024;

/// What `/orders` is allowed here, in either direction.
const ORDERS_MAX_BYTES: usize = 1000;

const BOOKS: [(&str, usize); 3] =
    [("payments", DEFAULT_MAX_BYTES), ("orders", ORDERS_MAX_BYTES), ("direct", DEFAULT_MAX_BYTES)];

fn with_small_orders(setup: &mut Setup) -> anyhow::Result<()> {
    setup.rule("orders")["request_body_max_bytes"] = ORDERS_MAX_BYTES.into();
    setup.rule("orders")["store"] = json!({ "response_body_max_bytes": ORDERS_MAX_BYTES });
    Ok(())
}

/// A listener at `front` that passes everything on to the gateway over HTTP/2, trailers too.
fn with_http2(setup: &mut Setup, front: SocketAddr) -> anyhow::Result<()> {
    let listener = include_str!("bodies/front_listener.yaml");
    let cluster = include_str!("bodies/front_cluster.yaml");
    let (front, gateway) = (front.port().to_string(), setup.address.port().to_string());
    setup.ingress.insert_before("- name: ingress", &listener.replace("FRONT", &front))?;
    setup.inner.insert_before("- name: payments", &cluster.replace("GATEWAY", &gateway))
}

fn document(book: &str, name: &str) -> Request {
    Request::post(&format!("/{book}/document?reference={name}"))
        .key(name)
        .header("content-type", "application/octet-stream")
}

fn pieces(body: &[u8]) -> Vec<Bytes> {
    body.chunks(100_000).map(Bytes::copy_from_slice).collect()
}

fn check_arrived(told: &serde_json::Value, body: &[u8]) -> anyhow::Result<()> {
    let sum: String = Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(told["bytes"] == json!(body.len()), "{told} of {} bytes", body.len());
    ensure!(told["sha256"] == json!(sum), "other bytes arrived");
    Ok(())
}

/// Sends bodies round every book's limit to `to`; `framed` gives a request its body.
async fn try_limits(
    act: &Act<'_>,
    to: SocketAddr,
    how: &str,
    framed: fn(Request, &[u8]) -> Request,
) -> anyhow::Result<()> {
    for (book, limit) in BOOKS {
        for length in [limit - 1, limit, limit + 1] {
            let name = &format!("{how}-{book}-{length}");
            let body = vec![b'b'; length];
            let request = framed(document(book, name), &body);
            let first = request.send(to).await?;
            if length <= limit {
                check_status(&first, 201).context(name.clone())?;
                check_arrived(&first.json(), &body)?;
                check_replay(&first, &request.send(to).await?)?;
            } else {
                check_problem(&first, 413, "idempotency-payload-too-large")
                    .context(name.clone())?;
                act.executed(name, 0).await?;
                // The key is free.
                let small = framed(document(book, name), b"small").send(to).await?;
                check_status(&small, 201)?;
                ensure!(!small.is_replayed(), "there was nothing to replay");
            }
            act.executed(name, 1).await?;
        }
    }
    Ok(())
}

/// Requests in every framing round every limit, and far above what Envoy holds.
async fn requests_round_the_limit(act: &mut Act<'_>) -> anyhow::Result<()> {
    let gateway = act.gateway();
    try_limits(act, gateway, "whole", |request, body| request.bytes(body.to_vec())).await?;
    let chunked = |request: Request, body: &[u8]| request.chunks(pieces(body), Duration::ZERO);
    try_limits(act, gateway, "chunked", chunked).await?;
    for (book, _) in BOOKS {
        let name = &format!("far-too-large-{book}");
        let length = 5 * DEFAULT_MAX_BYTES;
        let head = format!(
            "POST /{book}/document?reference={name} HTTP/1.1\r\nhost: payments.example\r\n\
             x-api-key: acme-demo-key\r\nidempotency-key: {name}\r\n\
             content-length: {length}\r\n\r\n"
        );
        let bytes = [head.as_bytes(), &vec![b'b'; length]].concat();
        let status = raw::status(&raw::exchange(gateway, &bytes).await?);
        ensure!(matches!(status, Some(413) | None), "answered {status:?}");
        act.executed(name, 0).await?;
        check_status(&act.send(&document(book, name).bytes("small")).await?, 201)?;
        act.executed(name, 1).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_up_to_the_limit_are_executed_and_larger_ones_leave_their_key_free() {
    play(with_small_orders, requests_round_the_limit).await;
    play(attached_with_small_orders, requests_round_the_limit).await;
}

/// The same rules, executed by Envoy's router.
fn attached_with_small_orders(setup: &mut Setup) -> anyhow::Result<()> {
    for (book, _) in BOOKS {
        setup.rule(book)["execute"] = json!({ "mode": "attached" });
    }
    with_small_orders(setup)
}

#[tokio::test(flavor = "multi_thread")]
async fn over_http2_the_limits_are_the_same_and_trailers_end_a_body() {
    let front = ports::free().unwrap();
    for attached in [false, true] {
        let change = |setup: &mut Setup| {
            with_http2(setup, front)?;
            if attached { attached_with_small_orders(setup) } else { with_small_orders(setup) }
        };
        play(change, async |act| {
            try_limits(act, front, "http2", |request, body| request.bytes(body.to_vec())).await?;
            let chunked =
                |request: Request, body: &[u8]| request.chunks(pieces(body), Duration::ZERO);
            try_limits(act, front, "http2-chunked", chunked).await?;
            try_trailers(act, front, "http2").await?;
            let streams = "http.ingress.downstream_rq_http2_total";
            let http2 = act.stage.first_gateway().statistic(streams).await?;
            ensure!(http2 > 0, "nothing came over HTTP/2");
            Ok(())
        })
        .await;
    }
}

/// A chunked body with trailers: three times, as one request.
async fn try_trailers(act: &Act<'_>, to: SocketAddr, how: &str) -> anyhow::Result<()> {
    for body in ["", "hello"] {
        let name = &format!("trailers-{how}-{body}");
        let chunk = if body.is_empty() { String::new() } else { format!("5\r\n{body}\r\n") };
        let bytes = format!(
            "POST /payments/document?reference={name} HTTP/1.1\r\nhost: payments.example\r\n\
             x-api-key: acme-demo-key\r\nidempotency-key: {name}\r\ntrailer: x-checksum\r\n\
             transfer-encoding: chunked\r\n\r\n{chunk}0\r\nx-checksum: 1\r\n\r\n"
        );
        for _ in 0..3 {
            let answer = raw::exchange(to, bytes.as_bytes()).await?;
            ensure!(raw::status(&answer) == Some(201), "{:?}", String::from_utf8_lossy(&answer));
            let sum: String = Sha256::digest(body).iter().map(|b| format!("{b:02x}")).collect();
            ensure!(String::from_utf8_lossy(&answer).contains(&sum), "another body arrived");
        }
        act.executed(name, 1).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_body_and_trailers_are_one_request_with_their_retries() {
    play(
        |_| Ok(()),
        async |act| {
            let gateway = act.gateway();
            try_trailers(act, gateway, "http1").await?;
            for book in ["payments", "direct"] {
                let name = &format!("empty-{book}");
                let none = document(book, name);
                let first = act.send(&none).await?;
                check_status(&first, 201)?;
                check_arrived(&first.json(), b"")?;
                // No body, one of length 0, and one of no chunks are the same bytes.
                for again in
                    [none.clone(), none.clone().bytes(""), none.chunks(vec![], Duration::ZERO)]
                {
                    check_replay(&first, &act.send(&again).await?)?;
                }
                act.executed(name, 1).await?;
            }
            Ok(())
        },
    )
    .await;
}

/// Answers round every limit.
async fn answers_round_the_limit(act: &mut Act<'_>) -> anyhow::Result<()> {
    for (book, limit) in BOOKS {
        for length in [limit - 1, limit, limit + 1, limit * 3] {
            let name = &format!("answer-{book}-{length}");
            let path = format!("/{book}/answer?reference={name}&bytes={length}");
            let request = Request::post(&path).key(name);
            let first = act.send(&request).await?;
            check_status(&first, 201)?;
            ensure!(first.body == vec![b'a'; length], "the client got another body");
            for _ in 0..2 {
                let again = act.known(&request).await?;
                if length <= limit {
                    check_replay(&first, &again)?;
                    continue;
                }
                check_problem(&again, 409, "idempotency-replay-unavailable")?;
                let location = (first.header("location"), again.header("location"));
                ensure!(location.0.is_some() && location.0 == location.1, "{location:?}");
            }
            act.executed(name, 1).await?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_over_the_limit_reach_the_client_and_are_never_executed_again() {
    play(with_small_orders, answers_round_the_limit).await;
    play(attached_with_small_orders, answers_round_the_limit).await;
}

/// A gzip file that holds `text` as it is. `seconds` is its time, which says nothing of the text.
fn gzip(text: &[u8], seconds: u8) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap();
    let crc = !text.iter().fold(u32::MAX, |crc, byte| {
        let step = |crc: u32, _| (crc >> 1) ^ (0xEDB8_8320 * (crc & 1));
        (0..8).fold(crc ^ u32::from(*byte), step)
    });
    let head = [0x1F, 0x8B, 8, 0, seconds, 0, 0, 0, 0, 255, 1];
    let lengths = [length.to_le_bytes(), (!length).to_le_bytes()].concat();
    let tail = [crc.to_le_bytes(), u32::from(length).to_le_bytes()].concat();
    [head.as_slice(), &lengths, text, &tail].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_body_is_the_bytes_that_it_is() {
    play(
        |_| Ok(()),
        async |act| {
            let text = br#"{"amount":1}"#;
            let request = document("payments", "gzip").header("content-encoding", "gzip");
            let first = act.send(&request.clone().bytes(gzip(text, 1))).await?;
            check_status(&first, 201)?;
            check_arrived(&first.json(), &gzip(text, 1))?;
            check_replay(&first, &act.send(&request.clone().bytes(gzip(text, 1))).await?)?;
            let plain = document("payments", "gzip").bytes(gzip(text, 1));
            for other in [request.bytes(gzip(text, 2)), plain] {
                check_problem(&act.send(&other).await?, 422, "idempotency-key-reused")?;
            }
            act.executed("gzip", 1).await.map(drop)
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn json_that_was_written_anew_is_another_request() {
    play(
        |_| Ok(()),
        async |act| {
            let same_to_some = [
                (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#),
                (r#"{"a":1}"#, r#"{"a":1.0}"#),
                (r#"{"a":1}"#, r#"{"a": 1}"#),
                (r#"{"a":2}"#, r#"{"a":1,"a":2}"#),
                (r#"{"a":9007199254740992}"#, r#"{"a":9007199254740993}"#),
                (r#"{"a":"\u00e9"}"#, r#"{"a":"é"}"#),
            ];
            for (number, (first, rewritten)) in same_to_some.into_iter().enumerate() {
                let name = &format!("json-{number}");
                let request = |body: &'static str| document("payments", name).bytes(body);
                let answer = act.send(&request(first)).await?;
                check_status(&answer, 201)?;
                let other = act.send(&request(rewritten)).await?;
                check_problem(&other, 422, "idempotency-key-reused")?;
                check_replay(&answer, &act.send(&request(first)).await?)?;
                act.executed(name, 1).await?;
            }
            Ok(())
        },
    )
    .await;
}
