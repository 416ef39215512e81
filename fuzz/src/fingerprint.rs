//! What makes two requests the same one.

mod value;

use latchkey_core::fingerprint::{BodyMode, Parts, Recipe, RequestDigest, Secret};
use latchkey_core::identity::Identity;
use serde::de::IgnoredAny;

use crate::bytes::Bytes;
use value::Value;

const TYPES: [&[u8]; 6] = [
    b"application/json",
    b"Application/Problem+JSON; charset=utf-8",
    b"text/plain",
    b"application/json;x=1",
    b"",
    b"multipart/form-data; boundary=json",
];

/// A request that owns its parts.
#[derive(Clone, Default, PartialEq, Eq)]
struct Request {
    /// Method, authority, path, query, content type and content encoding.
    lines: [Vec<u8>; 6],
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

const QUERY: usize = 3;
const CONTENT_TYPE: usize = 4;
const CONTENT_ENCODING: usize = 5;

/// The first byte says which property; what follows is divided by zeros.
pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    match bytes.below(4) {
        0 => bodies(&mut bytes),
        1 => values(&mut bytes),
        2 => requests(&mut bytes),
        _ => queries(&mut bytes),
    }
}

fn recipe(body: BodyMode) -> Recipe {
    Recipe { body, headers: vec!["x-version".to_owned()], query_exclude: Vec::new() }
}

fn digest(recipe: &Recipe, request: &Request) -> RequestDigest {
    let [method, authority, path, query, content_type, content_encoding] = &request.lines;
    let Request { headers, body, .. } = request;
    let parts =
        Parts { method, authority, path, query, content_type, content_encoding, headers, body };
    let digest = recipe.digest(&parts);
    assert_eq!(digest, recipe.digest(&parts), "the same request twice");
    digest
}

/// Any two bodies: by their bytes they are equal only if they are, and by their value only if
/// they are JSON.
fn bodies(bytes: &mut Bytes<'_>) {
    let mut one = Request::default();
    one.lines[CONTENT_TYPE] = bytes.of(&TYPES).to_vec();
    one.lines[CONTENT_ENCODING] = bytes.of(&[&b""[..], b"identity", b"gzip"]).to_vec();
    let mut other = one.clone();
    one.body = bytes.piece().to_vec();
    other.body = bytes.rest().to_vec();
    let [raw, json] = [BodyMode::Raw, BodyMode::Json].map(recipe);
    let is_equal = one.body == other.body;
    assert_eq!(digest(&raw, &one) == digest(&raw, &other), is_equal, "raw bodies");
    let equal_json = digest(&json, &one) == digest(&json, &other);
    assert!(equal_json || !is_equal, "equal bodies are equal values");
    let understood = |request: &Request| digest(&json, request) != digest(&raw, request);
    let both = understood(&one) && understood(&other);
    assert!(is_equal || !equal_json || both, "only JSON is equal to other bytes");
    for request in [&one, &other].into_iter().filter(|request| understood(request)) {
        let is_json = serde_json::from_slice::<IgnoredAny>(&request.body).is_ok();
        assert!(is_json && std::str::from_utf8(&request.body).is_ok(), "this is no JSON");
        assert_ne!(request.lines[CONTENT_ENCODING], b"gzip", "coded bodies are not looked into");
        assert!(
            String::from_utf8_lossy(&request.lines[CONTENT_TYPE]).to_lowercase().contains("json")
        );
    }
}

/// A JSON value, written in two ways, and another one.
fn values(bytes: &mut Bytes<'_>) {
    let value = Value::read(bytes, 5);
    let request = |body: String| {
        let mut request = Request { body: body.into_bytes(), ..Request::default() };
        request.lines[CONTENT_TYPE] = TYPES[0].to_vec();
        request
    };
    let [raw, json] = [BodyMode::Raw, BodyMode::Json].map(recipe);
    let plain = request(value.plain());
    assert_ne!(digest(&json, &plain), digest(&raw, &plain), "plain JSON is understood");
    let spelled = request(value.spelled(bytes));
    assert_eq!(digest(&json, &plain), digest(&json, &spelled), "spelling does not count");
    let changed = value.changed(bytes);
    assert_ne!(changed, value);
    let changed = request(changed.plain());
    assert_ne!(digest(&json, &plain), digest(&json, &changed), "another value is another one");
}

fn request(bytes: &mut Bytes<'_>) -> Request {
    let lines = std::array::from_fn(|_| bytes.piece().to_vec());
    let text = |piece: &[u8]| String::from_utf8_lossy(piece).into_owned();
    let headers = (0..bytes.below(4))
        .map(|_| {
            let name = bytes.of(&["x-version", "x-other", "X-Version"]).to_owned();
            (name, text(bytes.piece()))
        })
        .collect();
    Request { lines, headers, body: bytes.piece().to_vec() }
}

/// Two requests have one fingerprint only if all that counts of them is equal: nothing can be
/// moved from one part to the next.
fn requests(bytes: &mut Bytes<'_>) {
    let one = request(bytes);
    let mut other = one.clone();
    match bytes.below(3) {
        0 => other = request(bytes),
        1 => shift(&mut other, bytes.below(7)),
        _ => other.headers.retain(|(name, _)| name == "x-version"),
    }
    let counts = |request: &Request| {
        let mut request = request.clone();
        request.headers.retain(|(name, _)| name == "x-version");
        request
    };
    let recipe = recipe(BodyMode::Raw);
    let (first, second) = (digest(&recipe, &one), digest(&recipe, &other));
    let is_equal = counts(&one) == counts(&other);
    assert_eq!(first == second, is_equal, "what counts is equal: {is_equal}");
    let identity = Identity([7; 32]);
    let of =
        |id: &str, digest| Secret::new(id.to_owned(), id.as_bytes()).candidate(&identity, digest);
    assert_eq!(of("a", &first) == of("a", &second), is_equal);
    assert_eq!(of("a", &first).derived_key, of("a", &second).derived_key, "it is of the key alone");
    assert_ne!(of("a", &first), of("b", &first), "secrets give different fingerprints");
}

/// Moves the last byte of one part to the beginning of the next.
fn shift(request: &mut Request, at: usize) {
    let Some(byte) = request.lines.get_mut(at).and_then(Vec::pop) else { return };
    match request.lines.get_mut(at + 1) {
        Some(next) => next.insert(0, byte),
        None => request.body.insert(0, byte),
    }
}

/// A parameter that is excluded may come, go and be spelled as it likes.
fn queries(bytes: &mut Bytes<'_>) {
    let recipe = Recipe {
        query_exclude: vec!["sig".to_owned(), "my time".to_owned()],
        ..recipe(BodyMode::Raw)
    };
    let excluded = bytes.of(&["sig", "s%69g", "%73%69%67", "my+time", "my%20time"]);
    let mut with = Request::default();
    let value: Vec<u8> = bytes.piece().iter().copied().filter(|byte| *byte != b'&').collect();
    let query = bytes.rest();
    let mut without = with.clone();
    without.lines[QUERY] = query.to_vec();
    let parameter = [excluded.as_bytes(), b"=", &value].concat();
    for (before, after) in [(query, &parameter[..]), (&parameter[..], query)] {
        with.lines[QUERY] = [before, after].join(&b'&');
        assert_eq!(digest(&recipe, &with), digest(&recipe, &without), "it does not count");
    }
    let another = [b"signature=", &value[..]].concat();
    with.lines[QUERY] = [query, &another[..]].join(&b'&');
    assert_ne!(digest(&recipe, &with), digest(&recipe, &without), "another one counts");
}
