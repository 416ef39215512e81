//! An Envoy with the filter, set up as `deploy/envoy.yaml` shows it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use hyper::Method;
use serde_json::Value;

use super::rules::configuration;
use super::service::{Ready, Service};
use crate::client::Request;
use crate::ports;
use crate::processes::Watchdog;
use crate::tools::{Tools, program};

/// What users copy is what is tested: this very file, with its addresses, paths and rules
/// replaced.
const BOOTSTRAP: &str = include_str!("../../../deploy/envoy.yaml");

/// The deployment's secret. It guards nothing outside the stage's own folder.
const SECRET: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// A gateway.
pub struct Gateway {
    service: Service,
    admin: SocketAddr,
}

// === impl Gateway ===

impl Gateway {
    pub(super) async fn start(
        number: usize,
        tools: &Tools,
        folder: &Path,
        watchdog: &Watchdog,
        upstream: SocketAddr,
        state: SocketAddr,
    ) -> anyhow::Result<Self> {
        let (address, admin) = (ports::free()?, ports::free()?);
        let name = format!("envoy-{number}");
        let bootstrap = Bootstrap { admin, ingress: address, upstream, state };
        let file = folder.join(format!("{name}.yaml"));
        std::fs::write(&file, bootstrap.render(&tools.filter, &configuration())?)?;
        let mut command = program(&tools.envoy);
        command.arg("-c").arg(&file).args(["--concurrency", "2", "--use-dynamic-base-id"]);
        // `misc` only warns, ten lines long, that the authentication filter is a young one.
        command.args(["--log-level", "warning"]);
        command.args(["--component-log-level", "wasm:info,misc:error"]);
        command.args(["--service-node", &name, "--service-cluster", "demo"]);
        command.env("LATCHKEY_SECRET", SECRET);
        let ready = Ready::Http { at: admin, path: "/ready" };
        let service = Service::start(&name, address, ready, command, folder, watchdog).await?;
        Ok(Self { service, admin })
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
    fn render(&self, filter: &Path, configuration: &Value) -> anyhow::Result<String> {
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
        replace_block(&text, "value: |", &configuration.to_string())
    }
}

/// A path as a YAML string.
fn quoted(path: &Path) -> anyhow::Result<String> {
    let path: PathBuf = path.canonicalize()?;
    Ok(serde_json::to_string(path.to_str().context("the filter's path is not UTF-8")?)?)
}

/// Replaces the block that follows the line ending in `head`: the deeper lines after it.
fn replace_block(text: &str, head: &str, block: &str) -> anyhow::Result<String> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<&str> = text.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.trim_start() == head)
        .with_context(|| format!("deploy/envoy.yaml has no `{head}`"))?;
    let depth = indent(lines[at]);
    let after = lines[at + 1..].iter().skip_while(|line| indent(line) > depth);
    let block = format!("{}{block}", " ".repeat(depth + 2));
    let before = lines[..=at].iter().copied();
    let all: Vec<&str> = before.chain([block.as_str()]).chain(after.copied()).collect();
    Ok(all.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use latchkey_core::config::Config;

    use super::{BOOTSTRAP, replace_block};

    #[test]
    fn a_block_is_replaced_and_nothing_else() {
        let text = "a:\n  value: |\n    old\n      older\n  b: 1\n";
        assert_eq!(
            replace_block(text, "value: |", "new").unwrap(),
            "a:\n  value: |\n    new\n  b: 1\n"
        );
    }

    #[test]
    fn the_rules_that_users_copy_are_a_configuration_that_the_filter_takes() {
        let (_, rest) = BOOTSTRAP.split_once("value: |\n").unwrap();
        let (json, _) = rest.split_once("          - name: envoy.filters.http.router").unwrap();
        let config = Config::from_json(json.as_bytes()).unwrap();
        assert_eq!(config.rules[0].name, "payments");
    }
}
