//! Whether a resource has one spelling.

use super::{Case, Findings, Lint};

/// What Envoy may do with `%2F` in a path, so that no other spelling reaches the rules.
const ESCAPED: [&str; 3] = ["REJECT_REQUEST", "UNESCAPE_AND_REDIRECT", "UNESCAPE_AND_FORWARD"];

pub(super) fn check(case: &Case<'_>, found: &mut Findings) {
    if case.config.rules.iter().all(|rule| rule.matches.path.is_none()) {
        return;
    }
    let manager = &case.guard.manager.node;
    let escaped = manager.text("path_with_escaped_slashes_action");
    let missing: Vec<&str> = [
        (manager.is_true("normalize_path"), "normalize_path: true"),
        (manager.is_true("merge_slashes"), "merge_slashes: true"),
        (
            escaped.is_some_and(|it| ESCAPED.contains(&it)),
            "path_with_escaped_slashes_action: UNESCAPE_AND_REDIRECT",
        ),
    ]
    .into_iter()
    .filter_map(|(is, line)| (!is).then_some(line))
    .collect();
    if !missing.is_empty() {
        let what = "paths are not brought into one spelling";
        let place = case.place(manager.path());
        found.add(Lint::PathNotNormalised, place, what, missing.join(", "));
    }
}
