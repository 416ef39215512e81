//! Why a whole batch is refused.

use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use super::{BatchResult, OPERATIONS_MAX, PROTOBUF, REQUEST_BYTES_MAX, REQUEST_TIMEOUT, problem};

/// Why. Nothing was applied, but for [`Refusal::Unavailable`], after which nothing is known.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It came from a web page.
    Browser,
    /// It bears no token, or a wrong one.
    Unauthorised,
    /// It does not say that it is protobuf.
    WrongMediaType,
    /// It has too many bytes.
    TooLarge,
    /// It has too many operations.
    TooMany,
    /// Its turn, or its body, did not come in time.
    TooSlow,
    /// Its body did not come to its end.
    BrokenOff,
    /// It is not protobuf.
    Undecodable(String),
    /// The store could not be asked, or did not answer.
    Unavailable(String),
}

// === impl Refusal ===

impl Refusal {
    /// What it counts as.
    pub(super) fn result(&self) -> BatchResult {
        match self {
            Self::Browser | Self::Unauthorised => BatchResult::Unauthorised,
            Self::WrongMediaType
            | Self::TooLarge
            | Self::TooMany
            | Self::BrokenOff
            | Self::Undecodable(_) => BatchResult::Invalid,
            Self::TooSlow | Self::Unavailable(_) => BatchResult::Unavailable,
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Browser => StatusCode::FORBIDDEN,
            Self::Unauthorised => StatusCode::UNAUTHORIZED,
            Self::WrongMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge | Self::TooMany => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BrokenOff | Self::Undecodable(_) => StatusCode::BAD_REQUEST,
            Self::TooSlow | Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::Browser => "This endpoint is for gateways; requests of web pages, which bear \
                 an `Origin`, are refused."
                .to_owned(),
            Self::Unauthorised => "This server wants a token that the request does not bear: \
                 send `Authorization: Bearer <token>` with the token that the server was \
                 started with."
                .to_owned(),
            Self::WrongMediaType => format!("The body has to be `content-type: {PROTOBUF}`."),
            Self::TooLarge => {
                format!("The request is longer than {REQUEST_BYTES_MAX} bytes: send it in parts.")
            }
            Self::TooMany => {
                format!("The batch has more than {OPERATIONS_MAX} operations: send it in parts.")
            }
            Self::TooSlow => format!(
                "The request could not be received within {} s: ask again.",
                REQUEST_TIMEOUT.as_secs()
            ),
            Self::BrokenOff => "The body broke off.".to_owned(),
            Self::Undecodable(why) => format!("The body is not a BatchRequest: {why}."),
            Self::Unavailable(why) => {
                format!("What became of the operations is unknown: {why}. Ask again.")
            }
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = problem(self.status(), &self.detail());
        let header = match self {
            Self::Unauthorised => Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
            Self::TooSlow | Self::Unavailable(_) => {
                Some((RETRY_AFTER, HeaderValue::from_static("1")))
            }
            Self::Browser
            | Self::WrongMediaType
            | Self::TooLarge
            | Self::TooMany
            | Self::BrokenOff
            | Self::Undecodable(_) => None,
        };
        response.headers_mut().extend(header);
        response
    }
}
