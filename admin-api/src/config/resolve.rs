//! From three layers to one configuration.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use latchkey_state::router::Tokens;
use latchkey_state::sqlite::Synchronous;

use super::layer::read_text;
use super::value::{self, StoreAt, Wrong};
use super::{Config, ConfigError, Environment, Layer, LogFormat, Logs, Origin, StoreConfig};
use crate::cli::ServeArguments;

/// Where filters call unless something else is set.
const LISTEN: &str = "127.0.0.1:7070";

/// Where metrics are read unless something else is set.
const METRICS_LISTEN: &str = "127.0.0.1:7071";

/// How long a server waits for its store unless something else is set, in seconds: as long as
/// a Redis takes to start beside it.
const STORE_WAIT_S: u64 = 30;

/// The longest wait for the store, in seconds. Who wants to wait longer has a supervisor for it.
const STORE_WAIT_S_MAX: u64 = 3600;

/// The longest file with tokens, in bytes.
const TOKEN_FILE_BYTES_MAX: u64 = 64 << 10;

/// The SQLite file in the data directory.
const SQLITE_FILE: &str = "state.sqlite";

/// The layers, the first of which counts most.
struct Layers {
    flags: Layer,
    environment: Layer,
    file: Option<(PathBuf, Layer)>,
}

/// What `arguments`, `environment` and the file that one of them names come to.
///
/// # Errors
/// Where the file cannot be read, or a setting cannot be used.
pub fn resolve(
    arguments: &ServeArguments,
    environment: &Environment,
) -> Result<Config, ConfigError> {
    let file = match arguments.config.clone().or_else(|| environment.config()) {
        Some(path) => Some((path.clone(), Layer::read(&path)?)),
        None => None,
    };
    let layers = Layers { flags: arguments.flags.clone(), environment: environment.layer()?, file };
    let tokens = tokens(&layers, environment)?;
    Ok(Config {
        listen: listen(&layers, &tokens)?,
        metrics_listen: layers.text(
            "metrics_listen",
            |layer| layer.metrics_listen.clone(),
            METRICS_LISTEN,
            value::address_or_off,
        )?,
        store: store(&layers, environment)?,
        store_wait: store_wait(&layers)?,
        tokens,
        logs: logs(&layers)?,
    })
}

fn listen(layers: &Layers, tokens: &Tokens) -> Result<SocketAddr, ConfigError> {
    let reachable_by_callers_only = |text: &str| {
        let address = value::address(text)?;
        if address.ip().is_loopback() || !tokens.is_none() {
            return Ok(address);
        }
        Err((
            format!("{address} can be reached from other machines, and there is no token"),
            "Set LATCHKEY_TOKEN or token_file, or listen on 127.0.0.1".to_owned(),
        ))
    };
    layers.text("listen", |layer| layer.listen.clone(), LISTEN, reachable_by_callers_only)
}

fn tokens(layers: &Layers, environment: &Environment) -> Result<Tokens, ConfigError> {
    let remedy = "Write at least 16 visible ASCII characters, such as `openssl rand -hex 32` \
                  prints; several tokens are separated by white space";
    let from_environment = environment.token()?;
    let (field, origin, tokens) = match layers.pick("token_file", |it| it.token_file.clone()) {
        Some((_, origin)) if from_environment.is_some() => {
            let why = "LATCHKEY_TOKEN is set too".to_owned();
            return Err(setting("token_file", origin, (why, "Keep one of them".to_owned())));
        }
        Some((path, origin)) => {
            let text = read_text(&path, TOKEN_FILE_BYTES_MAX).map_err(|why| {
                let why = format!("{} {why}", path.display());
                let remedy = "Name a file that this user can read".to_owned();
                setting("token_file", origin.clone(), (why, remedy))
            })?;
            ("token_file", origin, Tokens::parse(&text))
        }
        None => match from_environment {
            Some(text) => {
                let origin = Origin::Environment(Environment::variable("token"));
                ("token", origin, Tokens::parse(&text))
            }
            None => return Ok(Tokens::none()),
        },
    };
    tokens.map_err(|error| setting(field, origin, (error.to_string(), remedy.to_owned())))
}

fn store(layers: &Layers, environment: &Environment) -> Result<StoreConfig, ConfigError> {
    let synchronous: Synchronous = layers.text(
        "sqlite_synchronous",
        |layer| layer.sqlite_synchronous.clone(),
        "full",
        value::synchronous,
    )?;
    let Some((text, origin)) = layers.pick("store", |layer| layer.store.clone()) else {
        let path = data_dir(layers, environment)?.join(SQLITE_FILE);
        return Ok(StoreConfig::Sqlite { path, synchronous });
    };
    match value::store(&text).map_err(|wrong| setting("store", origin.clone(), wrong))? {
        StoreAt::Sqlite(path) => Ok(StoreConfig::Sqlite { path, synchronous }),
        StoreAt::Redis(url) if url.has_credentials() && matches!(origin, Origin::Flag(_)) => {
            let why = "the URL holds a password, and others can read this process's flags";
            let remedy = "Write it to LATCHKEY_STORE or to the configuration file";
            Err(setting("store", origin, (why.to_owned(), remedy.to_owned())))
        }
        StoreAt::Redis(url) => Ok(StoreConfig::Redis(url)),
    }
}

fn data_dir(layers: &Layers, environment: &Environment) -> Result<PathBuf, ConfigError> {
    let wrong = |origin, why: &str| {
        let remedy = "Name a directory for the SQLite file, or set store".to_owned();
        setting("data_dir", origin, (why.to_owned(), remedy))
    };
    match layers.pick("data_dir", |layer| layer.data_dir.clone()) {
        Some((path, origin)) if path.as_os_str().is_empty() => Err(wrong(origin, "it is empty")),
        Some((path, _)) => Ok(path),
        None => environment.data_home().map(|home| home.join("latchkey")).ok_or_else(|| {
            wrong(Origin::Default, "neither XDG_DATA_HOME nor HOME is an absolute path")
        }),
    }
}

fn store_wait(layers: &Layers) -> Result<Duration, ConfigError> {
    let picked = layers.pick("store_wait_s", |layer| layer.store_wait_s);
    let (seconds, origin) = picked.unwrap_or((STORE_WAIT_S, Origin::Default));
    if seconds > STORE_WAIT_S_MAX {
        let why = format!("{seconds} is out of range");
        let remedy = format!("Write 0 to {STORE_WAIT_S_MAX} seconds");
        return Err(setting("store_wait_s", origin, (why, remedy)));
    }
    Ok(Duration::from_secs(seconds))
}

fn logs(layers: &Layers) -> Result<Logs, ConfigError> {
    let format: LogFormat =
        layers.text("log_format", |layer| layer.log_format.clone(), "text", value::log_format)?;
    let filter = layers.text("log", |layer| layer.log.clone(), "info", value::log_filter)?;
    Ok(Logs { filter, format })
}

fn setting(field: &'static str, origin: Origin, (why, remedy): Wrong) -> ConfigError {
    ConfigError::Setting { field, origin, why, remedy: format!("{remedy}.") }
}

// === impl Layers ===

impl Layers {
    /// The setting `field`, from the first layer that has it.
    fn pick<T>(&self, field: &str, get: impl Fn(&Layer) -> Option<T>) -> Option<(T, Origin)> {
        let flag = || get(&self.flags).map(|value| (value, Origin::Flag(Layer::flag(field))));
        let variable = || {
            let origin = Origin::Environment(Environment::variable(field));
            get(&self.environment).map(|value| (value, origin))
        };
        let file = || {
            let (path, layer) = self.file.as_ref()?;
            get(layer).map(|value| (value, Origin::File(path.clone())))
        };
        flag().or_else(variable).or_else(file)
    }

    /// The setting `field`, or `default`, read by `parse`.
    fn text<T>(
        &self,
        field: &'static str,
        get: impl Fn(&Layer) -> Option<String>,
        default: &str,
        parse: impl Fn(&str) -> Result<T, Wrong>,
    ) -> Result<T, ConfigError> {
        let picked = self.pick(field, get);
        let (text, origin) = picked.unwrap_or_else(|| (default.to_owned(), Origin::Default));
        parse(&text).map_err(|wrong| setting(field, origin, wrong))
    }
}
