//! Lower-case hexadecimal, for ids and digests that people read.

use std::fmt::Write as _;

/// `bytes` in lower-case hexadecimal.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The bytes that `text` spells in hexadecimal of either case, or `None` if it spells none.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len())
        .step_by(2)
        .map(|at| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encoded_decodes_and_nothing_else_does() {
        assert_eq!(encode(&[0, 255, 16]), "00ff10");
        assert_eq!(decode("00FF10"), Some(vec![0, 255, 16]));
        assert_eq!(decode("0"), None);
        assert_eq!(decode("zz"), None);
        assert_eq!(decode("é"), None);
    }
}
