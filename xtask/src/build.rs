//! Building what the demo and the end-to-end tests run.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::command::{cargo, run as run_to_end, target};
use crate::tools::wasm_target;
use crate::{Outcome, fail};

/// How the native binaries are built. The filter is always optimised: its host is.
#[derive(Clone, Copy)]
pub(crate) enum Profile {
    /// As the tests are, so that dependencies are compiled once for tests and demo.
    Dev,
    /// To be measured.
    Release,
}

/// What was built.
pub(crate) struct Built {
    /// The folder of the native binaries.
    pub(crate) binaries: PathBuf,
    /// The filter.
    pub(crate) filter: PathBuf,
}

/// `cargo xtask build`
pub(crate) fn run(arguments: &[String]) -> Outcome<ExitCode> {
    if !arguments.is_empty() {
        return Err(fail!("build takes no arguments"));
    }
    let built = everything(Profile::Dev)?;
    println!("filter  {}", built.filter.display());
    println!("server  {}", built.binaries.join("latchkey").display());
    Ok(ExitCode::SUCCESS)
}

/// Builds the filter and the native binaries.
pub(crate) fn everything(profile: Profile) -> Outcome<Built> {
    let filter = filter()?;
    let mut native = cargo()?;
    native.args(["build", "--bins", "-p", "latchkey-admin-api", "-p", "latchkey-tests"]);
    let folder = match profile {
        Profile::Dev => "debug",
        Profile::Release => {
            native.arg("--release");
            "release"
        }
    };
    run_to_end(&mut native, "build the server and the demo")?;
    Ok(Built { binaries: target()?.join(folder), filter })
}

/// Builds the filter alone.
fn filter() -> Outcome<PathBuf> {
    wasm_target()?;
    let mut wasm = cargo()?;
    wasm.args(["build", "-p", "latchkey-plugin", "--target", "wasm32-wasip1", "--profile", "wasm"]);
    run_to_end(&mut wasm, "build the filter")?;
    Ok(target()?.join("wasm32-wasip1/wasm/latchkey_plugin.wasm"))
}

// === impl Built ===

impl Built {
    /// Tells `command` where everything is.
    pub(crate) fn tell<'a>(
        &self,
        command: &'a mut Command,
        envoy: &PathBuf,
        redis: Option<&PathBuf>,
    ) -> &'a mut Command {
        command
            .env("LATCHKEY_BINARIES", &self.binaries)
            .env("LATCHKEY_FILTER", &self.filter)
            .env("LATCHKEY_ENVOY", envoy);
        if let Some(redis) = redis {
            command.env("LATCHKEY_REDIS_SERVER", redis);
        }
        command
    }
}
