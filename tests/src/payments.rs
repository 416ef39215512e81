//! A payments service that never heard of idempotency: every request it executes is money moved.
//!
//! It is the upstream of the demo and of the end-to-end tests. Its ledger, a SQLite file, has one
//! row for each execution that it began, so that a duplicate can be seen and not only suspected.
//! How a request behaves is in its path, in each of three books alike (`/payments`, `/orders`,
//! `/direct`), so that a gateway can have another rule for each:
//!
//! | request | behaviour |
//! |---|---|
//! | `POST /payments` | pays: 201 with `Location`, `ETag` and two cookies |
//! | `POST /payments/slow?ms=2000` | writes the payment down, and answers that much later |
//! | `POST /payments/on-approval` | writes the payment down, and answers once it is approved |
//! | `POST /payments/flaky?status=503&times=1` | the first executions of a key answer this status, then it pays |
//! | `POST /payments/commit-then-close` | a key's first execution pays, and closes the connection without an answer; later ones pay |
//! | `POST /payments/commit-then-go-down` | the same, and the service goes down until it is taken up |
//! | `POST /payments/answer?reference=R&status=201&bytes=N&cut=true` | writes anything down and answers with this status, as many bytes, of which half are sent when it is to be cut, and header values that are no UTF-8 |
//! | `POST /payments/document?reference=R` | takes any bytes and answers with their length and SHA-256 |
//! | `GET /payments/7` | a payment |
//!
//! PATCH behaves like POST there.
//!
//! A second listener, for whoever runs the service and for tests, shows the ledger
//! (`GET /executions?reference=R`), approves payments (`POST /approve?reference=R`), and takes the
//! service down and up again (`POST /down`, `POST /up`): while it is down, its port refuses
//! connections.
//!
//! An execution goes on when its caller leaves, as it does in services that do their work in a
//! queue or a database: that is what makes unguarded retries dangerous.

mod answers;
mod approvals;
mod control;
mod gate;
mod ledger;
mod service;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use tokio::net::TcpListener;

pub use ledger::Execution;

use approvals::Approvals;
use gate::Gate;
use ledger::Ledger;

/// Serves payments on `listen` and the control endpoint on `control` until the process ends.
///
/// With `minimal` it answers 201 to everything and writes nothing down, so that a benchmark
/// measures what stands before it.
///
/// # Errors
/// When the ledger cannot be opened, or a listener cannot be bound.
pub async fn serve(
    listen: SocketAddr,
    control: SocketAddr,
    ledger: &Path,
    minimal: bool,
) -> anyhow::Result<()> {
    let ledger = Ledger::open(ledger)
        .with_context(|| format!("cannot open the ledger {}", ledger.display()))?;
    let ledger = Arc::new(ledger);
    let approvals = Arc::new(Approvals::default());
    let gate = Arc::new(Gate::open());
    let public = TcpListener::bind(listen)
        .await
        .with_context(|| format!("cannot listen on {listen} for payments"))?;
    let private = TcpListener::bind(control)
        .await
        .with_context(|| format!("cannot listen on {control} for control"))?;
    println!("payments on http://{}, control on http://{}", public.local_addr()?, control);
    let service = match minimal {
        true => service::minimal(),
        false => service::router(Arc::clone(&ledger), Arc::clone(&approvals), Arc::clone(&gate)),
    };
    let serving = gate::serve(public, Arc::clone(&gate), service);
    let controlling = axum::serve(private, control::router(ledger, approvals, gate));
    tokio::select! {
        ended = serving => ended.context("the payments listener failed"),
        ended = controlling => ended.context("the control listener failed"),
    }
}
