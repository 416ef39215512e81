//! JSON by its value: the order of an object's members, white space and the spelling of strings
//! do not count; everything else does.
//!
//! Numbers count as they are written: `1`, `1.0` and `1e0` may mean different things to an
//! upstream, and as doubles 2^53 and 2^53+1 would be one amount. Strings are compared by value,
//! without Unicode normalisation. What could mean different things to different readers is not
//! understood here at all: a name that is there twice, a lone surrogate, anything that RFC 8259
//! does not allow. Such bodies count by their bytes.
//!
//! A value's digest is SHA-256 over a tag and framed parts, of which an object's are sorted by
//! name: memory is bounded by the members that are open at one time, and the stack by
//! [`DEPTH_MAX`].

use sha2::{Digest, Sha256};

use super::Parts;

/// Arrays and objects within each other: what common parsers take, and a small part of the stack
/// that a WebAssembly VM has.
const DEPTH_MAX: usize = 64;

/// The largest body that is understood, in bytes. Understanding costs a few times as much as
/// hashing, on a worker that others wait for.
const BODY_MAX_BYTES: usize = 1024 * 1024;

type Digest32 = [u8; 32];

/// The digest of a request's body as a JSON value; `None` where it is not understood.
pub(super) fn value_digest(request: &Parts<'_>) -> Option<Digest32> {
    let coded = !(request.content_encoding.is_empty()
        || request.content_encoding.eq_ignore_ascii_case(b"identity"));
    if coded || !is_json(request.content_type) || request.body.len() > BODY_MAX_BYTES {
        return None;
    }
    // Checked once for all: what follows cuts between characters only.
    std::str::from_utf8(request.body).ok()?;
    let mut reader = Reader { rest: request.body };
    reader.space();
    let digest = reader.value(DEPTH_MAX)?;
    reader.space();
    reader.rest.is_empty().then_some(digest)
}

/// `application/json`, or what is made of it (RFC 6839 §3.1).
fn is_json(content_type: &[u8]) -> bool {
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
    let essence = essence.trim_ascii().to_ascii_lowercase();
    essence == b"application/json" || essence.ends_with(b"+json")
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn space(&mut self) {
        while let Some((b' ' | b'\t' | b'\n' | b'\r', more)) = self.rest.split_first() {
            self.rest = more;
        }
    }

    fn next(&mut self) -> Option<u8> {
        let (first, more) = self.rest.split_first()?;
        self.rest = more;
        Some(*first)
    }

    fn takes(&mut self, text: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    fn value(&mut self, depth: usize) -> Option<Digest32> {
        match self.rest.first()? {
            b'{' => self.object(depth.checked_sub(1)?),
            b'[' => self.array(depth.checked_sub(1)?),
            b'"' => Some(tagged(b's', &self.string()?)),
            b't' => self.takes(b"true").map(|()| tagged(b't', &[])),
            b'f' => self.takes(b"false").map(|()| tagged(b'f', &[])),
            b'n' => self.takes(b"null").map(|()| tagged(b'n', &[])),
            _ => Some(tagged(b'0', self.number()?)),
        }
    }

    fn object(&mut self, depth: usize) -> Option<Digest32> {
        self.takes(b"{")?;
        let mut members = std::collections::BTreeMap::new();
        self.space();
        if self.takes(b"}").is_none() {
            loop {
                self.space();
                let name = self.string()?;
                self.space();
                self.takes(b":")?;
                self.space();
                let value = self.value(depth)?;
                if members.insert(name, value).is_some() {
                    return None;
                }
                self.space();
                match self.next()? {
                    b',' => {}
                    b'}' => break,
                    _ => return None,
                }
            }
        }
        let mut hash = Sha256::new();
        hash.update(b"{");
        for (name, value) in members {
            hash.update((name.len() as u64).to_be_bytes());
            hash.update(name);
            hash.update(value);
        }
        Some(hash.finalize().into())
    }

    fn array(&mut self, depth: usize) -> Option<Digest32> {
        self.takes(b"[")?;
        let mut hash = Sha256::new();
        hash.update(b"[");
        self.space();
        if self.takes(b"]").is_none() {
            loop {
                self.space();
                hash.update(self.value(depth)?);
                self.space();
                match self.next()? {
                    b',' => {}
                    b']' => break,
                    _ => return None,
                }
            }
        }
        Some(hash.finalize().into())
    }

    /// A string by its value, in UTF-8.
    fn string(&mut self) -> Option<Vec<u8>> {
        self.takes(b"\"")?;
        let mut out = Vec::new();
        loop {
            match self.next()? {
                b'"' => return Some(out),
                b'\\' => self.escape(&mut out)?,
                0..=0x1f => return None,
                byte => out.push(byte),
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let byte = match self.next()? {
            it @ (b'"' | b'\\' | b'/') => it,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let character = self.escaped_character()?;
                out.extend(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Some(());
            }
            _ => return None,
        };
        out.push(byte);
        Some(())
    }

    /// One character by one or two UTF-16 units; a lone surrogate is none.
    fn escaped_character(&mut self) -> Option<char> {
        let first = self.unit()?;
        let mut units = vec![first];
        if (0xd800..0xdc00).contains(&first) {
            self.takes(b"\\u")?;
            units.push(self.unit()?);
        }
        let mut decoded = char::decode_utf16(units);
        let character = decoded.next()?.ok()?;
        decoded.next().is_none().then_some(character)
    }

    fn unit(&mut self) -> Option<u16> {
        let (digits, more) = self.rest.split_at_checked(4)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        self.rest = more;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    }

    /// A number as it is written (RFC 8259 §6).
    fn number(&mut self) -> Option<&'a [u8]> {
        let whole = self.rest;
        let _ = self.takes(b"-");
        if self.takes(b"0").is_none() {
            self.digits()?;
        }
        if self.takes(b".").is_some() {
            self.digits()?;
        }
        if self.takes(b"e").or_else(|| self.takes(b"E")).is_some() {
            let _ = self.takes(b"+").or_else(|| self.takes(b"-"));
            self.digits()?;
        }
        whole.get(..whole.len().checked_sub(self.rest.len())?)
    }

    fn digits(&mut self) -> Option<()> {
        let count = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.rest = self.rest.get(count..)?;
        (count > 0).then_some(())
    }
}

fn tagged(tag: u8, part: &[u8]) -> Digest32 {
    let mut hash = Sha256::new();
    hash.update([tag]);
    hash.update(part);
    hash.finalize().into()
}

#[cfg(test)]
mod tests;
