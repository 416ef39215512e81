//! What `latchkey envoy-config` prints, Envoy takes.

use std::path::Path;

use anyhow::{Context as _, ensure};
use latchkey_tests::tools::{Tools, program};

/// A configuration whose names, header and limits are not those of `deploy/envoy.yaml`.
const FILTER: &str = r#"{
  "namespace": "prod",
  "secrets": [{ "id": "1", "env": "PAY_SECRET" }],
  "state": { "cluster": "state", "token_env": "PAY_TOKEN" },
  "rules": [{
    "name": "orders",
    "match": { "path_prefix": "/orders" },
    "client": { "header": "x-tenant" },
    "execute": { "cluster": "inner", "timeout_ms": 90000 },
    "on_ambiguous": "hold",
    "request_body_max_bytes": 4194304
  }]
}"#;

/// Prints a configuration with the filter that was built, and lets Envoy look at it.
fn validate(flags: &[&str], variables: &[(&str, &str)], folder: &Path) -> anyhow::Result<()> {
    let tools = Tools::find()?;
    let filter = tools.filter.canonicalize()?;
    let mut latchkey = program(&tools.latchkey);
    latchkey.arg("envoy-config").args(flags).arg("--filter").arg(filter);
    let printed = latchkey.current_dir(folder).output()?;
    let said = String::from_utf8_lossy(&printed.stderr);
    ensure!(printed.status.success() && said.is_empty(), "envoy-config: {said}");
    let file = folder.join("envoy.yaml");
    std::fs::write(&file, printed.stdout)?;
    let mut envoy = program(&tools.envoy);
    envoy.args(["--mode", "validate", "--log-level", "warning", "-c"]).arg(&file);
    let validated = envoy.envs(variables.iter().copied()).output().context("Envoy does not run")?;
    let said = String::from_utf8_lossy(&validated.stderr);
    ensure!(validated.status.success(), "Envoy refuses it: {said}");
    Ok(())
}

const SECRET: &str = "00112233445566778899aabbccddeeff";

#[test]
fn envoy_takes_it_as_it_is() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    validate(&[], &[("LATCHKEY_SECRET", SECRET)], folder.path())
}

#[test]
fn envoy_takes_it_with_everything_filled_in() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("filter.json"), FILTER)?;
    let flags = [
        ["--listen", "[::1]:18443"],
        ["--upstream", "localhost:8081"],
        ["--state", "[::1]:7071"],
        ["--config", "filter.json"],
    ];
    let variables = [("PAY_SECRET", SECRET), ("PAY_TOKEN", SECRET)];
    validate(&flags.concat(), &variables, folder.path())
}
