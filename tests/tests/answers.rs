//! Who answered, and what became of the request: on a real Envoy, where an answer of its own looks
//! much like one of the upstream.

use anyhow::{Context as _, ensure};
use hyper::Method;
use latchkey_tests::client::{Answer, Request};
use latchkey_tests::scenario::{
    Act, OUTCOME_UNKNOWN, check_problem, check_replay, check_status, pay, play,
};
use latchkey_tests::stage::Setup;
use latchkey_tests::wait::until;

const UNAVAILABLE: &str = "idempotency-upstream-unavailable";

/// More than an answer may have that Envoy hands to a filter.
const TOO_LARGE_BYTES: usize = 33 * 1024 * 1024;

/// A request that the upstream answers as `query` asks.
fn asks(book: &str, name: &str, query: &str) -> Request {
    Request::post(&format!("/{book}/answer?reference={name}&{query}")).key(name)
}

/// Waits until no execution is left: none may hang for its answer.
async fn check_nothing_in_flight(act: &Act<'_>) -> anyhow::Result<()> {
    until("no execution is in flight", async || {
        let gauge = "wasmcustom.latchkey_executions_in_flight";
        let gateway = act.stage.first_gateway();
        ensure!(gateway.statistic("wasmcustom.latchkey_first_executions").await? > 0);
        Ok((gateway.statistic(gauge).await? == 0).then_some(()))
    })
    .await
}

/// The outcome is unknown, and stays so under `hold`.
async fn check_held(act: &Act<'_>, request: &Request, name: &str) -> anyhow::Result<()> {
    check_problem(&act.send(request).await?, 502, OUTCOME_UNKNOWN)?;
    check_problem(&act.send(request).await?, 409, OUTCOME_UNKNOWN)?;
    act.executed(name, 1).await?;
    check_nothing_in_flight(act).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_without_an_inner_route_holds_no_key() {
    let orders_alone_have_a_route = |setup: &mut Setup| {
        setup.inner.replace("match: { prefix: \"/\" }", "match: { prefix: \"/orders\" }")
    };
    play(orders_alone_have_a_route, async |act| {
        for _ in 0..3 {
            let answer = act.send(&pay("/payments", "no-route")).await?;
            check_status(&answer, 404)?;
            ensure!(!answer.is_replayed(), "Envoy's own answer was stored");
        }
        act.executed("no-route", 0).await?;
        check_status(&act.send(&pay("/orders", "a-route")).await?, 201)
    })
    .await;
}

fn with_headers(count: usize, name: &str) -> Request {
    let headers = 0..count;
    headers.fold(pay("/payments", name), |request, number| {
        request.header(&format!("x-number-{number}"), "1")
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_headers_as_envoy_takes_are_executed_and_more_hold_no_key() {
    play(
        |_| Ok(()),
        async |act| {
            for count in [85, 90, 94, 95, 96, 97, 98, 100, 150] {
                let name = &format!("headers-{count}");
                let request = with_headers(count, name);
                let first = act.send(&request).await?;
                let again = act.send(&request).await?;
                if first.status == 201 {
                    check_replay(&first, &again)?;
                } else {
                    check_status(&first, 431)?;
                    check_status(&again, 431)?;
                    ensure!(count > 90, "{count} headers are not many");
                }
                act.executed(name, usize::from(first.status == 201)).await?;
            }
            Ok(())
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_headers_than_the_inner_listener_takes_hold_no_key() {
    let wide_ingress = |setup: &mut Setup| {
        let wide = "common_http_protocol_options: { max_headers_count: 400 }";
        setup.ingress.insert_before("http_filters:", wide)
    };
    play(wide_ingress, async |act| {
        for (count, fits) in [(150, true), (250, false)] {
            let name = &format!("headers-{count}");
            for _ in 0..3 {
                let answer = act.send(&with_headers(count, name)).await?;
                check_status(&answer, if fits { 201 } else { 431 })?;
            }
            act.executed(name, usize::from(fits)).await?;
        }
        check_nothing_in_flight(act).await
    })
    .await;
}

/// Lets one request pass, and no other while `limit.enforced` is 100.
const RATE_LIMIT: &str = include_str!("answers/rate_limit.yaml");

#[tokio::test(flavor = "multi_thread")]
async fn what_an_inner_filter_refuses_is_executed_when_it_does_not() {
    let rate_limited = |setup: &mut Setup| {
        let layers = "layered_runtime: { layers: [ { name: admin, admin_layer: {} } ] }";
        setup.ingress.insert_before("static_resources:", layers)?;
        setup.inner.insert_before("- name: envoy.filters.http.router", RATE_LIMIT)
    };
    play(rate_limited, async |act| {
        check_status(&act.send(&pay("/payments", "the-only-one")).await?, 201)?;
        let refused = pay("/payments", "one-too-many");
        for _ in 0..2 {
            check_status(&act.send(&refused).await?, 429)?;
        }
        act.executed("one-too-many", 0).await?;
        act.does("lifts the limit");
        let admin = act.stage.first_gateway().admin();
        let lifted = Request::post("/runtime_modify?limit.enforced=0").send(admin).await?;
        check_status(&lifted, 200)?;
        let executed = act.send(&refused).await?;
        check_status(&executed, 201)?;
        ensure!(!executed.is_replayed(), "there was nothing to replay");
        act.executed("one-too-many", 1).await.map(drop)
    })
    .await;
}

const RETRIED: &str = include_str!("answers/retried_route.yaml");

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_refused_on_the_routes_own_retry_does_not_hide_what_was_sent_before() {
    let with_retries =
        |setup: &mut Setup| setup.inner.insert_before("- match: { prefix: \"/\" }", RETRIED);
    play(with_retries, async |act| {
        let name = "committed-and-down";
        let request = pay("/payments/commit-then-go-down", name);
        check_problem(&act.send(&request).await?, 502, OUTCOME_UNKNOWN)?;
        let tries = "cluster.payments.upstream_rq_retry";
        let tried = act.stage.first_gateway().statistic(tries).await?;
        ensure!(tried > 0, "the route has not tried again, so this proves nothing");
        act.stage.let_payments_accept(true).await?;
        check_problem(&act.send(&request).await?, 409, OUTCOME_UNKNOWN)?;
        act.executed(name, 1).await.map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_is_none_is_an_unknown_outcome() {
    play(
        |_| Ok(()),
        async |act| {
            for book in ["payments", "direct"] {
                for status in [600, 700, 999] {
                    let name = &format!("status-{status}-{book}");
                    check_held(act, &asks(book, name, &format!("status={status}")), name).await?;
                }
            }
            Ok(())
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_an_answer_and_one_that_is_too_large_are_unknown_outcomes() {
    play(
        |_| Ok(()),
        async |act| {
            for book in ["payments", "direct"] {
                let too_large = format!("bytes={TOO_LARGE_BYTES}");
                for (kind, query) in [("half", "bytes=4000&cut=true"), ("too-large", &too_large)] {
                    let name = &format!("{kind}-{book}");
                    check_held(act, &asks(book, name, query), name).await?;
                }
            }
            // On a rule that executes again, there is nothing to replay either.
            let request = asks("orders", "half-orders", "bytes=4000&cut=true");
            for times in 1..=2 {
                check_problem(&act.send(&request).await?, 502, OUTCOME_UNKNOWN)?;
                act.executed("half-orders", times).await?;
            }
            Ok(())
        },
    )
    .await;
}

/// A cluster whose hosts are read from a file, and that a direct rule's route leads to.
fn route_to_a_cluster_without_hosts(setup: &mut Setup) -> anyhow::Result<()> {
    let file = setup.folder.join("hosts.yaml");
    std::fs::write(&file, include_str!("answers/no_hosts.yaml"))?;
    let route = "- { match: { prefix: \"/direct\" }, route: { cluster: elastic } }";
    setup.ingress.insert_before("- match: { prefix: \"/\" }", route)?;
    let file = file.to_str().context("the folder's name is not UTF-8")?;
    let cluster = include_str!("answers/elastic_cluster.yaml").replace("HOSTS", file);
    setup.inner.insert_before("- name: payments", &cluster)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_direct_cluster_without_hosts_is_unavailable_until_it_has_one() {
    play(route_to_a_cluster_without_hosts, async |act| {
        let vms = "wasm.envoy.wasm.runtime.v8.created";
        let before = act.stage.first_gateway().statistic(vms).await?;
        let request = pay("/direct", "no-host");
        for _ in 0..6 {
            check_problem(&act.send(&request).await?, 503, UNAVAILABLE)?;
        }
        act.does("adds a host");
        let folder = &act.stage.first_gateway().setup().folder;
        let port = act.stage.payments.address().port().to_string();
        let hosts = include_str!("answers/hosts.yaml").replace("PORT", &port);
        std::fs::write(folder.join("hosts.new"), hosts)?;
        std::fs::rename(folder.join("hosts.new"), folder.join("hosts.yaml"))?;
        let unavailable = |answer: &Answer| answer.problem().as_deref() == Some(UNAVAILABLE);
        let answer = act.retry_until(&request, |answer| answer.status == 201, unavailable).await?;
        ensure!(!answer.is_replayed(), "there was nothing to replay");
        let executions = act.executed("no-host", 1).await?;
        ensure!(executions[0].attempt > Some(6), "attempts are not counted: {executions:?}");
        let after = act.stage.first_gateway().statistic(vms).await?;
        ensure!(after == before, "a VM has died");
        check_nothing_in_flight(act).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_are_passed_and_replayed_byte_for_byte_but_cookies_are_not_stored() {
    play(
        |_| Ok(()),
        async |act| {
            for book in ["payments", "direct"] {
                let request = asks(book, &format!("bytes-{book}"), "bytes=10");
                let first = act.send(&request).await?;
                check_status(&first, 201)?;
                let cookies: Vec<_> = first.headers.get_all("set-cookie").iter().collect();
                ensure!(cookies.len() == 2, "cookies share a line, or are lost: {cookies:?}");
                let again = act.send(&request).await?;
                check_replay(&first, &again)?;
                ensure!(again.header("set-cookie").is_none(), "a cookie was stored");
                for answer in [&first, &again] {
                    let note = answer.headers.get("x-note").context("a header is lost")?;
                    ensure!(note.as_bytes() == b"caf\xE9 \xFC\x80\xFF", "{note:?}");
                }
            }
            Ok(())
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_without_a_body_are_replayed_without_one() {
    let every_method = |setup: &mut Setup| {
        setup.rule("payments")["match"]["methods"] =
            ["POST", "PATCH", "HEAD"].into_iter().collect();
        Ok(())
    };
    play(every_method, async |act| {
        for (method, status) in
            [(Method::PATCH, 204), (Method::POST, 204), (Method::POST, 304), (Method::POST, 200)]
        {
            let name = format!("{method}-{status}");
            let path = format!("/payments/answer?reference={name}&status={status}");
            let request = Request::new(method, &path).key(&name);
            let first = act.send(&request).await?;
            check_status(&first, status)?;
            ensure!(first.body.is_empty(), "{first} has a body");
            check_replay(&first, &act.send(&request).await?)?;
            act.executed(&name, 1).await?;
        }
        let payment = act.send(&pay("/payments", "to-be-looked-at")).await?;
        let location = payment.header("location").context("no payment to look at")?;
        let request = Request::new(Method::HEAD, location).key("head");
        let (first, again) = (act.send(&request).await?, act.send(&request).await?);
        check_status(&first, 200)?;
        check_status(&again, 200)?;
        ensure!(again.is_replayed() && again.body.is_empty(), "replayed as {:?}", again.headers);
        Ok(())
    })
    .await;
}
