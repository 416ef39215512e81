//! Faults that users of other implementations reported in public, each tried here in every
//! mode of execution, on both stores, before an upstream that really fails.
//!
//! Those that lie in a store alone (records without a lease, a take-over by what was read too
//! long ago) are in the stores' conformance suite; crowds of duplicates are in `duplicates` and
//! `waiting`, bodies under a slow store in `slow_store`. `docs/conformance.md` lists them all.

use anyhow::{Context as _, ensure};
use latchkey_tests::client::{Client, Request};
use latchkey_tests::scenario::{
    Act, EVERY_MODE_AND_STORE, OUTCOME_UNKNOWN,
    a_gateway_that_dies_is_replaced_where_the_rule_says_so, check_problem, check_replay,
    check_status, pay, pay_without_key, play_scripted,
};
use latchkey_tests::scripted;
use latchkey_tests::stage::Setup;
use latchkey_tests::wait::until;
use serde_json::{Value, json};

/// What `/orders` is allowed here, in either direction.
const SMALL_MAX_BYTES: usize = 1000;

#[expect(clippy::unnecessary_wraps, reason = "a change may fail")]
fn unchanged(_: &mut Setup) -> anyhow::Result<()> {
    Ok(())
}

/// Waits until no execution is left: none may hang for its answer.
async fn check_nothing_in_flight(act: &Act<'_>) -> anyhow::Result<()> {
    until("no execution is in flight", async || {
        let gauge = "wasmcustom.latchkey_executions_in_flight";
        Ok((act.stage.first_gateway().statistic(gauge).await? == 0).then_some(()))
    })
    .await
}

/// Sends `request` once, and then sees it replayed.
async fn check_kept(act: &Act<'_>, request: &Request, status: u16) -> anyhow::Result<()> {
    let first = act.send(request).await?;
    check_status(&first, status)?;
    check_replay(&first, &act.send(request).await?)
}

async fn a_body_at_the_limit(act: &mut Act<'_>) -> anyhow::Result<()> {
    for bytes in [SMALL_MAX_BYTES - 1, SMALL_MAX_BYTES, SMALL_MAX_BYTES + 1] {
        let name = &format!("request-{bytes}");
        let path = format!("/orders/document?reference={name}");
        let request = Request::post(&path).key(name).bytes(vec![b'b'; bytes]);
        if bytes <= SMALL_MAX_BYTES {
            check_kept(act, &request, 201).await.context(name.clone())?;
        } else {
            check_problem(&act.send(&request).await?, 413, "idempotency-payload-too-large")?;
            act.executed(name, 0).await?;
            check_kept(act, &Request::post(&path).key(name).bytes("small"), 201).await?;
        }
        act.executed(name, 1).await?;

        let name = &format!("answer-{bytes}");
        let path = format!("/orders/answer?reference={name}&bytes={bytes}");
        let request = Request::post(&path).key(name);
        let first = act.send(&request).await?;
        check_status(&first, 201)?;
        ensure!(first.body.len() == bytes, "{} of {bytes} bytes came", first.body.len());
        let again = act.known(&request).await?;
        if bytes <= SMALL_MAX_BYTES {
            check_replay(&first, &again).context(name.clone())?;
        } else {
            check_problem(&again, 409, "idempotency-replay-unavailable")?;
        }
        act.executed(name, 1).await?;
    }
    check_nothing_in_flight(act).await
}

#[tokio::test(flavor = "multi_thread")]
async fn buffer_limit() {
    let small = |setup: &mut Setup| {
        setup.rule("orders")["request_body_max_bytes"] = SMALL_MAX_BYTES.into();
        setup.rule("orders")["store"] = json!({ "response_body_max_bytes": SMALL_MAX_BYTES });
        Ok(())
    };
    play_scripted(&EVERY_MODE_AND_STORE, small, async |act, _, _| a_body_at_the_limit(act).await)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn orphan_lock() {
    play_scripted(&EVERY_MODE_AND_STORE, unchanged, async |act, upstream, _| {
        let reset = pay("/payments/commit-then-close", "reset");
        ensure!(act.send(&reset).await?.status >= 500, "a lost answer was told as a success");
        check_problem(&act.send(&reset).await?, 409, OUTCOME_UNKNOWN)?;

        let half = Request::post("/payments/answer?reference=half&bytes=1000&cut=true").key("half");
        // What Envoy tells of half an answer is its own affair.
        let _ = act.send(&half).await;
        check_problem(&act.send(&half).await?, 409, OUTCOME_UNKNOWN)?;

        upstream.answers("none", &["HTTP/1.1 204 None\r\nlocation: /payments/1\r\n\r\n"]);
        check_kept(act, &Request::post(&scripted::path("payments", "none")).key("none"), 204)
            .await?;
        upstream.heard("none", 1)?;

        let events = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: paid\n\n";
        upstream.answers("events", &[events]);
        let request = Request::post(&scripted::path("payments", "events")).key("events");
        act.send(&request).await?;
        check_problem(&act.known(&request).await?, 409, "idempotency-replay-unavailable")?;
        upstream.heard("events", 1)?;
        check_nothing_in_flight(act).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_expiry() {
    play_scripted(&EVERY_MODE_AND_STORE, unchanged, async |act, _, _| {
        a_gateway_that_dies_is_replaced_where_the_rule_says_so(act).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exception_poisons() {
    play_scripted(&EVERY_MODE_AND_STORE, unchanged, async |act, _, _| {
        let name = "refused";
        let request = pay("/payments", name);
        act.stage.let_payments_accept(false).await?;
        check_problem(&act.send(&request).await?, 503, "idempotency-upstream-unavailable")?;
        act.stage.let_payments_accept(true).await?;
        check_kept(act, &request, 201).await?;
        act.executed(name, 1).await.map(drop)
    })
    .await;
}

/// An upstream that fails once with `status` and then pays, on the rule that executes again.
async fn fails_once(act: &Act<'_>, status: u16) -> anyhow::Result<()> {
    let name = &format!("fails-{status}");
    let request = pay(&format!("/orders/flaky?status={status}&times=1"), name);
    check_status(&act.send(&request).await?, status)?;
    check_kept(act, &request, 201).await?;
    let executions = act.executed(name, 2).await?;
    act.check_one_key(&executions, name)
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_then_409() {
    play_scripted(&EVERY_MODE_AND_STORE, unchanged, async |act, _, _| fails_once(act, 500).await)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cached_5xx() {
    play_scripted(&EVERY_MODE_AND_STORE, unchanged, async |act, _, _| fails_once(act, 503).await)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn status_409_for_422() {
    play_scripted(&EVERY_MODE_AND_STORE, unchanged, async |act, _, _| {
        let name = "running";
        let request = pay("/payments/on-approval", name);
        let first = act.send_for_later(&request);
        act.begun(name, 1).await?;
        let other = pay("/payments/on-approval", "other").without_key().key(name);
        check_problem(&act.send(&other).await?, 422, "idempotency-key-reused")?;
        act.stage.approve(name).await?;
        check_status(&act.get(first).await?, 201)?;
        act.executed("other", 0).await.map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hash_lost() {
    play_scripted(&EVERY_MODE_AND_STORE, unchanged, async |act, _, _| {
        let name = "kept";
        let request = pay("/payments", name);
        check_kept(act, &request, 201).await?;
        let other = pay("/payments", "other").without_key().key(name);
        check_problem(&act.send(&other).await?, 422, "idempotency-key-reused")?;
        check_status(&act.send(&request).await?, 201)?;
        act.executed(name, 1).await.map(drop)
    })
    .await;
}

/// Bodies that a careless canonical form takes for one, and whether the JSON fingerprint may.
const REWRITTEN: [(&str, &str, &str, bool); 6] = [
    ("order", r#"{"a":1,"b":2}"#, r#"{ "b": 2, "a": 1 }"#, true),
    ("lexeme", r#"{"a":1}"#, r#"{"a":1.0}"#, false),
    ("precision", r#"{"a":9007199254740993}"#, r#"{"a":9007199254740992}"#, false),
    ("unicode", "{\"a\":\"\u{e9}\"}", "{\"a\":\"e\u{301}\"}", false),
    ("duplicates", r#"{"a":1,"a":2}"#, r#"{"a":2}"#, false),
    ("duplicates-order", r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#, false),
];

#[tokio::test(flavor = "multi_thread")]
async fn json_rewritten() {
    let json = |setup: &mut Setup| {
        setup.rule("orders")["fingerprint"] = json!({ "body": "json" });
        Ok(())
    };
    play_scripted(&EVERY_MODE_AND_STORE, json, async |act, _, _| {
        for (name, first, again, is_the_same) in REWRITTEN {
            for (book, replays) in [("payments", false), ("orders", is_the_same)] {
                let path = format!("/{book}/document?reference={book}-{name}");
                let request = Request::post(&path)
                    .header("content-type", "application/json")
                    .key(&format!("{book}-{name}"));
                let (first, again) = (request.clone().bytes(first), request.bytes(again));
                let first = act.send(&first).await?;
                check_status(&first, 201)?;
                let again = act.send(&again).await?;
                if replays {
                    check_replay(&first, &again).context(name)?;
                } else {
                    check_problem(&again, 422, "idempotency-key-reused").context(name)?;
                }
            }
        }
        Ok(())
    })
    .await;
}

fn id(body: &Value) -> Option<i64> {
    body["id"].as_i64()
}

#[tokio::test(flavor = "multi_thread")]
async fn cross_tenant() {
    play_scripted(&EVERY_MODE_AND_STORE, unchanged, async |act, _, _| {
        let name = "shared";
        let request = pay("/payments", name);
        let first = act.send(&request).await?;
        check_status(&first, 201)?;
        // The name that the other client is known by, as a client would forge it.
        let theirs = request.clone().client(Client::Globex).header("x-client-id", "acme");
        let second = act.send(&theirs).await?;
        check_status(&second, 201)?;
        ensure!(!second.is_replayed(), "another client's answer was replayed");
        ensure!(id(&first.json()) != id(&second.json()), "{first} is {second}");
        check_replay(&first, &act.send(&request).await?)?;
        check_replay(&second, &act.send(&theirs).await?)?;
        act.executed(name, 2).await.map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keyless_shared() {
    let optional = |setup: &mut Setup| {
        setup.rule("orders")["key"] = json!({ "required": false });
        Ok(())
    };
    play_scripted(&EVERY_MODE_AND_STORE, optional, async |act, _, _| {
        let name = "keyless";
        for number in 1..=2 {
            let answer = act.send(&pay_without_key("/orders", name)).await?;
            check_status(&answer, 201)?;
            ensure!(!answer.is_replayed(), "a request without a key has got a replay");
            act.executed(name, number).await?;
        }
        let gateway = act.stage.first_gateway();
        for (statistic, wanted) in [("unkeyed", 2), ("first_executions", 0), ("replays", 0)] {
            let count = gateway.statistic(&format!("wasmcustom.latchkey_{statistic}")).await?;
            ensure!(count == wanted, "{count} {statistic}");
        }
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_location() {
    play_scripted(&EVERY_MODE_AND_STORE, unchanged, async |act, _, _| {
        let request = pay("/payments", "location");
        let first = act.send(&request).await?;
        let again = act.send(&request).await?;
        check_replay(&first, &again)?;
        for name in ["location", "etag"] {
            ensure!(again.header(name).is_some(), "a replay has no {name}: {:?}", again.headers);
        }
        Ok(())
    })
    .await;
}
