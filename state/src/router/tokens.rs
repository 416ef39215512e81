//! Who may call.

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// The shortest token, in bytes: 16 random bytes in hexadecimal are 32, and what is shorter than
/// half of that was not drawn but made up.
pub const TOKEN_BYTES_MIN: usize = 16;

/// The most tokens that are good at once: an old one and a new one while they are rotated, for
/// a few kinds of callers.
pub const TOKENS_MAX: usize = 8;

/// The digests of the tokens that are good. Without any, every caller is.
#[derive(Clone, Default)]
pub struct Tokens(Vec<[u8; 32]>);

/// Why a text holds no tokens. Never says what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// There is none.
    #[error("there is no token in it")]
    None,
    /// There are too many.
    #[error("there are more than {TOKENS_MAX} tokens in it")]
    TooMany,
    /// One can be guessed.
    #[error("a token in it is shorter than {TOKEN_BYTES_MIN} characters")]
    TooShort,
    /// One cannot be sent in a header.
    #[error("a token in it has characters other than visible ASCII")]
    Unsendable,
}

// === impl Tokens ===

impl Tokens {
    /// Nobody needs a token: for servers that only their own machine can reach.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// The tokens in `text`, separated by white space.
    ///
    /// # Errors
    /// Where there is none, too many, or one that is no good.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let tokens: Vec<&str> = text.split_ascii_whitespace().take(TOKENS_MAX + 1).collect();
        if tokens.is_empty() {
            return Err(TokenError::None);
        }
        if tokens.len() > TOKENS_MAX {
            return Err(TokenError::TooMany);
        }
        let check = |token: &str| {
            if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(TokenError::Unsendable);
            }
            if token.len() < TOKEN_BYTES_MIN {
                return Err(TokenError::TooShort);
            }
            Ok(digest(token.as_bytes()))
        };
        tokens.into_iter().map(check).collect::<Result<_, _>>().map(Self)
    }

    /// Whether no token is wanted.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a request with this `Authorization` is let in. Takes as long for a wrong token
    /// as for a right one: digests are compared, each with each, to the end.
    #[must_use]
    pub fn admit(&self, authorization: Option<&[u8]>) -> bool {
        if self.is_none() {
            return true;
        }
        let Some(token) = authorization.and_then(bearer) else { return false };
        let presented = digest(token);
        let equal = self.0.iter().fold(Choice::from(0), |any, good| any | good.ct_eq(&presented));
        equal.into()
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

fn digest(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

/// What follows `Bearer`, whose case does not matter (RFC 9110 §11.1).
fn bearer(authorization: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = authorization.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| rest.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "0123456789abcdef-old";
    const NEW: &str = "0123456789abcdef-new";

    #[test]
    fn without_tokens_everybody_is_let_in() {
        assert!(Tokens::none().admit(None));
        assert!(Tokens::none().admit(Some(b"Basic x")));
    }

    #[test]
    fn each_of_the_tokens_is_good_and_nothing_else_is() {
        let tokens = Tokens::parse(&format!("{OLD}\n{NEW}\n")).unwrap();
        assert!(tokens.admit(Some(format!("Bearer {OLD}").as_bytes())));
        assert!(tokens.admit(Some(format!("bearer  {NEW} ").as_bytes())));
        for wrong in ["", "Bearer", "Bearer ", "Basic 0123456789abcdef-old", OLD] {
            assert!(!tokens.admit(Some(wrong.as_bytes())), "{wrong}");
        }
        assert!(!tokens.admit(Some(b"Bearer 0123456789abcdef-ol")), "a prefix");
        assert!(!tokens.admit(None));
    }

    #[test]
    fn tokens_that_can_be_guessed_or_cannot_be_sent_are_refused() {
        assert_eq!(Tokens::parse(" \n").unwrap_err(), TokenError::None);
        assert_eq!(Tokens::parse("secret").unwrap_err(), TokenError::TooShort);
        assert_eq!(Tokens::parse("0123456789abcdé-0123").unwrap_err(), TokenError::Unsendable);
        let many = [OLD; TOKENS_MAX + 1].join(" ");
        assert_eq!(Tokens::parse(&many).unwrap_err(), TokenError::TooMany);
    }

    #[test]
    fn tokens_do_not_print_themselves() {
        assert_eq!(format!("{:?}", Tokens::parse(OLD).unwrap()), "Tokens(1)");
    }
}
