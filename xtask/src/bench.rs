//! `cargo xtask bench`: fetches, builds with optimisation, and becomes the benchmark.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use crate::build::{Profile, everything};
use crate::tools::{envoy, redis};
use crate::{Outcome, fail};

/// Becomes the benchmark, so that a signal to this process reaches the one that cleans up.
pub(crate) fn run(arguments: &[String]) -> Outcome<ExitCode> {
    let (envoy, redis) = (envoy()?, redis()?);
    let built = everything(Profile::Release)?;
    let mut bench = Command::new(built.binaries.join("latchkey-bench"));
    bench.args(arguments);
    let error = built.tell(&mut bench, &envoy, Some(&redis)).exec();
    Err(fail!("cannot start the benchmark: {error}"))
}
