//! What whoever runs the payments service reaches, on a listener of its own.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;

use super::approvals::Approvals;
use super::gate::Gate;
use super::ledger::Ledger;

#[derive(Clone)]
struct Control {
    ledger: Arc<Ledger>,
    approvals: Arc<Approvals>,
    gate: Arc<Gate>,
}

#[derive(Debug, Deserialize)]
struct Filter {
    reference: Option<String>,
}

/// The control endpoint.
pub(super) fn router(ledger: Arc<Ledger>, approvals: Arc<Approvals>, gate: Arc<Gate>) -> Router {
    Router::new()
        .route("/executions", get(executions))
        .route("/approve", post(approve))
        .route("/down", post(down))
        .route("/up", post(up))
        .with_state(Control { ledger, approvals, gate })
}

async fn executions(State(control): State<Control>, Query(filter): Query<Filter>) -> Response {
    match control.ledger.list(filter.reference.as_deref()) {
        Ok(executions) => Json(executions).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn approve(State(control): State<Control>, Query(filter): Query<Filter>) -> StatusCode {
    let Some(reference) = filter.reference else { return StatusCode::BAD_REQUEST };
    control.approvals.approve(reference);
    StatusCode::NO_CONTENT
}

async fn down(State(control): State<Control>) -> StatusCode {
    control.gate.set(false).await;
    StatusCode::NO_CONTENT
}

async fn up(State(control): State<Control>) -> StatusCode {
    control.gate.set(true).await;
    StatusCode::NO_CONTENT
}
