//! Where something is served.

use std::str::FromStr;

/// A host and a port, as `payments.internal:8080` or `[::1]:8080`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// A name, or an address without brackets.
    pub host: String,
    /// From 1.
    pub port: u16,
}

/// Why a text names no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a host and a port, as payments.internal:8080 or [::1]:8080")]
pub struct EndpointError;

// === impl Endpoint ===

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let (host, port) = text.rsplit_once(':').ok_or(EndpointError)?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or(EndpointError)?;
        let literal = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        let is_name = |it: &str| {
            let ascii = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            !it.is_empty() && it.bytes().all(ascii)
        };
        let host = match literal {
            Some(it) => it.parse::<std::net::Ipv6Addr>().map_err(|_| EndpointError)?.to_string(),
            None if is_name(host) => host.to_owned(),
            None => return Err(EndpointError),
        };
        Ok(Self { host, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_and_a_port_are_read_and_nothing_else() {
        let read = |text: &str| text.parse::<Endpoint>().ok().map(|it| (it.host, it.port));
        assert_eq!(read("pay.internal:80"), Some(("pay.internal".to_owned(), 80)));
        assert_eq!(read("[::1]:8080"), Some(("::1".to_owned(), 8080)));
        let wrong = [
            "pay",
            "pay:",
            "pay:0",
            "pay:65536",
            ":80",
            "::1:80",
            "http://pay:80",
            "a b:1",
            "[x]:1",
        ];
        assert_eq!(wrong.map(read), [const { None }; 9]);
    }
}
