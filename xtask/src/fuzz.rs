//! `cargo xtask fuzz`: searches for inputs that break a property, with coverage as its guide.
//!
//! Any stable Rust will do: the compiler's own pass counts what runs, and libFuzzer, which comes
//! with `libfuzzer-sys`, reads the counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::command::{Led, cargo, output, run as run_to_end, target, workspace};
use crate::{Outcome, fail};

const TARGETS: [&str; 4] = ["key", "fingerprint", "config", "filter"];

/// What `cargo fuzz` gives the compiler, but for the sanitizers, which only a nightly one has.
const FLAGS: [&str; 7] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "--cfg=fuzzing",
];

/// Longer inputs say nothing new. The test `corpus` has the same bound.
const LENGTH_MAX: usize = 4096;

/// Slower ones hang, in seconds.
const INPUT_SECONDS_MAX: u32 = 10;

/// Builds, searches, and keeps what was found.
pub(crate) fn run(arguments: &[String]) -> Outcome<ExitCode> {
    let (name, seconds) = read(arguments)?;
    let folder = target()?.join("fuzz");
    let program = build(name, &folder)?;
    let corpus = workspace()?.join("fuzz/corpus").join(name);
    let found = made(folder.join("corpus").join(name))?;
    let failures = made(folder.join("failures").join(name))?;

    let mut search = Command::new(&program);
    search
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={LENGTH_MAX}"))
        .arg(format!("-timeout={INPUT_SECONDS_MAX}"))
        .arg(format!("-artifact_prefix={}/", failures.display()))
        .args([&found, &corpus]);
    if !Led::start(&mut search)?.wait()?.success() {
        eprintln!(
            "xtask: the target {name} fails; libFuzzer has named the input's file above, in {}\n\
             To run it again:  {} FILE\n\
             To keep it as a seed, which `cargo test -p latchkey-fuzz` runs:  cp FILE {}/",
            failures.display(),
            program.display(),
            corpus.display(),
        );
        return Ok(ExitCode::FAILURE);
    }
    let before = count(&corpus)?;
    let mut merge = Command::new(&program);
    merge.args(["-merge=1", "-set_cover_merge=1", "-use_counters=0"]).args([&corpus, &found]);
    run_to_end(&mut merge, "keep what was found")?;
    println!("{} new seeds in {}", count(&corpus)? - before, corpus.display());
    Ok(ExitCode::SUCCESS)
}

fn read(arguments: &[String]) -> Outcome<(&str, u32)> {
    let usage = || fail!("fuzz takes one of {} and [--seconds N]", TARGETS.join(", "));
    let (name, seconds) = match arguments {
        [name] => (name, Some(60)),
        [name, flag, seconds] if flag == "--seconds" => (name, seconds.parse().ok()),
        _ => return Err(usage()),
    };
    // libFuzzer takes no seconds for no end.
    let seconds = seconds.filter(|seconds| *seconds > 0).ok_or_else(usage)?;
    if TARGETS.contains(&name.as_str()) { Ok((name, seconds)) } else { Err(usage()) }
}

/// Optimised, with every check that a debug build has. Named for the host's triple, so that what
/// runs while building is not counted.
fn build(name: &str, folder: &Path) -> Outcome<PathBuf> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = output(Command::new(rustc).arg("-vV"))
        .ok_or_else(|| fail!("rustc does not run; install Rust with rustup"))?;
    let triple = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .ok_or_else(|| fail!("rustc does not say which host it is for"))?;
    let binary = format!("fuzz-{name}");
    let mut build = cargo()?;
    build
        .args(["build", "-p", "latchkey-fuzz", "--features", "libfuzzer", "--bin", &binary])
        .args(["--release", "--target", triple, "--target-dir"])
        .arg(folder)
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"))
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true")
        .env("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true");
    run_to_end(&mut build, "build the fuzz target; it needs a C++ compiler")?;
    Ok(folder.join(triple).join("release").join(binary))
}

fn made(folder: PathBuf) -> Outcome<PathBuf> {
    fs::create_dir_all(&folder)
        .map_err(|error| fail!("cannot make {}: {error}", folder.display()))?;
    Ok(folder)
}

fn count(folder: &Path) -> Outcome<usize> {
    let files = fs::read_dir(folder);
    Ok(files.map_err(|error| fail!("cannot read {}: {error}", folder.display()))?.count())
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_target_and_perhaps_a_time_are_read_and_nothing_else() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(read(&words("key")).ok(), Some(("key", 60)));
        assert_eq!(read(&words("filter --seconds 5")).ok(), Some(("filter", 5)));
        for wrong in ["", "keys", "key --seconds", "key --seconds 0", "key --seconds x", "key 5"] {
            assert!(read(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
