//! An Envoy with the filter, set up as `deploy/envoy.yaml` shows it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use hyper::Method;
use serde_json::Value;

use super::rules::configuration;
use super::service::{Ready, Service};
use super::setup::{Setup, with_listeners_apart};
use crate::client::Request;
use crate::ports;
use crate::processes::Watchdog;
use crate::tools::{Tools, program};

/// What users copy is what is tested: this very file, with its addresses, paths and rules
/// replaced.
const BOOTSTRAP: &str = include_str!("../../../deploy/envoy.yaml");

/// The deployment's secret. It guards nothing outside the stage's own folder.
const SECRET: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// What a gateway is made of.
pub(super) struct Parts<'a> {
    pub(super) tools: &'a Tools,
    pub(super) folder: &'a Path,
    pub(super) watchdog: &'a Watchdog,
    pub(super) upstream: SocketAddr,
    pub(super) state: SocketAddr,
}

/// What a test changes of a gateway before it starts.
pub(super) type Change<'a> = &'a dyn Fn(&mut Setup) -> anyhow::Result<()>;

/// A gateway.
pub struct Gateway {
    service: Service,
    admin: SocketAddr,
    setup: Setup,
    /// The file that its listeners are read from, where they are.
    listeners: PathBuf,
}

// === impl Gateway ===

impl Gateway {
    pub(super) async fn start(
        name: &str,
        parts: &Parts<'_>,
        filter: bool,
        change: Change<'_>,
    ) -> anyhow::Result<Self> {
        let Parts { tools, folder, watchdog, upstream, state } = *parts;
        let (address, admin) = (ports::free()?, ports::free()?);
        let bootstrap = Bootstrap { admin, ingress: address, upstream, state };
        let text = bootstrap.render(&tools.filter)?;
        let mut setup = Setup::new(&text, configuration(), address, folder)?;
        change(&mut setup)?;
        let mut text = configured(&setup, &setup.filter)?;
        if !filter {
            text = without_item(&text, "- name: latchkey")?;
        }
        let mut command = program(&tools.envoy);
        let file = folder.join(format!("{name}.yaml"));
        let listeners = folder.join(format!("{name}-listeners.yaml"));
        if setup.dynamic_listeners {
            let (apart, rest) = with_listeners_apart(&text, &listeners)?;
            std::fs::write(&listeners, apart)?;
            text = rest;
            command.args(["--drain-time-s", &setup.drain_s.to_string()]);
        }
        std::fs::write(&file, text)?;
        command.arg("-c").arg(&file).args(["--concurrency", "2", "--use-dynamic-base-id"]);
        // `misc` only warns, ten lines long, that the authentication filter is a young one.
        command.args(["--log-level", "warning"]);
        command.args(["--component-log-level", "wasm:info,misc:error"]);
        // Access logs are read while Envoy runs.
        command.args(["--file-flush-interval-msec", "50"]);
        command.args(["--service-node", name, "--service-cluster", "demo"]);
        command.env("LATCHKEY_SECRET", SECRET);
        let ready = Ready::Http { at: admin, path: "/ready" };
        let service = Service::start(name, address, ready, command, folder, watchdog).await?;
        Ok(Self { service, admin, setup, listeners })
    }

    /// Gives Envoy the same listeners with another configuration of the filter, as a control
    /// plane does. It is taken, or refused, some time later.
    ///
    /// # Errors
    /// When the listeners are not dynamic, or the file cannot be written.
    pub fn push(&self, filter: &Value) -> anyhow::Result<()> {
        self.push_with(|setup| {
            setup.filter = filter.clone();
            Ok(())
        })
    }

    /// The same with listeners that are changed from what they were at the start.
    ///
    /// # Errors
    /// As [`Self::push`], and those of `change`.
    pub fn push_with(
        &self,
        change: impl FnOnce(&mut Setup) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        ensure!(self.setup.dynamic_listeners, "the listeners of this gateway are static");
        let mut setup = self.setup.clone();
        change(&mut setup)?;
        let text = configured(&setup, &setup.filter)?;
        let (apart, _) = with_listeners_apart(&text, &self.listeners)?;
        // Envoy looks when a file is moved to the name, and never sees half of one.
        let fresh = self.listeners.with_extension("new");
        std::fs::write(&fresh, apart)?;
        Ok(std::fs::rename(fresh, &self.listeners)?)
    }

    /// What it was started with.
    #[must_use]
    pub const fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Where clients reach it.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.service.address()
    }

    /// Envoy's admin endpoint.
    #[must_use]
    pub const fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Its process.
    #[must_use]
    pub const fn process(&self) -> &Service {
        &self.service
    }

    pub(super) fn service(&mut self) -> &mut Service {
        &mut self.service
    }

    /// The value of a statistic, 0 where Envoy has none of that name yet.
    ///
    /// # Errors
    /// When Envoy does not answer.
    pub async fn statistic(&self, name: &str) -> anyhow::Result<u64> {
        let path = format!("/stats?filter=^{name}$&format=json");
        let answer = Request::new(Method::GET, &path).send(self.admin).await?;
        let stats = answer.json();
        let stats = stats["stats"].as_array().context("no statistics")?;
        Ok(stats.iter().find_map(|stat| stat["value"].as_u64()).unwrap_or(0))
    }
}

/// The addresses in a bootstrap.
struct Bootstrap {
    admin: SocketAddr,
    ingress: SocketAddr,
    upstream: SocketAddr,
    state: SocketAddr,
}

// === impl Bootstrap ===

impl Bootstrap {
    fn render(&self, filter: &Path) -> anyhow::Result<String> {
        let port = |port: u16| format!("port_value: {port} }}");
        let file = |path: &str| format!("filename: {path} }}");
        let mut text = BOOTSTRAP.to_owned();
        for (from, to) in [
            (port(9901), port(self.admin.port())),
            (port(10000), port(self.ingress.port())),
            (port(8080), port(self.upstream.port())),
            (port(7070), port(self.state.port())),
            (file("latchkey_plugin.wasm"), file(&quoted(filter)?)),
        ] {
            let (before, after) = text
                .split_once(&from)
                .with_context(|| format!("deploy/envoy.yaml has no `{from}`"))?;
            text = format!("{before}{to}{after}");
        }
        Ok(text)
    }
}

/// The whole bootstrap, with this configuration of the filter.
fn configured(setup: &Setup, filter: &Value) -> anyhow::Result<String> {
    replace_block(&setup.bootstrap(), "value: |", &filter.to_string())
}

/// A path as a YAML string.
fn quoted(path: &Path) -> anyhow::Result<String> {
    let path: PathBuf = path.canonicalize()?;
    Ok(serde_json::to_string(path.to_str().context("the filter's path is not UTF-8")?)?)
}

/// How far a line is indented.
fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The text before and after the line `head`, and the deeper lines that follow it.
fn around<'a>(text: &'a str, head: &str) -> anyhow::Result<(Vec<&'a str>, Vec<&'a str>)> {
    let lines: Vec<&str> = text.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.trim_start() == head)
        .with_context(|| format!("deploy/envoy.yaml has no `{head}`"))?;
    let own = depth(lines[at]);
    let length = lines[at + 1..].iter().take_while(|line| depth(line) > own).count();
    Ok((lines[..=at].to_vec(), lines[at + 1 + length..].to_vec()))
}

/// Replaces the block that follows the line `head`.
fn replace_block(text: &str, head: &str, block: &str) -> anyhow::Result<String> {
    let (before, after) = around(text, head)?;
    let indent = " ".repeat(before.last().map_or(0, |line| depth(line)) + 2);
    Ok(format!("{}\n{indent}{block}\n{}\n", before.join("\n"), after.join("\n")))
}

/// Leaves out the item of a list that begins with the line `head`.
fn without_item(text: &str, head: &str) -> anyhow::Result<String> {
    let (before, after) = around(text, head)?;
    let before = before.split_last().map_or(&[][..], |(_, before)| before);
    Ok(format!("{}\n{}\n", before.join("\n"), after.join("\n")))
}

#[cfg(test)]
mod tests {
    use latchkey_core::config::Config;

    use super::{BOOTSTRAP, replace_block, without_item};

    #[test]
    fn a_block_is_replaced_and_nothing_else() {
        let text = "a:\n  value: |\n    old\n      older\n  b: 1\n";
        assert_eq!(
            replace_block(text, "value: |", "new").unwrap(),
            "a:\n  value: |\n    new\n  b: 1\n"
        );
    }

    #[test]
    fn an_item_is_left_out_and_nothing_else() {
        let text = "list:\n- name: a\n  more: 1\n- name: b\n";
        assert_eq!(without_item(text, "- name: a").unwrap(), "list:\n- name: b\n");
        assert!(without_item(text, "- name: c").is_err());
    }

    #[test]
    fn the_rules_that_users_copy_are_a_configuration_that_the_filter_takes() {
        let (_, rest) = BOOTSTRAP.split_once("value: |\n").unwrap();
        let (json, _) = rest.split_once("          - name: envoy.filters.http.router").unwrap();
        let config = Config::from_json(json.as_bytes()).unwrap();
        assert_eq!(config.rules[0].name, "payments");
    }
}
