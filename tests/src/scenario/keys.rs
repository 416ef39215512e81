//! Keys that are misused, or none.

use super::act::{Act, check_problem, check_replay, check_status, pay, pay_without_key};
use anyhow::ensure;

const REUSED: &str = "idempotency-key-reused";

/// A key that is used for something else: told so, whatever state it is in, and nothing changes.
///
/// # Errors
/// When anything is not as it must be.
pub async fn another_body_or_path_is_refused(act: &mut Act<'_>) -> anyhow::Result<()> {
    let name = "reused";
    let request = pay("/payments/on-approval", name);
    let other_body = pay("/payments/on-approval", "reused-for-this").without_key().key(name);
    let other_path = request.clone().path("/payments");

    let first = act.send_for_later(&request);
    act.begun(name, 1).await?;
    check_problem(&act.send(&other_body).await?, 422, REUSED)?;
    act.does("approves the payment");
    act.stage.approve(name).await?;
    let first = act.get(first).await?;
    check_status(&first, 201)?;

    check_problem(&act.send(&other_body).await?, 422, REUSED)?;
    check_problem(&act.send(&other_path).await?, 422, REUSED)?;
    check_replay(&first, &act.send(&request).await?)?;
    act.executed(name, 1).await?;
    act.executed("reused-for-this", 0).await.map(drop)
}

/// No key, two keys, a key of 300 bytes, control bytes: 400 each, and nothing is executed.
///
/// # Errors
/// When anything is not as it must be.
pub async fn a_key_that_is_none_is_refused(act: &mut Act<'_>) -> anyhow::Result<()> {
    let name = "no-key";
    let without = pay_without_key("/payments", name);
    check_problem(&act.send(&without).await?, 400, "idempotency-key-missing")?;
    for wrong in [
        without.clone().key("one").key("two"),
        without.clone().key(&"long".repeat(75)),
        without.clone().key(""),
        without.clone().key("\"quoted but never closed"),
    ] {
        check_problem(&act.send(&wrong).await?, 400, "idempotency-key-invalid")?;
    }
    for byte in [1, 9, 127] {
        let status = act.send_raw(&format!("a key with the byte {byte}"), &raw(name, byte)).await?;
        ensure!(status == Some(400), "a key with the byte {byte} was answered {status:?}");
    }
    act.executed(name, 0).await.map(drop)
}

/// A request whose key holds `byte`.
fn raw(reference: &str, byte: u8) -> Vec<u8> {
    let body = format!(r#"{{"amount":1200,"currency":"EUR","reference":"{reference}"}}"#);
    let head = format!(
        "POST /payments HTTP/1.1\r\nhost: gateway\r\nx-api-key: acme-demo-key\r\n\
         content-length: {}\r\nidempotency-key: a",
        body.len()
    );
    [head.as_bytes(), &[byte], b"b\r\n\r\n", body.as_bytes()].concat()
}
