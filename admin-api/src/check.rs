//! `latchkey check`: what is wrong with a configuration of the filter, and with the Envoy around
//! it, before it runs.
//!
//! The filter's configuration is read by the filter's own code. Of Envoy's, this program knows
//! what can break a guarantee ([`Lint`]), and lets the rest be: `envoy --mode validate` checks
//! that. What each finding means is in `docs/check.md`.

mod envoy;
mod finding;
mod gateway;
mod input;
mod lint;
mod node;
mod output;
mod rules;

use std::process::ExitCode;

use crate::cli::CheckArguments;

pub use finding::{Finding, Findings, Place};
pub use input::{Document, InputError};
pub use lint::{Lint, Severity};
pub use output::{human, json, unusable_json};

/// Exit code where something is wrong.
pub const EXIT_ERRORS: u8 = 1;

/// Exit code where nothing can be said: a file cannot be read, or is not what it should be.
pub const EXIT_UNUSABLE: u8 = 2;

/// Runs the subcommand.
#[must_use]
pub fn main(arguments: &CheckArguments) -> ExitCode {
    let read = |path: &Option<_>| path.as_deref().map(Document::read).transpose();
    let checked = read(&arguments.filter).and_then(|filter| {
        let envoy = read(&arguments.envoy)?;
        check(filter.as_ref(), envoy.as_ref())
    });
    let (text, code) = match checked {
        Ok(found) => {
            let text = if arguments.json { json(&found) } else { human(&found) };
            (text, code(&found, arguments.strict))
        }
        Err(error) => {
            crate::say_error(&error);
            let text = if arguments.json { unusable_json(&error) } else { String::new() };
            (text, ExitCode::from(EXIT_UNUSABLE))
        }
    };
    crate::say(&text);
    code
}

/// How the process ends, with warnings as with errors where `strict`.
#[must_use]
pub fn code(found: &Findings, strict: bool) -> ExitCode {
    let warnings = if strict { found.count(Severity::Warning) } else { 0 };
    match found.count(Severity::Error) + warnings {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(EXIT_ERRORS),
    }
}

/// Looks at the filter's configuration and at Envoy's. Without the first, it is what the second
/// embeds.
///
/// # Errors
/// When one of them is not what it should be.
pub fn check(filter: Option<&Document>, envoy: Option<&Document>) -> Result<Findings, InputError> {
    let mut found = Findings::default();
    let config = filter.map(Document::config).transpose()?;
    if let (Some(document), Some(config)) = (filter, &config) {
        // The filter takes some JSON that is no YAML; it has no lines then.
        let yaml = document.yaml().ok();
        let place = |path: &str| Place {
            document: document.name.clone(),
            path: path.to_owned(),
            line: yaml.as_ref().and_then(|it| it.line(path)),
            listener: None,
        };
        rules::check(config, &place, &mut found);
    }
    if let Some(document) = envoy {
        let yaml = document.yaml()?;
        let gateway = gateway::Gateway::new(&document.name, &yaml);
        envoy::check(&gateway, document, config.as_ref(), &mut found)?;
    }
    found.sort();
    Ok(found)
}
