//! A change for each finding.

use latchkey_admin_api::check::Lint;
use serde_json::{Value, json};

use crate::bootstrap::{Bootstrap, certificates, cors, filter, jwt, remove};

/// What is found, and what has to be changed for that.
type Case = (&'static str, fn(&mut Bootstrap));

#[rustfmt::skip]
const CASES: &[Case] = &[
    ("client-is-credential", |it| {
        it.rule(|rule| rule["client"]["header"] = json!("Authorization"));
        let basic = filter("basic", "basic_auth.v3.BasicAuth");
        it.filters(0)[0] = basic;
    }),
    ("clients-anonymous", |it| it.rule(|rule| rule["client"]["missing"] = json!("anonymous"))),
    ("clients-are-one", |it| it.rule(|rule| rule["client"] = json!({ "fixed": "partner" }))),
    ("rule-shadowed", |it| it.configure(|config| {
        let mut narrower = config["rules"][0].clone();
        narrower["name"] = json!("refunds");
        narrower["match"]["path_prefix"] = json!("/payments/refunds");
        config["rules"].as_array_mut().unwrap().push(narrower);
    })),
    ("state-failure-passes", |it| it.rule(|rule| {
        rule["key"]["required"] = json!(false);
        rule["on_state_failure"] = json!("pass");
    })),
    ("filter-not-found", |it| { it.filters(0).remove(1); }),
    ("route-names-no-rule", |it| {
        *it.route(0, "metadata.filter_metadata.latchkey.rule") = json!("refunds");
    }),
    ("filter-off-on-route", |it| *it.route(0, "typed_per_filter_config") = off("latchkey")),
    ("stop-iteration-not-allowed", |it| *it.plugin("allow_on_headers_stop_iteration") = json!(false)),
    ("stop-iteration-not-allowed", |it| *it.plugin("allow_on_headers_stop_iteration") = Value::Null),
    ("failure-policy-open", |it| *it.plugin("failure_policy") = json!("FAIL_OPEN")),
    ("failure-policy-open", |it| {
        *it.plugin("failure_policy") = Value::Null;
        *it.plugin("fail_open") = json!(true);
    }),
    ("failure-policy-not-reload", |it| *it.plugin("failure_policy") = Value::Null),
    ("failure-policy-not-reload", |it| *it.plugin("failure_policy") = json!("FAIL_CLOSED")),
    ("environment-not-passed", |it| {
        *it.plugin("vm_config.environment_variables.host_env_keys") = json!(["OTHER"]);
    }),
    ("environment-not-passed", |it| {
        it.configure(|config| config["state"]["token_env"] = json!("TOKEN"));
    }),
    ("direct-skips-filters", |it| {
        it.execute_directly();
        it.filters(0).insert(2, filter("compress", "compressor.v3.Compressor"));
    }),
    ("direct-skips-route", |it| {
        it.execute_directly();
        *it.route(0, "route.prefix_rewrite") = json!("/v2");
    }),
    ("direct-skips-route", |it| {
        it.execute_directly();
        *it.route(0, "route.timeout") = json!("3s");
    }),
    ("direct-skips-route", |it| {
        it.execute_directly();
        *it.route(0, "route.retry_policy") = json!({ "retry_on": "5xx" });
    }),
    ("direct-skips-route", |it| {
        it.execute_directly();
        *it.manager(0, "route_config.virtual_hosts.0.request_headers_to_remove") = json!(["x-a"]);
    }),
    ("cluster-skips-filters", |it| {
        it.filters(0).insert(2, filter("compress", "compressor.v3.Compressor"));
    }),
    ("authentication-after", |it| {
        it.filters(0).insert(2, filter("authorise", "rbac.v3.RBAC"));
    }),
    ("authentication-after", |it| {
        it.execute_attached();
        it.filters(0).insert(2, filter("authorise", "ext_authz.v3.ExtAuthz"));
    }),
    ("client-forgeable", |it| { it.filters(0).remove(0); }),
    ("client-forgeable", |it| it.rule(|rule| rule["client"]["header"] = json!("x-user"))),
    ("client-forgeable", |it| {
        *it.route(0, "typed_per_filter_config") = off("envoy.filters.http.api_key_auth");
    }),
    ("client-forgeable", |it| it.filters(0)[0] = jwt("/elsewhere", &json!({ "provider_name": "a" }))),
    ("client-unproven", |it| it.filters(0)[0] = filter("ask", "ext_authz.v3.ExtAuthz")),
    ("jwt-payload-missing", |it| it.rule(|rule| rule["client"] = json!({ "jwt_claim": "sub" }))),
    ("jwt-payload-missing", |it| {
        it.filters(0)[0] = jwt("/", &json!({ "provider_name": "a" }));
        it.rule(|rule| rule["client"] = json!({ "jwt_claim": "sub", "jwt_payload": "other" }));
    }),
    ("client-certificate-optional", |it| it.rule(|rule| rule["client"] = json!({ "uri_san": true }))),
    ("client-certificate-optional", |it| {
        certificates(it);
        *it.chain(0, "transport_socket.typed_config.require_client_certificate") = json!(false);
    }),
    ("client-certificate-optional", |it| {
        certificates(it);
        let context = "transport_socket.typed_config.common_tls_context.validation_context";
        *it.chain(0, &format!("{context}.trust_chain_verification")) = json!("ACCEPT_UNTRUSTED");
    }),
    ("buffer-too-small", |it| it.listener(0)["per_connection_buffer_limit_bytes"] = json!(1_048_576)),
    ("buffer-too-small", |it| remove(it.listener(0), "per_connection_buffer_limit_bytes")),
    ("buffer-too-small-to-store", |it| {
        it.execute_attached();
        it.rule(|rule| rule["store"]["response_body_max_bytes"] = json!(3_145_728));
    }),
    ("replies-rewritten", |it| {
        *it.manager(0, "local_reply_config.body_format.text_format") = json!("sorry");
    }),
    ("replies-rewritten", |it| {
        let at_least = json!({ "op": "GE", "value": { "default_value": 500, "runtime_key": "a" } });
        let mapper = json!({
            "filter": { "status_code_filter": { "comparison": at_least } }, "status_code": 500
        });
        *it.manager(0, "local_reply_config.mappers") = json!([mapper]);
    }),
    ("markers-missing", |it| *it.manager(1, "local_reply_config") = Value::Null),
    ("markers-missing", |it| *it.manager(1, "route_config.response_headers_to_add") = json!([])),
    ("markers-missing", |it| {
        *it.manager(1, "route_config.response_headers_to_add.1.append_action") = Value::Null;
    }),
    ("route-retries", |it| *it.route(1, "route.retry_policy") = json!({ "retry_on": "5xx" })),
    ("route-retries", |it| {
        *it.manager(1, "route_config.virtual_hosts.0.retry_policy.retry_on") = json!("connect-failure,reset");
    }),
    ("route-retries", |it| {
        it.execute_attached();
        *it.route(0, "route.retry_policy") = json!({ "retry_on": "5xx" });
    }),
    ("route-retries", |it| cluster_policy(it, "retry_policy", &json!({ "retry_on": "5xx" }))),
    ("route-retries", |it| {
        it.execute_directly();
        cluster_policy(it, "retry_policy", &json!({ "retry_on": "5xx" }));
    }),
    ("route-retries-unsent", |it| {
        *it.route(1, "route.retry_policy.retry_on") = json!("connect-failure,refused-stream");
    }),
    ("route-hedges", |it| *it.route(1, "route.hedge_policy.hedge_on_per_try_timeout") = json!(true)),
    ("route-mirrors", |it| *it.route(1, "route.request_mirror_policies") = json!([{ "cluster": "b" }])),
    ("route-mirrors", |it| {
        cluster_policy(it, "request_mirror_policies", &json!([{ "cluster": "b" }]));
    }),
    ("route-redirects", |it| {
        *it.route(1, "route.internal_redirect_policy.max_internal_redirects") = json!(2);
    }),
    ("outer-timeout-missing", |it| {
        *it.manager(0, "request_timeout") = Value::Null;
        *it.manager(0, "stream_idle_timeout") = json!("0s");
    }),
    ("outer-timeout-too-short", |it| *it.manager(0, "request_timeout") = json!("30s")),
    ("outer-timeout-too-short", |it| *it.manager(0, "stream_idle_timeout") = json!("20s")),
    ("outer-timeout-too-short", |it| *it.route(0, "route.idle_timeout") = json!("5s")),
    ("inner-timeout-too-short", |it| *it.manager(1, "stream_idle_timeout") = json!("10s")),
    ("route-timeout-too-short", |it| *it.route(1, "route.timeout") = Value::Null),
    ("route-timeout-too-short", |it| *it.route(1, "route.timeout") = json!("29.999s")),
    ("path-not-normalised", |it| *it.manager(0, "normalize_path") = Value::Null),
    ("path-not-normalised", |it| *it.manager(0, "merge_slashes") = json!(false)),
    ("path-not-normalised", |it| {
        *it.manager(0, "path_with_escaped_slashes_action") = json!("KEEP_UNCHANGED");
    }),
    ("cluster-missing", |it| { it.configure(|config| config["state"]["cluster"] = json!("b")); }),
    ("cluster-missing", |it| it.rule(|rule| rule["execute"]["cluster"] = json!("b"))),
    ("cluster-not-internal", |it| it.rule(|rule| rule["execute"]["cluster"] = json!("payments"))),
    ("internal-listener-missing", |it| it.listener(1)["name"] = json!("other")),
    ("internal-listeners-off", |it| *it.at("bootstrap_extensions") = json!([])),
    ("cors-hides-replays", |it| {
        cors(it, json!({ "allow_headers": "idempotency-key", "expose_headers": "etag" }));
    }),
    ("cors-blocks-keys", |it| cors(it, json!({ "allow_headers": "content-type" }))),
    ("cors-after", |it| it.filters(0).insert(2, filter("cors", "cors.v3.Cors"))),
    ("not-judged", |it| {
        *it.manager(0, "route_config") = Value::Null;
        *it.manager(0, "rds.route_config_name") = json!("elsewhere");
    }),
    ("not-judged", |it| {
        let by_cel = json!({ "extension_filter": { "name": "cel" } });
        let mapper = json!({ "filter": by_cel, "status_code": 500 });
        *it.manager(0, "local_reply_config.mappers") = json!([mapper]);
    }),
    ("not-judged", |it| {
        it.filters(0)[1] = json!({ "name": "latchkey", "config_discovery": {} });
    }),
    ("not-judged", |it| {
        it.listener(1)["name"] = json!("other");
        *it.at("dynamic_resources.lds_config.path_config_source.path") = json!("lds.yaml");
    }),
    ("not-judged", |it| *it.at("static_resources.clusters.2.load_assignment") = Value::Null),
];

/// A filter that is off on a route.
fn off(filter: &str) -> Value {
    let kind = "type.googleapis.com/envoy.config.route.v3.FilterConfig";
    json!({ filter: { "@type": kind, "disabled": true } })
}

/// A policy of the cluster of the service.
fn cluster_policy(it: &mut Bootstrap, field: &str, policy: &Value) {
    let kind = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    let options = json!({
        "@type": format!("type.googleapis.com/{kind}"),
        "explicit_http_config": { "http_protocol_options": {} },
        field: policy,
    });
    *it.at("static_resources.clusters.0.typed_extension_protocol_options") =
        json!({ kind: options });
}

#[test]
fn nothing_is_found_in_what_is_deployed() {
    assert_eq!(Bootstrap::new().ids(), [""; 0]);
}

#[test]
fn one_change_makes_one_finding() {
    let mut wrong = String::new();
    for (at, (expected, change)) in CASES.iter().enumerate() {
        let mut bootstrap = Bootstrap::new();
        change(&mut bootstrap);
        let found = bootstrap.ids();
        if found != [*expected] {
            wrong += &format!("change {at} makes {found:?}, not {expected}\n");
        }
    }
    assert_eq!(wrong, "");
}

#[test]
fn every_finding_has_a_change_that_makes_it() {
    // It takes a file beside the document: see `told`.
    let apart = [Lint::ConfigurationDiffers];
    let made: Vec<&str> = CASES.iter().map(|(id, _)| *id).collect();
    let missing = Lint::ALL.iter().filter(|it| !apart.contains(it) && !made.contains(&it.id()));
    assert_eq!(missing.collect::<Vec<_>>(), [&Lint::ConfigurationDiffers; 0]);
}
