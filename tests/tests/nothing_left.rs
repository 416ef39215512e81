//! However the demo ends, nothing of it is left: no process, and no file.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use latchkey_tests::tools::Tools;
use latchkey_tests::wait::DEADLINE;
use rustix::process::{Pid, Signal, kill_process};

/// A process, told from a later one with the same id by when it started.
type Identity = (u32, String);

/// The fields of `/proc/PID/stat` after the program's name, which may hold anything.
fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    Some(fields.split(' ').map(str::to_owned).collect())
}

fn identity(pid: u32) -> Option<Identity> {
    // Field 22, of which the first two are cut off.
    stat(pid)?.get(19).map(|started| (pid, started.clone()))
}

fn children(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap();
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| stat(*pid).is_some_and(|stat| stat[1] == parent.to_string()))
        .collect()
}

fn descendants(ancestor: u32) -> BTreeSet<Identity> {
    let mut found = BTreeSet::new();
    let mut left = vec![ancestor];
    while let Some(parent) = left.pop() {
        let children = children(parent);
        found.extend(children.iter().filter_map(|child| identity(*child)));
        left.extend(children);
    }
    found
}

fn until(what: &str, mut look: impl FnMut() -> bool) {
    let started = Instant::now();
    while !look() {
        assert!(started.elapsed() < DEADLINE, "waited {DEADLINE:?} until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A demo whose temporary files go to `temporary`.
fn demo(arguments: &[&str], temporary: &Path) -> Child {
    Command::new(Tools::find().unwrap().binary("latchkey-demo").unwrap())
        .args(arguments)
        .env("TMPDIR", temporary)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

fn nothing_is_left_after(signal: Signal) -> ExitStatus {
    let temporary = tempfile::tempdir().unwrap();
    let mut demo = demo(&[], temporary.path());
    // When a first answer was seen, all that there is has started.
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("    < ")), "the demo showed nothing");
    let started = descendants(demo.id());
    assert!(started.len() >= 4, "Envoy, latchkey, payments and a watchdog: {started:?}");
    assert!(!is_empty(temporary.path()), "the demo keeps its files elsewhere");

    kill_process(Pid::from_child(&demo), signal).unwrap();
    let status = demo.wait().unwrap();
    // Reads on until the last writer has closed, so that nothing can block on a full pipe.
    lines.for_each(drop);
    until("every process has ended", || {
        started.iter().all(|(pid, start)| identity(*pid).is_none_or(|(_, now)| now != *start))
    });
    until("the folder is removed", || is_empty(temporary.path()));
    status
}

#[test]
fn nothing_is_left_of_a_demo_that_has_ended() {
    let temporary = tempfile::tempdir().unwrap();
    let demo = demo(&["--check"], temporary.path());
    let pid = demo.id();
    let output = demo.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}");
    assert!(told.ends_with("Every step was right.\n"), "{told}");
    assert!(is_empty(temporary.path()));
    assert!(children(pid).is_empty());
}

#[test]
fn nothing_is_left_of_a_demo_that_is_interrupted() {
    assert_eq!(nothing_is_left_after(Signal::INT).code(), Some(130));
}

#[test]
fn nothing_is_left_of_a_demo_that_is_terminated() {
    assert_eq!(nothing_is_left_after(Signal::TERM).code(), Some(143));
}

#[test]
fn nothing_is_left_of_a_demo_that_is_killed() {
    assert_eq!(nothing_is_left_after(Signal::KILL).code(), None);
}
