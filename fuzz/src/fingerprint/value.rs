//! JSON values that are made from bytes, and written in more than one way.

use std::collections::BTreeMap;

use crate::bytes::Bytes;

/// A JSON value; a number is how it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Word(&'static str),
    Number(String),
    Text(String),
    Array(Vec<Value>),
    Object(BTreeMap<String, Value>),
}

const WORDS: [&str; 3] = ["null", "true", "false"];

const NUMBERS: [&str; 10] =
    ["0", "-0", "1", "1.0", "1e0", "1E0", "10", "9007199254740993", "1e999", "0.1"];

const TEXTS: [&str; 8] =
    ["", "a", "b", "é", "\u{0065}\u{0301}", "\u{1f600}", "\"\\/\n\u{1}", "null"];

// === impl Value ===

impl Value {
    pub(super) fn read(bytes: &mut Bytes<'_>, depth: usize) -> Self {
        let kinds = if depth == 0 { 3 } else { 5 };
        match bytes.below(kinds) {
            0 => Self::Word(bytes.of(&WORDS)),
            1 if bytes.flag() => Self::Number(bytes.word().to_string()),
            1 => Self::Number(bytes.of(&NUMBERS).to_owned()),
            2 => Self::Text(text(bytes)),
            3 => Self::Array((0..bytes.below(4)).map(|_| Self::read(bytes, depth - 1)).collect()),
            _ => {
                let members = 0..bytes.below(4);
                let member = |_| (text(bytes), Self::read(bytes, depth - 1));
                Self::Object(members.map(member).collect())
            }
        }
    }

    /// As short as it can be written.
    pub(super) fn plain(&self) -> String {
        self.written(&mut Bytes::new(&[]))
    }

    /// With space, escapes and an order of members that bytes choose.
    pub(super) fn spelled(&self, bytes: &mut Bytes<'_>) -> String {
        let value = self.written(bytes);
        format!("{}{value}{}", space(bytes), space(bytes))
    }

    fn written(&self, bytes: &mut Bytes<'_>) -> String {
        match self {
            Self::Word(word) => (*word).to_owned(),
            Self::Number(number) => number.clone(),
            Self::Text(text) => quoted(text, bytes),
            Self::Array(items) => {
                let items: Vec<_> = items
                    .iter()
                    .map(|item| format!("{}{}{}", space(bytes), item.written(bytes), space(bytes)))
                    .collect();
                format!("[{}{}]", items.join(","), space(bytes))
            }
            Self::Object(members) => {
                let mut members: Vec<_> = members
                    .iter()
                    .map(|(name, value)| {
                        let name = quoted(name, bytes);
                        format!("{}{name}{}:{}", space(bytes), space(bytes), value.written(bytes))
                    })
                    .collect();
                let first = bytes.below(256) % members.len().max(1);
                members.rotate_left(first);
                if bytes.flag() {
                    members.reverse();
                }
                format!("{{{}{}}}", space(bytes), members.join(","))
            }
        }
    }

    /// Another value: this one with a change somewhere in it.
    pub(super) fn changed(&self, bytes: &mut Bytes<'_>) -> Self {
        match self {
            Self::Word(word) => {
                let others: Vec<_> = WORDS.into_iter().filter(|it| it != word).collect();
                Self::Word(bytes.of(&others))
            }
            Self::Number(number) => Self::Number(other_spelling(number)),
            Self::Text(text) => Self::Text(format!("{text}{}", bytes.of(&["x", "\u{301}", " "]))),
            Self::Array(items) => {
                let mut items = items.clone();
                match (items.len(), bytes.below(256)) {
                    (0, _) | (_, 0) => items.push(Self::Word("null")),
                    (_, 1) => drop(items.pop()),
                    (length, at) => {
                        let at = at % length;
                        items[at] = items[at].changed(bytes);
                    }
                }
                Self::Array(items)
            }
            Self::Object(members) => {
                let mut members = members.clone();
                let at = bytes.below(256);
                match members.iter_mut().nth(at) {
                    Some((_, value)) => *value = value.changed(bytes),
                    None => drop(members.insert(fresh(&members), Self::Word("null"))),
                }
                Self::Object(members)
            }
        }
    }
}

/// The same number, written otherwise: that counts.
fn other_spelling(number: &str) -> String {
    match number.find(['e', 'E']) {
        Some(_) => format!("{number}0"),
        None if number.contains('.') => format!("{number}0"),
        None => format!("{number}.0"),
    }
}

/// A name that no member has.
fn fresh(members: &BTreeMap<String, Value>) -> String {
    let longest = members.keys().map(String::len).max().unwrap_or(0);
    "n".repeat(longest + 1)
}

fn text(bytes: &mut Bytes<'_>) -> String {
    match bytes.below(9) {
        8 => String::from_utf8_lossy(bytes.piece()).into_owned(),
        at => TEXTS[at].to_owned(),
    }
}

fn space(bytes: &mut Bytes<'_>) -> &'static str {
    bytes.of(&["", " ", "\r\n", "\t "])
}

/// A string, each character of which can be written as itself or escaped.
fn quoted(text: &str, bytes: &mut Bytes<'_>) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        let must = matches!(character, '"' | '\\' | '\0'..='\u{1f}');
        match (bytes.below(3), character) {
            (1, '"' | '\\' | '/') => out.extend(['\\', character]),
            (1, '\n') => out.push_str("\\n"),
            (0 | 1, _) if !must => out.push(character),
            (upper, _) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let hex = format!("\\u{unit:04x}");
                    out.push_str(&if upper == 1 { hex.replace('e', "E") } else { hex });
                }
            }
        }
    }
    out.push('"');
    out
}
