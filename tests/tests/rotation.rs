//! Secrets and fingerprints that are replaced while keys are under way: what is new is recognised
//! first, then used, and what is old is taken away at the end.

use anyhow::{Context as _, ensure};
use latchkey_tests::client::Request;
use latchkey_tests::scenario::{
    Act, EVERY_MODE, check_number, check_problem, number_answers, play_scripted,
};
use latchkey_tests::scripted::{answer, path};
use latchkey_tests::stage::Setup;
use latchkey_tests::wait::until;
use serde_json::{Value, json};

const REUSED: &str = "idempotency-key-reused";

/// What the gateway has of secrets: two, of which the first configuration uses one.
const ENVIRONMENT: &str = "host_env_keys: [ LATCHKEY_SECRET, LATCHKEY_TOKEN ]";

fn with_two_secrets(setup: &mut Setup) -> anyhow::Result<()> {
    setup.dynamic_listeners = true;
    let second = "key_values: { LATCHKEY_SECRET_2: fedcba98765432100123456789abcdef }";
    setup.ingress.replace(ENVIRONMENT, &format!("{ENVIRONMENT}, {second}"))
}

/// Gives the gateway another configuration, and waits until both workers use it.
async fn push(act: &Act<'_>, what: &str, change: impl FnOnce(&mut Setup)) -> anyhow::Result<()> {
    act.does(format_args!("pushes {what}"));
    let marker = format!("/marker/{}", what.replace(' ', "-"));
    act.stage.first_gateway().push_with(|setup| {
        change(setup);
        let mut rule = setup.rule("direct").clone();
        rule["name"] = json!("marker");
        rule["match"] = json!({ "path_exact": marker });
        setup.filter["rules"].as_array_mut().context("no rules")?.push(rule);
        Ok(())
    })?;
    let mut in_a_row = 0;
    until(&format!("{what} are used"), async || {
        let answer = Request::post(&marker).send(act.gateway()).await?;
        let used = answer.problem().as_deref() == Some("idempotency-key-missing");
        in_a_row = if used { in_a_row + 1 } else { 0 };
        Ok((in_a_row > 8).then_some(()))
    })
    .await
}

fn post(name: &str) -> Request {
    Request::post(&path("payments", name)).key(name).bytes("an order")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_replaced_without_a_key_being_taken_for_another_requests() {
    let first = json!({ "id": "1", "env": "LATCHKEY_SECRET" });
    let second = json!({ "id": "2", "env": "LATCHKEY_SECRET_2" });
    let secrets = |them: &[&Value]| {
        let them = json!(them);
        move |setup: &mut Setup| setup.filter["secrets"] = them
    };
    play_scripted(&EVERY_MODE, with_two_secrets, async |act, upstream, _| {
        let done = ["made-with-1", "made-with-1-and-2", "made-with-2-and-1"];
        for name in done {
            number_answers(upstream, name);
        }
        upstream.answers("under-way", &[answer(429, &[], ""), answer(201, &[], "2")]);
        check_number(act, &post(done[0]), 1, false).await?;
        ensure!(act.send(&post("under-way")).await?.status == 429);
        push(act, "the second secret behind the first", secrets(&[&first, &second])).await?;
        check_number(act, &post(done[0]), 1, true).await?;
        check_number(act, &post(done[1]), 1, false).await?;
        push(act, "the second secret before the first", secrets(&[&second, &first])).await?;
        check_number(act, &post(done[2]), 1, false).await?;
        for name in done {
            check_number(act, &post(name), 1, true).await?;
            let other = post(name).bytes("another order");
            check_problem(&act.send(&other).await?, 422, REUSED)?;
        }
        // It goes on under the derived key that it began with.
        check_number(act, &post("under-way"), 2, false).await?;
        let heard = upstream.heard("under-way", 2)?;
        let keys = [&heard[0], &heard[1]].map(|request| request.header("idempotency-key"));
        ensure!(keys[0].is_some() && keys[0] == keys[1], "the upstream got {keys:?}");
        // Gateways that come later with the swap understand those that came before.
        push(act, "the swap undone", secrets(&[&first, &second])).await?;
        for name in done {
            check_number(act, &post(name), 1, true).await?;
        }
        push(act, "the second secret alone", secrets(&[&second])).await?;
        check_number(act, &post(done[2]), 1, true).await?;
        for name in [done[0], done[1], "under-way"] {
            check_problem(&act.send(&post(name)).await?, 422, REUSED)?;
        }
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fingerprint_is_replaced_without_a_key_being_taken_for_another_requests() {
    let fingerprint =
        |it: Value| move |setup: &mut Setup| setup.rule("payments")["fingerprint"] = it;
    play_scripted(&EVERY_MODE, with_two_secrets, async |act, upstream, _| {
        let (raw, value) = ("made-of-bytes", "made-of-values");
        let request = |name, body| {
            post(name).header("content-type", "application/json").header("x-a", "1").bytes(body)
        };
        let (one, same) = (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#);
        number_answers(upstream, raw);
        number_answers(upstream, value);
        check_number(act, &request(raw, one), 1, false).await?;
        let values = json!({ "body": "json", "headers": ["x-a"] });
        let values_first = json!({ "body": "json", "headers": ["x-a"], "previous": [{}] });
        push(act, "values before bytes", fingerprint(values_first)).await?;
        check_number(act, &request(raw, one), 1, true).await?;
        // It is what it was made as.
        check_problem(&act.send(&request(raw, same)).await?, 422, REUSED)?;
        check_number(act, &request(value, one), 1, false).await?;
        check_number(act, &request(value, same), 1, true).await?;
        let other = request(value, same).header("x-a", "2");
        check_problem(&act.send(&other).await?, 422, REUSED)?;
        push(act, "bytes before values", fingerprint(json!({ "previous": [values] }))).await?;
        check_number(act, &request(raw, one), 1, true).await?;
        check_number(act, &request(value, same), 1, true).await?;
        push(act, "values alone", fingerprint(values)).await?;
        check_number(act, &request(value, same), 1, true).await?;
        check_problem(&act.send(&request(raw, one)).await?, 422, REUSED)?;
        upstream.heard(raw, 1)?;
        upstream.heard(value, 1).map(drop)
    })
    .await;
}
