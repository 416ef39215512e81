use clap::Parser as _;

use super::*;
use crate::cli::{Cli, Command};

/// What flags, environment and file come to.
fn config(
    flags: &[&str],
    variables: &[(&str, &str)],
    file: Option<&str>,
) -> Result<Config, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("latchkey.toml");
    let path = path.to_str().unwrap();
    std::fs::write(path, file.unwrap_or_default()).unwrap();
    let mut line = vec!["latchkey", "serve"];
    line.extend(flags);
    if file.is_some() {
        line.extend(["--config", path]);
    }
    let Command::Serve(arguments) = Cli::try_parse_from(line).unwrap().command else {
        panic!("another subcommand")
    };
    let mut all = vec![("HOME", "/home/ada")];
    all.extend(variables);
    let resolved = resolve(&arguments, &Environment::of(&all));
    resolved.map_err(|error| error.to_string().replace(path, "/etc/latchkey.toml"))
}

fn error(flags: &[&str], variables: &[(&str, &str)], file: Option<&str>) -> String {
    config(flags, variables, file).unwrap_err()
}

const TOKEN: (&str, &str) = ("LATCHKEY_TOKEN", "0123456789abcdef");

#[test]
fn without_any_setting_a_file_in_the_users_home_is_served_on_loopback() {
    let config = config(&[], &[], None).unwrap();
    insta::assert_debug_snapshot!(config, @r#"
    Config {
        listen: 127.0.0.1:7070,
        metrics_listen: Some(
            127.0.0.1:7071,
        ),
        store: Sqlite {
            path: "/home/ada/.local/share/latchkey/state.sqlite",
            synchronous: Full,
        },
        store_wait: 30s,
        tokens: Tokens(0),
        logs: Logs {
            filter: "info",
            format: Text,
        },
    }
    "#);
}

#[test]
fn the_data_directory_follows_the_xdg_specification() {
    let path = |variables: &[(&str, &str)]| match config(&[], variables, None).unwrap().store {
        StoreConfig::Sqlite { path, .. } => path.display().to_string(),
        StoreConfig::Redis(url) => panic!("{url}"),
    };
    assert_eq!(path(&[("XDG_DATA_HOME", "/data")]), "/data/latchkey/state.sqlite");
    assert_eq!(
        path(&[("XDG_DATA_HOME", "relative")]),
        "/home/ada/.local/share/latchkey/state.sqlite",
        "the specification has relative paths ignored"
    );
    assert_eq!(path(&[("LATCHKEY_DATA_DIR", "here")]), "here/state.sqlite");
}

#[test]
fn flags_count_before_the_environment_and_that_before_the_file() {
    let file = Some("listen = '127.0.0.1:1'\nlog = 'debug'\nstore_wait_s = 1\n");
    let variables = [
        ("LATCHKEY_LISTEN", "127.0.0.1:2"),
        ("LATCHKEY_LOG", "warn"),
        ("LATCHKEY_LOG_FORMAT", "json"),
    ];
    let variables = [&variables[..], &[("LATCHKEY_CONFIG", "/nowhere")]].concat();
    let config = config(&["--listen", "127.0.0.1:3"], &variables, file).unwrap();
    assert_eq!(config.listen.port(), 3, "flag before environment");
    assert_eq!(config.logs.filter, "warn", "environment before file");
    assert_eq!(config.logs.format, LogFormat::Json, "environment before default");
    assert_eq!(config.store_wait, Duration::from_secs(1), "file before default");
}

#[test]
fn every_setting_can_be_made_in_each_layer() {
    let directory = tempfile::tempdir().unwrap();
    let tokens = directory.path().join("tokens");
    std::fs::write(&tokens, "0123456789abcdef").unwrap();
    let values = [
        ("data_dir", "/d"),
        ("listen", "127.0.0.1:9"),
        ("log", "debug"),
        ("log_format", "json"),
        ("metrics_listen", "off"),
        ("sqlite_synchronous", "normal"),
        ("store", "sqlite:/s"),
        ("store_wait_s", "7"),
        ("token_file", tokens.to_str().unwrap()),
    ];
    assert_eq!(fields(), values.map(|(name, _)| name), "all of them");
    let default = format!("{:?}", config(&[], &[], None).unwrap());
    for (name, value) in values {
        let by_flag = config(&[&Layer::flag(name), value], &[], None).unwrap();
        let by_variable = config(&[], &[(&Environment::variable(name), value)], None).unwrap();
        let quoted = if name == "store_wait_s" { value.into() } else { format!("{value:?}") };
        let by_file = config(&[], &[], Some(&format!("{name} = {quoted}"))).unwrap();
        let by_flag = format!("{by_flag:?}");
        assert_ne!(by_flag, default, "{name} has an effect");
        assert_eq!(by_flag, format!("{by_variable:?}"), "{name}");
        assert_eq!(by_flag, format!("{by_file:?}"), "{name}");
    }
}

/// The names of all settings, in alphabetical order.
fn fields() -> Vec<String> {
    let layer = serde_json::to_value(Layer::default()).unwrap();
    let mut names: Vec<_> = layer.as_object().unwrap().keys().cloned().collect();
    names.sort();
    names
}

#[test]
fn wrong_values_are_refused_with_the_setting_the_reason_and_the_remedy() {
    let wrong = [
        error(&["--listen", "0.0.0.0:7070"], &[], None),
        error(&[], &[("LATCHKEY_LISTEN", "localhost:7070")], None),
        error(&["--metrics-listen", "none"], &[], None),
        error(&[], &[], Some("store = 'postgres://ada:hunter2@db/latchkey'")),
        error(&["--store", "redis://:hunter2@cache:6379"], &[], None),
        error(&[], &[("LATCHKEY_SQLITE_SYNCHRONOUS", "off")], None),
        error(&["--store-wait-s", "3601"], &[], None),
        error(&[], &[("LATCHKEY_STORE_WAIT_S", "30s")], None),
        error(&["--log", "latchkey=loud"], &[], None),
        error(&["--log-format", "xml"], &[], None),
        error(&[], &[("HOME", "")], None),
        error(&["--token-file", "/nowhere"], &[TOKEN], None),
        error(&["--token-file", "/nowhere"], &[], None),
        error(&[], &[("LATCHKEY_TOKEN", "hunter2")], None),
    ];
    insta::assert_snapshot!(wrong.join("\n"), @r#"
    listen (from --listen): 0.0.0.0:7070 can be reached from other machines, and there is no token. Set LATCHKEY_TOKEN or token_file, or listen on 127.0.0.1.
    listen (from LATCHKEY_LISTEN): "localhost:7070" is not an IP address and a port. Write for example 127.0.0.1:7070, [::1]:7070, or 127.0.0.1:0 for a free port.
    metrics_listen (from --metrics-listen): "none" is not an IP address and a port, nor `off`. Write for example 127.0.0.1:7070, [::1]:7070, or 127.0.0.1:0 for a free port.
    store (from /etc/latchkey.toml): it is not a store that there is. Write sqlite:<file>, redis://<host>:<port> or redis+unix:///<socket>.
    store (from --store): the URL holds a password, and others can read this process's flags. Write it to LATCHKEY_STORE or to the configuration file.
    sqlite_synchronous (from LATCHKEY_SQLITE_SYNCHRONOUS): there is no "off". Write full or normal.
    store_wait_s (from --store-wait-s): 3601 is out of range. Write 0 to 3600 seconds.
    store_wait_s (from LATCHKEY_STORE_WAIT_S): "30s" is not a whole number. Write digits alone.
    log (from --log): error parsing level filter: expected one of "off", "error", "warn", "info", "debug", "trace", or a number 0-5. Write off, error, warn, info, debug or trace, or directives such as info,latchkey_state=debug.
    log_format (from --log-format): there is no "xml". Write text or json.
    data_dir (from the default): neither XDG_DATA_HOME nor HOME is an absolute path. Name a directory for the SQLite file, or set store.
    token_file (from --token-file): LATCHKEY_TOKEN is set too. Keep one of them.
    token_file (from --token-file): /nowhere cannot be opened: No such file or directory (os error 2). Name a file that this user can read.
    token (from LATCHKEY_TOKEN): a token in it is shorter than 16 characters. Write at least 16 visible ASCII characters, such as `openssl rand -hex 32` prints; several tokens are separated by white space.
    "#);
}

#[test]
fn a_file_that_is_wrong_is_refused_with_its_line() {
    let wrong = [
        error(&[], &[], Some("log = 'info'\nlisen = '127.0.0.1:1'\n")),
        error(&[], &[], Some("token = '0123456789abcdef'")),
        error(&[], &[], Some("store_wait_s = '30'\n")),
        error(&[], &[], Some("\nstore = 'redis://:hunter2@cache\n")),
        error(&[], &[("LATCHKEY_CONFIG", "/nowhere/latchkey.toml")], None),
    ];
    insta::assert_snapshot!(wrong.join("\n"), @r#"
    /etc/latchkey.toml: line 2: lisen: unknown field `lisen`, expected one of `listen`, `metrics_listen`, `store`, `data_dir`, `sqlite_synchronous`, `store_wait_s`, `token_file`, `log`, `log_format`
    /etc/latchkey.toml: line 1: token: unknown field `token`, expected one of `listen`, `metrics_listen`, `store`, `data_dir`, `sqlite_synchronous`, `store_wait_s`, `token_file`, `log`, `log_format`
    /etc/latchkey.toml: line 1: store_wait_s: invalid type: string "30", expected u64
    /etc/latchkey.toml: line 2: invalid literal string, expected `'`
    /nowhere/latchkey.toml: cannot be opened: No such file or directory (os error 2)
    "#);
}

#[test]
fn no_error_tells_a_secret() {
    let wrong = [
        error(&[], &[], Some("store = 'postgres://ada:hunter2@db'")),
        error(&[], &[], Some("store = redis://:hunter2@cache")),
        error(&["--store", "redis://:hunter2@cache"], &[], None),
        error(&[], &[("LATCHKEY_STORE", "http://:hunter2@cache")], None),
        error(&[], &[("LATCHKEY_TOKEN", "hunter2")], None),
        error(&[], &[("LATCHKEY_TOKEN", "hunter2 hunter2\u{e9}0123456789")], None),
    ];
    for message in wrong {
        assert!(!message.contains("hunter2"), "{message}");
    }
}

#[test]
fn a_redis_url_prints_without_what_may_be_secret() {
    let prints = |url: &str| {
        let config = config(&[], &[("LATCHKEY_STORE", url)], None).unwrap();
        match &config.store {
            StoreConfig::Redis(url) => format!("{url} {:?}", config.store),
            StoreConfig::Sqlite { path, .. } => panic!("{}", path.display()),
        }
    };
    assert_eq!(
        prints("redis://ada:hun@ter2@cache:6380/1?x=y"),
        "redis://***@cache:6380/1 Redis(redis://***@cache:6380/1)"
    );
    assert_eq!(
        prints("redis+unix:///run/redis.sock?pass=hunter2"),
        "redis+unix:///run/redis.sock Redis(redis+unix:///run/redis.sock)"
    );
}

#[test]
fn a_token_opens_the_way_off_loopback() {
    let opened = config(&["--listen", "0.0.0.0:7070"], &[TOKEN], None).unwrap();
    assert!(!opened.tokens.is_none());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "0123456789abcdef\n").unwrap();
    let flags = ["--listen", "[::]:7070", "--token-file", path.to_str().unwrap()];
    let opened = config(&flags, &[], None).unwrap();
    assert!(opened.tokens.admit(Some(b"Bearer 0123456789abcdef")));
}

#[test]
fn variables_that_others_make_are_left_alone() {
    let kubernetes =
        [("LATCHKEY_PORT", "tcp://10.0.0.1:7070"), ("LATCHKEY_SERVICE_HOST", "10.0.0.1")];
    assert!(config(&[], &kubernetes, None).is_ok());
}

#[test]
fn every_setting_is_documented_with_its_flag_and_variable() {
    let page = include_str!("../../../docs/configuration.md");
    let (_, server) = page.split_once("## The server").expect("a section for the server");
    let server = server.split("\n## ").next().unwrap();
    for field in fields() {
        let names = format!(
            "| `{field}` | `{}` | `{}` |",
            Layer::flag(&field),
            Environment::variable(&field)
        );
        assert!(server.contains(&names), "docs/configuration.md has no row {names}");
    }
    for rest in ["LATCHKEY_CONFIG", "`--config`", "LATCHKEY_TOKEN"] {
        assert!(server.contains(rest), "docs/configuration.md does not tell of {rest}");
    }
    let rows = server.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(rows, fields().len(), "docs/configuration.md has a row for what there is not");
}
