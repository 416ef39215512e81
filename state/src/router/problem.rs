//! Errors as RFC 9457 problem details.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// A problem that means no more than its status, so without a type of its own (RFC 9457 §4.2.1).
pub fn problem(status: StatusCode, detail: &str) -> Response {
    let body = json!({
        "title": status.canonical_reason().unwrap_or("Error"),
        "status": status.as_u16(),
        "detail": detail,
    });
    let kind = HeaderValue::from_static("application/problem+json");
    (status, [(CONTENT_TYPE, kind)], body.to_string()).into_response()
}
