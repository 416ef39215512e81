//! Bytes as they are, for requests that no HTTP library would send.

use std::net::SocketAddr;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::wait::within;

/// Sends `bytes`, and reads until the other side closes.
///
/// Let the request say `connection: close`, so that it does.
///
/// # Errors
/// When no connection can be made, or it is neither closed nor reset in time.
pub async fn exchange(to: SocketAddr, bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    within("the raw exchange", async {
        let mut stream = TcpStream::connect(to).await.context("no connection")?;
        stream.set_nodelay(true)?;
        let mut answer = Vec::new();
        // A gateway that has seen enough may answer and reset before it has read everything, so
        // a failure to write or read ends the exchange and not the test.
        if stream.write_all(bytes).await.is_ok() {
            let _ = stream.read_to_end(&mut answer).await;
        }
        Ok(answer)
    })
    .await
}

/// The status of an answer's first line, if it has one.
#[must_use]
pub fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\r').next()?;
    std::str::from_utf8(line).ok()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}
