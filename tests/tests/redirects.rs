//! Routes that follow an upstream's redirects within Envoy (`internal_redirect_policy`).
//!
//! Envoy then runs the request again from the first filter on, as a stream of its own. Where its
//! router executes, that stream comes to the filter with a key that is claimed: by itself.

use anyhow::ensure;
use latchkey_tests::client::{Answer, Request};
use latchkey_tests::http1::Message;
use latchkey_tests::scenario::{
    Act, EVERY_MODE, Mode, OUTCOME_UNKNOWN, Place, check_number, check_problem, check_status,
    is_in_progress, number_answers, pay, play_scripted,
};
use latchkey_tests::scripted::{Scripted, answer, path};
use latchkey_tests::stage::{Setup, StoreKind};
use latchkey_tests::wait::until;

const ATTACHED: [Place; 1] = [(Mode::Attached, StoreKind::Sqlite)];
const DETACHED: [Place; 1] = [(Mode::Detached, StoreKind::Sqlite)];

/// The scripted upstream's route, and the same with up to three hops.
const ROUTE: &str = "route: { cluster: scripted, timeout: 0s }";
const FOLLOWS: &str = "route: { cluster: scripted, timeout: 0s, internal_redirect_policy: \
                       { max_internal_redirects: 3, redirect_response_codes: [ 302, 307 ] } }";

/// The routes that clients reach follow redirects. Authentication runs for each hop, so that it
/// must leave the credential where it is.
fn follows(setup: &mut Setup) -> anyhow::Result<()> {
    setup.ingress.replace(ROUTE, FOLLOWS)?;
    setup.ingress.replace("hide_credentials: true", "hide_credentials: false")
}

fn post(name: &str) -> Request {
    Request::post(&path("payments", name)).key(name).bytes("an order")
}

/// A redirect to a path of the same gateway.
fn redirect(status: u16, to: &str) -> String {
    answer(status, &[&format!("location: http://payments.example{to}")], "elsewhere")
}

/// Redirects `name` to the next of `hops`, and that to the one after it.
fn chain(upstream: &Scripted, name: &str, hops: &[&str]) {
    let mut name = name;
    for hop in hops {
        let next = hop.rsplit('/').next().unwrap_or_default();
        upstream.answers(name, &[redirect(302, hop)]);
        name = next;
    }
}

/// Every request was of one execution, with the client's body.
fn check_one_execution(heard: &[Message], attempt: &str) -> anyhow::Result<()> {
    let ours = ["idempotency-key", "idempotency-attempt", "idempotency-fence"];
    let of = |it: &Message| ours.map(|name| it.lines(name).collect::<Vec<_>>().join(","));
    for it in heard {
        ensure!(of(it) == of(&heard[0]), "{it:?} belongs to another than {:?}", heard[0]);
        ensure!(it.header("idempotency-attempt") == Some(attempt), "{it:?}");
        ensure!(it.header("idempotency-key").map(str::len) == Some(36), "{it:?}");
        ensure!(it.body == b"an order", "the body became {:?}", it.body);
    }
    Ok(())
}

/// Nothing hangs, and nothing met itself.
async fn check_counts(act: &Act<'_>, executions: u64) -> anyhow::Result<()> {
    let gateway = act.stage.first_gateway();
    let count = async |name| gateway.statistic(&format!("wasmcustom.latchkey_{name}")).await;
    ensure!(count("first_executions").await? == executions);
    for none in ["conflicts", "mismatches", "ambiguous", "unstored", "fenced"] {
        let count = count(none).await?;
        ensure!(count == 0, "{count} {none}");
    }
    until("nothing is in flight", async || {
        Ok((count("executions_in_flight").await? == 0).then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirected_request_is_part_of_its_execution_and_its_last_answer_is_replayed() {
    play_scripted(&ATTACHED, follows, async |act, upstream, _| {
        for (name, hops) in [
            ("one-hop", &["/payments/scripted/one-hop-end"][..]),
            ("other-rule", &["/orders/scripted/other-rule-end"]),
            ("no-rule", &["/unguarded/scripted/no-rule-end"]),
            (
                "hops",
                &["/orders/scripted/hop-1", "/none/scripted/hop-2", "/payments/scripted/hop-end"],
            ),
        ] {
            chain(upstream, name, hops);
            let names: Vec<_> = hops.iter().filter_map(|hop| hop.rsplit('/').next()).collect();
            let end = names.last().copied().unwrap_or_default();
            upstream.answers(end, &[answer(201, &["location: /made", "etag: \"1\""], "made")]);
            let first = act.send(&post(name)).await?;
            check_status(&first, 201)?;
            ensure!(first.body == "made", "{:?}", first.body);
            ensure!(first.header("idempotent-replayed") == Some("false"), "{:?}", first.headers);
            for _ in 0..2 {
                let again = act.send(&post(name)).await?;
                ensure!(again.is_replayed() && again.body == "made", "{again}: {:?}", again.body);
                ensure!(again.header("location") == Some("/made"), "{:?}", again.headers);
            }
            let mut heard = upstream.heard(name, 1)?;
            for name in names {
                heard.extend(upstream.heard(name, 1)?);
            }
            check_one_execution(&heard, "1")?;
        }
        check_counts(act, 4).await?;
        let other = post("hops").bytes("another order");
        check_problem(&act.send(&other).await?, 422, "idempotency-key-reused")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_a_redirected_request_is_as_the_last_answer_says() {
    play_scripted(&ATTACHED, follows, async |act, upstream, _| {
        chain(upstream, "locked", &["/orders/scripted/locked-end"]);
        let made = answer(201, &[], "made");
        upstream.answers("locked-end", &[answer(429, &[], "later"), made]);
        check_status(&act.send(&post("locked")).await?, 429)?;
        let second = act.send(&post("locked")).await?;
        check_status(&second, 201)?;
        ensure!(!second.is_replayed(), "{:?}", second.headers);
        for (at, attempt) in ["1", "2"].into_iter().enumerate() {
            let first = upstream.heard("locked", 2)?.remove(at);
            let last = upstream.heard("locked-end", 2)?.remove(at);
            check_one_execution(&[first, last], attempt)?;
        }
        chain(upstream, "broken", &["/orders/scripted/broken-end"]);
        upstream.answers("broken-end", &[answer(500, &[], "broken")]);
        check_status(&act.send(&post("broken")).await?, 500)?;
        // The rule that was claimed under holds; the one that was redirected to would not.
        check_problem(&act.send(&post("broken")).await?, 409, OUTCOME_UNKNOWN)?;
        upstream.heard("broken-end", 1).map(drop)
    })
    .await;
}

/// A refused connection alone says that nothing was sent; not where something was before.
#[tokio::test(flavor = "multi_thread")]
async fn where_the_redirect_leads_nowhere_the_outcome_is_unknown_all_the_same() {
    play_scripted(&ATTACHED, follows, async |act, upstream, _| {
        act.stage.let_payments_accept(false).await?;
        for (book, told) in [("payments", false), ("orders", true)] {
            let name = &format!("nowhere-{book}");
            upstream.answers(name, &[redirect(302, "/payments")]);
            let request = pay(&path(book, name), name);
            let first = act.send(&request).await?;
            check_problem(&first, 502, OUTCOME_UNKNOWN)?;
            ensure!(first.json()["retryable"] == told, "{:?}", first.body);
        }
        act.stage.let_payments_accept(true).await?;
        let held = pay(&path("payments", "nowhere-payments"), "nowhere-payments");
        check_problem(&act.send(&held).await?, 409, OUTCOME_UNKNOWN)?;
        upstream.heard("nowhere-payments", 1)?;
        act.executed("nowhere-payments", 0).await?;
        let again = pay(&path("orders", "nowhere-orders"), "nowhere-orders");
        check_status(&act.send(&again).await?, 201)?;
        upstream.heard("nowhere-orders", 2)?;
        act.executed("nowhere-orders", 1).await.map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_that_is_not_followed_is_the_answer() {
    play_scripted(&ATTACHED, follows, async |act, upstream, _| {
        let elsewhere = answer(302, &["location: https://elsewhere.test/"], "elsewhere");
        upstream.answers("elsewhere", &[elsewhere]);
        upstream.answers("moved", &[redirect(301, &path("payments", "never"))]);
        upstream.answers("round", &[redirect(302, &path("payments", "round"))]);
        for (name, status, times) in [("elsewhere", 302, 1), ("moved", 301, 1), ("round", 302, 4)] {
            let first = act.send(&post(name)).await?;
            check_status(&first, status)?;
            let again = act.send(&post(name)).await?;
            check_status(&again, status)?;
            ensure!(again.is_replayed() && again.body == "elsewhere", "{again}");
            ensure!(again.header("location") == first.header("location"), "{again}");
            check_one_execution(&upstream.heard(name, times)?, "1")?;
        }
        upstream.heard("never", 0)?;
        check_counts(act, 3).await
    })
    .await;
}

/// The retry of a request whose redirect was lost.
async fn is_unknown_in_the_end(act: &Act<'_>, request: &Request) -> anyhow::Result<()> {
    let is_unknown = |answer: &Answer| answer.problem().as_deref() == Some(OUTCOME_UNKNOWN);
    act.retry_until(request, is_unknown, is_in_progress).await?;
    let gauge = "wasmcustom.latchkey_executions_in_flight";
    let in_flight = act.stage.first_gateway().statistic(gauge).await?;
    ensure!(in_flight == 0, "{in_flight} are in flight");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_filter_ends_the_redirected_request_its_outcome_is_unknown() {
    let hides = |setup: &mut Setup| setup.ingress.replace(ROUTE, FOLLOWS);
    play_scripted(&ATTACHED, hides, async |act, upstream, _| {
        chain(upstream, "no-credential", &["/payments/scripted/out-of-reach"]);
        check_status(&act.send(&post("no-credential")).await?, 401)?;
        is_unknown_in_the_end(act, &post("no-credential")).await?;
        upstream.heard("out-of-reach", 0)?;
        upstream.heard("no-credential", 1).map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_client_hangs_up_after_a_redirect_the_outcome_is_unknown() {
    play_scripted(&ATTACHED, follows, async |act, upstream, _| {
        let name = "hangs-up";
        upstream.answers(name, &[redirect(302, "/payments/on-approval")]);
        let request = pay(&path("payments", name), name);
        let first = act.send_for_later(&request);
        act.begun(name, 1).await?;
        // The execution is its own only in the state: the claim holds on.
        ensure!(is_in_progress(&act.send(&request).await?), "the key is free");
        drop(first);
        is_unknown_in_the_end(act, &request).await?;
        act.stage.approve(name).await?;
        act.executed(name, 1).await?;
        upstream.heard(name, 1).map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_the_gateways_own_do_not_follow_what_the_clients_route_would() {
    play_scripted(&EVERY_MODE, follows, async |act, upstream, mode| {
        if mode == Mode::Attached {
            return Ok(());
        }
        chain(upstream, "told", &["/payments/scripted/not-reached"]);
        let first = act.send(&post("told")).await?;
        check_status(&first, 302)?;
        ensure!(first.header("idempotent-replayed") == Some("false"), "{:?}", first.headers);
        let again = act.send(&post("told")).await?;
        ensure!(again.is_replayed() && again.status == 302, "{again}");
        ensure!(again.header("location") == first.header("location"), "{:?}", again.headers);
        upstream.heard("told", 1)?;
        upstream.heard("not-reached", 0)?;
        check_counts(act, 1).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_internal_listeners_route_follows_is_part_of_the_execution() {
    let inside = |setup: &mut Setup| setup.inner.replace(ROUTE, FOLLOWS);
    play_scripted(&DETACHED, inside, async |act, upstream, _| {
        chain(upstream, "inside", &["/orders/scripted/inside-end"]);
        number_answers(upstream, "inside-end");
        check_number(act, &post("inside"), 1, false).await?;
        check_number(act, &post("inside"), 1, true).await?;
        let mut heard = upstream.heard("inside", 1)?;
        heard.extend(upstream.heard("inside-end", 1)?);
        check_one_execution(&heard, "1")?;
        check_counts(act, 1).await
    })
    .await;
}
