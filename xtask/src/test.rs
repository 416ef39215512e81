//! `cargo xtask test`: every test there is, and one line of sums at the end.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::thread::available_parallelism;

use crate::build::{Profile, everything};
use crate::command::{Led, cargo};
use crate::tools::{envoy, redis};
use crate::{Outcome, fail};

/// Each end-to-end test runs an Envoy with two workers, a server and a payments service. More
/// than this many at once and their leases would be lost to waiting for a processor.
const PARALLEL_TESTS_MAX: usize = 4;

/// Runs them.
pub(crate) fn run(arguments: &[String]) -> Outcome<ExitCode> {
    let envoy = envoy()?;
    let redis = redis()?;
    let built = everything(Profile::Dev)?;

    let mut command = cargo()?;
    command.args(["test", "--workspace", "--no-fail-fast"]).args(arguments).stdout(Stdio::piped());
    built.tell(&mut command, &envoy, Some(&redis));
    limit_parallelism(&mut command);
    let mut tests = Led::start(&mut command)?;
    let output =
        tests.child().stdout.take().ok_or_else(|| fail!("the tests have no output to read"))?;
    let mut sums = Sums::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line.map_err(|error| fail!("cannot read what the tests print: {error}"))?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        sums.add(&line);
    }
    let status = tests.wait()?;
    if !status.success() && sums.failed == 0 {
        eprintln!("xtask: a test program did not compile, or ended before its result: {status}");
        sums.failed = 1;
    }
    if sums.passed + sums.failed == 0 {
        eprintln!("xtask: no test ran");
    }
    println!("{} passed, {} failed", sums.passed, sums.failed);
    Ok(if status.success() && sums.failed == 0 && sums.passed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn limit_parallelism(command: &mut Command) {
    const VARIABLE: &str = "RUST_TEST_THREADS";
    if std::env::var_os(VARIABLE).is_none() {
        let processors = available_parallelism().map_or(1, usize::from);
        command.env(VARIABLE, processors.min(PARALLEL_TESTS_MAX).to_string());
    }
}

/// What the test programs said so far.
#[derive(Default, Debug, PartialEq, Eq)]
struct Sums {
    passed: u64,
    failed: u64,
}

// === impl Sums ===

impl Sums {
    /// Reads one line; other than a program's closing line, it counts nothing.
    fn add(&mut self, line: &str) {
        let Some((_, result)) = line.split_once("test result: ") else { return };
        let count = |word: &str| -> u64 {
            result
                .split([';', '.'])
                .filter_map(|part| part.trim().strip_suffix(word))
                .find_map(|number| number.trim().parse().ok())
                .unwrap_or(0)
        };
        self.passed += count(" passed");
        self.failed += count(" failed");
    }
}

#[cfg(test)]
mod tests {
    use super::Sums;

    #[test]
    fn closing_lines_add_up_and_others_count_nothing() {
        let mut sums = Sums::default();
        for line in [
            "running 3 tests",
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.05s",
            "7 passed and what not",
            "test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s",
        ] {
            sums.add(line);
        }
        assert_eq!(sums, Sums { passed: 16, failed: 2 });
    }
}
