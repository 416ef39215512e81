//! HTTP/1.1 messages as bytes, for what no library would send or show.

/// Ends a head, and the trailers.
const END: &[u8] = b"\r\n\r\n";

/// Which way a message goes: a request that says nothing of its length has no body, an answer's
/// body then ends with its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// To a server.
    Request,
    /// From it.
    Answer,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its first line.
    pub start: String,
    /// Its header lines in their order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body, without framing.
    pub body: Vec<u8>,
    /// The lines that follow a chunked body.
    pub trailers: Vec<(String, String)>,
}

// === impl Message ===

impl Message {
    /// The message that `bytes` begin with, and its length with framing; nothing while it is not
    /// whole, or where only the connection's end can tell.
    #[must_use]
    pub fn read(bytes: &[u8], side: Side) -> Option<(Self, usize)> {
        let head = position(bytes, END)?;
        let mut message = Self::from_head(&bytes[..head]);
        let body = &bytes[head + END.len()..];
        let length = if side == Side::Answer && message.never_has_a_body() {
            0
        } else if message.header("transfer-encoding").is_some() {
            let (body, trailers, length) = chunks(body)?;
            (message.body, message.trailers) = (body, trailers);
            length
        } else {
            let length = message.header("content-length").and_then(|length| length.parse().ok());
            let length = length.or((side == Side::Request).then_some(0))?;
            message.body = body.get(..length)?.to_vec();
            length
        };
        Some((message, head + END.len() + length))
    }

    /// Every message of a connection that was closed after `bytes`; of the last, what came.
    #[must_use]
    pub fn all(mut bytes: &[u8], side: Side) -> Vec<Self> {
        let mut messages = Vec::new();
        while let Some((message, length)) = Self::read(bytes, side) {
            messages.push(message);
            bytes = &bytes[length..];
        }
        if let Some(head) = position(bytes, END) {
            let mut message = Self::from_head(&bytes[..head]);
            message.body = bytes[head + END.len()..].to_vec();
            messages.push(message);
        }
        messages
    }

    fn from_head(head: &[u8]) -> Self {
        let head = String::from_utf8_lossy(head);
        let (start, headers) = head.split_once("\r\n").unwrap_or((&head, ""));
        Self {
            start: start.to_owned(),
            headers: lines(headers),
            body: Vec::new(),
            trailers: Vec::new(),
        }
    }

    /// An answer's status.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.start.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()
    }

    /// Whether another answer follows to the same request.
    #[must_use]
    pub fn is_interim(&self) -> bool {
        matches!(self.status(), Some(100 | 102..=199))
    }

    fn never_has_a_body(&self) -> bool {
        matches!(self.status(), Some(100..=199 | 204 | 304))
    }

    /// The values of all lines of a header.
    pub fn lines<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    /// The value of a header's first line.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.lines(name).next()
    }
}

fn position(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn lines(text: &str) -> Vec<(String, String)> {
    let pairs = text.split("\r\n").filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect()
}

/// The body in chunks that `bytes` begin with, its trailers, and its length with framing.
#[expect(clippy::type_complexity, reason = "three things, once")]
fn chunks(bytes: &[u8]) -> Option<(Vec<u8>, Vec<(String, String)>, usize)> {
    const LINE: &[u8] = b"\r\n";
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let rest = &bytes[at..];
        let line = position(rest, LINE)?;
        let size = std::str::from_utf8(&rest[..line]).ok()?.split(';').next()?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        if size == 0 {
            // What follows is as the end of a head, with no line where there are no trailers.
            let end = position(&rest[line..], END)?;
            let trailers = String::from_utf8_lossy(&rest[line..line + end]).into_owned();
            return Some((body, lines(&trailers), at + line + end + END.len()));
        }
        let chunk = line + LINE.len();
        body.extend_from_slice(rest.get(chunk..chunk + size)?);
        at += chunk + size + LINE.len();
        bytes.get(at..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::{Message, Side};

    fn is_whole_only_at_its_end(bytes: &[u8], side: Side) -> Message {
        for length in 0..bytes.len() {
            assert_eq!(Message::read(&bytes[..length], side), None, "whole after {length} bytes");
        }
        let more = [bytes, b"HTTP/1.1 "].concat();
        let (message, length) = Message::read(&more, side).unwrap();
        assert_eq!(length, bytes.len());
        message
    }

    #[test]
    fn a_message_is_whole_when_its_body_is_as_long_as_its_head_says() {
        let answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nabc";
        let answer = is_whole_only_at_its_end(answer, Side::Answer);
        assert_eq!((answer.status(), answer.body.as_slice()), (Some(400), &b"abc"[..]));
        is_whole_only_at_its_end(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", Side::Request);
        is_whole_only_at_its_end(b"HTTP/1.1 204 No Content\r\n\r\n", Side::Answer);
    }

    #[test]
    fn chunks_are_joined_and_trailers_are_no_headers() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let plain = format!("{head}3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n");
        let plain = is_whole_only_at_its_end(plain.as_bytes(), Side::Answer);
        assert_eq!((plain.body.as_slice(), plain.trailers.len()), (&b"abcde"[..], 0));
        let trailers = format!("{head}0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n");
        let trailers = is_whole_only_at_its_end(trailers.as_bytes(), Side::Answer);
        assert_eq!(trailers.trailers[0], ("x-sum".to_owned(), "1".to_owned()));
        assert_eq!((trailers.trailers.len(), trailers.header("x-sum")), (2, None));
    }

    #[test]
    fn interim_answers_come_before_one_that_ends_with_its_connection() {
        let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\na: 1\r\nA: 2\r\n\r\nabc";
        let messages = Message::all(bytes, Side::Answer);
        assert!(messages[0].is_interim() && !messages[1].is_interim());
        assert_eq!(messages[1].body, b"abc");
        assert_eq!(messages[1].lines("a").collect::<Vec<_>>(), ["1", "2"]);
    }
}
