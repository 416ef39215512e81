//! What is read, and why it cannot be.

use std::path::Path;

use latchkey_core::config::{Config, ConfigError};

use crate::yaml::Yaml;

/// Larger files are not read. Bootstraps have kilobytes; a file of generated resources, some
/// megabytes.
const FILE_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// A file.
#[derive(Clone, Debug)]
pub struct Document {
    /// What it is called in findings.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// Why nothing can be said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, serde::Serialize)]
#[error(
    "{document}{}: {path}{}{reason}",
    line.map(|line| format!(":{line}")).unwrap_or_default(),
    if path.is_empty() { "" } else { ": " }
)]
pub struct InputError {
    /// The file.
    pub document: String,
    /// The field in it, empty for the whole.
    pub path: String,
    /// The line of that field, or of what it would be in.
    pub line: Option<u64>,
    /// What is wrong.
    pub reason: String,
}

// === impl Document ===

impl Document {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, is too large or not UTF-8.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        use std::io::Read as _;
        let name = path.display().to_string();
        let unreadable = |error: std::io::Error| InputError::whole(&name, &error.to_string());
        let file = std::fs::File::open(path).map_err(unreadable)?;
        let mut text = String::new();
        file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > FILE_BYTES_MAX {
            let reason = format!("is larger than {FILE_BYTES_MAX} bytes");
            return Err(InputError::whole(&name, &reason));
        }
        Ok(Self { name, text })
    }

    /// As the filter's configuration, by the filter's own code.
    pub(super) fn config(&self) -> Result<Config, InputError> {
        Config::from_json(self.text.as_bytes()).map_err(|error| InputError::config(self, "", error))
    }

    /// As YAML, of which JSON is a part.
    pub(super) fn yaml(&self) -> Result<Yaml, InputError> {
        Yaml::read(&self.text).map_err(|reason| InputError::whole(&self.name, &reason))
    }
}

// === impl InputError ===

impl InputError {
    pub(crate) fn whole(document: &str, reason: &str) -> Self {
        Self {
            document: document.to_owned(),
            path: String::new(),
            line: None,
            reason: reason.to_owned(),
        }
    }

    /// A configuration that the filter would not take, embedded at `at` or a file of its own.
    pub(crate) fn config(document: &Document, at: &str, error: ConfigError) -> Self {
        // What is no JSON has no fields: serde_path_to_error says `?`.
        let field = Some(error.path).filter(|path| path != "." && path != "?");
        let line = Yaml::read(&document.text).ok().and_then(|yaml| match (at, &field) {
            ("", None) => None,
            ("", Some(field)) => yaml.line(field),
            (at, _) => yaml.line(at),
        });
        let path = match (at, field) {
            ("", field) => field.unwrap_or_default(),
            (at, None) => at.to_owned(),
            (at, Some(field)) => format!("{at}: {field}"),
        };
        Self { document: document.name.clone(), path, line, reason: error.reason }
    }
}
