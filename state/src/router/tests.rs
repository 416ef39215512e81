use std::convert::Infallible;
use std::sync::Mutex;
use std::task::Poll;

use async_trait::async_trait;
use axum::body::{Body, HttpBody, to_bytes};
use axum::http::{Method, StatusCode};
use latchkey_core::counter::Counts;
use latchkey_core::fingerprint::{Candidate, Fingerprint};
use latchkey_core::identity::Identity;
use latchkey_core::operation::{Claim, Event, FilterEvent, Operation, Reply, Ticket, Verdict};
use latchkey_core::record::{
    ExecutionId, Fence, OnAmbiguous, Outcome, Record, Response as Stored, Subject, Terms,
};
use latchkey_core::time::StoreTime;
use latchkey_core::wire::state_v1::{BatchReply, BatchRequest, Gateway};
use latchkey_core::wire::{Answer, Message, decode_result, encode_operation};
use tower::ServiceExt as _;

use super::*;
use crate::memory::MemoryStore;
use crate::{Applied, InFlight, Page, StoreClock, StoreError};

const NOW: StoreTime = StoreTime(1_000_000_000);
const TOKEN: &str = "0123456789abcdef";

/// What is wrong with the store.
#[derive(Clone, Copy, Default)]
enum Fault {
    #[default]
    None,
    /// Nothing is known of any operation.
    Down,
    /// It does not answer.
    Hangs,
    /// Nothing is known of the first operation, and the second's record is corrupt.
    Some,
    /// It says less than it was asked.
    Short,
}

/// The memory model, with faults.
struct Faulty {
    store: MemoryStore,
    fault: Mutex<Fault>,
}

#[async_trait]
impl StateStore for Faulty {
    async fn apply(&self, operations: Vec<Operation>) -> Result<Applied, StoreError> {
        let fault = *self.fault.lock().unwrap();
        match fault {
            Fault::Down => return Err(StoreError::Unavailable("connection refused".into())),
            Fault::Hangs => std::future::pending::<()>().await,
            Fault::None | Fault::Some | Fault::Short => {}
        }
        let mut applied = self.store.apply(operations).await?;
        match fault {
            Fault::Some => {
                applied.results[0] = Err(StoreError::Unavailable("time-out".into()));
                applied.results[1] = Err(StoreError::Unreadable("no lease".into()));
            }
            Fault::Short => applied.results.truncate(1),
            Fault::None | Fault::Down | Fault::Hangs => {}
        }
        Ok(applied)
    }

    async fn stamp(&self) -> Result<StoreTime, StoreError> {
        self.store.stamp().await
    }

    async fn sweep(&self, limit: usize) -> Result<usize, StoreError> {
        self.store.sweep(limit).await
    }

    async fn get(&self, identity: Identity) -> Result<Option<Record>, StoreError> {
        self.store.get(identity).await
    }

    async fn in_flight(&self, page: Option<Page>, limit: usize) -> Result<InFlight, StoreError> {
        self.store.in_flight(page, limit).await
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        self.store.counts().await
    }
}

/// An endpoint before a memory model with faults.
struct Bench {
    endpoint: Endpoint,
    store: Arc<Faulty>,
}

impl Bench {
    fn new() -> Self {
        Self::with(Tokens::none())
    }

    fn with(tokens: Tokens) -> Self {
        let store = MemoryStore::new(StoreClock::manual(NOW));
        let store = Arc::new(Faulty { store, fault: Mutex::default() });
        Self { endpoint: Endpoint::new(store.clone(), tokens), store }
    }

    fn fault(&self, fault: Fault) {
        *self.store.fault.lock().unwrap() = fault;
    }

    async fn send(&self, request: axum::http::Request<Body>) -> (StatusCode, HeaderMap, Bytes) {
        let response = self.endpoint.router().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        (parts.status, parts.headers, to_bytes(body, usize::MAX).await.unwrap())
    }

    async fn answers(&self, operations: &[Operation]) -> Vec<Answer> {
        let (status, headers, body) = self.send(request(batch(operations))).await;
        assert_eq!(status, StatusCode::OK, "{body:?}");
        assert_eq!(headers[CONTENT_TYPE], PROTOBUF);
        let reply = BatchReply::decode(body).unwrap();
        assert_eq!(reply.now_us, NOW.0);
        reply.results.into_iter().map(|result| decode_result(result).unwrap()).collect()
    }

    /// Completes key `nth` with a body of `bytes`, past the endpoint and its limits.
    async fn completed(&self, nth: u8, bytes: usize) {
        let store = &self.store.store;
        let claimed = store.apply(vec![claim(nth, nth)]).await.unwrap().results.remove(0);
        let Ok(Reply::Claimed(claimed)) = claimed else { panic!("{claimed:?}") };
        let done = store.apply(vec![complete(nth, claimed.fence, bytes)]).await.unwrap();
        assert_eq!(done.results, [Ok(Reply::Settled)]);
    }
}

fn request(body: impl Into<Body>) -> axum::http::Request<Body> {
    axum::http::Request::builder()
        .method(Method::POST)
        .uri(BATCH_PATH)
        .header(CONTENT_TYPE, PROTOBUF)
        .body(body.into())
        .unwrap()
}

fn message(operations: &[Operation]) -> BatchRequest {
    let gateway = Gateway {
        node: "edge-1".into(),
        worker: vec![1, 2],
        filter_version: "0.1.0".into(),
        configuration_hash: vec![3],
        executions_in_flight: 4,
    };
    let operations = operations.iter().map(|it| encode_operation(it).unwrap()).collect();
    BatchRequest { gateway: Some(gateway), operations }
}

fn batch(operations: &[Operation]) -> Vec<u8> {
    message(operations).encode_to_vec()
}

fn subject(key: u8) -> Subject {
    Subject {
        namespace: "test".into(),
        rule: "payments".into(),
        client: "acme".into(),
        key: format!("k{key}"),
    }
}

fn terms() -> Terms {
    Terms {
        on_ambiguous: OnAmbiguous::Hold,
        attempts_max: 3,
        lease_us: 15_000_000,
        ttl_us: 60_000_000,
        held_ttl_us: 60_000_000,
    }
}

fn candidate(key: u8) -> Candidate {
    let fingerprint = Fingerprint { version: 1, secret: "a".into(), digest: [key; 32] };
    Candidate { fingerprint, derived_key: "derived".into() }
}

fn operation(key: u8, event: FilterEvent) -> Operation {
    let event = Event::Filter { void_after: NOW.plus(1_000_000), event };
    Operation { identity: Identity([key; 32]), event }
}

fn claim(key: u8, execution: u8) -> Operation {
    operation(
        key,
        FilterEvent::Claim(Claim {
            execution: ExecutionId([execution; 16]),
            candidates: vec![candidate(key)],
            terms: terms(),
            subject: subject(key),
            gateway: "edge-1".into(),
        }),
    )
}

fn complete(key: u8, fence: Fence, bytes: usize) -> Operation {
    let ticket = Ticket {
        execution: ExecutionId([key; 16]),
        fence,
        attempt: 1,
        sent: 1,
        candidate: candidate(key),
        terms: terms(),
        subject: subject(key),
        gateway: "edge-1".into(),
    };
    let outcome =
        Outcome::Response(Stored { status: 201, headers: vec![], body: vec![b'x'; bytes] });
    operation(key, FilterEvent::Complete { ticket, outcome })
}

/// The length of a replayed body, `None` where the answer is no replay.
fn body_bytes(answer: &Answer) -> Option<usize> {
    if let Answer::Reply(Reply::Refused(Verdict::Completed(Outcome::Response(stored)))) = answer {
        Some(stored.body.len())
    } else {
        None
    }
}

#[tokio::test]
async fn a_claim_executes_once_and_its_outcome_is_replayed() {
    let bench = Bench::new();
    let claimed = bench.answers(&[claim(1, 1)]).await;
    let [Answer::Reply(Reply::Claimed(claimed))] = &claimed[..] else { panic!("{claimed:?}") };
    let done = bench.answers(&[complete(1, claimed.fence, 10)]).await;
    assert_eq!(done, [Answer::Reply(Reply::Settled)]);
    let again = bench.answers(&[claim(1, 2), claim(2, 3)]).await;
    assert_eq!(body_bytes(&again[0]), Some(10));
    assert!(matches!(again[1], Answer::Reply(Reply::Claimed(_))), "results are in order");
}

#[tokio::test]
async fn an_operation_that_is_none_fails_alone() {
    let bench = Bench::new();
    let mut message = message(&[claim(1, 1), claim(2, 2), claim(3, 3)]);
    message.operations[1].identity = vec![7];
    let (status, _, body) = bench.send(request(message.encode_to_vec())).await;
    assert_eq!(status, StatusCode::OK);
    let reply = BatchReply::decode(body).unwrap();
    let answers: Vec<_> = reply.results.into_iter().map(|it| decode_result(it).unwrap()).collect();
    assert!(matches!(answers[0], Answer::Reply(Reply::Claimed(_))));
    let Answer::Failed(why) = &answers[1] else { panic!("{answers:?}") };
    assert!(why.contains("`identity`"), "{why}");
    assert!(matches!(answers[2], Answer::Reply(Reply::Claimed(_))));
    assert_eq!(bench.endpoint.meters().operations(OperationKind::Invalid, ResultKind::Failed), 1);
}

#[tokio::test]
async fn bytes_in_the_place_of_an_operation_fail_alone() {
    let bench = Bench::new();
    let mut bytes = vec![0x12, 2, 0xff, 0xff];
    bytes.extend(batch(&[claim(1, 1)]));
    let (status, _, body) = bench.send(request(bytes)).await;
    assert_eq!(status, StatusCode::OK);
    let reply = BatchReply::decode(body).unwrap();
    let answers: Vec<_> = reply.results.into_iter().map(|it| decode_result(it).unwrap()).collect();
    assert!(matches!(answers[0], Answer::Failed(_)));
    assert!(matches!(answers[1], Answer::Reply(Reply::Claimed(_))));
}

#[tokio::test]
async fn a_body_that_is_no_message_is_refused() {
    let bench = Bench::new();
    let (status, headers, body) = bench.send(request("not protobuf")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(headers[CONTENT_TYPE], "application/problem+json");
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(problem["status"], 400);
    assert_eq!(bench.endpoint.meters().batches(BatchResult::Invalid), 1);
}

#[tokio::test]
async fn an_empty_batch_tells_the_clock_and_introduces_the_gateway() {
    let bench = Bench::new();
    assert_eq!(bench.answers(&[]).await, []);
    let list = bench.endpoint.gateways().list();
    assert_eq!(list.len(), 1);
    let seen = (&*list[0].node, &*list[0].worker, list[0].executions_in_flight);
    assert_eq!(seen, ("edge-1", "0102", 4));
}

#[tokio::test]
async fn requests_are_bounded_in_bytes_and_in_operations() {
    let bench = Bench::new();
    let (status, ..) = bench.send(request(vec![0; REQUEST_BYTES_MAX + 1])).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    let empty = [0x12, 0];
    let (status, ..) = bench.send(request(empty.repeat(OPERATIONS_MAX + 1))).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    let (status, _, body) = bench.send(request(empty.repeat(OPERATIONS_MAX))).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(BatchReply::decode(body).unwrap().results.len(), OPERATIONS_MAX);
}

#[tokio::test]
async fn what_the_reply_has_no_room_for_is_asked_for_alone() {
    let bench = Bench::new();
    let large = REPLY_BYTES_MAX - 10_000;
    bench.completed(1, large).await;
    bench.completed(2, large).await;
    bench.completed(3, 10).await;
    let operations = [claim(1, 11), claim(2, 12), claim(3, 13), claim(4, 14)];
    let (_, _, body) = bench.send(request(batch(&operations))).await;
    assert!(body.len() <= REPLY_BYTES_MAX, "{} bytes", body.len());
    let answers = bench.answers(&operations).await;
    assert_eq!(body_bytes(&answers[0]), Some(large));
    assert_eq!(answers[1], Answer::Alone);
    assert_eq!(body_bytes(&answers[2]), Some(10), "what fits is not held back");
    assert!(matches!(answers[3], Answer::Reply(Reply::Claimed(_))));
    assert_eq!(body_bytes(&bench.answers(&operations[1..2]).await[0]), Some(large));
}

#[tokio::test]
async fn a_single_result_is_sent_whatever_its_length() {
    let bench = Bench::new();
    let huge = REPLY_BYTES_MAX + 1;
    bench.completed(1, huge).await;
    assert_eq!(bench.answers(&[claim(1, 11), claim(2, 12)]).await[0], Answer::Alone);
    assert_eq!(body_bytes(&bench.answers(&[claim(1, 11)]).await[0]), Some(huge));
}

#[tokio::test]
async fn while_the_store_is_down_batches_are_refused_and_then_served_again() {
    let bench = Bench::new();
    bench.fault(Fault::Down);
    let (status, headers, body) = bench.send(request(batch(&[claim(1, 1)]))).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(headers["retry-after"], "1");
    assert!(String::from_utf8_lossy(&body).contains("connection refused"), "{body:?}");
    assert_eq!(bench.endpoint.meters().batches(BatchResult::Unavailable), 1);
    bench.fault(Fault::None);
    assert!(matches!(bench.answers(&[claim(1, 1)]).await[0], Answer::Reply(Reply::Claimed(_))));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_given_up() {
    let bench = Bench::new();
    bench.fault(Fault::Hangs);
    let (status, ..) = bench.send(request(batch(&[claim(1, 1)]))).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn what_the_store_knows_of_single_operations_is_passed_on() {
    let bench = Bench::new();
    bench.fault(Fault::Some);
    let answers = bench.answers(&[claim(1, 1), claim(2, 2), claim(3, 3)]).await;
    assert_eq!(answers[0], Answer::Failed("time-out".into()));
    assert_eq!(answers[1], Answer::Unreadable("no lease".into()));
    assert!(matches!(answers[2], Answer::Reply(Reply::Claimed(_))));
    bench.fault(Fault::Short);
    let answers = bench.answers(&[claim(4, 4), claim(5, 5)]).await;
    assert!(matches!(answers[0], Answer::Reply(Reply::Claimed(_))));
    assert!(matches!(answers[1], Answer::Failed(_)), "a missing result is unknown");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let bench = Bench::new();
    let (status, ..) = bench.send(request(Body::new(Never))).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
}

/// A body that never comes.
struct Never;

impl HttpBody for Never {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

#[tokio::test]
async fn callers_without_the_token_are_refused_before_their_body_is_read() {
    let bench = Bench::with(Tokens::parse(TOKEN).unwrap());
    let (status, headers, _) = bench.send(request(Body::new(Never))).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert_eq!(headers["www-authenticate"], "Bearer");
    assert_eq!(headers[CONTENT_TYPE], "application/problem+json");

    let mut wrong = request(batch(&[]));
    wrong.headers_mut().insert(AUTHORIZATION, "Bearer 0123456789abcdeX".parse().unwrap());
    assert_eq!(bench.send(wrong).await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(bench.endpoint.gateways().list(), [], "nobody is listed who is not let in");

    let mut right = request(batch(&[]));
    right.headers_mut().insert(AUTHORIZATION, format!("Bearer {TOKEN}").parse().unwrap());
    assert_eq!(bench.send(right).await.0, StatusCode::OK);
    assert_eq!(bench.endpoint.meters().batches(BatchResult::Unauthorised), 2);
    assert_eq!(bench.endpoint.meters().batches(BatchResult::Answered), 1);
}

#[tokio::test]
async fn web_pages_and_other_media_types_are_refused() {
    let bench = Bench::new();
    let mut page = request(batch(&[claim(1, 1)]));
    page.headers_mut().insert(ORIGIN, "http://evil.example".parse().unwrap());
    assert_eq!(bench.send(page).await.0, StatusCode::FORBIDDEN);
    let mut form = request(batch(&[claim(1, 1)]));
    form.headers_mut().insert(CONTENT_TYPE, "text/plain".parse().unwrap());
    assert_eq!(bench.send(form).await.0, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert!(
        matches!(bench.answers(&[claim(1, 2)]).await[0], Answer::Reply(Reply::Claimed(_))),
        "neither has claimed"
    );
}

#[tokio::test]
async fn operations_are_counted_by_kind_and_result() {
    let bench = Bench::new();
    bench.completed(1, 10).await;
    bench.answers(&[claim(1, 5), claim(2, 6), claim(2, 7)]).await;
    let meters = bench.endpoint.meters();
    let counted: Vec<_> = OperationKind::ALL
        .iter()
        .flat_map(|kind| ResultKind::ALL.iter().map(move |result| (*kind, *result)))
        .map(|(kind, result)| (kind.name(), result.name(), meters.operations(kind, result)))
        .filter(|(_, _, count)| *count > 0)
        .collect();
    assert_eq!(
        counted,
        [("claim", "claimed", 1), ("claim", "in_progress", 1), ("claim", "completed", 1),]
    );
}
