//! Bytes as they are, for requests that no HTTP library would send.

use std::net::SocketAddr;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::wait::within;

/// How much is read at a time.
const PIECE_BYTES: usize = 16 * 1024;

/// Sends `bytes`, and reads until the answer is whole or the other side closes.
///
/// # Errors
/// When no connection can be made, or neither happens in time.
pub async fn exchange(to: SocketAddr, bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    within("the raw exchange", async {
        let mut stream = TcpStream::connect(to).await.context("no connection")?;
        stream.set_nodelay(true)?;
        let mut answer = Vec::new();
        // A gateway that has seen enough may answer and reset before it has read everything, so
        // a failure to write or read ends the exchange and not the test.
        if stream.write_all(bytes).await.is_ok() {
            let mut piece = vec![0; PIECE_BYTES];
            while !is_whole(&answer)
                && let Ok(length @ 1..) = stream.read(&mut piece).await
            {
                answer.extend_from_slice(&piece[..length]);
            }
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

/// Whether an answer's body is as long as its head says. One that does not say ends with its
/// connection.
fn is_whole(answer: &[u8]) -> bool {
    const END: &[u8] = b"\r\n\r\n";
    let Some(at) = answer.windows(END.len()).position(|bytes| bytes == END) else { return false };
    let head = String::from_utf8_lossy(&answer[..at]).to_ascii_lowercase();
    let body = &answer[at + END.len()..];
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
    if field("transfer-encoding:").is_some() {
        return body.ends_with(b"0\r\n\r\n");
    }
    field("content-length:")
        .and_then(|length| length.trim().parse().ok())
        .is_some_and(|length: usize| body.len() >= length)
}

#[cfg(test)]
mod tests {
    use super::{is_whole, status};

    #[test]
    fn an_answer_is_whole_when_its_body_is_as_long_as_its_head_says() {
        let answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(status(answer), Some(400));
        assert!(is_whole(answer));
        assert!((0..answer.len()).all(|length| !is_whole(&answer[..length])));
        assert!(is_whole(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"
        ));
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n"));
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\n\r\nuntil it closes"));
    }
}
