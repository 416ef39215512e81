//! Bytes as they are, for requests that no HTTP library would send.

use std::net::SocketAddr;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::http1::{Message, Side};
use crate::wait::within;

/// How much is read at a time.
const PIECE_BYTES: usize = 16 * 1024;

/// Sends `bytes`, and reads until the answer is whole or the other side closes.
///
/// # Errors
/// When no connection can be made, or neither happens in time.
pub async fn exchange(to: SocketAddr, bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    exchange_until(to, bytes, is_whole).await
}

/// The same, but reads until the other side closes, whatever it says: what follows on a change of
/// protocol is no answer any more.
///
/// # Errors
/// As [`exchange`].
pub async fn exchange_to_the_end(to: SocketAddr, bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    exchange_until(to, bytes, |_| false).await
}

async fn exchange_until(
    to: SocketAddr,
    bytes: &[u8],
    is_whole: fn(&[u8]) -> bool,
) -> anyhow::Result<Vec<u8>> {
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

/// The same for a test that looks at the answer: those that came in advance, and the final one.
///
/// # Errors
/// As [`exchange`], and when there is no final answer.
pub async fn converse(to: SocketAddr, bytes: &[u8]) -> anyhow::Result<(Vec<Message>, Message)> {
    let mut answers = Message::all(&exchange(to, bytes).await?, Side::Answer);
    let last = answers.pop().filter(|last| !last.is_interim()).context("no answer")?;
    Ok((answers, last))
}

/// The status of an answer's first line, if it has one.
#[must_use]
pub fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\r').next()?;
    std::str::from_utf8(line).ok()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}

/// Whether the final answer is as long as its head says. One that does not say ends with its
/// connection.
fn is_whole(mut answer: &[u8]) -> bool {
    while let Some((message, length)) = Message::read(answer, Side::Answer) {
        if !message.is_interim() {
            return true;
        }
        answer = &answer[length..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{is_whole, status};

    #[test]
    fn an_answer_is_whole_when_the_final_one_is() {
        let answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(status(answer), Some(400));
        let answer = [b"HTTP/1.1 100 Continue\r\n\r\n".as_slice(), answer].concat();
        assert!(is_whole(&answer));
        assert!((0..answer.len()).all(|length| !is_whole(&answer[..length])));
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\n\r\nuntil it closes"));
    }
}
