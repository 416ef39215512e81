//! What was found.

use serde::Serialize;

use super::lint::{Lint, Severity};

/// Where something is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file.
    pub document: String,
    /// The field in it, as `rules[0].client.header`; empty for the whole.
    pub path: String,
    /// The line of that field, or of what it would be in.
    pub line: Option<u64>,
    /// The listener that it belongs to.
    pub listener: Option<String>,
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Of what kind.
    pub lint: Lint,
    /// Where.
    pub place: Place,
    /// What is there.
    pub what: String,
    /// What to write instead.
    pub instead: String,
}

/// All that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings(Vec<Finding>);

// === impl Findings ===

impl Findings {
    /// Adds one. The same thing at the same place is told once: several rules find it.
    pub(super) fn add(
        &mut self,
        lint: Lint,
        place: Place,
        what: impl Into<String>,
        instead: impl Into<String>,
    ) {
        if !self.0.iter().any(|it| it.lint == lint && it.place == place) {
            let (what, instead) = (what.into(), instead.into());
            self.0.push(Finding { lint, place, what, instead });
        }
    }

    /// The worst first.
    pub(super) fn sort(&mut self) {
        self.0.sort_by_key(|it| it.lint.severity());
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[Finding] {
        &self.0
    }

    /// How many are of this severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.0.iter().filter(|it| it.lint.severity() == severity).count()
    }
}

// === impl Place ===

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.document)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.path.is_empty() {
            write!(f, ": {}", self.path)?;
        }
        match &self.listener {
            Some(listener) => write!(f, " (listener {listener})"),
            None => Ok(()),
        }
    }
}
