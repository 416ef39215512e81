//! A request body in chunks.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

/// Sends its chunks one by one.
pub(super) struct Chunks {
    left: VecDeque<Bytes>,
    /// Whether the length stays unannounced.
    chunked: bool,
    pause: Duration,
    timer: Pin<Box<Sleep>>,
}

// === impl Chunks ===

impl Chunks {
    pub(super) fn new(chunks: Vec<Bytes>, chunked: bool, pause: Duration) -> Self {
        let timer = Box::pin(sleep_until(Instant::now() + pause));
        Self { left: chunks.into(), chunked, pause, timer }
    }
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.pause.is_zero() && !self.left.is_empty() {
            if self.timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            let next = Instant::now() + self.pause;
            self.timer.as_mut().reset(next);
        }
        Poll::Ready(self.left.pop_front().map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty() && !self.chunked
    }

    fn size_hint(&self) -> SizeHint {
        if self.chunked {
            SizeHint::default()
        } else {
            let bytes = self.left.iter().map(|chunk| chunk.len() as u64).sum();
            SizeHint::with_exact(bytes)
        }
    }
}
