//! `deploy/envoy.yaml`, which nothing is wrong with, and changes of it.

use latchkey_admin_api::check::{Document, Findings, check};
use serde_json::{Value, json};

const BOOTSTRAP: &str = include_str!("../../../deploy/envoy.yaml");

/// The document, to be changed.
#[derive(Clone, Debug)]
pub(crate) struct Bootstrap(pub(crate) Value);

// === impl Bootstrap ===

impl Bootstrap {
    pub(crate) fn new() -> Self {
        Self(serde_saphyr::from_str(BOOTSTRAP).unwrap())
    }

    /// What stands at a path, made where there is nothing.
    pub(crate) fn at(&mut self, path: &str) -> &mut Value {
        within(&mut self.0, path)
    }

    /// The listener that clients reach (0), or the internal one (1).
    pub(crate) fn listener(&mut self, at: usize) -> &mut Value {
        self.at(&format!("static_resources.listeners.{at}"))
    }

    /// Something in the filter chain of that listener.
    pub(crate) fn chain(&mut self, listener: usize, path: &str) -> &mut Value {
        within(self.listener(listener), &format!("filter_chains.0.{path}"))
    }

    /// Something in the HTTP connection manager of that listener.
    pub(crate) fn manager(&mut self, listener: usize, path: &str) -> &mut Value {
        self.chain(listener, &format!("filters.0.typed_config.{path}"))
    }

    /// Something of the only route of that listener.
    pub(crate) fn route(&mut self, listener: usize, path: &str) -> &mut Value {
        self.manager(listener, &format!("route_config.virtual_hosts.0.routes.0.{path}"))
    }

    /// The HTTP filters of that listener.
    pub(crate) fn filters(&mut self, listener: usize) -> &mut Vec<Value> {
        self.manager(listener, "http_filters").as_array_mut().unwrap()
    }

    /// Something of Envoy's configuration of our plugin.
    pub(crate) fn plugin(&mut self, path: &str) -> &mut Value {
        let mut filters = self.filters(0).iter_mut();
        let ours = filters.find(|it| it["name"] == "latchkey").unwrap();
        within(ours, &format!("typed_config.config.{path}"))
    }

    /// Changes the configuration of our filter.
    pub(crate) fn configure(&mut self, change: impl FnOnce(&mut Value)) {
        let text = self.plugin("configuration.value");
        let mut config = serde_json::from_str(text.as_str().unwrap()).unwrap();
        change(&mut config);
        *text = Value::String(config.to_string());
    }

    /// Changes the only rule.
    pub(crate) fn rule(&mut self, change: impl FnOnce(&mut Value)) {
        self.configure(|it| change(&mut it["rules"][0]));
    }

    /// Executes by the route's cluster, without the internal listener.
    pub(crate) fn execute_directly(&mut self) {
        self.rule(|it| it["execute"] = json!({ "direct": true }));
    }

    /// Executes by Envoy's router.
    pub(crate) fn execute_attached(&mut self) {
        self.rule(|it| it["execute"] = json!({ "mode": "attached" }));
    }

    /// What is found in it alone.
    pub(crate) fn findings(&self) -> Findings {
        self.findings_beside(None)
    }

    /// What is found in it beside a file for the filter.
    pub(crate) fn findings_beside(&self, filter: Option<&str>) -> Findings {
        let filter = filter.map(|text| document("filter.json", text));
        let envoy = document("envoy.yaml", &self.0.to_string());
        check(filter.as_ref(), Some(&envoy)).unwrap()
    }

    /// Their names.
    pub(crate) fn ids(&self) -> Vec<&'static str> {
        ids(&self.findings())
    }
}

pub(crate) fn document(name: &str, text: &str) -> Document {
    Document { name: name.to_owned(), text: text.to_owned() }
}

pub(crate) fn ids(found: &Findings) -> Vec<&'static str> {
    found.all().iter().map(|it| it.lint.id()).collect()
}

/// An HTTP filter of this type, of which no more is said.
pub(crate) fn filter(name: &str, kind: &str) -> Value {
    let kind = format!("type.googleapis.com/envoy.extensions.filters.http.{kind}");
    json!({ "name": name, "typed_config": { "@type": kind } })
}

/// A filter that asks for a token below `prefix`, and sets the client's header from it.
pub(crate) fn jwt(prefix: &str, requires: &Value) -> Value {
    let mut filter = filter("jwt", "jwt_authn.v3.JwtAuthentication");
    filter["typed_config"]["providers"]["a"] = json!({
        "payload_in_metadata": "jwt_payload",
        "claim_to_headers": [{ "claim_name": "sub", "header_name": "x-client-id" }],
    });
    filter["typed_config"]["rules"] =
        json!([{ "match": { "prefix": prefix }, "requires": requires }]);
    filter
}

/// Clients are named by verified certificates.
pub(crate) fn certificates(it: &mut Bootstrap) {
    it.rule(|rule| rule["client"] = json!({ "uri_san": true }));
    let trusted = json!({ "trusted_ca": { "filename": "ca.pem" } });
    *it.chain(0, "transport_socket.typed_config") = json!({
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
        "require_client_certificate": true,
        "common_tls_context": { "validation_context": trusted },
    });
}

/// A CORS filter in front, and its policy on the only route.
pub(crate) fn cors(it: &mut Bootstrap, mut policy: Value) {
    it.filters(0).insert(0, filter("cors", "cors.v3.Cors"));
    policy["@type"] = json!("type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy");
    *it.route(0, "typed_per_filter_config") = json!({ "cors": policy });
}

/// Takes a field away.
pub(crate) fn remove(from: &mut Value, field: &str) {
    from.as_object_mut().unwrap().remove(field).unwrap();
}

fn within<'a>(value: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.').filter(|it| !it.is_empty()).fold(value, |value, step| {
        match step.parse::<usize>() {
            Ok(at) => &mut value[at],
            Err(_) => &mut value[step],
        }
    })
}
