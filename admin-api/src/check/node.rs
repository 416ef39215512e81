//! A place in Envoy's configuration, and how to go on from there.
//!
//! Nothing here fails: what is not there, or is of another kind than expected, is not there. What
//! this program does not know is not its business.

use serde_json::Value;

/// What wraps a configuration whose type Envoy was not built with.
const TYPED_STRUCT: &str = "TypedStruct";

/// A value in the document.
#[derive(Clone, Debug)]
pub(super) struct Node<'a> {
    value: &'a Value,
    path: String,
}

// === impl Node ===

impl<'a> Node<'a> {
    pub(super) const fn root(value: &'a Value) -> Self {
        Self { value, path: String::new() }
    }

    /// Where it is in the document.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Where its field would be.
    pub(super) fn path_of(&self, field: &str) -> String {
        if self.path.is_empty() { field.to_owned() } else { format!("{}.{field}", self.path) }
    }

    pub(super) const fn value(&self) -> &'a Value {
        self.value
    }

    /// Goes down by fields, as `route.retry_policy`.
    pub(super) fn at(&self, fields: &str) -> Option<Self> {
        fields.split('.').try_fold(self.clone(), |node, field| node.get(field))
    }

    /// A field, in the spelling of the documentation or in that of protobuf's JSON.
    pub(super) fn get(&self, field: &str) -> Option<Self> {
        let camel = lower_camel(field);
        let (field, value) = [field, camel.as_str()]
            .into_iter()
            .find_map(|name| self.value.get(name).map(|value| (name, value)))?;
        (!value.is_null()).then(|| Self { value, path: self.path_of(field) })
    }

    /// The items of the list `fields`, none where it is not there.
    pub(super) fn items(&self, fields: &str) -> Vec<Self> {
        let Some(list) = self.at(fields) else { return Vec::new() };
        let items = list.value.as_array().into_iter().flatten().enumerate();
        items.map(|(at, value)| Self { value, path: format!("{}[{at}]", list.path) }).collect()
    }

    /// The values of the map `field`, with their names.
    pub(super) fn entries(&self, field: &str) -> Vec<(&'a str, Self)> {
        let Some(map) = self.at(field) else { return Vec::new() };
        let entries = map.value.as_object().into_iter().flatten();
        let entry = |(name, value): (&'a String, &'a Value)| {
            (name.as_str(), Node { value, path: format!("{}.{name}", map.path) })
        };
        entries.map(entry).collect()
    }

    pub(super) fn text(&self, fields: &str) -> Option<&'a str> {
        self.at(fields)?.value.as_str()
    }

    /// The strings of the list `fields`.
    pub(super) fn texts(&self, fields: &str) -> Vec<&'a str> {
        self.items(fields).iter().filter_map(|it| it.value.as_str()).collect()
    }

    pub(super) fn is_true(&self, fields: &str) -> bool {
        self.at(fields).is_some_and(|it| {
            it.value.as_bool().unwrap_or_else(|| it.value.as_str() == Some("true"))
        })
    }

    pub(super) fn number(&self, fields: &str) -> Option<u64> {
        let value = self.at(fields)?.value;
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    }

    /// A duration, as `1.5s`, in ms.
    pub(super) fn milliseconds(&self, fields: &str) -> Option<u64> {
        let (seconds, fraction) = {
            let seconds = self.text(fields)?.strip_suffix('s')?;
            seconds.split_once('.').unwrap_or((seconds, ""))
        };
        let thousandths: String = fraction.chars().chain("000".chars()).take(3).collect();
        let whole = seconds.parse::<u64>().ok()?.checked_mul(1_000)?;
        whole.checked_add(thousandths.parse().ok()?)
    }

    /// Its type, without the package: `Router`.
    pub(super) fn kind(&self) -> Option<&'a str> {
        let url = self.value.get("@type")?.as_str()?;
        let kind = url.rsplit(['.', '/']).next()?;
        if kind != TYPED_STRUCT {
            return Some(kind);
        }
        self.text("type_url")?.rsplit(['.', '/']).next()
    }

    /// The message in the field `typed_config`.
    pub(super) fn typed_config(&self) -> Option<Self> {
        let config = self.get("typed_config")?;
        let wrapped = config.value.get("@type")?.as_str()?.ends_with(TYPED_STRUCT);
        if wrapped { config.get("value") } else { Some(config) }
    }

    /// The message in the field `typed_config`, where it is of this type.
    pub(super) fn typed_config_of(&self, kind: &str) -> Option<Self> {
        self.get("typed_config").filter(|it| it.kind() == Some(kind))?;
        self.typed_config()
    }
}

fn lower_camel(field: &str) -> String {
    let mut words = field.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (head, tail) = word.split_at_checked(1).unwrap_or((word, ""));
        name + &head.to_ascii_uppercase() + tail
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_are_read_as_protobuf_writes_them() {
        let value =
            json!({ "a": "60s", "b": "0.25s", "c": "1.0005s", "d": "1m", "e": 3, "f": "s" });
        let node = Node::root(&value);
        let read = ["a", "b", "c", "d", "e", "f"].map(|field| node.milliseconds(field));
        assert_eq!(read, [Some(60_000), Some(250), Some(1_000), None, None, None]);
    }

    #[test]
    fn fields_have_the_spelling_of_the_documentation_or_of_json() {
        let value = json!({ "typedConfig": { "retryOn": ["x"] } });
        let node = Node::root(&value).at("typed_config.retry_on").unwrap();
        assert_eq!(node.path(), "typedConfig.retryOn");
    }

    #[test]
    fn a_type_is_known_through_its_wrapper() {
        let value = json!({ "typed_config": {
            "@type": "type.googleapis.com/xds.type.v3.TypedStruct",
            "type_url": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
            "value": { "config": { "name": "a" } },
        } });
        let node = Node::root(&value);
        assert_eq!(node.get("typed_config").unwrap().kind(), Some("Wasm"));
        assert_eq!(node.typed_config().unwrap().text("config.name"), Some("a"));
    }
}
