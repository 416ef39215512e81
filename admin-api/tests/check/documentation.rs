//! `docs/check.md` tells of every finding, as the program does.

use latchkey_admin_api::check::Lint;

const PAGE: &str = include_str!("../../../docs/check.md");

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_finding_has_its_section_in_order() {
    let titles: Vec<&str> = PAGE.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let title = |it: &Lint| format!("`{}` ({})", it.id(), it.severity().name());
    assert_eq!(titles, Lint::ALL.iter().map(title).collect::<Vec<_>>());
}

#[test]
fn every_section_says_why_as_the_program_does_and_what_to_write_instead() {
    for (lint, section) in Lint::ALL.iter().zip(PAGE.split("\n### ").skip(1)) {
        let section = words(section);
        assert!(section.contains(lint.why()), "{} has another reason", lint.id());
        assert!(section.contains("**Instead:**"), "{} has no remedy", lint.id());
    }
}
