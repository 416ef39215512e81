//! `cargo xtask demo`: fetches, builds, and becomes the demo.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use crate::build::{Profile, everything};
use crate::tools::{envoy, redis};
use crate::{Outcome, fail};

/// Becomes the demo program, so that a signal to this process reaches the one that cleans up.
pub(crate) fn run(arguments: &[String]) -> Outcome<ExitCode> {
    let wants_redis = wants_redis(arguments)?;
    let envoy = envoy()?;
    let redis = wants_redis.then(redis).transpose()?;
    let built = everything(Profile::Dev)?;
    let mut demo = Command::new(built.binaries.join("latchkey-demo"));
    demo.args(arguments);
    let error = built.tell(&mut demo, &envoy, redis.as_ref()).exec();
    Err(fail!("cannot start the demo: {error}"))
}

/// Checked here too, so that a mistake is told before the build and not after it.
fn wants_redis(arguments: &[String]) -> Outcome<bool> {
    let mut redis = false;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let store = match argument.as_str() {
            "--check" => continue,
            "--store" => rest.next().map(String::as_str),
            other => other.strip_prefix("--store="),
        };
        redis = match store {
            Some("redis") => true,
            Some("sqlite") => false,
            Some(_) | None => {
                return Err(fail!(
                    "demo takes --check and --store sqlite|redis, not {arguments:?}"
                ));
            }
        };
    }
    Ok(redis)
}
