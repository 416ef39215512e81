use clap::Parser as _;

use super::*;
use crate::check::Severity;
use crate::cli::{Cli, Command};
use crate::yaml::Yaml;

/// What the command line gives, with this configuration of the filter.
fn rendered(flags: &[&str], config: Option<&str>) -> Result<String, String> {
    let line = ["latchkey", "envoy-config"].iter().chain(flags);
    let Command::EnvoyConfig(arguments) = Cli::try_parse_from(line).unwrap().command else {
        panic!("another subcommand")
    };
    let document =
        config.map(|text| Document { name: "filter.json".to_owned(), text: text.to_owned() });
    render(&arguments, document.as_ref()).map_err(|error| error.to_string())
}

/// The lines that differ from the document as it stands.
fn changed(text: &str) -> String {
    let before: Vec<&str> = BOOTSTRAP.lines().collect();
    let lines = text.lines().filter(|line| !before.contains(line));
    lines.map(|line| format!("{}\n", line.trim_start())).collect()
}

#[test]
fn without_options_it_is_the_document_that_is_deployed() {
    assert_eq!(rendered(&[], None).unwrap(), BOOTSTRAP);
    assert_eq!(findings(BOOTSTRAP).unwrap().all(), []);
}

#[test]
fn options_replace_values_where_they_stand() {
    let flags = [
        ["--listen", "0.0.0.0:8443"],
        ["--upstream", "pay.internal:9090"],
        ["--state", "10.0.0.5:7071"],
        ["--filter", "/etc/envoy/latch \"key\".wasm"],
    ];
    let text = rendered(&flags.concat(), None).unwrap();
    insta::assert_snapshot!(changed(&text), @r#"
    address: { socket_address: { address: 0.0.0.0, port_value: 8443 } }
    code: { local: { filename: "/etc/envoy/latch \"key\".wasm" } } # CHANGE
    type: STRICT_DNS
    - endpoint: { address: { socket_address: { address: "pay.internal", port_value: 9090 } } }
    - endpoint: { address: { socket_address: { address: "10.0.0.5", port_value: 7071 } } }
    "#);
    assert_eq!(findings(&text).unwrap().all(), []);
}

const CONFIG: &str = r#"{ "namespace": "prod",
  "secrets": [ { "id": "2", "env": "NEW" }, { "id": "1", "env": "OLD" } ],
  "state": { "cluster": "state", "token_env": "TOKEN" },

  "rules": [ {
    "name": "orders",
    "match": { "path_prefix": "/orders" },
    "client": { "header": "X-Tenant" },
    "execute": { "cluster": "inner", "timeout_ms": 120500 },
    "on_ambiguous": "hold",
    "request_body_max_bytes": 4194304
  } ] }
"#;

#[test]
fn what_surrounds_the_filter_fits_its_configuration() {
    let text = rendered(&[], Some(CONFIG)).unwrap();
    assert_eq!(findings(&text).unwrap().all(), []);
    insta::assert_snapshot!(changed(&text), @r#"
    per_connection_buffer_limit_bytes: 8388608
    request_timeout: 151s
    stream_idle_timeout: 151s
    forwarding: { header: "x-tenant", hide_credentials: true }
    environment_variables: { host_env_keys: [ "NEW", "OLD", "TOKEN" ] }
    { "namespace": "prod",
    "secrets": [ { "id": "2", "env": "NEW" }, { "id": "1", "env": "OLD" } ],
    "state": { "cluster": "state", "token_env": "TOKEN" },
    "rules": [ {
    "name": "orders",
    "match": { "path_prefix": "/orders" },
    "client": { "header": "X-Tenant" },
    "execute": { "cluster": "inner", "timeout_ms": 120500 },
    "on_ambiguous": "hold",
    "request_body_max_bytes": 4194304
    } ] }
    stream_idle_timeout: 151s
    - name: "state" # the state endpoint of `latchkey serve`
    cluster_name: "state"
    - name: "inner"
    cluster_name: "inner"
    "#);
    let embedded = Yaml::read(&text).unwrap();
    let embedded = embedded.value.pointer(
        "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/1/\
         typed_config/config/configuration/value",
    );
    let config = Config::from_json(embedded.unwrap().as_str().unwrap().as_bytes()).unwrap();
    assert_eq!(config, Config::from_json(CONFIG.as_bytes()).unwrap());
}

#[test]
fn what_cannot_be_filled_in_is_told() {
    let claims = CONFIG.replace(r#""header": "X-Tenant""#, r#""jwt_claim": "sub""#);
    let found = findings(&rendered(&[], Some(&claims)).unwrap()).unwrap();
    let ids: Vec<&str> = found.all().iter().map(|it| it.lint.id()).collect();
    assert_eq!(ids, ["jwt-payload-missing"]);
    assert_eq!(found.count(Severity::Error), 1);
}

#[test]
fn a_configuration_that_the_filter_would_not_take_is_refused() {
    let error = rendered(&[], Some("{}")).unwrap_err();
    assert_eq!(error, "filter.json: missing field `namespace` at line 1 column 2");
    let same = CONFIG.replace(r#""cluster": "state""#, r#""cluster": "payments""#);
    insta::assert_snapshot!(rendered(&[], Some(&same)).unwrap_err(), @"filter.json: state.cluster: the clusters of the state (`payments`), of executions (`inner`) and of the service (`payments`, here) have to have different names");
}
