//! Queries without the parameters that differ from try to try: signatures, nonces, times.

/// The query without `excluded` parameters. The others keep their order and spelling.
pub(super) fn without(query: &[u8], excluded: &[String]) -> Vec<u8> {
    if excluded.is_empty() {
        return query.to_vec();
    }
    let counts = |parameter: &&[u8]| {
        let name = parameter.split(|byte| *byte == b'=').next().unwrap_or_default();
        let name = decoded(name);
        !excluded.iter().any(|it| it.as_bytes() == name)
    };
    let kept: Vec<_> = query.split(|byte| *byte == b'&').filter(counts).collect();
    kept.join(&b'&')
}

/// A name as it is meant: `%xx` and `+` undone. What is no escape stands for itself.
fn decoded(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, more)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| more.split_at_checked(2)).flatten();
        let escaped = escaped.and_then(|(digits, after)| {
            let digits = std::str::from_utf8(digits).ok()?;
            let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            Some((u8::from_str_radix(digits, 16).ok().filter(|_| plain)?, after))
        });
        match (escaped, first) {
            (Some((byte, after)), _) => {
                out.push(byte);
                rest = after;
            }
            (None, b'+') => {
                out.push(b' ');
                rest = more;
            }
            (None, byte) => {
                out.push(*byte);
                rest = more;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(query: &str, excluded: &[&str]) -> String {
        let excluded: Vec<_> = excluded.iter().map(|name| (*name).to_owned()).collect();
        String::from_utf8(without(query.as_bytes(), &excluded)).unwrap()
    }

    #[test]
    fn excluded_parameters_go_by_their_whole_name_however_it_is_spelled() {
        assert_eq!(kept("a=1&sig=x&b=2&sig=y&sig", &["sig"]), "a=1&b=2");
        assert_eq!(kept("s%69g=x&signature=1&xsig=2", &["sig"]), "signature=1&xsig=2");
        assert_eq!(kept("my+sig=x&my%20sig=y&a", &["my sig"]), "a");
        assert_eq!(kept("sig=x", &["sig"]), "");
        assert_eq!(kept("", &["sig"]), "");
    }

    #[test]
    fn what_stays_keeps_its_order_and_spelling() {
        assert_eq!(kept("b=%41&a=1&&b=+", &["c"]), "b=%41&a=1&&b=+");
        assert_eq!(kept("sig=1", &[]), "sig=1");
        assert_eq!(kept("%zz=1&%=2&%4", &["sig"]), "%zz=1&%=2&%4");
    }
}
