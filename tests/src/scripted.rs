//! An upstream that answers what a test wrote for it, byte for byte, and keeps what it heard.
//!
//! The payments service answers as services do. This is for everything else that HTTP allows, and
//! for what must reach an upstream untouched. It is reached below `/BOOK/scripted/` of each book
//! of the payments service, so that every rule can be tried on it. Answers go by the last segment
//! of the path, which is the request's name.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::http1::{Message, Side};
use crate::stage::Setup;

/// How much is read at a time.
const PIECE_BYTES: usize = 16 * 1024;

/// The answer to what no test expects.
const UNEXPECTED: &str = "HTTP/1.1 599 Unexpected\r\ncontent-length: 0\r\n\r\n";

/// A running upstream. Dropping it ends all its connections.
#[derive(Debug)]
pub struct Scripted {
    address: SocketAddr,
    script: Arc<Script>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Script {
    scenes: Mutex<HashMap<String, Scene>>,
}

/// What happens under one name.
#[derive(Debug, Default)]
struct Scene {
    answers: Vec<Vec<u8>>,
    heard: Vec<Message>,
}

/// The path of the request `name` in `book`.
#[must_use]
pub fn path(book: &str, name: &str) -> String {
    format!("/{book}/scripted/{name}")
}

/// An answer with these header lines and this body, its length announced.
#[must_use]
pub fn answer(status: u16, headers: &[&str], body: &str) -> String {
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let length = body.len();
    format!("HTTP/1.1 {status} Scripted\r\n{headers}content-length: {length}\r\n\r\n{body}")
}

// === impl Scripted ===

impl Scripted {
    /// Starts one that expects nothing.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start() -> anyhow::Result<Self> {
        // It is never down, so that any port is its own from now on.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .context("the scripted upstream cannot listen")?;
        let address = listener.local_addr()?;
        let script = Arc::new(Script::default());
        let task = tokio::spawn(accept(listener, Arc::clone(&script)));
        Ok(Self { address, script, task })
    }

    /// Leads a gateway's routes to it.
    ///
    /// # Errors
    /// When `setup` has been changed beyond recognition.
    pub fn stand_behind(&self, setup: &mut Setup) -> anyhow::Result<()> {
        let route = include_str!("scripted/route.yaml");
        let port = self.address.port().to_string();
        let cluster = include_str!("scripted/cluster.yaml").replace("PORT", &port);
        setup.ingress.insert_before("- match: { prefix: \"/\" }", route)?;
        setup.inner.insert_before("- match: { prefix: \"/\" }", route)?;
        setup.inner.insert_before("- name: payments", &cluster)
    }

    /// From now on the first request `name` is answered by the first of `answers`, the next by
    /// the next, and when there is none left by the last once more.
    pub fn answers<T: AsRef<[u8]>>(&self, name: &str, answers: &[T]) {
        let answers = answers.iter().map(|answer| answer.as_ref().to_vec()).collect();
        self.script.scenes().insert(name.to_owned(), Scene { answers, heard: Vec::new() });
    }

    /// The requests `name` that it got, which must be so many.
    ///
    /// # Errors
    /// When they are not.
    pub fn heard(&self, name: &str, times: usize) -> anyhow::Result<Vec<Message>> {
        let heard = self.script.scenes().get(name).map(|scene| scene.heard.clone());
        let heard = heard.unwrap_or_default();
        ensure!(heard.len() == times, "heard {name} {} times: {heard:#?}", heard.len());
        Ok(heard)
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// === impl Script ===

impl Script {
    /// Keeps a request, and says what to answer.
    fn hear(&self, request: Message) -> Vec<u8> {
        let target = request.start.split(' ').nth(1).unwrap_or_default();
        let path = target.split('?').next().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        let mut scenes = self.scenes();
        let scene = scenes.entry(name).or_default();
        scene.heard.push(request);
        let number = scene.heard.len().min(scene.answers.len());
        let answer = number.checked_sub(1).and_then(|index| scene.answers.get(index));
        answer.map_or_else(|| UNEXPECTED.as_bytes().to_vec(), Clone::clone)
    }

    fn scenes(&self) -> MutexGuard<'_, HashMap<String, Scene>> {
        // Whoever panicked has failed a test already.
        self.scenes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn accept(listener: TcpListener, script: Arc<Script>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(listen(stream, Arc::clone(&script)));
        while connections.try_join_next().is_some() {}
    }
}

/// Answers request after request, until an answer is one that only its connection's end ends.
async fn listen(mut stream: TcpStream, script: Arc<Script>) {
    let (mut bytes, mut piece) = (Vec::new(), vec![0; PIECE_BYTES]);
    loop {
        while let Some((request, length)) = Message::read(&bytes, Side::Request) {
            bytes.drain(..length);
            let answer = script.hear(request);
            if stream.write_all(&answer).await.is_err() || !leaves_open(&answer) {
                // The other side may have closed already.
                let _ = stream.shutdown().await;
                return;
            }
        }
        match stream.read(&mut piece).await {
            Ok(length @ 1..) => bytes.extend_from_slice(&piece[..length]),
            Ok(0) | Err(_) => return,
        }
    }
}

/// Whether another request may follow on the connection.
fn leaves_open(mut answer: &[u8]) -> bool {
    while let Some((message, length)) = Message::read(answer, Side::Answer) {
        if !message.is_interim() {
            let closes = message.lines("connection").any(|value| value.contains("close"));
            return length == answer.len() && !closes;
        }
        answer = &answer[length..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{Scripted, answer, path};
    use crate::client::Request;
    use crate::client::raw::converse;

    #[tokio::test]
    async fn it_answers_as_told_and_keeps_what_it_heard() {
        let upstream = Scripted::start().await.unwrap();
        upstream.answers("a", &[answer(201, &["x-a: 1"], "first"), answer(202, &[], "")]);
        let request = Request::post(&path("payments", "a")).header("x-b", "2").bytes("body");
        let statuses = [201, 202, 202];
        for status in statuses {
            let answer = request.send(upstream.address).await.unwrap();
            assert_eq!(answer.status, status);
        }
        let heard = upstream.heard("a", statuses.len()).unwrap();
        assert_eq!(heard[0].start, "POST /payments/scripted/a HTTP/1.1");
        assert_eq!((heard[0].header("x-b"), heard[0].body.as_slice()), (Some("2"), &b"body"[..]));
        assert!(upstream.heard("a", 1).is_err());
    }

    #[tokio::test]
    async fn answers_without_an_end_end_with_their_connection() {
        let upstream = Scripted::start().await.unwrap();
        upstream.answers("a", &["HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\n\r\nall of it"]);
        let (interim, last) =
            converse(upstream.address, b"GET /a HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        assert_eq!((interim.len(), last.body.as_slice()), (1, &b"all of it"[..]));
    }
}
