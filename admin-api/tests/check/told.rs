//! How findings are told.

use latchkey_admin_api::check::{check, human, json};
use serde_json::json;

use crate::bootstrap::{Bootstrap, document, ids};

const FILTER: &str = r#"{
  "namespace": "demo",
  "secrets": [{ "id": "1", "env": "LATCHKEY_SECRET" }],
  "state": { "cluster": "latchkey" },
  "rules": [
    {
      "name": "payments",
      "match": { "path_prefix": "/payments" },
      "key": { "required": false },
      "client": { "header": "authorization", "missing": "anonymous" },
      "execute": { "cluster": "latchkey_execute" },
      "on_ambiguous": "hold",
      "on_state_failure": "pass"
    }
  ]
}"#;

#[test]
fn people_are_told_the_worst_first_with_the_line_the_reason_and_the_remedy() {
    let text = include_str!("../../../deploy/envoy.yaml");
    let text = text.replace("failure_policy: FAIL_RELOAD", "failure_policy: FAIL_OPEN");
    let text = text.replace(r#""missing": "reject""#, r#""missing": "anonymous""#);
    let found = check(None, Some(&document("envoy.yaml", &text))).unwrap();
    insta::assert_snapshot!(human(&found), @r##"
    error[failure-policy-open]: the filter fails open
      at: envoy.yaml:63: static_resources.listeners[0].filter_chains[0].filters[0].typed_config.http_filters[1].typed_config.config.failure_policy (listener ingress)
      why: When the filter fails, every request would pass unguarded.
      instead: failure_policy: FAIL_RELOAD

    warning[clients-anonymous]: clients without a name are all one client
      at: envoy.yaml:83: static_resources.listeners[0].filter_chains[0].filters[0].typed_config.http_filters[1].typed_config.config.configuration.value: rules[0].client.missing (listener ingress)
      why: All clients without a name share their keys: who guesses or repeats another's key gets the other's answer.
      instead: `"missing": "reject"`, or `bypass` where they need no guard

    1 error, 1 warning, 0 notes
    "##);
}

#[test]
fn programs_are_told_the_same() {
    let found = check(Some(&document("filter.json", FILTER)), None).unwrap();
    insta::assert_snapshot!(json(&found), @r##"
    {
      "findings": [
        {
          "id": "client-is-credential",
          "severity": "warning",
          "document": "filter.json",
          "path": "rules[0].client.header",
          "line": 10,
          "listener": null,
          "what": "clients are named by `authorization`, which changes with each new credential",
          "why": "Keys are kept by client. A credential that is renewed is another client: a retry with the new one executes again.",
          "instead": "a stable name: a header that the authentication filter sets, or `jwt_claim` with `sub`"
        },
        {
          "id": "clients-anonymous",
          "severity": "warning",
          "document": "filter.json",
          "path": "rules[0].client.missing",
          "line": 10,
          "listener": null,
          "what": "clients without a name are all one client",
          "why": "All clients without a name share their keys: who guesses or repeats another's key gets the other's answer.",
          "instead": "`\"missing\": \"reject\"`, or `bypass` where they need no guard"
        },
        {
          "id": "state-failure-passes",
          "severity": "note",
          "document": "filter.json",
          "path": "rules[0].on_state_failure",
          "line": 13,
          "listener": null,
          "what": "requests pass unguarded while the state cannot be asked",
          "why": "While the state cannot be asked, retries are executed again, unguarded.",
          "instead": "`\"on_state_failure\": \"reject\"`, unless a second execution is harmless"
        }
      ],
      "errors": 0,
      "warnings": 2,
      "notes": 1
    }
    "##);
}

#[test]
fn where_nothing_is_wrong_that_is_told() {
    assert_eq!(human(&Bootstrap::new().findings()), "0 errors, 0 warnings, 0 notes\n");
}

#[test]
fn a_file_counts_before_what_is_embedded() {
    let mut it = Bootstrap::new();
    let embedded = it.plugin("configuration.value").as_str().unwrap().to_owned();
    assert_eq!(ids(&it.findings_beside(Some(&embedded))), [""; 0]);
    let other = embedded.replace("30000", "59000");
    assert_eq!(ids(&it.findings_beside(Some(&other))), ["configuration-differs"]);
    let longer = embedded.replace("30000", "60000");
    let found = it.findings_beside(Some(&longer));
    let expected = [
        "inner-timeout-too-short",
        "outer-timeout-too-short",
        "outer-timeout-too-short",
        "configuration-differs",
    ];
    assert_eq!(ids(&found), expected);
    *it.plugin("configuration") = serde_json::Value::Null;
    assert_eq!(ids(&it.findings_beside(Some(&embedded))), ["configuration-differs"]);
}

#[test]
fn what_cannot_be_read_is_told_with_its_place() {
    let error = |filter: Option<&str>, envoy: Option<&str>| {
        let filter = filter.map(|text| document("filter.json", text));
        let envoy = envoy.map(|text| document("envoy.yaml", text));
        check(filter.as_ref(), envoy.as_ref()).unwrap_err().to_string()
    };
    let wrong =
        FILTER.replace(r#""on_ambiguous": "hold","#, r#""on_ambiguous": "hold", "lease_ms": 1,"#);
    let mut embedded = Bootstrap::new();
    embedded.rule(|rule| rule["lease_ms"] = json!(1));
    let mut nothing = Bootstrap::new();
    *nothing.plugin("configuration") = serde_json::Value::Null;
    let told = [
        error(Some(&wrong), None),
        error(Some("{"), None),
        error(None, Some("a: [")),
        error(None, Some(&embedded.0.to_string())),
        error(None, Some(&nothing.0.to_string())),
    ];
    insta::assert_snapshot!(told.join("\n"), @r##"
    filter.json:12: rules[0].lease_ms: 1 is out of range; it must be from 4000 to 3600000
    filter.json: EOF while parsing an object at line 1 column 1
    envoy.yaml: unclosed bracket '[' at line 1, column 4
    envoy.yaml:1: static_resources.listeners[0].filter_chains[0].filters[0].typed_config.http_filters[1].typed_config.config.configuration.value: rules[0].lease_ms: 1 is out of range; it must be from 4000 to 3600000
    envoy.yaml: static_resources.listeners[0].filter_chains[0].filters[0].typed_config.http_filters[1].typed_config.config: has no configuration of the filter; name a file that has
    "##);
}
