//! `latchkey envoy-config`: an Envoy configuration with the filter, that `latchkey check` finds
//! nothing wrong with.
//!
//! It is `deploy/envoy.yaml`, comments and all, with values of it replaced where they stand: what
//! a value is is looked up in the document, not in its text.

mod edits;
mod endpoint;
mod filter;

use std::net::IpAddr;
use std::process::ExitCode;

use latchkey_core::config::Config;

use crate::check::{self, Document, EXIT_UNUSABLE, Findings, InputError};
use crate::cli::EnvoyConfigArguments;
use edits::Edits;
pub use endpoint::{Endpoint, EndpointError};

/// What is printed.
const BOOTSTRAP: &str = include_str!("../../deploy/envoy.yaml");

/// What it is called in errors and findings.
const NAME: &str = "envoy.yaml";

/// The cluster of the service behind the gateway.
const UPSTREAM: &str = "payments";
/// The cluster of `latchkey` servers.
const STATE: &str = "latchkey";

/// Runs the subcommand.
#[must_use]
pub fn main(arguments: &EnvoyConfigArguments) -> ExitCode {
    let config = arguments.config.as_deref().map(Document::read).transpose();
    let rendered = config.and_then(|config| {
        let text = render(arguments, config.as_ref())?;
        let found = findings(&text)?;
        Ok((text, found))
    });
    match rendered {
        Ok((text, found)) => {
            crate::say(&text);
            if !found.all().is_empty() {
                crate::say_aside(&check::human(&found));
            }
            check::code(&found, false)
        }
        Err(error) => {
            crate::say_error(&error);
            ExitCode::from(EXIT_UNUSABLE)
        }
    }
}

/// What is left to do about what [`render`] gave.
///
/// # Errors
/// When it is no configuration.
pub fn findings(text: &str) -> Result<Findings, InputError> {
    let document = Document { name: NAME.to_owned(), text: text.to_owned() };
    check::check(None, Some(&document))
}

/// Fills in what is given. `config` is the filter's configuration.
///
/// # Errors
/// When that is not one, or names clusters that others have.
pub fn render(
    arguments: &EnvoyConfigArguments,
    config: Option<&Document>,
) -> Result<String, InputError> {
    let mut edits = Edits::new(BOOTSTRAP)?;
    if let Some(listen) = arguments.listen {
        let socket = format!("{}.address.socket_address", edits.listener("ingress")?);
        edits.set(&format!("{socket}.address"), listen.ip().to_string())?;
        edits.set(&format!("{socket}.port_value"), listen.port().to_string())?;
    }
    for (cluster, endpoint) in [(UPSTREAM, &arguments.upstream), (STATE, &arguments.state)] {
        if let Some(endpoint) = endpoint {
            lead_to(endpoint, cluster, &mut edits)?;
        }
    }
    if let Some(path) = &arguments.filter {
        edits.set_text(&format!("{}.vm_config.code.local.filename", edits.plugin()?), path)?;
    }
    if let Some(document) = config {
        let config = Config::from_json(document.text.as_bytes())
            .map_err(|error| InputError::config(document, "", error))?;
        filter::embed(document, &config, &mut edits)?;
    }
    Ok(edits.apply())
}

fn lead_to(endpoint: &Endpoint, cluster: &str, edits: &mut Edits) -> Result<(), InputError> {
    let cluster = edits.cluster(cluster)?;
    let socket = format!(
        "{cluster}.load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.socket_address"
    );
    edits.set_text(&format!("{socket}.address"), &endpoint.host)?;
    edits.set(&format!("{socket}.port_value"), endpoint.port.to_string())?;
    if endpoint.host.parse::<IpAddr>().is_err() {
        edits.set(&format!("{cluster}.type"), "STRICT_DNS".to_owned())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
