//! The state endpoint: what filters call.
//!
//! `POST /state/v1/batch` takes a protobuf `BatchRequest` and answers a `BatchReply`
//! (`core/proto/state.proto`). The endpoint remembers nothing that matters: every answer comes
//! from the store, so any number of servers can stand beside one store.
//!
//! * **A batch is not a unit.** An operation that cannot be understood fails alone, one that the
//!   store could not do fails alone, and only where nothing is known of any of them is the whole
//!   batch answered with an error. Asking again is always safe.
//! * **Everything is bounded**: bytes and operations of a request, bytes of a reply, batches at
//!   once, the time for a body to arrive and for the store to answer.
//! * **Only filters are served.** A token, where one is set, is compared by digest in constant
//!   time; a browser is refused, since a page that is shown on the machine of a server on
//!   loopback could otherwise speak for a filter.
//!
//! Deliberately absent: what operators do, and any decision about a record.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, FailedToBufferBody};
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, ORIGIN};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::StateStore;

mod batch;
mod gateways;
mod meters;
mod problem;
mod refusal;
#[cfg(test)]
mod tests;
mod tokens;

pub use gateways::{GATEWAY_LIVE, GATEWAYS_MAX, GatewaySeen, Gateways, LiveGateways};
pub use meters::{BatchResult, Meters, OperationKind, ResultKind};
pub use problem::problem;
pub use tokens::{TOKEN_BYTES_MIN, TOKENS_MAX, TokenError, Tokens};

use batch::Batch;
use refusal::Refusal;

/// Where filters call.
pub const BATCH_PATH: &str = "/state/v1/batch";

/// What requests and replies are.
pub const PROTOBUF: &str = "application/x-protobuf";

/// The longest request, in bytes. Filters split what would be longer.
pub const REQUEST_BYTES_MAX: usize = 4 << 20;

/// The longest reply to more than one operation, in bytes: well under the 32 MiB at which Envoy
/// drops a call-out's answer. What does not fit is answered `Alone` and asked for again.
pub const REPLY_BYTES_MAX: usize = 4 << 20;

/// The most operations in a batch: twice what a worker may execute at once by default, so that
/// all its leases can be renewed together.
pub const OPERATIONS_MAX: usize = 8192;

/// The most batches that are worked on at once; more of them wait. With [`REQUEST_BYTES_MAX`]
/// it bounds the memory that requests can take.
pub const BATCHES_MAX: usize = 256;

/// How long a batch may wait for its turn, and then for its body: many times a filter's own
/// time-out, after which nobody waits for the answer.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the store may take over a batch. Filters have given up by then.
pub const STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// The state endpoint of one server. Clones are the same endpoint.
#[derive(Clone)]
pub struct Endpoint(Arc<Inner>);

struct Inner {
    store: Arc<dyn StateStore>,
    tokens: Tokens,
    gateways: Gateways,
    meters: Meters,
    turns: Semaphore,
}

// === impl Endpoint ===

impl Endpoint {
    /// An endpoint before `store`, for callers that bear one of `tokens`.
    #[must_use]
    pub fn new(store: Arc<dyn StateStore>, tokens: Tokens) -> Self {
        Self(Arc::new(Inner {
            store,
            tokens,
            gateways: Gateways::default(),
            meters: Meters::default(),
            turns: Semaphore::new(BATCHES_MAX),
        }))
    }

    /// The routes, to be merged with others.
    pub fn router(&self) -> Router {
        let batch = post(answer).layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX));
        Router::new().route(BATCH_PATH, batch).with_state(self.clone())
    }

    /// The gateways that have called.
    #[must_use]
    pub fn gateways(&self) -> &Gateways {
        &self.0.gateways
    }

    /// What was counted since the start.
    #[must_use]
    pub fn meters(&self) -> &Meters {
        &self.0.meters
    }

    async fn reply(&self, request: Request) -> Result<Vec<u8>, Refusal> {
        self.check(request.headers())?;
        let (_turn, body) = match timeout(REQUEST_TIMEOUT, self.receive(request)).await {
            Ok(received) => received?,
            Err(_) => return Err(Refusal::TooSlow),
        };
        let (batch, gateway) = Batch::decode(body)?;
        if let Some(gateway) = gateway {
            self.0.gateways.note(gateway, Instant::now());
        }
        let (pending, operations) = batch.split();
        match timeout(STORE_TIMEOUT, self.0.store.apply(operations)).await {
            Ok(Ok(applied)) => Ok(pending.encode(applied, &self.0.meters)),
            Ok(Err(error)) => Err(Refusal::Unavailable(error.to_string())),
            Err(_) => {
                Err(Refusal::Unavailable(format!("no answer within {} s", STORE_TIMEOUT.as_secs())))
            }
        }
    }

    fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if headers.contains_key(ORIGIN) {
            return Err(Refusal::Browser);
        }
        if !self.0.tokens.admit(headers.get(AUTHORIZATION).map(HeaderValue::as_bytes)) {
            return Err(Refusal::Unauthorised);
        }
        if headers.get(CONTENT_TYPE).is_none_or(|value| value != PROTOBUF) {
            return Err(Refusal::WrongMediaType);
        }
        Ok(())
    }

    /// The body, once it is this batch's turn. The turn lasts until the permit is dropped.
    async fn receive(
        &self,
        request: Request,
    ) -> Result<(tokio::sync::SemaphorePermit<'_>, Bytes), Refusal> {
        // The semaphore is never closed; were it, nothing could be served.
        let Ok(turn) = self.0.turns.acquire().await else { return Err(Refusal::TooSlow) };
        match Bytes::from_request(request, &()).await {
            Ok(body) => Ok((turn, body)),
            Err(BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_))) => {
                Err(Refusal::TooLarge)
            }
            Err(_) => Err(Refusal::BrokenOff),
        }
    }
}

async fn answer(State(endpoint): State<Endpoint>, request: Request) -> Response {
    let result = endpoint.reply(request).await;
    endpoint
        .meters()
        .batch(result.as_ref().map_or_else(Refusal::result, |_| BatchResult::Answered));
    match result {
        Ok(reply) => ([(CONTENT_TYPE, HeaderValue::from_static(PROTOBUF))], reply).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}
