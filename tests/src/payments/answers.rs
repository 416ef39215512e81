//! Answers that a gateway in front has to keep as they are.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, LOCATION, SET_COOKIE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use hyper::body::Frame;

use super::gate::HungUp;

/// A text in Latin-1, which is no UTF-8: old services send such values.
const LATIN_1: &[u8] = b"caf\xE9 \xFC\x80\xFF";

/// A body that breaks off.
struct CutOff(Option<Bytes>);

/// 201, with what a retry must bring back: where the payment is, its version, and cookies on
/// lines of their own.
pub(super) fn created(book: &str, id: i64, body: String) -> Response {
    let mut response = (StatusCode::CREATED, body).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(location) = HeaderValue::try_from(format!("/{book}/{id}")) {
        headers.insert(LOCATION, location);
    }
    if let Ok(etag) = HeaderValue::try_from(format!("\"{id}-1\"")) {
        headers.insert(ETAG, etag);
    }
    headers.append(SET_COOKIE, HeaderValue::from_static("basket=paid; Path=/"));
    headers.append(SET_COOKIE, HeaderValue::from_static("survey=later; Path=/"));
    response
}

/// The same with this status, a body of so many bytes, and a value that is no UTF-8. Of a body
/// that is to be `cut`, half is sent, and then the connection is closed.
pub(super) fn as_asked(
    book: &str,
    id: i64,
    status: StatusCode,
    bytes: usize,
    cut: bool,
) -> Response {
    let mut response = created(book, id, "a".repeat(bytes));
    *response.status_mut() = status;
    if let Ok(value) = HeaderValue::from_bytes(LATIN_1) {
        response.headers_mut().insert(HeaderName::from_static("x-note"), value);
    }
    if cut {
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(bytes));
        *response.body_mut() = Body::new(CutOff(Some("a".repeat(bytes / 2).into())));
    }
    response
}

// === impl CutOff ===

impl HttpBody for CutOff {
    type Data = Bytes;
    type Error = HungUp;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HungUp>>> {
        Poll::Ready(Some(self.0.take().map(Frame::data).ok_or(HungUp)))
    }
}
