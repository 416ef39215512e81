//! What callers of the payments service reach.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::answers::{as_asked, created};
use super::approvals::Approvals;
use super::gate::{Gate, HangUp};
use super::ledger::{Arrival, Ledger};

/// The books that payments are kept in.
const BOOKS: [&str; 3] = ["payments", "orders", "direct"];

/// The largest body taken; above what the gateway in front lets pass.
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The largest body that `answer` makes; above the 32 MiB that Envoy takes of an answer.
const ANSWER_BYTES_MAX: usize = 48 * 1024 * 1024;

/// The longest that `slow` may take; above every time-out of the gateway in front.
const SLOW_MS_MAX: u64 = 120_000;

/// What a request may ask for in its query.
#[derive(Debug, Deserialize)]
struct Parameters {
    /// The caller's own name for what is paid, where the body has none.
    reference: Option<String>,
    /// How long `slow` takes, in milliseconds.
    ms: Option<u64>,
    /// With what `flaky` fails, and `answer` answers.
    status: Option<u16>,
    /// How many executions of a key `flaky` fails.
    times: Option<u64>,
    /// How long the body of `answer` is.
    bytes: Option<usize>,
    /// Whether only half of it is sent.
    cut: Option<bool>,
}

/// How an execution goes.
#[derive(Clone, Copy, Debug)]
enum Behaviour {
    Pay,
    Slow(Duration),
    OnApproval,
    Flaky { status: StatusCode, times: u64 },
    CommitThenClose,
    CommitThenGoDown,
    Document,
    Answer { status: StatusCode, bytes: usize, cut: bool },
}

/// The body of a payment.
#[derive(Debug, Deserialize)]
struct Payment {
    /// In the currency's smallest unit.
    amount: u64,
    currency: String,
    reference: String,
}

/// What executions work with.
#[derive(Clone)]
struct Service {
    ledger: Arc<Ledger>,
    approvals: Arc<Approvals>,
    gate: Arc<Gate>,
}

/// The service.
pub(super) fn router(ledger: Arc<Ledger>, approvals: Arc<Approvals>, gate: Arc<Gate>) -> Router {
    Router::new()
        .route("/{book}", post(pay))
        .route("/{book}/{behaviour}", get(show).post(behave).patch(behave))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(Service { ledger, approvals, gate })
}

/// A service that does nothing, quickly.
pub(super) fn minimal() -> Router {
    Router::new().fallback(async |_: Bytes| (StatusCode::CREATED, Json(json!({ "id": 1 }))))
}

async fn pay(service: State<Service>, Path(book): Path<String>, request: Request) -> Response {
    begin(service, book, Some(Behaviour::Pay), request).await
}

async fn behave(
    service: State<Service>,
    Path((book, name)): Path<(String, String)>,
    Query(parameters): Query<Parameters>,
    request: Request,
) -> Response {
    let behaviour = match name.as_str() {
        "slow" => {
            let ms = parameters.ms.unwrap_or(2000).min(SLOW_MS_MAX);
            Some(Behaviour::Slow(Duration::from_millis(ms)))
        }
        "on-approval" => Some(Behaviour::OnApproval),
        "flaky" => StatusCode::from_u16(parameters.status.unwrap_or(503))
            .ok()
            .map(|status| Behaviour::Flaky { status, times: parameters.times.unwrap_or(1) }),
        "commit-then-close" => Some(Behaviour::CommitThenClose),
        "commit-then-go-down" => Some(Behaviour::CommitThenGoDown),
        "answer" => StatusCode::from_u16(parameters.status.unwrap_or(201)).ok().map(|status| {
            let bytes = parameters.bytes.unwrap_or(0).min(ANSWER_BYTES_MAX);
            Behaviour::Answer { status, bytes, cut: parameters.cut.unwrap_or(false) }
        }),
        "document" => Some(Behaviour::Document),
        _ => None,
    };
    begin(service, book, behaviour, request).await
}

async fn show(State(service): State<Service>, Path((_, id)): Path<(String, String)>) -> Response {
    let Ok(id) = id.parse() else { return StatusCode::NOT_FOUND.into_response() };
    match service.ledger.find(id) {
        Ok(Some(execution)) if execution.paid => Json(execution).into_response(),
        Ok(_) => StatusCode::NOT_FOUND.into_response(),
        Err(error) => broken(&error),
    }
}

/// Reads the whole request and executes it in a task of its own, which goes on when the caller
/// leaves.
async fn begin(
    State(service): State<Service>,
    book: String,
    behaviour: Option<Behaviour>,
    request: Request,
) -> Response {
    let Some(behaviour) = behaviour.filter(|_| BOOKS.contains(&book.as_str())) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let (parts, body) = request.into_parts();
    let body = match axum::body::to_bytes(body, BODY_BYTES_MAX).await {
        Ok(body) => body,
        Err(error) => return refuse(&format!("the body did not arrive: {error}")),
    };
    let work = execute(service, book, behaviour, parts.method, parts.uri, parts.headers, body);
    match tokio::spawn(work).await {
        Ok(response) => response,
        Err(error) => broken(&error),
    }
}

async fn execute(
    service: Service,
    book: String,
    behaviour: Behaviour,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let payment: Option<Payment> = serde_json::from_slice(&body).ok();
    let reference = match (&payment, Query::<Parameters>::try_from_uri(&uri)) {
        (Some(payment), _) => payment.reference.clone(),
        (None, Ok(Query(parameters))) => parameters.reference.unwrap_or_default(),
        (None, Err(_)) => String::new(),
    };
    let arrival = Arrival {
        reference,
        method: method.to_string(),
        path: uri.to_string(),
        headers: lines(&headers),
        body: body.to_vec(),
    };
    match carry_out(&service, &book, behaviour, payment, &arrival).await {
        Ok(response) => response,
        Err(error) => broken(&error),
    }
}

async fn carry_out(
    service: &Service,
    book: &str,
    behaviour: Behaviour,
    payment: Option<Payment>,
    arrival: &Arrival,
) -> rusqlite::Result<Response> {
    let Service { ledger, approvals, gate } = service;
    match behaviour {
        Behaviour::Document => {
            let id = ledger.write(arrival, true)?;
            return Ok(received(book, id, &arrival.body));
        }
        Behaviour::Answer { status, bytes, cut } => {
            let id = ledger.write(arrival, true)?;
            return Ok(as_asked(book, id, status, bytes, cut));
        }
        Behaviour::Pay
        | Behaviour::Slow(_)
        | Behaviour::OnApproval
        | Behaviour::Flaky { .. }
        | Behaviour::CommitThenClose
        | Behaviour::CommitThenGoDown => {}
    }
    let Some(payment) = payment.filter(|payment| payment.amount > 0) else {
        ledger.write(arrival, false)?;
        return Ok(refuse("a payment is JSON: amount (above 0), currency, reference"));
    };
    let earlier = ledger.earlier(arrival)?;
    match behaviour {
        Behaviour::Flaky { status, times } if earlier < times => {
            ledger.write(arrival, false)?;
            Ok((status, Json(json!({ "error": "the bank is not reachable" }))).into_response())
        }
        Behaviour::CommitThenClose if earlier == 0 => {
            ledger.write(arrival, true)?;
            Ok(HangUp::response())
        }
        Behaviour::CommitThenGoDown if earlier == 0 => {
            ledger.write(arrival, true)?;
            gate.set(false).await;
            Ok(HangUp::response())
        }
        Behaviour::Slow(pause) => {
            let id = ledger.write(arrival, true)?;
            tokio::time::sleep(pause).await;
            Ok(paid(book, id, &payment))
        }
        Behaviour::OnApproval => {
            let id = ledger.write(arrival, true)?;
            approvals.wait_for(&arrival.reference).await;
            Ok(paid(book, id, &payment))
        }
        Behaviour::Pay
        | Behaviour::Flaky { .. }
        | Behaviour::CommitThenClose
        | Behaviour::CommitThenGoDown
        | Behaviour::Document
        | Behaviour::Answer { .. } => Ok(paid(book, ledger.write(arrival, true)?, &payment)),
    }
}

/// 201, with what a retry must bring back: where the payment is, its version, and cookies on
/// lines of their own.
fn paid(book: &str, id: i64, payment: &Payment) -> Response {
    let Payment { amount, currency, reference } = payment;
    let body = json!({
        "id": id, "amount": amount, "currency": currency, "reference": reference,
        "status": "paid",
    });
    created(book, id, body.to_string())
}

/// 201, with what arrived.
fn received(book: &str, id: i64, bytes: &[u8]) -> Response {
    let body = json!({ "id": id, "bytes": bytes.len(), "sha256": hex(&Sha256::digest(bytes)) });
    created(book, id, body.to_string())
}

fn refuse(detail: &str) -> Response {
    (StatusCode::BAD_REQUEST, Json(json!({ "error": detail }))).into_response()
}

fn broken(error: &dyn std::error::Error) -> Response {
    eprintln!("payments: {error}");
    (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({ "error": "the ledger failed" })))
        .into_response()
}

fn lines(headers: &HeaderMap) -> Vec<(String, String)> {
    headers
        .iter()
        .map(|(name, value)| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
        .collect()
}

/// Lower-case hexadecimal.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
