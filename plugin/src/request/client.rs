//! Who a request's client is.

use latchkey_core::config::{ClientName, ClientRule, MissingClient};
use latchkey_core::problem::{Kind, Problem};

use super::{Attributes, Headers};

/// A client's name is kept with every record. Longer than any certificate's or token's subject.
const CLIENT_BYTES_MAX: usize = 512;

/// The name under which all clients without one are kept. No client can have it.
pub(super) const ANONYMOUS: &str = "";

/// Where `jwt_authn` puts what it has verified.
const JWT_METADATA: [&str; 3] = ["metadata", "filter_metadata", "envoy.filters.http.jwt_authn"];

/// Envoy's attribute for the certificate that the client showed.
const URI_SAN: [&str; 2] = ["connection", "uri_san_peer_certificate"];

/// The client's name, `None` where the request passes unguarded.
pub(super) fn name(
    rule: &ClientRule,
    headers: &Headers,
    attributes: &dyn Attributes,
) -> Result<Option<String>, Problem> {
    let value = match &rule.name {
        ClientName::Fixed(client) => return Ok(Some(client.clone())),
        ClientName::Header(name) => {
            let mut lines = headers.all(name);
            let value = lines.next().map(<[u8]>::to_vec);
            if lines.next().is_some() {
                return Err(unclear("The request names its client more than once."));
            }
            value
        }
        ClientName::JwtClaim { payload, claim } => {
            let [metadata, filters, authn] = JWT_METADATA;
            attributes.get(&[metadata, filters, authn, payload, claim])
        }
        ClientName::UriSan => attributes.get(&URI_SAN),
    };
    match value.filter(|value| !value.is_empty()) {
        Some(value) => text(value).map(Some),
        None => match rule.missing {
            MissingClient::Bypass => Ok(None),
            MissingClient::Anonymous => Ok(Some(ANONYMOUS.to_owned())),
            MissingClient::Reject => {
                Err(unclear("Keys are kept by client, and this request has none. Authenticate."))
            }
        },
    }
}

/// A name that can be kept and shown. A claim that is a number has zero bytes here.
fn text(value: Vec<u8>) -> Result<String, Problem> {
    if value.len() > CLIENT_BYTES_MAX {
        return Err(unclear("The client's name is too long."));
    }
    let name =
        String::from_utf8(value).map_err(|_| unclear("The client's name is not valid UTF-8."))?;
    if name.chars().any(char::is_control) {
        return Err(unclear("The client's name is not text."));
    }
    Ok(name)
}

fn unclear(detail: &str) -> Problem {
    Problem::new(Kind::ClientUnknown, 400, detail)
}
