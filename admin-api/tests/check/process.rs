//! The program: what it reads, prints and ends with.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::bootstrap::Bootstrap;

fn latchkey(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_latchkey"));
    command.args(arguments).current_dir(folder).output().unwrap()
}

/// A folder with these documents.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn the_exit_code_says_whether_something_is_wrong() {
    let mut wrong = Bootstrap::new();
    *wrong.plugin("failure_policy") = "FAIL_OPEN".into();
    let mut warned = Bootstrap::new();
    *warned.plugin("failure_policy") = "FAIL_CLOSED".into();
    let files = [
        ("clean.yaml", &Bootstrap::new().0.to_string()),
        ("warned.yaml", &warned.0.to_string()),
        ("wrong.yaml", &wrong.0.to_string()),
        ("filter.json", &"{}".to_owned()),
    ];
    let folder = folder(&files.map(|(name, text)| (name, text.as_str())));
    let code = |arguments: &[&str]| latchkey(arguments, folder.path()).status.code();
    assert_eq!(code(&["check", "--envoy", "clean.yaml"]), Some(0));
    assert_eq!(code(&["check", "--envoy", "warned.yaml"]), Some(0));
    assert_eq!(code(&["check", "--envoy", "warned.yaml", "--strict"]), Some(1));
    assert_eq!(code(&["check", "--envoy", "wrong.yaml"]), Some(1));
    assert_eq!(code(&["check", "filter.json"]), Some(2));
    assert_eq!(code(&["check", "missing.json"]), Some(2));
    assert_eq!(code(&["check"]), Some(2));
}

#[test]
fn programs_get_json_whatever_happens() {
    let folder = folder(&[("filter.json", "{}"), ("envoy.yaml", &Bootstrap::new().0.to_string())]);
    let json = |arguments: &[&str]| {
        let output = latchkey(arguments, folder.path());
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let found = json(&["check", "--envoy", "envoy.yaml", "--json"]);
    assert_eq!(found["errors"], 0);
    let unusable = json(&["check", "filter.json", "--json"]);
    assert_eq!(unusable["unusable"]["document"], "filter.json");
}

#[test]
fn what_is_printed_for_envoy_is_found_to_be_clean() {
    let folder = folder(&[]);
    let printed = latchkey(&["envoy-config", "--upstream", "pay.internal:8443"], folder.path());
    assert_eq!((printed.status.code(), printed.stderr.as_slice()), (Some(0), &b""[..]));
    std::fs::write(folder.path().join("envoy.yaml"), printed.stdout).unwrap();
    let checked = latchkey(&["check", "--envoy", "envoy.yaml"], folder.path());
    assert_eq!(checked.stdout, b"0 errors, 0 warnings, 0 notes\n");
}
