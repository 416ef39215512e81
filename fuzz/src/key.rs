//! `Idempotency-Key` as clients may send it.

use latchkey_core::key::{KEY_LENGTH_MAX_BYTES, Key, KeyError, KeySyntax, parse};

use crate::bytes::Bytes;

/// The first two bytes are the longest key that is allowed; then comes how many lines there are,
/// and then the lines, divided by line feeds.
pub fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let length_max = 1 + (bytes.below(8) * 256 + bytes.below(256)) % KEY_LENGTH_MAX_BYTES;
    if bytes.below(8) == 7 {
        let lines: Vec<_> = bytes.rest().split(|byte| *byte == b'\n').collect();
        return several(&lines, length_max);
    }
    let line = bytes.rest();
    let strict = one(line, KeySyntax::Strict, length_max);
    let lenient = one(line, KeySyntax::Lenient, length_max);
    if let Some(key) = strict {
        assert_eq!(lenient.as_ref(), Some(&key), "what is strictly a key is one leniently too");
        with_parameters(line, &key, length_max);
    }
}

/// Two lines are never a key, not even where they are equal.
fn several(lines: &[&[u8]], length_max: usize) {
    for syntax in [KeySyntax::Strict, KeySyntax::Lenient] {
        assert_eq!(parse(&[], syntax, length_max), Ok(None));
        if lines.len() > 1 {
            let refused = Err(KeyError::SeveralLines(lines.len()));
            assert_eq!(parse(lines, syntax, length_max), refused);
        }
    }
}

fn one(line: &[u8], syntax: KeySyntax, length_max: usize) -> Option<Key> {
    let read = parse(&[line], syntax, length_max);
    let padded = [b" \t", line, b" "].concat();
    assert_eq!(parse(&[&padded], syntax, length_max), read, "space around a key does not count");
    match read {
        Ok(key) => {
            let key = key.expect("a line that is there is a key or refused, never no key");
            accepted(&key, line, syntax, length_max);
            Some(key)
        }
        Err(error) => {
            refused(error, line, syntax, length_max);
            None
        }
    }
}

fn accepted(key: &Key, line: &[u8], syntax: KeySyntax, length_max: usize) {
    let text = key.as_str();
    assert!((1..=length_max).contains(&text.len()), "a key of {} bytes", text.len());
    assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~')), "not printable: {text:?}");
    assert_eq!(format!("{key:?}"), format!("Key({} bytes)", text.len()), "keys do not show");
    if !line.trim_ascii().starts_with(b"\"") {
        assert_eq!(line.trim_ascii(), text.as_bytes(), "a bare key is what was sent");
        assert_eq!(syntax, KeySyntax::Lenient, "strict keys are quoted");
    }
    for syntax in [KeySyntax::Strict, KeySyntax::Lenient] {
        let again = parse(&[quoted(text).as_bytes()], syntax, length_max);
        assert_eq!(again.as_ref(), Ok(&Some(key.clone())), "written again it is the same key");
    }
    let length = text.len();
    let shorter = parse(&[line], syntax, length - 1);
    assert_eq!(shorter, Err(KeyError::TooLong { length, max: length - 1 }));
}

fn refused(error: KeyError, line: &[u8], syntax: KeySyntax, length_max: usize) {
    assert!(!error.to_string().is_empty());
    match error {
        KeyError::TooLong { length, max } => {
            assert!(max == length_max && length > max);
            let longer = parse(&[line], syntax, length).expect("only its length was wrong");
            assert_eq!(longer.map(|key| key.as_str().len()), Some(length));
        }
        KeyError::BadBytes => assert_eq!(syntax, KeySyntax::Lenient),
        KeyError::SeveralLines(_) => panic!("there was one line"),
        KeyError::Empty | KeyError::NotAString => {}
    }
}

/// Parameters are not part of the key (RFC 9651 §3.3.3, §3.1.2).
fn with_parameters(line: &[u8], key: &Key, length_max: usize) {
    let line = [line.trim_ascii(), b";v=\"1\""].concat();
    assert_eq!(parse(&[&line], KeySyntax::Strict, length_max).as_ref(), Ok(&Some(key.clone())));
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
