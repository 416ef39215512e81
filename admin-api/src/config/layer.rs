//! One source of settings.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;

use super::ConfigError;

/// The longest configuration file, in bytes: a thousand times what one needs.
pub const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// What one source says: the flags, the environment, or the file. Field, flag, variable and
/// key in the file have the same name. The comments are the help of the flags.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(deny_unknown_fields)]
#[expect(clippy::doc_markdown, reason = "these comments are the flags' help: plain text")]
pub struct Layer {
    /// Serve filters on this IP address and port; port 0 takes a free one [default: 127.0.0.1:7070]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,

    /// Serve metrics on this IP address and port, or `off` [default: 127.0.0.1:7071]
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_listen: Option<String>,

    /// Keep records here: `sqlite:<file>`, `redis://<host>:<port>` or `redis+unix:///<socket>`
    /// [default: a SQLite file in the data directory]
    #[arg(long, value_name = "STORE")]
    pub store: Option<String>,

    /// Keep files in this directory, made if need be, for this user alone
    /// [default: $XDG_DATA_HOME/latchkey or ~/.local/share/latchkey]
    #[arg(long, value_name = "DIRECTORY")]
    pub data_dir: Option<PathBuf>,

    /// Have SQLite flush to the disk with every transaction (`full`), or leave the last ones to a
    /// power failure (`normal`) [default: full]
    #[arg(long, value_name = "MODE")]
    pub sqlite_synchronous: Option<String>,

    /// Wait this many seconds for Redis at the start before giving up [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub store_wait_s: Option<u64>,

    /// Read the token that filters have to bear from this file
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// Log this: a level, or directives such as `info,latchkey_state=debug` [default: info]
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,

    /// Log lines for people (`text`) or a JSON object a line (`json`) [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
}

// === impl Layer ===

impl Layer {
    /// The flag of the setting `field`.
    #[must_use]
    pub fn flag(field: &str) -> String {
        format!("--{}", field.replace('_', "-"))
    }

    /// What the file at `path` says.
    ///
    /// # Errors
    /// Where it cannot be read, is not TOML, or has fields that there are not.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let wrong = |why: String| ConfigError::File { path: path.to_owned(), why };
        let text = read_text(path, CONFIG_BYTES_MAX).map_err(wrong)?;
        parse(&text).map_err(|(field, error)| {
            // Not the error's own form, which quotes the line: it may hold a password.
            let line = error.span().and_then(|span| text.get(..span.start)).map(|before| {
                format!("line {}: ", before.bytes().filter(|byte| *byte == b'\n').count() + 1)
            });
            let field = field.map(|field| format!("{field}: ")).unwrap_or_default();
            wrong(format!("{}{field}{}", line.unwrap_or_default(), error.message()))
        })
    }
}

/// The settings in `text`, or what is wrong with it, and with which of them if that is known.
fn parse(text: &str) -> Result<Layer, (Option<String>, toml::de::Error)> {
    let document = toml::Deserializer::parse(text).map_err(|error| (None, error))?;
    serde_path_to_error::deserialize(document).map_err(|error| {
        let field = Some(error.path().to_string()).filter(|path| path != ".");
        (field, error.into_inner())
    })
}

/// The text of the file at `path`, or what is wrong with it.
pub(super) fn read_text(path: &Path, bytes_max: u64) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|error| format!("cannot be opened: {error}"))?;
    let mut text = String::new();
    let read = file.take(bytes_max + 1).read_to_string(&mut text);
    let read = read.map_err(|error| format!("cannot be read: {error}"))?;
    if read as u64 > bytes_max {
        return Err(format!("is longer than {bytes_max} bytes"));
    }
    Ok(text)
}
