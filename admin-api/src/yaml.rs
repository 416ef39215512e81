//! YAML, of which JSON is a part, and where in the text each value stands.
//!
//! Aliases that multiply, and what is too deep or too large, are refused by the parser.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

/// A document.
#[derive(Clone, Debug)]
pub(crate) struct Yaml {
    /// What it says.
    pub(crate) value: Value,
    /// Where, by paths as `listeners[0].name`.
    positions: BTreeMap<String, Position>,
}

/// Where a value stands.
#[derive(Clone, Debug)]
struct Position {
    /// The line of its name, or of itself where it is an item; from 1.
    line: u64,
    /// The line on which it starts itself, and how many it has where it is a scalar.
    starts: u64,
    lines: u64,
    /// The bytes of a scalar.
    bytes: Option<Range<usize>>,
}

/// A value as it was read.
enum Tree {
    Scalar(Value),
    List(Vec<Spanned<Tree>>),
    Map(Vec<(Spanned<String>, Spanned<Tree>)>),
}

struct TreeVisitor;

// === impl Yaml ===

impl Yaml {
    /// Reads a document.
    ///
    /// # Errors
    /// What is wrong, and on which line.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let tree: Spanned<Tree> = serde_saphyr::from_str(text).map_err(|error| {
            error.render_with_options(serde_saphyr::render_options! {
                snippets: serde_saphyr::SnippetMode::Off,
            })
        })?;
        let mut positions = BTreeMap::new();
        let value = placed(text, tree, None, String::new(), &mut positions);
        Ok(Self { value, positions })
    }

    /// The line on which what this path names stands, or what it would stand in.
    pub(crate) fn line(&self, path: &str) -> Option<u64> {
        let mut path = path;
        loop {
            if let Some(position) = self.positions.get(path) {
                return Some(position.line);
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }

    /// The line on which the `nth` line of a string stands, where it stands there line by line.
    pub(crate) fn line_within(&self, path: &str, nth: u64) -> Option<u64> {
        let position = self.positions.get(path)?;
        (nth <= position.lines).then(|| position.starts + nth - 1)
    }

    /// The bytes of the scalar that this path names.
    pub(crate) fn bytes(&self, path: &str) -> Option<Range<usize>> {
        self.positions.get(path)?.bytes.clone()
    }
}

fn placed(
    text: &str,
    tree: Spanned<Tree>,
    named_on: Option<u64>,
    path: String,
    positions: &mut BTreeMap<String, Position>,
) -> Value {
    let at = tree.referenced;
    let scalar = matches!(tree.value, Tree::Scalar(_));
    let bytes = at.span().byte_offset().zip(at.span().byte_len()).filter(|_| scalar);
    let bytes = bytes.and_then(|(start, length)| {
        let start = usize::try_from(start).ok()?;
        Some(start..start.checked_add(usize::try_from(length).ok()?)?)
    });
    let lines = bytes.clone().and_then(|it| text.get(it)).map_or(0, |it| it.lines().count());
    let position = Position {
        line: named_on.unwrap_or_else(|| at.line()),
        starts: at.line(),
        lines: lines as u64,
        bytes,
    };
    let value = match tree.value {
        Tree::Scalar(value) => value,
        Tree::List(items) => {
            let items = items.into_iter().enumerate();
            let items =
                items.map(|(at, it)| placed(text, it, None, format!("{path}[{at}]"), positions));
            Value::Array(items.collect())
        }
        Tree::Map(entries) => {
            let mut map = Map::new();
            for (name, it) in entries {
                let below = if path.is_empty() {
                    name.value.clone()
                } else {
                    format!("{path}.{}", name.value)
                };
                let value = placed(text, it, Some(name.referenced.line()), below, positions);
                map.insert(name.value, value);
            }
            Value::Object(map)
        }
    };
    positions.insert(path, position);
    value
}

// === impl Tree ===

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, it: bool) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::Bool(it)))
    }

    fn visit_i64<E>(self, it: i64) -> Result<Tree, E> {
        Ok(Tree::Scalar(it.into()))
    }

    fn visit_u64<E>(self, it: u64) -> Result<Tree, E> {
        Ok(Tree::Scalar(it.into()))
    }

    fn visit_f64<E>(self, it: f64) -> Result<Tree, E> {
        // JSON has no infinity; nothing that is looked at here has one either.
        Ok(Tree::Scalar(Number::from_f64(it).map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E>(self, it: &str) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::String(it.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Tree::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_read_with_the_lines_of_their_names() {
        let text = "a: { b: 1, 'c': [x, 2.5] }\nlist:\n- name: q\n  none:\n- on: true\n";
        let yaml = Yaml::read(text).unwrap();
        let list = json!([{ "name": "q", "none": null }, { "on": true }]);
        assert_eq!(yaml.value, json!({ "a": { "b": 1, "c": ["x", 2.5] }, "list": list }));
        let lines = ["a.c[1]", "list", "list[0].name", "list[1]", "list[1].on"];
        assert_eq!(lines.map(|it| yaml.line(it).unwrap()), [1, 2, 3, 5, 5]);
        assert_eq!(yaml.line("list[0].missing.deeper[4].x"), Some(3), "what it would stand in");
        assert_eq!(&text[yaml.bytes("a.c[0]").unwrap()], "x");
        assert_eq!(yaml.bytes("a"), None);
    }

    #[test]
    fn lines_within_a_block_are_lines_of_the_document() {
        let yaml = Yaml::read("a:\n  b: |\n    {\n      x\n    }\nc: \"1\\n2\"\n").unwrap();
        assert_eq!(
            [1, 2, 3, 4].map(|it| yaml.line_within("a.b", it)),
            [Some(3), Some(4), Some(5), None]
        );
        assert_eq!([1, 2].map(|it| yaml.line_within("c", it)), [Some(6), None]);
    }

    #[test]
    fn json_is_yaml() {
        let yaml = Yaml::read("{\n\t\"a\": [\n\t\t{ \"b\": \"\\u0041\" } ] }").unwrap();
        assert_eq!(yaml.value, json!({ "a": [{ "b": "A" }] }));
        assert_eq!(yaml.line("a[0].b"), Some(3));
    }

    #[test]
    fn aliases_are_followed_unless_they_multiply() {
        let yaml = Yaml::read("a: &it { b: 1 }\nc: *it\nd: { <<: *it, e: 2 }\n").unwrap();
        assert_eq!(
            yaml.value,
            json!({ "a": { "b": 1 }, "c": { "b": 1 }, "d": { "b": 1, "e": 2 } })
        );
        let mut bomb = "l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let items = vec![format!("*l{}", level - 1); 10].join(", ");
            bomb += &format!("l{level}: &l{level} [{items}]\n");
        }
        assert!(Yaml::read(&bomb).is_err());
        let deep = "[".repeat(100_000);
        assert!(Yaml::read(&deep).is_err(), "no stack is that deep");
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(Yaml::read(&deep).is_err(), "no stack is that deep");
    }

    #[test]
    fn a_name_that_is_there_twice_is_an_error() {
        let error = Yaml::read("a: 1\nb: 2\na: 3\n").unwrap_err();
        assert!(error.contains("line 3"), "{error}");
    }
}
