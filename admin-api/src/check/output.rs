//! How findings are told.

use std::fmt::Write as _;

use serde::Serialize;

use super::finding::{Finding, Findings, Place};
use super::input::InputError;
use super::lint::Severity;

/// A finding as JSON.
#[derive(Serialize)]
struct FindingJson<'a> {
    id: &'static str,
    severity: Severity,
    #[serde(flatten)]
    place: &'a Place,
    what: &'a str,
    why: &'static str,
    instead: &'a str,
}

/// All of them.
#[derive(Serialize)]
struct FindingsJson<'a> {
    findings: Vec<FindingJson<'a>>,
    errors: usize,
    warnings: usize,
    notes: usize,
}

/// Why there are none.
#[derive(Serialize)]
struct UnusableJson<'a> {
    unusable: &'a InputError,
}

/// For people.
#[must_use]
pub fn human(found: &Findings) -> String {
    let mut text = String::new();
    for Finding { lint, place, what, instead } in found.all() {
        let (severity, id, why) = (lint.severity().name(), lint.id(), lint.why());
        let _infallible = writeln!(
            text,
            "{severity}[{id}]: {what}\n  at: {place}\n  why: {why}\n  instead: {instead}\n"
        );
    }
    let counts = [
        (found.count(Severity::Error), "error"),
        (found.count(Severity::Warning), "warning"),
        (found.count(Severity::Note), "note"),
    ];
    let counts =
        counts.map(|(count, name)| format!("{count} {name}{}", if count == 1 { "" } else { "s" }));
    text + &counts.join(", ") + "\n"
}

/// For programs.
#[must_use]
pub fn json(found: &Findings) -> String {
    let findings = found.all().iter().map(|Finding { lint, place, what, instead }| FindingJson {
        id: lint.id(),
        severity: lint.severity(),
        place,
        what,
        why: lint.why(),
        instead,
    });
    printed(&FindingsJson {
        findings: findings.collect(),
        errors: found.count(Severity::Error),
        warnings: found.count(Severity::Warning),
        notes: found.count(Severity::Note),
    })
}

/// For programs, where nothing can be said.
#[must_use]
pub fn unusable_json(error: &InputError) -> String {
    printed(&UnusableJson { unusable: error })
}

/// These types have nothing that JSON has not.
fn printed(it: &impl Serialize) -> String {
    serde_json::to_string_pretty(it).unwrap_or_default() + "\n"
}
