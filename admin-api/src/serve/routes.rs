//! What is served where.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use latchkey_state::router::{Endpoint, problem};

use super::{Metrics, StoreHealth};

/// The state endpoint, and health beside it: `/healthz` says that the process runs, `/readyz`
/// that it can serve.
pub(super) fn state_routes(endpoint: &Endpoint, health: Arc<StoreHealth>) -> Router {
    let probes = Router::new()
        .route("/healthz", get(async || "the process is running\n"))
        .route("/readyz", get(ready))
        .with_state(health);
    with_problems(endpoint.router().merge(probes))
}

/// Metrics.
pub(super) fn metrics_routes(metrics: Metrics) -> Router {
    with_problems(Router::new().route("/metrics", get(read_metrics)).with_state(Arc::new(metrics)))
}

async fn ready(State(health): State<Arc<StoreHealth>>) -> Response {
    match health.ready(Instant::now()) {
        Ok(()) => "the store answers\n".into_response(),
        Err(why) => problem(StatusCode::SERVICE_UNAVAILABLE, &format!("Not ready: {why}.")),
    }
}

async fn read_metrics(State(metrics): State<Arc<Metrics>>) -> Response {
    ([("content-type", "text/plain; version=0.0.4; charset=utf-8")], metrics.text().await)
        .into_response()
}

fn with_problems(routes: Router) -> Router {
    routes
        .fallback(async || problem(StatusCode::NOT_FOUND, "There is nothing here."))
        .method_not_allowed_fallback(async || {
            problem(StatusCode::METHOD_NOT_ALLOWED, "This takes other methods.")
        })
}
