use std::time::Instant;

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use latchkey_core::counter::Counts;
use latchkey_core::identity::Identity;
use latchkey_core::operation::Operation;
use latchkey_core::record::Record;
use latchkey_core::time::StoreTime;
use latchkey_state::memory::MemoryStore;
use latchkey_state::outage::STAMP_INTERVAL;
use latchkey_state::router::Tokens;
use latchkey_state::{Applied, InFlight, Page, StoreClock, StoreError};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tower::ServiceExt as _;

use super::door::Connections;
use super::*;

/// The memory model, which can be taken down, and counts what it is asked.
struct Faulty {
    store: MemoryStore,
    down: AtomicBool,
    stamps: AtomicUsize,
    sweeps: AtomicUsize,
}

impl Faulty {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            store: MemoryStore::new(StoreClock::manual(StoreTime(1))),
            down: AtomicBool::new(false),
            stamps: AtomicUsize::new(0),
            sweeps: AtomicUsize::new(0),
        })
    }

    fn reach(&self) -> Result<&MemoryStore, StoreError> {
        if self.down.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("connection refused".into()));
        }
        Ok(&self.store)
    }
}

#[async_trait]
impl StateStore for Faulty {
    async fn apply(&self, operations: Vec<Operation>) -> Result<Applied, StoreError> {
        self.reach()?.apply(operations).await
    }

    async fn stamp(&self) -> Result<StoreTime, StoreError> {
        self.stamps.fetch_add(1, Ordering::SeqCst);
        self.reach()?.stamp().await
    }

    async fn sweep(&self, limit: usize) -> Result<usize, StoreError> {
        // The first step finds as much as it can take.
        let nth = self.sweeps.fetch_add(1, Ordering::SeqCst);
        self.reach().map(|_| if nth == 0 { limit } else { 3 })
    }

    async fn get(&self, identity: Identity) -> Result<Option<Record>, StoreError> {
        self.reach()?.get(identity).await
    }

    async fn in_flight(&self, page: Option<Page>, limit: usize) -> Result<InFlight, StoreError> {
        self.reach()?.in_flight(page, limit).await
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        self.reach().map(|_| Counts { take_overs: 7, ..Counts::default() })
    }
}

async fn get(routes: Router, path: &str) -> (StatusCode, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = routes.oneshot(request).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn metrics(store: &Arc<Faulty>, health: Arc<StoreHealth>) -> Metrics {
    let endpoint = Endpoint::new(store.clone(), Tokens::none());
    Metrics::new(endpoint, store.clone(), health, Connections::none())
}

#[tokio::test]
async fn liveness_is_the_process_and_readiness_is_the_store() {
    let store = Faulty::new();
    let health = Arc::new(StoreHealth::up());
    let endpoint = Endpoint::new(store, Tokens::none());
    let routes = state_routes(&endpoint, health.clone());
    assert_eq!(get(routes.clone(), "/readyz").await.0, StatusCode::OK);
    health.note(Err("connection refused".into()), Instant::now());
    let (status, body) = get(routes.clone(), "/readyz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body.contains("connection refused"), "{body}");
    assert_eq!(get(routes.clone(), "/healthz").await.0, StatusCode::OK, "nothing to restart for");
    health.note(Ok(()), Instant::now());
    assert_eq!(get(routes.clone(), "/readyz").await.0, StatusCode::OK);
    assert_eq!(get(routes.clone(), "/nowhere").await.0, StatusCode::NOT_FOUND);
    let (status, body) = get(routes, "/state/v1/batch").await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    assert!(body.starts_with('{'), "problems everywhere: {body}");
}

#[tokio::test(start_paused = true)]
async fn the_store_is_stamped_every_interval_also_after_failures() {
    let store = Faulty::new();
    let health = Arc::new(StoreHealth::up());
    let task = tokio::spawn(keeper::stamp(store.clone(), health.clone()));
    tokio::time::sleep(STAMP_INTERVAL * 3 + STAMP_INTERVAL / 2).await;
    assert_eq!(store.stamps.load(Ordering::SeqCst), 4, "at once, and after each interval");
    store.down.store(true, Ordering::SeqCst);
    tokio::time::sleep(STAMP_INTERVAL).await;
    assert!(health.ready(Instant::now()).is_err());
    store.down.store(false, Ordering::SeqCst);
    tokio::time::sleep(STAMP_INTERVAL).await;
    assert_eq!(health.ready(Instant::now()), Ok(()));
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_sweep_goes_on_while_there_is_more_and_comes_again() {
    let store = Faulty::new();
    let task = tokio::spawn(keeper::sweep(store.clone()));
    tokio::time::sleep(keeper::SWEEP_INTERVAL / 2).await;
    assert_eq!(store.sweeps.load(Ordering::SeqCst), 2, "a full step, and the rest");
    store.down.store(true, Ordering::SeqCst);
    tokio::time::sleep(keeper::SWEEP_INTERVAL).await;
    assert_eq!(store.sweeps.load(Ordering::SeqCst), 3, "a failure is not tried again at once");
    store.down.store(false, Ordering::SeqCst);
    tokio::time::sleep(keeper::SWEEP_INTERVAL).await;
    assert_eq!(store.sweeps.load(Ordering::SeqCst), 4, "nor is it the end");
    task.abort();
}

#[tokio::test]
async fn the_names_and_kinds_of_metrics_do_not_change_by_accident() {
    let store = Faulty::new();
    let text = metrics(&store, Arc::new(StoreHealth::up())).text().await;
    let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    let types: Vec<_> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    insta::assert_snapshot!(types.join("\n"), @r"
    # TYPE latchkey_build_info gauge
    # TYPE latchkey_store_up gauge
    # TYPE latchkey_connections gauge
    # TYPE latchkey_gateway_workers gauge
    # TYPE latchkey_gateway_executions_in_flight gauge
    # TYPE latchkey_batches_total counter
    # TYPE latchkey_operations_total counter
    # TYPE latchkey_restored_total counter
    # TYPE latchkey_suspected_duplicates_total counter
    # TYPE latchkey_take_overs_total counter
    # TYPE latchkey_holds_total counter
    # TYPE latchkey_expired_unresolved_total counter
    ");
    let samples: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter(|line| !line.starts_with("latchkey_operations_total"))
        .collect();
    insta::assert_snapshot!(samples.join("\n"), @r#"
    latchkey_build_info{version="VERSION"} 1
    latchkey_store_up 1
    latchkey_connections 0
    latchkey_gateway_workers 0
    latchkey_gateway_executions_in_flight 0
    latchkey_batches_total{result="answered"} 0
    latchkey_batches_total{result="invalid"} 0
    latchkey_batches_total{result="unauthorised"} 0
    latchkey_batches_total{result="unavailable"} 0
    latchkey_restored_total 0
    latchkey_suspected_duplicates_total 0
    latchkey_take_overs_total 7
    latchkey_holds_total 0
    latchkey_expired_unresolved_total 0
    "#);
    assert!(
        text.contains("\nlatchkey_operations_total{kind=\"claim\",result=\"in_progress\"} 0\n"),
        "every series is there from the start"
    );
}

#[tokio::test]
async fn what_the_store_counts_is_left_out_while_it_is_down() {
    let store = Faulty::new();
    let health = Arc::new(StoreHealth::up());
    store.down.store(true, Ordering::SeqCst);
    health.note(Err("connection refused".into()), Instant::now());
    let (status, text) = get(metrics_routes(metrics(&store, health)), "/metrics").await;
    assert_eq!(status, StatusCode::OK);
    assert!(text.contains("\nlatchkey_store_up 0\n"));
    assert!(!text.contains("take_overs"), "a zero would be a lie");
}

#[tokio::test]
async fn every_metric_is_documented_and_no_other_is() {
    let page = include_str!("../../../docs/metrics.md");
    // What follows is the filter's, and held to the page by the filter's tests.
    let (page, _) = page.split_once("## What the filter counts").unwrap();
    let store = Faulty::new();
    let text = metrics(&store, Arc::new(StoreHealth::up())).text().await;
    let mut made: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, kind)| format!("| `{name}` | {kind} |"))
        .collect();
    let row = |line: &str| line.splitn(4, '|').take(3).collect::<Vec<_>>().join("|") + "|";
    let mut told: Vec<_> =
        page.lines().filter(|line| line.starts_with("| `latchkey_")).map(row).collect();
    made.sort();
    told.sort();
    assert_eq!(told, made);
    use latchkey_state::router::{BatchResult, OperationKind, ResultKind};
    let names = BatchResult::ALL.iter().map(|it| it.name());
    let names = names.chain(OperationKind::ALL.iter().map(|it| it.name()));
    for name in names.chain(ResultKind::ALL.iter().map(|it| it.name())) {
        assert!(page.contains(&format!("`{name}`")), "docs/metrics.md does not tell of {name}");
    }
}
