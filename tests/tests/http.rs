//! HTTP's odds and ends: how requests are framed, what asks for another protocol, and what is
//! negotiated with the upstream.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use latchkey_tests::client::{Request, raw};
use latchkey_tests::http1::Message;
use latchkey_tests::scenario::{Act, EVERY_MODE, Mode, check_problem, check_status, play_scripted};
use latchkey_tests::scripted::{Scripted, answer, path};
use latchkey_tests::stage::Setup;
use serde_json::json;

#[expect(clippy::unnecessary_wraps, reason = "a change may fail")]
fn unchanged(_: &mut Setup) -> anyhow::Result<()> {
    Ok(())
}

/// Takes old clients, and lets trailers come to the filter, which ends a body with them.
fn every_framing(setup: &mut Setup) -> anyhow::Result<()> {
    let options = "http_protocol_options: { enable_trailers: true, accept_http_10: true }";
    setup.ingress.insert_before("http_filters:", options)
}

/// A request `name` with these header lines, and these bytes after its head.
fn raw_request(version: &str, name: &str, headers: &[&str], body: &str) -> Vec<u8> {
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    format!(
        "POST {} HTTP/{version}\r\nhost: payments.example\r\nx-api-key: acme-demo-key\r\n\
         idempotency-key: {name}\r\n{headers}\r\n{body}",
        path("payments", name)
    )
    .into_bytes()
}

/// Sends, and checks that the answer is 201, as it was or as a replay.
async fn check_paid(act: &Act<'_>, bytes: &[u8], replayed: bool) -> anyhow::Result<Message> {
    let (_, answer) = raw::converse(act.gateway(), bytes).await?;
    let told = answer.header("idempotent-replayed");
    let expected = Some(if replayed { "true" } else { "false" });
    ensure!(answer.status() == Some(201) && told == expected, "{answer:?}");
    Ok(answer)
}

fn check_body(upstream: &Scripted, name: &str, body: &str) -> anyhow::Result<Message> {
    let mut heard = upstream.heard(name, 1)?;
    let request = heard.pop().context("nothing was heard")?;
    ensure!(request.body == body.as_bytes(), "{body:?} became {:?}", request.body);
    Ok(request)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_the_same_however_it_is_framed() {
    play_scripted(&EVERY_MODE, every_framing, async |act, upstream, _| {
        let chunked = "transfer-encoding: chunked";
        for (number, body) in ["", "an order"].into_iter().enumerate() {
            let name = &format!("framed-{number}");
            upstream.answers(name, &[answer(201, &["x-made: 7"], "made")]);
            let length = &format!("content-length: {}", body.len());
            let (start, end) = body.split_at(body.len() / 2);
            let chunks: String = [start, end]
                .iter()
                .filter(|chunk| !chunk.is_empty())
                .map(|chunk| format!("{:x}\r\n{chunk}\r\n", chunk.len()))
                .collect();
            let plain = raw_request("1.1", name, &[length], body);
            check_paid(act, &plain, false).await?;
            for again in [
                plain,
                raw_request("1.1", name, &[chunked], &format!("{chunks}0\r\n\r\n")),
                raw_request("1.1", name, &[chunked], &format!("{chunks}0\r\nx-sum: 1\r\n\r\n")),
                raw_request("1.1", name, &["te: trailers", "connection: te", length], body),
                raw_request("1.1", name, &["connection: close", length], body),
                raw_request("1.0", name, &[length], body),
            ] {
                let answer = check_paid(act, &again, true).await?;
                ensure!(answer.body == b"made" && answer.header("x-made") == Some("7"));
            }
            check_body(upstream, name, body)?;
        }
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whichever_framing_comes_first_its_body_arrives_whole() {
    play_scripted(&EVERY_MODE, every_framing, async |act, upstream, mode| {
        let chunked = "transfer-encoding: chunked";
        for (name, version, headers, sent) in [
            ("old", "1.0", &["content-length: 8"][..], "an order"),
            ("chunks", "1.1", &[chunked], "2\r\nan\r\n6;a=b\r\n order\r\n0\r\n\r\n"),
            ("trailers", "1.1", &[chunked], "8\r\nan order\r\n0\r\nx-sum: 1\r\n\r\n"),
        ] {
            upstream.answers(name, &[answer(201, &[], "made")]);
            let request = raw_request(version, name, headers, sent);
            for replayed in [false, true] {
                check_paid(act, &request, replayed).await.context(name)?;
            }
            let heard = check_body(upstream, name, "an order")?;
            ensure!(heard.start.ends_with(" HTTP/1.1"), "{}", heard.start);
            ensure!(heard.header("x-sum").is_none(), "a trailer became a header");
            if mode != Mode::Attached {
                ensure!(heard.header("content-length") == Some("8"), "{heard:?}");
            }
        }
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_waits_to_be_told_to_go_on_is_told_so() {
    play_scripted(&EVERY_MODE, unchanged, async |act, upstream, mode| {
        let name = "expects";
        upstream.answers(name, &[answer(201, &[], "made")]);
        let headers = ["expect: 100-continue", "content-length: 8"];
        let request = raw_request("1.1", name, &headers, "an order");
        for replayed in [false, true] {
            let (interim, answer) = raw::converse(act.gateway(), &request).await?;
            let statuses: Vec<_> = interim.iter().map(Message::status).collect();
            ensure!(statuses == [Some(100)], "{mode:?}: told {statuses:?} before the answer");
            ensure!(answer.status() == Some(201), "{answer:?}");
            let told = answer.header("idempotent-replayed");
            ensure!(told == Some(if replayed { "true" } else { "false" }), "{answer:?}");
        }
        // Without the expectation it is the same request.
        check_paid(act, &raw_request("1.1", name, &headers[1..], "an order"), true).await?;
        let heard = check_body(upstream, name, "an order")?;
        ensure!(heard.header("expect").is_none(), "the upstream is asked once more");
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_upstream_is_not_asked_for_what_only_one_client_could_read() {
    play_scripted(&EVERY_MODE, unchanged, async |act, upstream, _| {
        let name = "negotiated";
        upstream.answers(name, &[answer(201, &[], "made")]);
        let request = Request::post(&path("payments", name)).key(name);
        let request = request.header("accept", "text/plain").header("accept-language", "de");
        for coding in ["gzip, br", "identity", "*;q=0"] {
            let answer = act.send(&request.clone().header("accept-encoding", coding)).await?;
            check_status(&answer, 201)?;
        }
        let heard = upstream.heard(name, 1)?;
        ensure!(heard[0].header("accept-encoding").is_none(), "{:?}", heard[0]);
        ensure!(heard[0].header("accept") == Some("text/plain"), "{:?}", heard[0]);
        ensure!(heard[0].header("accept-language") == Some("de"), "{:?}", heard[0]);
        // What no rule guards is negotiated as ever.
        let unguarded = "unguarded";
        upstream.answers(unguarded, &[answer(201, &[], "made")]);
        let request = Request::new(hyper::Method::PUT, &path("payments", unguarded));
        act.send(&request.header("accept-encoding", "gzip")).await?;
        let heard = upstream.heard(unguarded, 1)?;
        ensure!(heard[0].header("accept-encoding") == Some("gzip"), "{:?}", heard[0]);
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_the_clients_connection_does_not_reach_the_upstream() {
    play_scripted(&EVERY_MODE, unchanged, async |act, upstream, mode| {
        let name = "hops";
        upstream.answers(name, &[answer(201, &[], "made")]);
        let headers = [
            "connection: keep-alive, x-hop",
            "x-hop: 1",
            "keep-alive: timeout=5",
            "proxy-connection: keep-alive",
            "te: gzip",
            "x-kept: one",
            "x-kept: two",
            "content-length: 0",
        ];
        check_paid(act, &raw_request("1.1", name, &headers, ""), false).await?;
        let [heard] = &upstream.heard(name, 1)?[..] else { unreachable!() };
        for gone in ["connection", "x-hop", "keep-alive", "proxy-connection", "te"] {
            ensure!(
                heard.header(gone).is_none(),
                "{mode:?}: {gone} reached the upstream: {heard:?}"
            );
        }
        let kept: Vec<_> = heard.lines("x-kept").collect();
        ensure!(kept == ["one", "two"], "{kept:?}");
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_utf8_are_refused_where_they_cannot_be_passed_on() {
    play_scripted(&EVERY_MODE, unchanged, async |act, upstream, _| {
        let name = "latin-1";
        upstream.answers(name, &[answer(201, &[], "made")]);
        let request = Request::post(&path("payments", name)).key(name);
        let refused = act.send(&request.clone().header("x-note", b"caf\xE9")).await?;
        check_problem(&refused, 400, "idempotency-header-invalid")?;
        upstream.heard(name, 0)?;
        check_status(&act.send(&request.header("x-note", "caf\u{e9}")).await?, 201)
    })
    .await;
}

/// Lets requests change the protocol, on both ways to the upstream.
fn with_tunnels(setup: &mut Setup) -> anyhow::Result<()> {
    setup.rule("payments")["match"]["methods"] = json!(["POST", "GET"]);
    let upgrades = "upgrade_configs: [ { upgrade_type: websocket }, { upgrade_type: CONNECT } ]";
    setup.ingress.insert_before("http_filters:", upgrades)?;
    let route = "- match: { connect_matcher: {} }\n  route: { cluster: scripted, timeout: 0s }";
    setup.ingress.insert_before("- match: { safe_regex", route)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_passes_with_the_clients_own_key_each_time() {
    play_scripted(&EVERY_MODE, with_tunnels, async |act, upstream, _| {
        let name = "socket";
        let switched = "HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\n\
                        upgrade: websocket\r\n\r\nframes of the socket";
        upstream.answers(name, &[switched]);
        for method in ["GET", "POST"] {
            let bytes = format!(
                "{method} {} HTTP/1.1\r\nhost: payments.example\r\nx-api-key: acme-demo-key\r\n\
                 idempotency-key: {name}\r\nconnection: keep-alive, Upgrade\r\n\
                 upgrade: WebSocket\r\nsec-websocket-version: 13\r\n\r\n",
                path("payments", name)
            );
            let answer = tunnel(act, bytes.as_bytes(), "frames of the socket").await?;
            ensure!(
                answer.contains(" 101 ") && !answer.contains("idempotent-replayed"),
                "{answer}"
            );
        }
        for request in upstream.heard(name, 2)? {
            ensure!(request.header("idempotency-key") == Some(name), "{request:?}");
            ensure!(request.header("idempotency-attempt").is_none(), "{request:?}");
        }
        check_no_record(act).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tunnel_passes_with_the_clients_own_key_each_time() {
    play_scripted(&EVERY_MODE, with_tunnels, async |act, upstream, _| {
        let name = "tunnel.example:443";
        upstream.answers(name, &["HTTP/1.1 200 OK\r\n\r\nbytes of the tunnel"]);
        for _ in 0..2 {
            let bytes = format!(
                "CONNECT {name} HTTP/1.1\r\nhost: {name}\r\nx-api-key: acme-demo-key\r\n\
                 idempotency-key: a-tunnel\r\n\r\n"
            );
            let answer = tunnel(act, bytes.as_bytes(), "bytes of the tunnel").await?;
            ensure!(
                answer.contains(" 200 ") && !answer.contains("idempotent-replayed"),
                "{answer}"
            );
        }
        for request in upstream.heard(name, 2)? {
            ensure!(request.header("idempotency-key") == Some("a-tunnel"), "{request:?}");
            ensure!(request.header("idempotency-attempt").is_none(), "{request:?}");
        }
        check_no_record(act).await
    })
    .await;
}

/// Sends `bytes`, and reads until the other side has said `last` and closed.
async fn tunnel(act: &Act<'_>, bytes: &[u8], last: &str) -> anyhow::Result<String> {
    let answer = raw::exchange_to_the_end(act.gateway(), bytes).await?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    ensure!(answer.ends_with(last), "the tunnel is not whole: {answer}");
    Ok(answer)
}

/// Nothing was claimed.
async fn check_no_record(act: &Act<'_>) -> anyhow::Result<()> {
    let gateway = act.stage.first_gateway();
    for name in ["first_executions", "replays", "conflicts", "mismatches"] {
        let count = gateway.statistic(&format!("wasmcustom.latchkey_{name}")).await?;
        ensure!(count == 0, "{count} {name}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_passes_with_the_clients_own_key_and_what_only_looks_like_it_is_guarded() {
    play_scripted(&EVERY_MODE, unchanged, async |act, upstream, _| {
        let frame = Bytes::from_static(b"\0\0\0\0\0");
        for (number, kind) in ["application/grpc", "application/grpc+proto", "application/grpc;a=b"]
            .iter()
            .enumerate()
        {
            let name = &format!("grpc-{number}");
            upstream.answers(name, &[answer(201, &[], "made")]);
            let request = Request::post(&path("payments", name)).key(name);
            let request = request.header("content-type", kind);
            let request = request.chunks(vec![frame.clone(), frame.clone()], Duration::ZERO);
            for _ in 0..2 {
                let answer = act.send(&request).await?;
                check_status(&answer, 201)?;
                ensure!(answer.header("idempotent-replayed").is_none(), "{:?}", answer.headers);
            }
            for request in upstream.heard(name, 2)? {
                ensure!(request.header("idempotency-key") == Some(name), "{request:?}");
            }
        }
        check_no_record(act).await?;
        for (number, kind) in ["application/grpc-web", "application/grpcx", "text/application/grpc"]
            .iter()
            .enumerate()
        {
            let name = &format!("no-grpc-{number}");
            upstream.answers(name, &[answer(201, &[], "made")]);
            let request = Request::post(&path("payments", name)).key(name);
            let request = request.header("content-type", kind).bytes(frame.clone());
            for replayed in [false, true] {
                let answer = act.send(&request).await?;
                check_status(&answer, 201)?;
                ensure!(answer.is_replayed() == replayed, "{kind}: {:?}", answer.headers);
            }
            upstream.heard(name, 1)?;
        }
        Ok(())
    })
    .await;
}
