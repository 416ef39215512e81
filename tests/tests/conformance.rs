//! `docs/conformance.md` names a test for each of its rows.

use std::collections::BTreeMap;
use std::path::Path;

const PAGE: &str = include_str!("../../docs/conformance.md");

/// How many situations the table numbers.
const SITUATIONS: usize = 29;

/// Where tests are.
const FOLDERS: [&str; 6] = ["core", "state", "plugin", "admin-api", "tests", "fuzz"];

/// The text of all Rust files, by their names without an extension.
fn files() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = BTreeMap::new();
    let mut folders: Vec<_> = FOLDERS.iter().map(|folder| root.join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.file_stem().unwrap().to_string_lossy().into_owned();
                let text = std::fs::read_to_string(path).unwrap();
                files.entry(name).or_insert_with(String::new).push_str(&text);
            }
        }
    }
    files
}

/// What a row names, as pairs of file and test.
fn named(row: &str) -> Vec<(&str, &str)> {
    row.split('`').skip(1).step_by(2).filter_map(|span| span.split_once("::")).collect()
}

fn rows() -> impl Iterator<Item = &'static str> {
    PAGE.lines().filter(|line| line.starts_with("| ") && line.ends_with('|'))
}

#[test]
fn every_situation_has_its_row_in_order() {
    let numbers: Vec<usize> =
        rows().filter_map(|row| row.split('|').nth(1)?.trim().parse().ok()).collect();
    assert_eq!(numbers, (1..=SITUATIONS).collect::<Vec<_>>());
}

#[test]
fn every_row_names_tests_and_all_of_them_exist() {
    let files = files();
    let exists = |file: &str, test: &str| {
        let text = files.get(file).map(String::as_str).unwrap_or_default();
        [format!("fn {test}("), format!("fn {test}<")].iter().any(|line| text.contains(line))
    };
    let mut missing = Vec::new();
    for row in rows().filter(|row| !row.contains("| shown by |")) {
        let named = named(row);
        assert!(!named.is_empty(), "names no test: {row}");
        missing.extend(named.into_iter().filter(|(file, test)| !exists(file, test)));
    }
    assert!(missing.is_empty(), "there are no such tests: {missing:#?}");
}
