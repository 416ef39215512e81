//! Whether a client's name is what somebody has proven.
//!
//! A header is proven by a filter before ours that sets it itself, whatever the client sent, or
//! that has verified the very value. A filter that this program cannot look into may do so; that
//! is said, and is no fault.

use latchkey_core::config::{ClientName, Rule};

use super::order::is_authentication;
use super::{Case, Findings, Lint};
use crate::check::gateway::{Filter, Overlap, overlap};
use crate::check::node::Node;

/// What Envoy itself writes of the client's certificate.
const CERTIFICATE_HEADER: &str = "x-forwarded-client-cert";

/// Filters whose effect on headers their configuration tells.
const KNOWN: [&str; 14] = [
    "Cors",
    "RBAC",
    "HealthCheck",
    "LocalRateLimit",
    "RateLimit",
    "Buffer",
    "Compressor",
    "Decompressor",
    "GrpcWeb",
    "HTTPFault",
    "BandwidthLimit",
    "AdmissionControl",
    "CsrfPolicy",
    "OnDemand",
];

/// What a filter has to do with a header.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// It sets or verifies it.
    Proven,
    /// It may: that cannot be seen from here.
    Unknown,
    /// It does neither.
    None,
}

pub(super) fn check(case: &Case<'_>, found: &mut Findings) {
    for (at, rule) in case.config.rules.iter().enumerate() {
        match &rule.client.name {
            ClientName::Header(name) if name == CERTIFICATE_HEADER => {
                certificate(case, found);
                certificate_header(case, rule, found);
            }
            ClientName::Header(name) => header(case, rule, name, found),
            ClientName::JwtClaim { payload, .. } => jwt(case, at, payload, found),
            ClientName::UriSan => certificate(case, found),
            ClientName::Fixed(_) => {}
        }
    }
}

fn header(case: &Case<'_>, rule: &Rule, name: &str, found: &mut Findings) {
    let routes = case.routes(rule);
    let off = |filter: &Filter<'_>| routes.iter().any(|it| it.turns_off(filter.name()));
    let filters = case.guard.before().filter(|it| !off(it));
    let proofs: Vec<Proof> = filters.map(|it| proof(it, name, rule)).collect();
    if proofs.contains(&Proof::Proven) {
        return;
    }
    let place = case.place(&case.guard.manager.node.path_of("http_filters"));
    let rule = &rule.name;
    let instead = format!(
        "an authentication filter before ours that sets `{name}`, such as api_key_auth with \
         `forwarding.header`, or jwt_authn with `claim_to_headers`"
    );
    if proofs.contains(&Proof::Unknown) {
        let what = format!("`{name}` names the clients of the rule `{rule}`");
        let instead =
            format!("nothing, if one of those filters overwrites `{name}`; else {instead}");
        found.add(Lint::ClientUnproven, place, what, instead);
    } else {
        let what = format!(
            "`{name}` names the clients of the rule `{rule}`, and no filter before ours sets it"
        );
        found.add(Lint::ClientForgeable, place, what, instead);
    }
}

/// What a filter has to do with a header of the rule's requests.
fn proof(filter: &Filter<'_>, header: &str, rule: &Rule) -> Proof {
    let Some(config) = filter.config() else { return Proof::Unknown };
    let is = |it: Option<&str>| it.is_some_and(|it| it.eq_ignore_ascii_case(header));
    let proven = match filter.kind {
        "ApiKeyAuth" => {
            is(config.text("forwarding.header"))
                || config.items("key_sources").iter().any(|it| is(it.text("header")))
        }
        "BasicAuth" => is(config.text("forward_username_header")) || header == "authorization",
        "JwtAuthentication" => {
            let mut providers = config.entries("providers").into_iter();
            if providers.any(|(_, provider)| jwt_proves(&provider, header)) {
                return jwt_asked(&config, rule);
            }
            false
        }
        kind if KNOWN.contains(&kind) => false,
        // It asks or runs what is not in this document.
        _ => return Proof::Unknown,
    };
    if proven { Proof::Proven } else { Proof::None }
}

fn jwt_proves(provider: &Node<'_>, header: &str) -> bool {
    let is = |it: Option<&str>| it.is_some_and(|it| it.eq_ignore_ascii_case(header));
    let sets = provider.items("claim_to_headers").iter().any(|it| is(it.text("header_name")));
    let from = provider.items("from_headers");
    let reads =
        from.iter().any(|it| is(it.text("name"))) || (from.is_empty() && header == "authorization");
    sets || reads || is(provider.text("forward_payload_header"))
}

/// Whether tokens are asked for where the rule holds: by the first of `rules` that matches, or as
/// routes say.
fn jwt_asked(config: &Node<'_>, rule: &Rule) -> Proof {
    let mut sure = true;
    for asked in config.items("rules") {
        let overlap = overlap(&asked, rule, rule.matches.path.as_ref());
        let asks = asked.get("requires").is_some() || asked.get("requirement_name").is_some();
        match overlap {
            Overlap::None => {}
            Overlap::Some => sure &= asks,
            Overlap::All if sure && asks => return Proof::Proven,
            Overlap::All => return if asks { Proof::Unknown } else { Proof::None },
        }
    }
    let elsewhere = ["requirement_map", "filter_state_rules"];
    let touches = |it: &Node<'_>| overlap(it, rule, rule.matches.path.as_ref()) != Overlap::None;
    if elsewhere.iter().any(|it| config.get(it).is_some())
        || config.items("rules").iter().any(touches)
    {
        Proof::Unknown
    } else {
        Proof::None
    }
}

fn jwt(case: &Case<'_>, at: usize, payload: &str, found: &mut Findings) {
    let mut filters = case.guard.before().filter(|it| it.kind == "JwtAuthentication");
    let found_it = filters.any(|filter| {
        let providers = filter.config().map(|it| it.entries("providers")).unwrap_or_default();
        providers.iter().any(|(_, it)| it.text("payload_in_metadata") == Some(payload))
    });
    if found_it {
        return;
    }
    let place = case.place(&case.guard.manager.node.path_of("http_filters"));
    let what = format!(
        "rules[{at}] reads a claim from `{payload}`, and no provider of a jwt_authn before ours \
         puts its payload there"
    );
    let instead = format!("payload_in_metadata: {payload}");
    found.add(Lint::JwtPayloadMissing, place, what, instead);
}

fn certificate(case: &Case<'_>, found: &mut Findings) {
    let chain = &case.guard.manager.chain;
    let socket = chain.at("transport_socket").and_then(|it| it.typed_config());
    // QUIC's has the same within.
    let tls = socket.and_then(|it| it.get("downstream_tls_context").or(Some(it)));
    let required = tls.as_ref().is_some_and(|it| it.is_true("require_client_certificate"));
    let contexts = [
        "validation_context",
        "combined_validation_context.default_validation_context",
        "combined_validation_context.validation_context_sds_secret_config",
        "validation_context_sds_secret_config",
    ];
    let verified = tls.as_ref().and_then(|it| it.get("common_tls_context")).is_some_and(|common| {
        contexts.iter().filter_map(|it| common.at(it)).any(|it| verifies(&it))
    });
    if required && verified {
        return;
    }
    let place = case.place(&chain.path_of("transport_socket"));
    let what = match (required, verified) {
        (false, false) => "client certificates are neither required nor verified",
        (false, true) => "client certificates are not required",
        (true, false) | (true, true) => "client certificates are not verified",
    };
    let instead = "require_client_certificate: true, and a validation_context with trusted_ca";
    found.add(Lint::ClientCertificateOptional, place, what, instead);
}

/// Whether a validation context lets only those certificates through that somebody vouches for.
/// One that comes from elsewhere (SDS) is taken to.
fn verifies(context: &Node<'_>) -> bool {
    let anchors = [
        "trusted_ca",
        "ca_certificate_provider_instance",
        "system_root_certs",
        "custom_validator_config",
        "verify_certificate_spki",
        "verify_certificate_hash",
        "sds_config",
    ];
    context.text("trust_chain_verification") != Some("ACCEPT_UNTRUSTED")
        && anchors.iter().any(|it| context.get(it).is_some())
}

/// Envoy has to write the header anew.
fn certificate_header(case: &Case<'_>, rule: &Rule, found: &mut Findings) {
    let manager = &case.guard.manager.node;
    if manager.text("forward_client_cert_details") == Some("SANITIZE_SET") {
        return;
    }
    // An authentication filter may replace it.
    if case
        .guard
        .before()
        .any(|it| is_authentication(it) && proof(it, CERTIFICATE_HEADER, rule) != Proof::None)
    {
        return;
    }
    let place = case.place(&manager.path_of("forward_client_cert_details"));
    let what = format!("`{CERTIFICATE_HEADER}` names clients, and clients may send it themselves");
    let instead = "forward_client_cert_details: SANITIZE_SET, or `\"uri_san\": true`";
    found.add(Lint::ClientForgeable, place, what, instead);
}
