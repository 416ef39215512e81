//! What a rule says of the requests that it has: how keys are read, what a key that is used twice
//! gets, what statuses mean, and what happens without the state.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use latchkey_tests::client::{Client, Request};
use latchkey_tests::scenario::{
    Act, EVERY_MODE, OUTCOME_UNKNOWN, check_number, check_problem, check_status, check_unguarded,
    number_answers, pay, play_scripted,
};
use latchkey_tests::scripted::{Scripted, answer, path};
use latchkey_tests::stage::Setup;
use latchkey_tests::wait::until;
use serde_json::json;

const INVALID: &str = "idempotency-key-invalid";
const REUSED: &str = "idempotency-key-reused";
const NO_STATE: &str = "idempotency-state-unavailable";

fn post(book: &str, name: &str) -> Request {
    Request::post(&path(book, name)).bytes("an order")
}

/// Payments want their keys in quotes and short; orders as they come.
#[expect(clippy::unnecessary_wraps, reason = "a change may fail")]
fn strict_payments(setup: &mut Setup) -> anyhow::Result<()> {
    setup.rule("payments")["key"] = json!({ "syntax": "strict", "length_max": 12 });
    setup.rule("orders")["key"] = json!({ "syntax": "lenient", "length_max": 12 });
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strict_rule_takes_keys_in_quotes_alone_and_a_lenient_one_both() {
    play_scripted(&EVERY_MODE, strict_payments, async |act, upstream, _| {
        for (number, (key, strict, lenient)) in [
            ("bare", false, true),
            ("\"quoted\"", true, true),
            ("\"params\";v=1", true, true),
            ("\"two words\"", true, true),
            ("three words too", false, false),
            ("?1", false, false),
            ("12345", false, true),
            (":AQID:", false, true),
            ("aaaaaaaaaaaa", false, true),
            ("\"bbbbbbbbbbbb\"", true, true),
            ("\"\\\"cccccccccc\\\"\"", true, true),
            ("ddddddddddddd", false, false),
            ("\"eeeeeeeeeeeee\"", false, false),
        ]
        .into_iter()
        .enumerate()
        {
            // The rules share their clients' keys, so each rule has a client here.
            for (book, client, takes) in
                [("payments", Client::Acme, strict), ("orders", Client::Globex, lenient)]
            {
                let name = &format!("{book}-{number}");
                number_answers(upstream, name);
                let request = post(book, name).key(key).client(client);
                if takes {
                    check_number(act, &request, 1, false).await.context(key)?;
                    check_number(act, &request, 1, true).await.context(key)?;
                } else {
                    check_problem(&act.send(&request).await?, 400, INVALID).context(key)?;
                }
                upstream.heard(name, usize::from(takes))?;
            }
        }
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_request_gets_the_status_that_its_rule_says() {
    const MISMATCHES: &str = "wasmcustom.latchkey_mismatches";
    let with_statuses = |setup: &mut Setup| {
        setup.rule("payments")["on_mismatch"] = json!({ "status": 400 });
        setup.rule("orders")["on_mismatch"] = json!({ "status": 409 });
        setup.rule("direct")["on_mismatch"] = json!({ "status": 422 });
        Ok(())
    };
    play_scripted(&EVERY_MODE, with_statuses, async |act, upstream, _| {
        for (book, status) in [("payments", 400), ("orders", 409), ("direct", 422)] {
            number_answers(upstream, book);
            let request = post(book, book).key(book);
            check_number(act, &request, 1, false).await?;
            let refused = act.send(&request.clone().bytes("another order")).await?;
            check_problem(&refused, status, REUSED)?;
            let body = refused.json();
            ensure!(body["status"] == status && body["retryable"] == false, "{body}");
            ensure!(refused.header("retry-after").is_none(), "{:?}", refused.headers);
            check_number(act, &request, 1, true).await?;
            upstream.heard(book, 1)?;
        }
        let mismatches = act.stage.first_gateway().statistic(MISMATCHES).await?;
        ensure!(mismatches == 3, "{mismatches} mismatches");
        Ok(())
    })
    .await;
}

/// What becomes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is replayed.
    Final,
    /// The retry executes.
    Again,
    /// Nobody may execute it.
    Held,
}

/// Statuses that do not mean what they usually do, on both rules.
#[expect(clippy::unnecessary_wraps, reason = "a change may fail")]
fn other_outcomes(setup: &mut Setup) -> anyhow::Result<()> {
    for book in ["payments", "orders"] {
        setup.rule(book)["outcomes"] = json!({
            "final": [200, 401, 429, 500, 503],
            "retryable": [302, 409, 423, 502],
            "ambiguous": [404, 403, 520],
        });
    }
    Ok(())
}

/// The upstream answers with `status` and `said`, and 201 where it is asked again.
async fn meets(
    act: &Act<'_>,
    upstream: &Scripted,
    book: &str,
    (status, said, fate): (u16, &str, Fate),
) -> anyhow::Result<()> {
    let name = format!("{book}-{status}-{}", said.len());
    let headers: Vec<_> = Some(said).into_iter().filter(|said| !said.is_empty()).collect();
    let first = answer(status, &headers, "as it was said");
    upstream.answers(&name, &[first, answer(201, &[], "again")]);
    let request = post(book, &name).key(&name);
    let first = act.send(&request).await?;
    check_status(&first, status)?;
    ensure!(first.header("idempotent-replayed") == Some("false"), "{:?}", first.headers);
    let again = act.send(&request).await?;
    match fate {
        Fate::Final => {
            check_status(&again, status)?;
            ensure!(again.is_replayed() && again.body == "as it was said", "{again}");
        }
        Fate::Again => {
            check_status(&again, 201)?;
            ensure!(!again.is_replayed() && again.body == "again", "{again}");
        }
        Fate::Held => check_problem(&again, 409, OUTCOME_UNKNOWN)?,
    }
    upstream.heard(&name, if fate == Fate::Again { 2 } else { 1 }).map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_mean_what_the_rule_says_and_the_upstream_has_the_last_word() {
    const FINAL: &str = "idempotency-outcome: final";
    const RETRYABLE: &str = "idempotency-outcome: retryable";
    const AMBIGUOUS: &str = "idempotency-outcome: ambiguous";
    play_scripted(&EVERY_MODE, other_outcomes, async |act, upstream, _| {
        for (status, said, under_hold) in [
            (200, "", Fate::Final),
            (401, "", Fate::Final),
            (429, "", Fate::Final),
            (500, "", Fate::Final),
            (503, "", Fate::Final),
            (302, "", Fate::Again),
            (409, "", Fate::Again),
            (423, "", Fate::Again),
            (502, "", Fate::Again),
            (404, "", Fate::Held),
            (403, "", Fate::Held),
            (520, "", Fate::Held),
            // As ever, where the rule says nothing.
            (201, "", Fate::Final),
            (422, "", Fate::Final),
            (425, "", Fate::Again),
            (504, "", Fate::Held),
            // The upstream's own word.
            (409, FINAL, Fate::Final),
            (404, FINAL, Fate::Final),
            (500, RETRYABLE, Fate::Again),
            (520, RETRYABLE, Fate::Again),
            (503, AMBIGUOUS, Fate::Held),
            (423, AMBIGUOUS, Fate::Held),
        ] {
            for book in ["payments", "orders"] {
                let reexecutes = book == "orders" && under_hold == Fate::Held;
                let fate = if reexecutes { Fate::Again } else { under_hold };
                let told = format!("{book}: {status} {said}");
                meets(act, upstream, book, (status, said, fate)).await.context(told)?;
            }
        }
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_envoy_answers_in_the_upstreams_place_is_none_of_the_rules_statuses() {
    play_scripted(&EVERY_MODE, other_outcomes, async |act, _, _| {
        for book in ["payments", "orders"] {
            let name = &format!("refused-{book}");
            let request = pay(&format!("/{book}"), name);
            act.stage.let_payments_accept(false).await?;
            // 503 would be final if the upstream had said it.
            let refused = act.send(&request).await?;
            check_problem(&refused, 503, "idempotency-upstream-unavailable")?;
            act.stage.let_payments_accept(true).await?;
            check_status(&act.retry(&request, &refused).await?, 201)?;
            act.executed(name, 1).await?;
        }
        Ok(())
    })
    .await;
}

/// Orders need no key, and pass where the state is away.
#[expect(clippy::unnecessary_wraps, reason = "a change may fail")]
fn orders_pass(setup: &mut Setup) -> anyhow::Result<()> {
    setup.rule("orders")["key"] = json!({ "required": false });
    setup.rule("orders")["on_state_failure"] = json!("pass");
    // One try is enough where nobody listens.
    setup.filter["state"]["timeout_ms"] = json!(100);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_state_a_request_passes_unguarded_where_the_rule_lets_it_and_says_so() {
    play_scripted(&EVERY_MODE, orders_pass, async |act, upstream, mode| {
        let (passes, refused) = ("passes", "refused");
        number_answers(upstream, passes);
        number_answers(upstream, refused);
        let whole = post("orders", passes).key("\"their own\";v=1").header("x-theirs", "1");
        let order = Bytes::from_static(b"an order");
        let pieces = vec![order.slice(..2), order.slice(2..)];
        let pieces = whole.clone().chunks(pieces, Duration::from_millis(5));
        let required = post("payments", refused).key(refused);
        act.stage.server.kill();
        for (number, request) in [(1, &whole), (2, &pieces), (3, &whole)] {
            let answer = check_unguarded(act, request, number).await?;
            let told = answer.header("idempotency-status");
            ensure!(told == Some("bypassed"), "{mode:?}: {:?}", answer.headers);
            let problem = act.send(&required).await?;
            check_problem(&problem, 503, NO_STATE)?;
            ensure!(problem.retry_after().is_some() && problem.json()["retryable"] == true);
            ensure!(problem.header("idempotency-status").is_none(), "{:?}", problem.headers);
        }
        // What has no key is not a case of this.
        let keyless = check_unguarded(act, &post("orders", passes), 4).await?;
        ensure!(keyless.header("idempotency-status").is_none(), "{:?}", keyless.headers);
        upstream.heard(refused, 0)?;
        let gateway = act.stage.first_gateway();
        for (name, wanted) in
            [("bypassed", 3), ("state_failures", 6), ("unkeyed", 1), ("first_executions", 0)]
        {
            let count = gateway.statistic(&format!("wasmcustom.latchkey_{name}")).await?;
            ensure!(count == wanted, "{count} {name} and not {wanted}");
        }
        for request in &upstream.heard(passes, 4)?[..3] {
            let keys: Vec<_> = request.lines("idempotency-key").collect();
            ensure!(keys == ["\"their own\";v=1"], "the upstream got {keys:?}");
            ensure!(request.header("x-theirs") == Some("1"), "{request:?}");
            ensure!(request.header("idempotency-attempt").is_none(), "{request:?}");
            ensure!(request.body == b"an order", "{request:?}");
        }
        act.stage.server.start_again().await?;
        until("requests are guarded again", async || {
            Ok((required.send(act.gateway()).await?.status == 201).then_some(()))
        })
        .await?;
        // What passed was not remembered.
        check_number(act, &whole, 5, false).await?;
        check_number(act, &pieces, 5, true).await?;
        check_number(act, &required, 1, true).await.map(drop)
    })
    .await;
}
