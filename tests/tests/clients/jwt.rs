//! Tokens (RFC 7519) as an issuer would sign them.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

/// The issuer's key. It guards nothing outside the test.
const KEY: &[u8; 32] = b"of an issuer that does not exist";

/// A time that no test sees the end of, in seconds since 1970.
pub(crate) const IN_2100: u64 = 4_102_444_800;

/// The issuer's key as Envoy reads it (RFC 7517).
pub(crate) fn key_set() -> Value {
    json!({ "keys": [{ "kty": "oct", "alg": "HS256", "kid": "1", "k": base64url(KEY) }] })
}

/// A token with these claims and the issuer's, signed by it.
pub(crate) fn token(claims: &Value) -> String {
    signed(claims, KEY)
}

/// The same, signed by somebody else.
pub(crate) fn forged(claims: &Value) -> String {
    signed(claims, b"of somebody else, but as long !!")
}

fn signed(claims: &Value, key: &[u8]) -> String {
    let mut payload = json!({ "iss": "https://issuer.example", "exp": IN_2100 });
    for (name, value) in claims.as_object().into_iter().flatten() {
        payload[name] = value.clone();
    }
    let header = json!({ "alg": "HS256", "typ": "JWT", "kid": "1" });
    let [header, payload] = [header, payload].map(|part| base64url(part.to_string().as_bytes()));
    let text = format!("{header}.{payload}");
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    mac.update(text.as_bytes());
    format!("{text}.{}", base64url(&mac.finalize().into_bytes()))
}

/// RFC 4648 §5, without padding.
fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0, |bits, byte| bits << 8 | usize::from(*byte));
        let bits = bits << (8 * (3 - three.len()));
        for digit in 0..=three.len() {
            text.push(char::from(DIGITS[bits >> (18 - 6 * digit) & 63]));
        }
    }
    text
}
