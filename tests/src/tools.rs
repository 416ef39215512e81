//! Where the programs under test are.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

/// The programs under test. `cargo xtask` builds or fetches them and says where they are; a bare
/// `cargo test` finds what an earlier `cargo xtask build` left, and Envoy and Redis on the path.
#[derive(Clone, Debug)]
pub struct Tools {
    /// Envoy.
    pub envoy: PathBuf,
    /// The filter.
    pub filter: PathBuf,
    /// The server.
    pub latchkey: PathBuf,
    /// The payments service.
    pub payments: PathBuf,
    /// The folder of the native binaries.
    binaries: PathBuf,
}

// === impl Tools ===

impl Tools {
    /// Finds them.
    ///
    /// # Errors
    /// When one is missing; the error says how to get it.
    pub fn find() -> anyhow::Result<Self> {
        let binaries = binaries()?;
        let filter = variable("LATCHKEY_FILTER").map_or_else(
            || {
                let target = binaries.parent().context("the binaries are in no target folder")?;
                Ok::<_, anyhow::Error>(target.join("wasm32-wasip1/wasm/latchkey_plugin.wasm"))
            },
            Ok,
        )?;
        Ok(Self {
            envoy: external("LATCHKEY_ENVOY", &["envoy"])?,
            filter: existing(filter, "the filter")?,
            latchkey: existing(binaries.join("latchkey"), "the server")?,
            payments: existing(binaries.join("payments"), "the payments service")?,
            binaries,
        })
    }

    /// Another program of this crate.
    ///
    /// # Errors
    /// When it is not built.
    pub fn binary(&self, name: &str) -> anyhow::Result<PathBuf> {
        existing(self.binaries.join(name), name)
    }
}

/// A Redis or Valkey server.
///
/// # Errors
/// When there is none; the error says how to get one.
pub fn redis_server() -> anyhow::Result<PathBuf> {
    external("LATCHKEY_REDIS_SERVER", &["redis-server", "valkey-server"])
}

/// A command that knows nothing of our own environment: the server takes its settings from
/// variables whose names begin like those that tests are told with.
#[must_use]
pub fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LATCHKEY_") {
            command.env_remove(name);
        }
    }
    command
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The folder that this program was built in, without the `deps` of test programs.
fn binaries() -> anyhow::Result<PathBuf> {
    if let Some(binaries) = variable("LATCHKEY_BINARIES") {
        return Ok(binaries);
    }
    let here = std::env::current_exe()?;
    let folder = here.parent().context("this program is in no folder")?;
    let folder = if folder.ends_with("deps") { folder.parent() } else { Some(folder) };
    folder.map(Path::to_path_buf).context("this program is in no target folder")
}

fn existing(path: PathBuf, what: &str) -> anyhow::Result<PathBuf> {
    if !path.is_file() {
        bail!("{what} is not built ({} is missing): run `cargo xtask build`", path.display());
    }
    Ok(path)
}

fn external(variable_name: &str, names: &[&str]) -> anyhow::Result<PathBuf> {
    if let Some(path) = variable(variable_name) {
        return Ok(path);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
        .find(|file| file.is_file())
        .with_context(|| {
            format!(
                "no {} on the path: use `cargo xtask test`, which fetches it, or set {variable_name}",
                names.join(" or ")
            )
        })
}
