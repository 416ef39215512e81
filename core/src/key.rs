//! Reading the `Idempotency-Key` field.
//!
//! The draft (draft-ietf-httpapi-idempotency-key-header-06 §2.1) wants a Structured Field
//! String (RFC 9651 §3.3.3), in quotes; most providers document bare keys. Both are read, and
//! `"abc"` and `abc` are one key: a client library that is upgraded between two tries must not
//! execute twice.
//!
//! Parsing never falls back to "no key": RFC 9651 §4.2 lets a recipient ignore a malformed
//! field or call the message malformed, and ignoring it would execute without protection.

use std::fmt;

/// The longest key that a rule may allow, in bytes: the length that RFC 9651 §3.3.3 asks
/// parsers to support.
pub const KEY_LENGTH_MAX_BYTES: usize = 1024;

/// A client's key, unescaped and without its quotes: 1 to [`KEY_LENGTH_MAX_BYTES`] bytes of
/// printable ASCII. Case counts.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key(String);

impl Key {
    /// The key's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Keys name other people's payments: they stay out of logs.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} bytes)", self.0.len())
    }
}

/// How strictly a rule reads keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum KeySyntax {
    /// Only a Structured Field String, as the draft says.
    Strict,
    /// Also a bare key of `A-Z a-z 0-9 . _ : ~ + / = @ -`.
    #[default]
    Lenient,
}

/// Why a field is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// More than one field line, even if they are equal (RFC 9651 §4.2).
    #[error("the request has {0} lines of the key's field; send exactly one")]
    SeveralLines(usize),
    /// Nothing, or an empty string.
    #[error("the key is empty")]
    Empty,
    /// Longer than the rule allows.
    #[error("the key has {length} bytes; at most {max} are allowed")]
    TooLong {
        /// The key's length in bytes.
        length: usize,
        /// The rule's limit in bytes.
        max: usize,
    },
    /// Not a Structured Field String.
    #[error("the key is not a Structured Field String: write it in double quotes")]
    NotAString,
    /// A bare key with a byte that bare keys may not have.
    #[error(
        "the key has a character that may not stand outside quotes: use letters, digits and \
         . _ : ~ + / = @ -, or write the key in double quotes"
    )]
    BadBytes,
}

/// Reads the key from the values of the field's lines.
///
/// `Ok(None)` only where there is no line at all. `length_max` is in bytes of the key itself,
/// without quotes and escapes.
///
/// # Errors
/// [`KeyError`] where the field is there but is not one valid key.
pub fn parse(
    lines: &[&[u8]],
    syntax: KeySyntax,
    length_max: usize,
) -> Result<Option<Key>, KeyError> {
    let value = match lines {
        [] => return Ok(None),
        [line] => line.trim_ascii(),
        several => return Err(KeyError::SeveralLines(several.len())),
    };
    if value.is_empty() {
        return Err(KeyError::Empty);
    }
    let text = match (syntax, value.first()) {
        (KeySyntax::Strict, _) | (KeySyntax::Lenient, Some(b'"')) => structured_string(value)?,
        (KeySyntax::Lenient, _) => bare(value)?,
    };
    if text.is_empty() {
        return Err(KeyError::Empty);
    }
    if text.len() > length_max {
        return Err(KeyError::TooLong { length: text.len(), max: length_max });
    }
    Ok(Some(Key(text)))
}

/// RFC 9651 §4.2.5, with the item's parameters ignored: they are not part of the key.
fn structured_string(value: &[u8]) -> Result<String, KeyError> {
    let item: sfv::Item =
        sfv::Parser::new(value).parse().map_err(|_: sfv::Error| KeyError::NotAString)?;
    match item.bare_item {
        sfv::BareItem::String(text) => Ok(text.as_str().to_owned()),
        sfv::BareItem::Boolean(_)
        | sfv::BareItem::ByteSequence(_)
        | sfv::BareItem::Date(_)
        | sfv::BareItem::Decimal(_)
        | sfv::BareItem::DisplayString(_)
        | sfv::BareItem::Integer(_)
        | sfv::BareItem::Token(_) => Err(KeyError::NotAString),
    }
}

fn bare(value: &[u8]) -> Result<String, KeyError> {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"._:~+/=@-".contains(byte);
    if !value.iter().all(allowed) {
        return Err(KeyError::BadBytes);
    }
    String::from_utf8(value.to_vec()).map_err(|_| KeyError::BadBytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lenient(line: &[u8]) -> Result<Option<String>, KeyError> {
        parse(&[line], KeySyntax::Lenient, 255).map(|key| key.map(|key| key.as_str().to_owned()))
    }

    fn strict(line: &[u8]) -> Result<Option<String>, KeyError> {
        parse(&[line], KeySyntax::Strict, 255).map(|key| key.map(|key| key.as_str().to_owned()))
    }

    #[test]
    fn quoted_and_bare_spellings_are_one_key() {
        let uuid = "8e03978e-40d5-43e8-bc93-6894a57f9324";
        assert_eq!(lenient(uuid.as_bytes()), Ok(Some(uuid.to_owned())));
        assert_eq!(lenient(format!("\"{uuid}\"").as_bytes()), Ok(Some(uuid.to_owned())));
        assert_eq!(strict(format!("\"{uuid}\"").as_bytes()), Ok(Some(uuid.to_owned())));
        assert_eq!(lenient(b"  abc\t"), Ok(Some("abc".to_owned())));
    }

    #[test]
    fn escapes_are_undone_and_parameters_ignored() {
        assert_eq!(lenient(br#""a\"b\\c";v=1"#), Ok(Some("a\"b\\c".to_owned())));
    }

    #[test]
    fn no_line_is_no_key_but_an_empty_line_is_an_error() {
        assert_eq!(parse(&[], KeySyntax::Lenient, 255), Ok(None));
        assert_eq!(lenient(b""), Err(KeyError::Empty));
        assert_eq!(lenient(b"\"\""), Err(KeyError::Empty));
        assert_eq!(strict(b" "), Err(KeyError::Empty));
    }

    #[test]
    fn two_lines_are_an_error_even_if_they_would_join_to_a_string() {
        let lines: [&[u8]; 2] = [b"\"foo", b"bar\""];
        assert_eq!(parse(&lines, KeySyntax::Lenient, 255), Err(KeyError::SeveralLines(2)));
        let equal: [&[u8]; 2] = [b"abc", b"abc"];
        assert_eq!(parse(&equal, KeySyntax::Lenient, 255), Err(KeyError::SeveralLines(2)));
    }

    #[test]
    fn length_is_of_the_key_itself() {
        let long = "k".repeat(255);
        assert_eq!(lenient(format!("\"{long}\"").as_bytes()), Ok(Some(long.clone())));
        let longer = "k".repeat(256);
        let error = Err(KeyError::TooLong { length: 256, max: 255 });
        assert_eq!(lenient(longer.as_bytes()), error);
    }

    #[test]
    fn strict_refuses_bare_keys_tokens_and_other_items() {
        for line in ["8e03978e-40d5", "token", "12", "?1", ":aGk=:", "\"a\", \"b\"", "(\"a\")"] {
            assert_eq!(strict(line.as_bytes()), Err(KeyError::NotAString), "{line}");
        }
    }

    #[test]
    fn lenient_refuses_bytes_that_a_bare_key_may_not_have() {
        for line in [&b"a b"[..], b"a,b", b"a\x00b", b"caf\xc3\xa9", b"\xff", b"a\"b", b"<script>"]
        {
            assert_eq!(lenient(line), Err(KeyError::BadBytes));
        }
        assert_eq!(lenient(b"\"a\x7fb\""), Err(KeyError::NotAString));
        assert_eq!(lenient(b"\"open"), Err(KeyError::NotAString));
    }

    #[test]
    fn case_counts() {
        assert_ne!(lenient(b"Abc"), lenient(b"abc"));
    }

    #[test]
    fn a_key_does_not_print_itself() {
        let key = parse(&[b"secret-key"], KeySyntax::Lenient, 255).unwrap().unwrap();
        assert!(!format!("{key:?}").contains("secret"));
    }
}
