//! The environment that the server was started in.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use super::{ConfigError, Layer, Origin};

/// What the names of our variables begin with.
const PREFIX: &str = "LATCHKEY_";

/// The variables that count, as they were at the start. Variables that begin with the prefix
/// and are none of ours are left alone: Kubernetes makes some for a service called `latchkey`.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<String, OsString>);

// === impl Environment ===

impl Environment {
    /// This process's.
    #[must_use]
    pub fn of_process() -> Self {
        let named = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value));
        Self(std::env::vars_os().filter_map(named).collect())
    }

    /// Exactly these variables.
    #[must_use]
    pub fn of(variables: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), OsString::from(value));
        Self(variables.iter().map(owned).collect())
    }

    /// The variable of the setting `field`, by its name.
    #[must_use]
    pub fn variable(field: &str) -> String {
        format!("{PREFIX}{}", field.to_uppercase())
    }

    /// The file with the configuration, if one is named.
    #[must_use]
    pub fn config(&self) -> Option<PathBuf> {
        self.0.get(&Self::variable("config")).map(PathBuf::from)
    }

    /// The tokens of filters, if they are here.
    pub(super) fn token(&self) -> Result<Option<String>, ConfigError> {
        self.text("token")
    }

    /// What is set here.
    pub(super) fn layer(&self) -> Result<Layer, ConfigError> {
        Ok(Layer {
            listen: self.text("listen")?,
            metrics_listen: self.text("metrics_listen")?,
            store: self.text("store")?,
            data_dir: self.path("data_dir"),
            sqlite_synchronous: self.text("sqlite_synchronous")?,
            store_wait_s: self.number("store_wait_s")?,
            token_file: self.path("token_file"),
            log: self.text("log")?,
            log_format: self.text("log_format")?,
        })
    }

    /// Where the XDG base directory specification has a user's data, or `None` where there is
    /// no user with a home.
    pub(super) fn data_home(&self) -> Option<PathBuf> {
        let absolute = |name| self.0.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
        absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))
    }

    fn text(&self, field: &'static str) -> Result<Option<String>, ConfigError> {
        let Some(value) = self.0.get(&Self::variable(field)) else { return Ok(None) };
        value
            .clone()
            .into_string()
            .map(Some)
            .map_err(|_| invalid(field, "it is not UTF-8".to_owned(), "Write it in UTF-8."))
    }

    fn path(&self, field: &'static str) -> Option<PathBuf> {
        self.0.get(&Self::variable(field)).map(PathBuf::from)
    }

    fn number(&self, field: &'static str) -> Result<Option<u64>, ConfigError> {
        let Some(text) = self.text(field)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            invalid(field, format!("{text:?} is not a whole number"), "Write digits alone.")
        })
    }
}

fn invalid(field: &'static str, why: String, remedy: &str) -> ConfigError {
    let origin = Origin::Environment(Environment::variable(field));
    ConfigError::Setting { field, origin, why, remedy: remedy.to_owned() }
}
