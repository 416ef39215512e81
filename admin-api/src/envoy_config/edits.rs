//! Values of a document that are replaced where they stand.

use std::ops::Range;

use serde_json::Value;

use super::NAME;
use crate::check::InputError;
use crate::yaml::Yaml;

/// A document, and what is to be replaced in it.
pub(super) struct Edits {
    text: &'static str,
    yaml: Yaml,
    edits: Vec<(Range<usize>, String)>,
}

// === impl Edits ===

impl Edits {
    pub(super) fn new(text: &'static str) -> Result<Self, InputError> {
        let yaml = Yaml::read(text).map_err(|reason| InputError::whole(NAME, &reason))?;
        Ok(Self { text, yaml, edits: Vec::new() })
    }

    /// The path of the listener of this name.
    pub(super) fn listener(&self, name: &str) -> Result<String, InputError> {
        self.named("static_resources", "listeners", name)
    }

    /// The path of the cluster of this name.
    pub(super) fn cluster(&self, name: &str) -> Result<String, InputError> {
        self.named("static_resources", "clusters", name)
    }

    /// The path of a listener's HTTP connection manager.
    pub(super) fn manager(&self, listener: &str) -> Result<String, InputError> {
        Ok(format!("{}.filter_chains[0].filters[0].typed_config", self.listener(listener)?))
    }

    /// The path of the configuration of an HTTP filter.
    pub(super) fn http_filter(&self, name: &str) -> Result<String, InputError> {
        let filter = self.named(&self.manager("ingress")?, "http_filters", name)?;
        Ok(format!("{filter}.typed_config"))
    }

    /// The path of Envoy's configuration of our plugin.
    pub(super) fn plugin(&self) -> Result<String, InputError> {
        Ok(format!("{}.config", self.http_filter("latchkey")?))
    }

    fn named(&self, path: &str, list: &str, name: &str) -> Result<String, InputError> {
        let path = format!("{path}.{list}");
        let items = self.value(&path).and_then(Value::as_array).into_iter().flatten();
        let at = items.into_iter().position(|it| it.get("name").is_some_and(|it| it == name));
        at.map(|at| format!("{path}[{at}]")).ok_or_else(|| missing(&format!("{path}: {name}")))
    }

    /// What stands at a path, as `clusters[0].name`.
    fn value(&self, path: &str) -> Option<&Value> {
        path.split(['.', '[']).try_fold(&self.yaml.value, |value, step| {
            match step.strip_suffix(']') {
                Some(at) => value.get(at.parse::<usize>().ok()?),
                None => value.get(step),
            }
        })
    }

    /// Replaces a scalar by this, as it is written in YAML.
    pub(super) fn set(&mut self, path: &str, written: String) -> Result<(), InputError> {
        let bytes = self.bytes(path)?;
        self.edits.push((bytes, written));
        Ok(())
    }

    /// Replaces a scalar by this text.
    pub(super) fn set_text(&mut self, path: &str, text: &str) -> Result<(), InputError> {
        // What JSON calls a string, so does YAML.
        self.set(path, Value::from(text).to_string())
    }

    /// Replaces the items of a list of scalars on one line.
    pub(super) fn set_items(&mut self, path: &str, items: &[&str]) -> Result<(), InputError> {
        let count = self.value(path).and_then(Value::as_array).map_or(0, Vec::len);
        let last = self.bytes(&format!("{path}[{}]", count.saturating_sub(1)))?;
        let bytes = self.bytes(&format!("{path}[0]"))?.start..last.end;
        let items: Vec<String> = items.iter().map(|it| Value::from(*it).to_string()).collect();
        self.edits.push((bytes, items.join(", ")));
        Ok(())
    }

    /// Replaces a block of text, line by line.
    pub(super) fn set_block(&mut self, path: &str, text: &str) -> Result<(), InputError> {
        let bytes = self.bytes(path)?;
        let before = self.text.get(..bytes.start).unwrap_or_default();
        let indent = before.len() - before.rfind('\n').map_or(0, |at| at + 1);
        let indented = |(at, line): (usize, &str)| {
            let indent = if at == 0 || line.is_empty() { 0 } else { indent };
            format!("{}{line}", " ".repeat(indent))
        };
        let lines = text.trim().lines().map(str::trim_end).enumerate().map(indented);
        self.edits.push((bytes, lines.collect::<Vec<_>>().join("\n")));
        Ok(())
    }

    /// The bytes of a scalar, of a block without its last line's end.
    fn bytes(&self, path: &str) -> Result<Range<usize>, InputError> {
        let bytes = self.yaml.bytes(path).ok_or_else(|| missing(path))?;
        let text = self.text.get(bytes.clone()).unwrap_or_default();
        Ok(bytes.start..bytes.start + text.trim_end().len())
    }

    /// The document with everything replaced.
    pub(super) fn apply(mut self) -> String {
        // From the end, so that what is yet to be replaced stays where it is.
        self.edits.sort_by_key(|(bytes, _)| std::cmp::Reverse(bytes.start));
        let mut text = self.text.to_owned();
        for (bytes, written) in self.edits {
            text.replace_range(bytes, &written);
        }
        text
    }
}

fn missing(path: &str) -> InputError {
    InputError {
        document: NAME.to_owned(),
        path: path.to_owned(),
        line: None,
        reason: "is not there to be replaced".to_owned(),
    }
}
