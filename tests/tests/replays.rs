//! A replay is the first answer once more: what of it is kept, and what is made anew.

use anyhow::{Context as _, ensure};
use hyper::Method;
use latchkey_tests::client::{Answer, Request};
use latchkey_tests::scenario::{
    EVERY_MODE_AND_STORE, Mode, check_problem, check_status, play_scripted,
};
use latchkey_tests::scripted::{answer, path};
use latchkey_tests::stage::Setup;
use serde_json::json;

/// What says what was made. Names that come twice stay two lines.
const KEPT: [&str; 21] = [
    "content-type: text/plain; charset=iso-8859-1",
    "content-language: de",
    "content-location: /payments/7",
    "location: /payments/7",
    "etag: W/\"7-1\"",
    "last-modified: Wed, 21 Oct 2015 07:28:00 GMT",
    "link: </payments/7>; rel=\"self\"",
    "link: </payments/8>; rel=\"next\"",
    "vary: accept-language, origin",
    "cache-control: private, max-age=60",
    "expires: Wed, 21 Oct 2015 07:28:00 GMT",
    "pragma: no-cache",
    "content-digest: sha-256=:d435Qo+nKZ+gLcUHn7GQtQ72hiBVAgqoLsZnZPiTGPk=:",
    "deprecation: @1688169599",
    "x-payment-id: 7",
    "x-unknown: first, in one line",
    "x-unknown: second",
    "x-empty:",
    "refresh: 5",
    "allow: GET, POST",
    "accept-ranges: none",
];

/// What belongs to one moment, one client or one trace: the first client alone is told.
const TOLD_ONCE: [&str; 26] = [
    "set-cookie: basket=paid; Path=/",
    "set-cookie: survey=later; Path=/",
    "www-authenticate: Negotiate 0123",
    "proxy-authenticate: Basic",
    "authentication-info: nextnonce=\"0123\"",
    "retry-after: 7",
    "age: 7",
    "alt-svc: h3=\":443\"",
    "server-timing: db;dur=53",
    "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tracestate: congo=t61rcWkgMzE",
    "traceresponse: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "baggage: user=7",
    "b3: 0",
    "x-b3-traceid: 0af7651916cd43dd",
    "x-cloud-trace-context: 0af7651916cd43dd/1",
    "x-amzn-trace-id: Root=1-67891233-abcdef012345678912345678",
    "x-request-id: of-the-upstream",
    "ratelimit: \"default\";r=3;t=4",
    "ratelimit-policy: \"default\";q=20;w=10",
    "x-ratelimit-remaining: 3",
    "x-ratelimit-reset: 4",
    "access-control-allow-origin: https://first.example",
    "access-control-allow-credentials: true",
    "access-control-expose-headers: x-payment-id",
    "via: 1.1 upstream",
];

/// What belongs to one connection.
const OF_THE_CONNECTION: [&str; 3] =
    ["connection: keep-alive, X-Hop", "keep-alive: timeout=5", "proxy-connection: keep-alive"];

/// What the connection's field names. Envoy takes that field out of what it passes on, and leaves
/// these, so that the filter can take them for the connection's only where it makes the call to
/// the upstream itself.
const NAMED_BY_THE_CONNECTION: [&str; 1] = ["x-hop: 1"];

/// What only the gateway may say.
const SAID_BY_THE_GATEWAY: [&str; 7] = [
    "idempotent-replayed: of-the-upstream",
    "idempotency-status: of-the-upstream",
    "idempotency-key: of-the-upstream",
    "idempotency-attempt: of-the-upstream",
    "idempotency-fence: of-the-upstream",
    "x-latchkey-details: of-the-upstream",
    "x-latchkey-attempts: of-the-upstream",
];

/// What the gateway says anew.
const SAID_ANEW: [&str; 2] = ["date: Wed, 21 Oct 2015 07:28:00 GMT", "server: of-the-upstream"];

#[expect(clippy::unnecessary_wraps, reason = "a change may fail")]
fn unchanged(_: &mut Setup) -> anyhow::Result<()> {
    Ok(())
}

fn pair(line: &str) -> (&str, &str) {
    let (name, value) = line.split_once(':').unwrap();
    (name, value.trim())
}

/// The values of all lines of `name`.
fn values<'a>(answer: &'a Answer, name: &str) -> Vec<&'a str> {
    answer.headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
}

/// The lines are there, as many as there were, in their order.
fn check_there(answer: &Answer, lines: &[&str]) -> anyhow::Result<()> {
    for (name, _) in lines.iter().map(|line| pair(line)) {
        let all = lines.iter().map(|line| pair(line));
        let wanted: Vec<_> = all.filter(|(it, _)| *it == name).map(|(_, value)| value).collect();
        ensure!(
            values(answer, name) == wanted,
            "{name}: {:?} and not {wanted:?}",
            values(answer, name)
        );
    }
    Ok(())
}

/// None of the lines is there; others of the same name may be.
fn check_gone(answer: &Answer, lines: &[&str]) -> anyhow::Result<()> {
    for (name, value) in lines.iter().map(|line| pair(line)) {
        ensure!(!values(answer, name).contains(&value), "{name}: {value} is told");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_keeps_what_says_what_was_made_and_nothing_of_its_moment() {
    play_scripted(&EVERY_MODE_AND_STORE, unchanged, async |act, upstream, mode| {
        let name = "fields";
        let lines = [
            &KEPT[..],
            &TOLD_ONCE,
            &OF_THE_CONNECTION,
            &NAMED_BY_THE_CONNECTION,
            &SAID_BY_THE_GATEWAY,
            &SAID_ANEW,
        ];
        upstream.answers(name, &[answer(201, &lines.concat(), "caf\u{e9}")]);
        let request = Request::post(&path("payments", name)).key(name);
        let first = act.send(&request).await?;
        check_status(&first, 201)?;
        check_there(&first, &KEPT)?;
        check_there(&first, &TOLD_ONCE)?;
        ensure!(values(&first, "idempotent-replayed") == ["false"], "{:?}", first.headers);
        ensure!(first.header("idempotency-status").is_none(), "it was stored");
        check_gone(&first, &OF_THE_CONNECTION)?;
        check_gone(&first, &SAID_BY_THE_GATEWAY)?;
        // Of an answer that Envoy's router brings, Envoy keeps the upstream's Date.
        if mode != Mode::Attached {
            check_gone(&first, &SAID_ANEW)?;
        }
        if mode == Mode::Direct {
            check_gone(&first, &NAMED_BY_THE_CONNECTION)?;
        }
        for _ in 0..2 {
            let again = act.send(&request).await?;
            check_status(&again, 201)?;
            check_there(&again, &KEPT)?;
            for gone in [&TOLD_ONCE[..], &OF_THE_CONNECTION, &SAID_BY_THE_GATEWAY, &SAID_ANEW] {
                check_gone(&again, gone)?;
            }
            if mode == Mode::Direct {
                check_gone(&again, &NAMED_BY_THE_CONNECTION)?;
            }
            ensure!(values(&again, "idempotent-replayed") == ["true"], "{:?}", again.headers);
            ensure!(values(&again, "date").len() == 1, "a replay has no date of its own");
            ensure!(again.body == first.body, "{:?} became {:?}", first.body, again.body);
            let length = first.body.len().to_string();
            ensure!(values(&again, "content-length") == [length], "{:?}", again.headers);
        }
        upstream.heard(name, 1).map(drop)
    })
    .await;
}

/// What the upstream writes, and the body that it means.
const FRAMINGS: [(&str, &str, &str); 8] = [
    (
        "chunks",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
        "abcde",
    ),
    (
        "trailers",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n\
         3\r\nabc\r\n0\r\nx-sum: 1\r\n\r\n",
        "abc",
    ),
    (
        "trailers-alone",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-sum: 1\r\n\r\n",
        "",
    ),
    ("no-chunks", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", ""),
    ("until-it-closes", "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nall of it", "all of it"),
    ("http-1.0", "HTTP/1.0 200 OK\r\n\r\nof long ago", "of long ago"),
    (
        "continue",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfinal",
        "final",
    ),
    (
        "early-hints",
        "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n\
         HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfinal",
        "final",
    ),
];

/// Lets trailers pass all the way to the filter, and to the client.
fn with_trailers(setup: &mut Setup) -> anyhow::Result<()> {
    let trailers = "http_protocol_options: { enable_trailers: true }";
    setup.ingress.insert_before("http_filters:", trailers)?;
    setup.inner.insert_before("http_filters:", trailers)?;
    let cluster = include_str!("replays/trailers.yaml");
    setup.inner.insert_before("# The filter's executions_max", cluster)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_replayed_whole_however_it_was_framed() {
    play_scripted(&EVERY_MODE_AND_STORE, with_trailers, async |act, upstream, _| {
        for (name, text, body) in FRAMINGS {
            upstream.answers(name, &[text]);
            let request = Request::post(&path("payments", name)).key(name);
            for replayed in [false, true, true] {
                let answer = act.send(&request).await.context(name)?;
                check_status(&answer, 200).context(name)?;
                ensure!(answer.is_replayed() == replayed, "{name}: {:?}", answer.headers);
                ensure!(answer.body == body, "{name}: {body:?} became {:?}", answer.body);
                ensure!(answer.header("link").is_none(), "{name}: an early hint became final");
                ensure!(answer.header("x-sum").is_none(), "{name}: a trailer became a header");
            }
            upstream.heard(name, 1)?;
        }
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_length_of_what_was_not_asked_for_is_told_as_it_is_or_not_at_all() {
    let with_head = |setup: &mut Setup| {
        setup.rule("payments")["match"]["methods"] = json!(["HEAD"]);
        Ok(())
    };
    play_scripted(&EVERY_MODE_AND_STORE, with_head, async |act, upstream, _| {
        let name = "head";
        upstream.answers(name, &["HTTP/1.1 200 OK\r\ncontent-length: 7\r\netag: \"7\"\r\n\r\n"]);
        let request = Request::new(Method::HEAD, &path("payments", name)).key(name);
        for replayed in [false, true] {
            let answer = act.send(&request).await?;
            check_status(&answer, 200)?;
            ensure!(answer.is_replayed() == replayed, "{:?}", answer.headers);
            ensure!(answer.header("etag") == Some("\"7\""), "{:?}", answer.headers);
            let length = answer.header("content-length");
            ensure!(matches!(length, Some("7") | None), "{:?}", answer.headers);
        }
        upstream.heard(name, 1).map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coded_body_is_replayed_with_its_coding() {
    play_scripted(&EVERY_MODE_AND_STORE, unchanged, async |act, upstream, _| {
        let name = "coded";
        let body = [0x1F, 0x8B, 8, 0, 0xFF, 0xFE, b'\r', b'\n', 0];
        let head = answer(200, &["content-encoding: gzip"], &"b".repeat(body.len()));
        let head = head.trim_end_matches('b').as_bytes();
        upstream.answers(name, &[[head, &body].concat()]);
        let request = Request::post(&path("payments", name)).key(name);
        for replayed in [false, true] {
            let answer = act.send(&request).await?;
            check_status(&answer, 200)?;
            ensure!(answer.is_replayed() == replayed, "{:?}", answer.headers);
            ensure!(answer.header("content-encoding") == Some("gzip"), "{:?}", answer.headers);
            ensure!(answer.body.as_ref() == body, "{:?}", answer.body);
        }
        upstream.heard(name, 1).map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_events_is_told_once_and_leaves_a_tombstone() {
    play_scripted(&EVERY_MODE_AND_STORE, unchanged, async |act, upstream, _| {
        for (number, kind) in
            ["text/event-stream", "Text/Event-Stream ;charset=utf-8"].into_iter().enumerate()
        {
            let name = &format!("events-{number}");
            let events = "data: begun\n\ndata: done\n\n";
            let (first, second) = events.split_at(13);
            let (one, two) = (first.len(), second.len());
            let text = format!(
                "HTTP/1.1 202 Accepted\r\ncontent-type: {kind}\r\nlocation: /payments/7\r\n\
                 transfer-encoding: chunked\r\n\r\n\
                 {one:x}\r\n{first}\r\n{two:x}\r\n{second}\r\n0\r\n\r\n"
            );
            upstream.answers(name, &[text]);
            let request = Request::post(&path("payments", name)).key(name);
            let answer = act.send(&request).await?;
            check_status(&answer, 202)?;
            ensure!(answer.body == events, "the first client got {:?}", answer.body);
            ensure!(answer.header("idempotent-replayed") == Some("false"), "{:?}", answer.headers);
            for _ in 0..2 {
                let again = act.known(&request).await?;
                check_problem(&again, 409, "idempotency-replay-unavailable")?;
                ensure!(again.header("location") == Some("/payments/7"), "{:?}", again.headers);
                let detail = again.json()["detail"].as_str().unwrap_or_default().to_owned();
                ensure!(detail.contains("202"), "the status is not told: {detail}");
            }
            upstream.heard(name, 1)?;
        }
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_says_whether_cookies_and_what_must_not_be_stored_are() {
    let other_orders = |setup: &mut Setup| {
        setup.rule("orders")["store"] = json!({ "set_cookie": true, "no_store": "tombstone" });
        Ok(())
    };
    play_scripted(&EVERY_MODE_AND_STORE, other_orders, async |act, upstream, _| {
        let cookies = ["set-cookie: a=1; Path=/", "set-cookie: b=2, or 3"];
        for (book, kept) in [("payments", &cookies[..0]), ("orders", &cookies[..])] {
            let name = &format!("cookies-{book}");
            upstream.answers(name, &[answer(201, &cookies, "")]);
            let request = Request::post(&path(book, name)).key(name);
            check_there(&act.send(&request).await?, &cookies)?;
            let again = act.send(&request).await?;
            ensure!(again.is_replayed(), "{:?}", again.headers);
            check_there(&again, kept)?;
            ensure!(values(&again, "set-cookie").len() == kept.len(), "{:?}", again.headers);
        }
        for (book, kept) in [("payments", true), ("orders", false)] {
            let name = &format!("secret-{book}");
            let secret = ["cache-control: private, No-Store", "location: /payments/7"];
            upstream.answers(name, &[answer(201, &secret, "a token")]);
            let request = Request::post(&path(book, name)).key(name);
            let first = act.send(&request).await?;
            ensure!(first.body == "a token", "the first client got {:?}", first.body);
            let again = act.known(&request).await?;
            ensure!(again.header("location") == Some("/payments/7"), "{:?}", again.headers);
            if kept {
                check_status(&again, 201)?;
                ensure!(again.body == "a token", "{:?}", again.body);
            } else {
                check_problem(&again, 409, "idempotency-replay-unavailable")?;
            }
            upstream.heard(name, 1)?;
        }
        Ok(())
    })
    .await;
}
