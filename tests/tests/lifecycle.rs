//! A gateway that is configured anew while it works, wrongly configured, or passed by.

use std::cell::Cell;
use std::net::SocketAddr;

use anyhow::{Context as _, bail, ensure};
use hyper::Method;
use latchkey_tests::client::{Answer, Request, raw};
use latchkey_tests::scenario::{
    Act, IN_PROGRESS, check_problem, check_replay, check_status, is_in_progress, pay,
    pay_without_key, play,
};
use latchkey_tests::stage::{Options, Setup, Stage, StoreKind};
use latchkey_tests::wait::until;
use serde_json::{Value, json};

/// What Envoy counts of listeners that it was given.
const TAKEN: &str = "listener_manager.lds.update_success";
const REFUSED: &str = "listener_manager.lds.update_rejected";

#[expect(clippy::unnecessary_wraps, reason = "a change may fail")]
fn dynamic(setup: &mut Setup) -> anyhow::Result<()> {
    setup.dynamic_listeners = true;
    Ok(())
}

/// Waits until Envoy counts more than `before` under `name`.
async fn counts_more(act: &Act<'_>, name: &str, before: u64) -> anyhow::Result<()> {
    until(&format!("Envoy counts another {name}"), async || {
        let now = act.stage.first_gateway().statistic(name).await?;
        Ok((now > before).then_some(()))
    })
    .await
}

/// A statistic of the first gateway.
async fn read(act: &Act<'_>, name: &str) -> anyhow::Result<u64> {
    act.stage.first_gateway().statistic(name).await
}

/// No VM had to be made in a dead one's place, or could not be.
async fn check_no_reload(act: &Act<'_>) -> anyhow::Result<()> {
    let stats = Request::new(Method::GET, "/stats?filter=vm_reload");
    let stats = stats.send(act.stage.first_gateway().admin()).await?;
    let stats = String::from_utf8_lossy(&stats.body);
    let all_zero = stats.lines().all(|line| line.ends_with(": 0"));
    ensure!(stats.contains("vm_reload_failure: ") && all_zero, "VMs were reloaded: {stats}");
    Ok(())
}

/// The filter's configuration with one more rule, for `/hooks`.
fn with_hooks(act: &Act<'_>) -> anyhow::Result<Value> {
    let mut filter = act.stage.first_gateway().setup().filter.clone();
    let rules = filter["rules"].as_array_mut().context("no rules")?;
    let mut hooks = rules[0].clone();
    hooks["name"] = json!("hooks");
    hooks["match"]["path_prefix"] = json!("/hooks");
    rules.push(hooks);
    Ok(filter)
}

/// Waits until requests to `/hooks` are guarded, on both workers.
async fn hooks_are_guarded(act: &Act<'_>) -> anyhow::Result<()> {
    let mut in_a_row = 0;
    until("the new configuration is in use", async || {
        let answer = pay_without_key("/hooks", "hook").send(act.gateway()).await?;
        let guarded = answer.problem().as_deref() == Some("idempotency-key-missing");
        in_a_row = if guarded { in_a_row + 1 } else { 0 };
        Ok((in_a_row > 8).then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_outlives_a_configuration_push() {
    play(dynamic, async |act| {
        let name = "pushed";
        let request = pay("/payments/on-approval", name);
        let first = act.send_for_later(&request);
        act.begun(name, 1).await?;
        let taken = read(act, TAKEN).await?;
        act.does("pushes another configuration");
        act.stage.first_gateway().push(&with_hooks(act)?)?;
        counts_more(act, TAKEN, taken).await?;
        hooks_are_guarded(act).await?;
        // The client lost its connection with the old listener, but not its execution.
        let lost = act.get(first).await;
        ensure!(lost.is_err(), "answered before the payment was approved: {lost:?}");
        check_problem(&act.send(&request).await?, 409, IN_PROGRESS)?;
        act.stage.approve(name).await?;
        let again = act
            .retry_until(&request, |answer| answer.status == 201, |answer| answer.status == 409)
            .await?;
        ensure!(again.is_replayed(), "the retry executed by itself: {again}");
        act.executed(name, 1).await?;
        until("the old configuration has nothing in flight", async || {
            let in_flight = read(act, "wasmcustom.latchkey_executions_in_flight").await?;
            Ok((in_flight == 0).then_some(()))
        })
        .await?;
        ensure!(act.stage.counted("suspected_duplicates").await? == 0, "a duplicate is suspected");
        check_no_reload(act).await
    })
    .await;
}

/// As many executions as a push meets.
const IN_FLIGHT: usize = 50;

fn in_flight() -> impl Iterator<Item = String> {
    (0..IN_FLIGHT).map(|number| format!("in-flight-{number}"))
}

/// Pays and pays until it is told to stop, sending again what the change of listeners cut off;
/// the names of all payments.
async fn pay_on(to: SocketAddr, stop: &Cell<bool>) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    while !stop.get() {
        let name = format!("on-and-on-{}", names.len());
        let request = pay("/orders", &name);
        until("a payment goes through", async || match request.send(to).await {
            Ok(answer) if answer.status == 201 => Ok(Some(())),
            Ok(answer) => bail!("{name} was answered {answer}"),
            Err(_) => Ok(None),
        })
        .await?;
        names.push(name);
    }
    Ok(names)
}

/// Pushes a configuration, and sees that what the old one executes is in progress for the new.
async fn switch_over(act: &Act<'_>) -> anyhow::Result<()> {
    let taken = read(act, TAKEN).await?;
    act.does("pushes another configuration");
    act.stage.first_gateway().push(&with_hooks(act)?)?;
    counts_more(act, TAKEN, taken).await?;
    hooks_are_guarded(act).await?;
    for name in in_flight() {
        let request = pay("/payments/on-approval", &name);
        check_problem(&act.send(&request).await?, 409, IN_PROGRESS)?;
    }
    Ok(())
}

/// 50 executions are in flight and others come and go while the configuration changes. Where
/// `clients_stay`, their connections outlive their listener for as long as they need.
async fn pushes_under_load(act: &mut Act<'_>, clients_stay: bool) -> anyhow::Result<()> {
    let request = |name: &str| pay("/payments/on-approval", name);
    let firsts: Vec<_> = in_flight().map(|name| act.send_for_later(&request(&name))).collect();
    for name in in_flight() {
        act.begun(&name, 1).await?;
    }
    let stop = Cell::new(false);
    let switched = async {
        let switched = switch_over(act).await;
        stop.set(true);
        switched
    };
    let (others, ()) = tokio::try_join!(pay_on(act.gateway(), &stop), switched)?;
    for name in others {
        act.executed(&name, 1).await?;
    }
    for name in in_flight() {
        act.stage.approve(&name).await?;
    }
    for (name, first) in in_flight().zip(firsts) {
        if clients_stay {
            check_status(&act.get(first).await?, 201)?;
        }
        let is_paid = |answer: &Answer| answer.status == 201;
        let again = act.retry_until(&request(&name), is_paid, is_in_progress).await?;
        ensure!(again.is_replayed(), "the retry of {name} executed by itself");
        act.executed(&name, 1).await?;
    }
    ensure!(act.stage.counted("suspected_duplicates").await? == 0, "a duplicate is suspected");
    check_no_reload(act).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_under_load_loses_and_doubles_nothing() {
    play(dynamic, async |act| pushes_under_load(act, false).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_under_load_loses_and_doubles_nothing_of_what_the_router_executes() {
    let change = |setup: &mut Setup| {
        for book in ["payments", "orders"] {
            setup.rule(book)["execute"] = json!({ "mode": "attached" });
        }
        setup.dynamic_listeners = true;
        // The client's stream is the execution's, and must be let end.
        setup.drain_s = 600;
        Ok(())
    };
    play(change, async |act| pushes_under_load(act, true).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_configuration_is_refused_and_the_old_one_goes_on() {
    play(dynamic, async |act| {
        let request = pay("/payments", "before-the-mistake");
        let first = act.send(&request).await?;
        check_status(&first, 201)?;
        for (field, wrong) in [("lease_ms", json!(1)), ("leese_ms", json!(5000))] {
            let mut filter = act.stage.first_gateway().setup().filter.clone();
            filter["rules"][0][field] = wrong;
            let refused = read(act, REFUSED).await?;
            act.stage.first_gateway().push(&filter)?;
            counts_more(act, REFUSED, refused).await?;
            let log = act.stage.first_gateway().process().log_end();
            ensure!(log.contains(field), "the log does not name {field}: {log}");
            for number in 0..4 {
                check_replay(&first, &act.send(&request).await?)?;
                let name = format!("after-the-mistake-{field}-{number}");
                check_status(&act.send(&pay("/payments", &name)).await?, 201)?;
            }
        }
        act.does("pushes one that is right");
        act.stage.first_gateway().push(&with_hooks(act)?)?;
        hooks_are_guarded(act).await?;
        check_replay(&first, &act.send(&request).await?)?;
        act.executed("before-the-mistake", 1).await?;
        check_no_reload(act).await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_whose_configuration_is_wrong_ends_and_names_the_field() {
    let start = async |change: fn(&mut Setup)| {
        let options = Options::on(StoreKind::Sqlite);
        let started = Stage::start_with(options, |setup| {
            change(setup);
            Ok(())
        });
        started.await.err().map(|error| format!("{error:#}"))
    };
    let why = start(|setup| setup.filter["rules"][1]["on_ambiguous"] = json!("guess")).await;
    let why = why.expect("Envoy has started");
    assert!(why.contains("envoy-1") && why.contains("rules[1].on_ambiguous"), "{why}");
    let why = start(|setup| setup.filter["secrets"][0]["env"] = json!("NOBODY_SET_THIS")).await;
    let why = why.expect("Envoy has started");
    assert!(why.contains("NOBODY_SET_THIS is not set"), "{why}");
}

/// A request of raw bytes, with `headers` among its own, each ended by a line's end.
fn payment(name: &str, headers: &str) -> Vec<u8> {
    let body = json!({ "amount": 1200, "currency": "EUR", "reference": name }).to_string();
    let length = body.len();
    format!(
        "POST /payments HTTP/1.1\r\nhost: payments.example\r\nx-api-key: acme-demo-key\r\n\
         content-type: application/json\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_rule_guards_passes_untouched_and_an_upgrade_that_is_none_is_guarded() {
    let keys_are_optional = |setup: &mut Setup| {
        setup.rule("orders")["key"] = json!({ "required": false });
        Ok(())
    };
    play(keys_are_optional, async |act| {
        let first = act.send(&pay("/payments", "to-be-read")).await?;
        let location = first.header("location").context("no payment to read")?;
        let elsewhere = pay("/payments", "elsewhere").path("/elsewhere");
        let grpc = Request::post("/payments/document?reference=grpc").key("grpc");
        let grpc = grpc.header("content-type", "application/grpc").bytes("\0\0\0\0\0");
        let keyless = pay_without_key("/orders", "keyless");
        let read_payment = Request::new(Method::GET, location).key("read");
        for times in 1..=3 {
            for (request, status) in
                [(&read_payment, 200), (&elsewhere, 404), (&keyless, 201), (&grpc, 201)]
            {
                let answer = act.send(request).await?;
                check_status(&answer, status)?;
                ensure!(answer.header("idempotent-replayed").is_none(), "{request} was touched");
            }
            let executions = act.executed("keyless", times).await?;
            ensure!(executions.iter().all(|it| it.key.is_none()), "a key was made: {executions:?}");
            let executions = act.executed("grpc", times).await?;
            ensure!(
                executions.iter().all(|it| it.key.as_deref() == Some("grpc")),
                "{executions:?}"
            );
        }
        // A key makes the same guarded.
        let keyed = pay("/orders", "keyed");
        let answer = act.send(&keyed).await?;
        check_replay(&answer, &act.send(&keyed).await?)?;

        for (number, headers) in
            ["upgrade: websocket\r\n", "upgrade: h2c\r\nconnection: keep-alive\r\n"]
                .into_iter()
                .enumerate()
        {
            let name = &format!("no-upgrade-{number}");
            let keyless = payment(name, headers);
            let status = act.send_raw("an upgrade that is none, without a key", &keyless).await?;
            ensure!(status == Some(400), "passed by the filter: {status:?}");
            let keyed = payment(name, &format!("{headers}idempotency-key: {name}\r\n"));
            for _ in 0..2 {
                let answer = raw::exchange(act.gateway(), &keyed).await?;
                ensure!(raw::status(&answer) == Some(201), "{:?}", String::from_utf8(answer));
            }
            act.executed(name, 1).await?;
        }
        check_no_reload(act).await
    })
    .await;
}
