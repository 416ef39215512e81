//! What looks like a finding, and is none.

use serde_json::{Value, json};

use crate::bootstrap::{Bootstrap, certificates, cors, filter, ids, jwt};

#[track_caller]
fn clean(change: impl FnOnce(&mut Bootstrap)) {
    let mut bootstrap = Bootstrap::new();
    change(&mut bootstrap);
    assert_eq!(bootstrap.ids(), [""; 0]);
}

/// Puts a route before the one that there is, in a listener.
fn route_first(it: &mut Bootstrap, listener: usize, route: Value) {
    let routes = it.manager(listener, "route_config.virtual_hosts.0.routes");
    routes.as_array_mut().unwrap().insert(0, route);
}

#[test]
fn the_spelling_of_json_is_understood() {
    clean(|it| {
        let plugin = it.plugin("").as_object_mut().unwrap();
        let stops = plugin.remove("allow_on_headers_stop_iteration").unwrap();
        plugin.insert("allowOnHeadersStopIteration".to_owned(), stops);
    });
}

#[test]
fn a_configuration_may_be_embedded_as_a_message() {
    clean(|it| {
        let text = it.plugin("configuration.value").clone();
        let value: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
        let kind = "type.googleapis.com/google.protobuf.Struct";
        *it.plugin("configuration") = json!({ "@type": kind, "value": value });
    });
}

#[test]
fn a_filter_is_ours_by_its_configuration_whatever_it_is_called() {
    let mut it = Bootstrap::new();
    *it.plugin("name") = json!("idempotency");
    *it.plugin("root_id") = Value::Null;
    *it.plugin("vm_config.vm_id") = json!("idempotency");
    *it.plugin("vm_config.code.local.filename") = json!("/filter.wasm");
    *it.plugin("failure_policy") = json!("FAIL_OPEN");
    it.filters(0)[1]["name"] = json!("idempotency");
    assert_eq!(it.ids(), ["failure-policy-open"]);
}

#[test]
fn a_filter_behind_a_matcher_is_found() {
    let mut it = Bootstrap::new();
    *it.plugin("failure_policy") = json!("FAIL_OPEN");
    let kind = "type.googleapis.com/envoy.extensions.common.matching.v3.ExtensionWithMatcher";
    let mut ours = it.filters(0).remove(1);
    ours = json!({
        "name": "latchkey", "typed_config": { "@type": kind, "extension_config": ours }
    });
    it.filters(0).insert(1, ours);
    assert_eq!(it.ids(), ["failure-policy-open"]);
}

#[test]
fn filters_of_unknown_kinds_do_not_disturb() {
    clean(|it| it.filters(0).insert(0, filter("own", "own.v3.Own")));
    clean(|it| it.filters(0).insert(0, json!({ "name": "own", "typed_config": { "a": 1 } })));
    clean(|it| it.filters(0).insert(0, json!(7)));
}

#[test]
fn filters_that_are_in_the_internal_listener_too_are_not_skipped() {
    clean(|it| {
        it.filters(0).insert(2, filter("compress", "compressor.v3.Compressor"));
        it.filters(1).insert(0, filter("compress", "compressor.v3.Compressor"));
    });
    clean(|it| {
        let mut disabled = filter("compress", "compressor.v3.Compressor");
        disabled["disabled"] = json!(true);
        it.filters(0).insert(2, disabled);
    });
}

#[test]
fn what_direct_executions_skip_may_say_nothing() {
    clean(|it| {
        it.execute_directly();
        *it.route(0, "route.timeout") = json!("0s");
        *it.route(0, "route.auto_host_rewrite") = json!(false);
        *it.route(0, "request_headers_to_add") = json!([]);
        *it.route(0, "route.retry_policy") = json!({});
    });
}

#[test]
fn routes_that_no_guarded_request_takes_may_say_anything() {
    let lively = json!({
        "cluster": "payments", "prefix_rewrite": "/", "retry_policy": { "retry_on": "5xx" }
    });
    let matches = [
        json!({ "prefix": "/orders" }),
        json!({ "path": "/" }),
        json!({ "path_separated_prefix": "/pay" }),
        json!({ "prefix": "/", "headers": [{ "name": ":method", "string_match": { "exact": "GET" } }] }),
    ];
    for matched in matches {
        let route = json!({ "match": matched, "route": lively });
        clean(|it| {
            it.execute_directly();
            route_first(it, 0, route.clone());
        });
        clean(|it| route_first(it, 1, route.clone()));
        clean(|it| {
            it.execute_attached();
            route_first(it, 0, route.clone());
        });
    }
    let off = json!({
        "match": { "prefix": "/payments" }, "route": lively,
        "metadata": { "filter_metadata": { "latchkey": { "rule": "off" } } },
    });
    clean(|it| {
        it.execute_attached();
        route_first(it, 0, off);
    });
}

#[test]
fn a_route_behind_one_that_takes_all_is_not_reached() {
    clean(|it| {
        let routes = it.manager(1, "route_config.virtual_hosts.0.routes").as_array_mut().unwrap();
        let retries = json!({ "cluster": "payments", "retry_policy": { "retry_on": "5xx" } });
        routes.push(json!({ "match": { "prefix": "/payments" }, "route": retries }));
    });
}

#[test]
fn a_rule_that_routes_name_is_followed_by_its_name() {
    let by_name = |it: &mut Bootstrap| {
        it.execute_attached();
        it.rule(|rule| rule["match"] = json!({ "methods": ["POST"] }));
        let retries = json!({ "cluster": "payments", "retry_policy": { "retry_on": "5xx" } });
        route_first(it, 0, json!({ "match": { "prefix": "/a" }, "route": retries }));
    };
    clean(by_name);
    let mut it = Bootstrap::new();
    by_name(&mut it);
    *it.route(0, "metadata.filter_metadata.latchkey.rule") = json!("payments");
    assert_eq!(it.ids(), ["route-retries"]);
}

#[test]
fn virtual_hosts_of_other_names_are_not_reached() {
    let with_hosts = |it: &mut Bootstrap, domain: &str| {
        it.execute_attached();
        it.rule(|rule| rule["match"]["hosts"] = json!(["pay.example"]));
        let retries = json!({ "cluster": "payments", "retry_policy": { "retry_on": "5xx" } });
        let routes = json!([{ "match": { "prefix": "/" }, "route": retries }]);
        let hosts = it.manager(0, "route_config.virtual_hosts").as_array_mut().unwrap();
        hosts.push(json!({ "name": "other", "domains": [domain], "routes": routes }));
    };
    clean(|it| with_hosts(it, "shop.example"));
    let mut it = Bootstrap::new();
    with_hosts(&mut it, "pay.example:443");
    assert_eq!(it.ids(), ["route-retries"]);
}

#[test]
fn headers_and_claims_of_verified_tokens_name_clients() {
    clean(|it| it.filters(0)[0] = jwt("/", &json!({ "provider_name": "a" })));
    clean(|it| {
        it.filters(0)[0] = jwt("/payments", &json!({ "provider_name": "a" }));
        it.rule(|rule| rule["client"] = json!({ "jwt_claim": "sub" }));
    });
}

#[test]
fn a_token_that_is_asked_for_on_some_paths_proves_little() {
    let mut it = Bootstrap::new();
    it.filters(0)[0] = jwt("/payments/refunds", &json!({ "provider_name": "a" }));
    assert_eq!(it.ids(), ["client-unproven"]);
}

#[test]
fn verified_certificates_name_clients() {
    clean(certificates);
    clean(|it| {
        certificates(it);
        it.rule(|rule| rule["client"] = json!({ "header": "x-forwarded-client-cert" }));
        *it.manager(0, "forward_client_cert_details") = json!("SANITIZE_SET");
    });
    let mut it = Bootstrap::new();
    it.filters(0).remove(0);
    certificates(&mut it);
    it.rule(|rule| rule["client"] = json!({ "header": "x-forwarded-client-cert" }));
    assert_eq!(it.ids(), ["client-forgeable"]);
}

#[test]
fn local_replies_that_are_not_ours_may_be_rewritten() {
    clean(|it| {
        let by_flag = json!({ "response_flag_filter": { "flags": ["UH", "UF"] } });
        *it.manager(0, "local_reply_config.mappers") =
            json!([{ "filter": by_flag, "status_code": 503 }]);
    });
    clean(|it| {
        let at_least = json!({ "op": "GE", "value": { "default_value": 0, "runtime_key": "a" } });
        let all = json!({ "status_code_filter": { "comparison": at_least } });
        let header = json!({ "header": { "key": "x-edge", "value": "1" } });
        *it.manager(0, "local_reply_config.mappers") =
            json!([{ "filter": all, "headers_to_add": [header] }]);
    });
}

#[test]
fn a_policy_that_exposes_nothing_leaves_what_the_filter_exposes() {
    clean(|it| cors(it, json!({ "allow_headers": "Content-Type, Idempotency-Key" })));
    clean(|it| cors(it, json!({ "allow_headers": "*", "expose_headers": "*" })));
}

#[test]
fn routes_may_raise_what_the_listener_holds() {
    clean(|it| {
        it.listener(0)["per_connection_buffer_limit_bytes"] = json!(1024);
        *it.route(0, "request_body_buffer_limit") = json!(2_097_152);
    });
    clean(|it| {
        it.execute_attached();
        it.listener(0)["per_connection_buffer_limit_bytes"] = json!(1024);
        *it.manager(0, "route_config.virtual_hosts.0.request_body_buffer_limit") = json!("2097152");
    });
}

#[test]
fn timeouts_are_compared_with_what_rules_do() {
    clean(|it| {
        it.execute_attached();
        *it.manager(0, "stream_idle_timeout") = json!("5s");
        *it.manager(0, "request_timeout") = json!("5s");
    });
    let mut it = Bootstrap::new();
    it.execute_attached();
    *it.manager(0, "stream_idle_timeout") = json!("5s");
    it.rule(|rule| rule["on_conflict"] = json!({ "wait": { "timeout_ms": 6000 } }));
    assert_eq!(it.ids(), ["outer-timeout-too-short"]);
}

#[test]
fn a_file_of_listeners_alone_is_checked_for_what_is_in_it() {
    let mut it = Bootstrap::new();
    let listeners = it.at("static_resources.listeners").as_array().unwrap().clone();
    let kind = "type.googleapis.com/envoy.config.listener.v3.Listener";
    let mut resources = json!({ "resources": listeners });
    for listener in resources["resources"].as_array_mut().unwrap() {
        listener["@type"] = json!(kind);
    }
    let lds = Bootstrap(resources);
    assert_eq!(lds.ids(), ["not-judged"], "the cluster is elsewhere");
    let mut open = lds;
    let plugin =
        "resources.0.filter_chains.0.filters.0.typed_config.http_filters.1.typed_config.config";
    *open.at(&format!("{plugin}.failure_policy")) = json!("FAIL_OPEN");
    assert_eq!(ids(&open.findings()), ["failure-policy-open", "not-judged"]);
}
