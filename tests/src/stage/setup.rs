//! What a gateway is told, for tests to change before it starts.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;

/// How the listener begins that the filter executes through.
const INNER: &str = "  - name: latchkey_execute\n    internal_listener";

/// Between these are the listeners.
const LISTENERS: &str = "  listeners:\n";
const CLUSTERS: &str = "\n  clusters:\n";

/// How a listener's name begins, and what a file of listeners says more of each.
const NAME: &str = "\n  - name: ";
const KIND: &str =
    "\n  - \"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\n    name: ";

/// A gateway's configuration.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The filter's configuration.
    pub filter: Value,
    /// The bootstrap up to the end of the listener that clients reach.
    pub ingress: Yaml,
    /// The rest: the listener that the filter executes through, and the clusters.
    pub inner: Yaml,
    /// Where clients will reach it.
    pub address: SocketAddr,
    /// Where the stage keeps its files.
    pub folder: PathBuf,
    /// Whether Envoy reads its listeners from a file that [`super::Gateway::push`] replaces.
    pub dynamic_listeners: bool,
    /// How long the connections of a listener that was replaced may go on, in s.
    pub drain_s: u32,
}

/// A part of a YAML file.
#[derive(Clone, Debug)]
pub struct Yaml(String);

// === impl Setup ===

impl Setup {
    pub(super) fn new(
        bootstrap: &str,
        filter: Value,
        address: SocketAddr,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let at = bootstrap.find(INNER).with_context(|| missing(INNER))?;
        let (ingress, inner) = bootstrap.split_at(at);
        Ok(Self {
            filter,
            ingress: Yaml(ingress.to_owned()),
            inner: Yaml(inner.to_owned()),
            address,
            folder: folder.to_path_buf(),
            dynamic_listeners: false,
            drain_s: 1,
        })
    }

    /// The rule `name`.
    ///
    /// # Panics
    /// When there is none.
    pub fn rule(&mut self, name: &str) -> &mut Value {
        let rules = self.filter["rules"].as_array_mut();
        let mut rules = rules.into_iter().flatten();
        rules.find(|rule| rule["name"] == name).expect("a rule of the stage")
    }

    /// Everything but the filter's configuration.
    pub(super) fn bootstrap(&self) -> String {
        format!("{}{}", self.ingress.0, self.inner.0)
    }
}

// === impl Yaml ===

impl Yaml {
    /// Replaces `from` where it is first.
    ///
    /// # Errors
    /// When it is not there.
    pub fn replace(&mut self, from: &str, to: &str) -> anyhow::Result<()> {
        let (before, after) = self.0.split_once(from).with_context(|| missing(from))?;
        self.0 = format!("{before}{to}{after}");
        Ok(())
    }

    /// Puts `block` before the first line that begins with `line`, indented as that is.
    ///
    /// # Errors
    /// When there is no such line.
    pub fn insert_before(&mut self, line: &str, block: &str) -> anyhow::Result<()> {
        let mut lines: Vec<&str> = self.0.lines().collect();
        let is_it = |it: &&str| it.trim_start().starts_with(line);
        let at = lines.iter().position(is_it).with_context(|| missing(line))?;
        let indent = " ".repeat(lines[at].len() - lines[at].trim_start().len());
        let block: Vec<_> = block.lines().map(|line| format!("{indent}{line}")).collect();
        lines.splice(at..at, block.iter().map(String::as_str));
        self.0 = lines.join("\n") + "\n";
        Ok(())
    }
}

fn missing(text: &str) -> String {
    format!("deploy/envoy.yaml has no `{text}`")
}

/// The listeners of a bootstrap as a file of their own, and the bootstrap that reads it at
/// `path`.
pub(super) fn with_listeners_apart(
    bootstrap: &str,
    path: &Path,
) -> anyhow::Result<(String, String)> {
    let (before, rest) = bootstrap.split_once(LISTENERS).with_context(|| missing(LISTENERS))?;
    let (listeners, after) = rest.split_once(CLUSTERS).with_context(|| missing(CLUSTERS))?;
    let listeners = format!("resources:\n{listeners}\n").replace(NAME, KIND);
    let path = serde_json::to_string(path.to_str().context("the path is not UTF-8")?)?;
    let bootstrap = format!(
        "dynamic_resources:\n  lds_config:\n    resource_api_version: V3\n    \
         path_config_source: {{ path: {path} }}\n{before}{}{after}",
        &CLUSTERS[1..]
    );
    Ok((listeners, bootstrap))
}

#[cfg(test)]
mod tests {
    use super::{Yaml, with_listeners_apart};

    #[test]
    fn a_block_is_put_before_the_first_line_that_begins_so() {
        let mut yaml = Yaml("a:\n  - b: 1\n  - b: 2\n".to_owned());
        yaml.insert_before("- b", "- c: 1\n  d: 2").unwrap();
        assert_eq!(yaml.0, "a:\n  - c: 1\n    d: 2\n  - b: 1\n  - b: 2\n");
        assert!(yaml.insert_before("- e", "").is_err());
    }

    #[test]
    fn listeners_are_put_into_a_file_of_their_own() {
        let text = "s:\n  listeners:\n  - name: a\n    b: 1\n\n  clusters:\n  - name: c\n";
        let (listeners, bootstrap) = with_listeners_apart(text, "/l.yaml".as_ref()).unwrap();
        assert!(listeners.starts_with("resources:\n  - \"@type\": "), "{listeners}");
        assert!(listeners.ends_with("Listener\n    name: a\n    b: 1\n\n"), "{listeners}");
        assert!(bootstrap.contains("path: \"/l.yaml\""), "{bootstrap}");
        assert!(bootstrap.ends_with("s:\n  clusters:\n  - name: c\n"), "{bootstrap}");
    }
}
