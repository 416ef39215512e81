//! What is checked of many fields.

use super::Checked;
use crate::config::ConfigError;
use crate::config::bounds::NAME_BYTES_MAX;

pub(super) fn error<T>(path: impl Into<String>, reason: impl Into<String>) -> Checked<T> {
    Err(ConfigError { path: path.into(), reason: reason.into() })
}

pub(super) fn range<T: PartialOrd + Copy + std::fmt::Display>(
    path: &str,
    it: T,
    min: T,
    max: T,
) -> Checked<()> {
    if it >= min && it <= max {
        return Ok(());
    }
    error(path, format!("{it} is out of range; it must be from {min} to {max}"))
}

pub(super) fn count(path: &str, count: usize, max: usize) -> Checked<()> {
    if (1..=max).contains(&count) {
        return Ok(());
    }
    error(path, format!("has {count} entries; it must have from 1 to {max}"))
}

pub(super) fn at_most(path: &str, count: usize, max: usize) -> Checked<()> {
    if count <= max {
        return Ok(());
    }
    error(path, format!("has {count} entries; at most {max} are allowed"))
}

pub(super) fn name(path: &str, name: &str) -> Checked<()> {
    let reason = if name.is_empty() {
        "is empty".to_owned()
    } else if name.len() > NAME_BYTES_MAX {
        format!("has {} bytes; at most {NAME_BYTES_MAX} are allowed", name.len())
    } else if !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        "must be printable ASCII without spaces".to_owned()
    } else {
        return Ok(());
    };
    error(path, reason)
}

/// The name of a header, in lower case.
pub(super) fn header(path: &str, header: &str) -> Checked<String> {
    name(path, header)?;
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if header.bytes().all(token) {
        return Ok(header.to_ascii_lowercase());
    }
    error(path, "is not a header's name (RFC 9110 §5.1)")
}

pub(super) fn unique<'a>(
    path: &str,
    field: &str,
    names: impl Iterator<Item = &'a str>,
) -> Checked<()> {
    let mut seen = std::collections::BTreeSet::new();
    for (at, name) in names.enumerate() {
        if !seen.insert(name) {
            return error(format!("{path}[{at}].{field}"), format!("`{name}` is there twice"));
        }
    }
    Ok(())
}
