//! Which requests a rule guards.

use regex_lite::Regex;

/// Which requests a rule guards: those that every part agrees to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Exactly one of these methods.
    pub methods: Vec<String>,
    /// One of these hosts; all where there are none.
    pub hosts: Vec<Host>,
    /// The path, without its query. `None`: no path, only routes that name the rule.
    pub path: Option<PathMatch>,
}

/// A host, in lower case and without a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// Just this one.
    Exact(String),
    /// Those that end in this, which begins with a dot.
    Below(String),
}

/// How a path is matched, as Envoy's routes do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathMatch {
    /// It begins with this, as Envoy's `prefix`: `/pay` is also the beginning of `/payments`.
    Prefix(String),
    /// It is this, as Envoy's `path`.
    Exact(String),
    /// All of it fits, as Envoy's `safe_regex`.
    Regex(PathRegex),
}

/// A regular expression for a whole path.
#[derive(Clone, Debug)]
pub struct PathRegex {
    pattern: String,
    regex: Regex,
}

// === impl Match ===

impl Match {
    /// Whether it is one of the methods.
    #[must_use]
    pub fn has_method(&self, method: &[u8]) -> bool {
        self.methods.iter().any(|it| it.as_bytes() == method)
    }

    /// Whether a request by `:method`, `:authority` and `:path` is one of those.
    #[must_use]
    pub fn matches(&self, method: &[u8], authority: &[u8], path: &[u8]) -> bool {
        let Some(by_path) = &self.path else { return false };
        self.has_method(method)
            && by_path.matches(without_query(path))
            && (self.hosts.is_empty() || self.hosts.iter().any(|host| host.matches(authority)))
    }
}

// === impl Host ===

impl Host {
    /// From how it is written: `api.example`, or `*.example` for all below it.
    #[must_use]
    pub fn new(written: &str) -> Self {
        let written = written.to_ascii_lowercase();
        match written.strip_prefix('*') {
            Some(below) => Self::Below(below.to_owned()),
            None => Self::Exact(written),
        }
    }

    fn matches(&self, authority: &[u8]) -> bool {
        let host = without_port(authority).to_ascii_lowercase();
        match self {
            Self::Exact(it) => host == it.as_bytes(),
            Self::Below(end) => host.len() > end.len() && host.ends_with(end.as_bytes()),
        }
    }
}

// === impl PathMatch ===

impl PathMatch {
    fn matches(&self, path: &[u8]) -> bool {
        match self {
            Self::Prefix(prefix) => path.starts_with(prefix.as_bytes()),
            Self::Exact(exact) => path == exact.as_bytes(),
            // Envoy lets no path through that is not ASCII.
            Self::Regex(it) => it.regex.is_match(&String::from_utf8_lossy(path)),
        }
    }
}

// === impl PathRegex ===

impl PathRegex {
    /// Compiles a pattern that has to fit a whole path.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(pattern: &str) -> Result<Self, String> {
        // By itself first: `a)|(b` would close the group that anchors it.
        let compile = |pattern: &str| Regex::new(pattern).map_err(|error| error.to_string());
        compile(pattern)?;
        let regex = compile(&format!("^(?:{pattern})$"))?;
        Ok(Self { pattern: pattern.to_owned(), regex })
    }

    /// As it was written.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.pattern
    }
}

impl PartialEq for PathRegex {
    fn eq(&self, other: &Self) -> bool {
        self.pattern == other.pattern
    }
}

impl Eq for PathRegex {}

fn without_query(path: &[u8]) -> &[u8] {
    path.split(|byte| *byte == b'?' || *byte == b'#').next().unwrap_or_default()
}

/// An authority without its port. The colons of an IPv6 address are in brackets.
fn without_port(authority: &[u8]) -> &[u8] {
    let at = authority.iter().rposition(|byte| *byte == b':');
    match at.and_then(|at| authority.split_at_checked(at)) {
        Some((host, port)) if port.iter().skip(1).all(u8::is_ascii_digit) => host,
        Some(_) | None => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(hosts: &[&str], path: PathMatch) -> Match {
        Match {
            methods: vec!["POST".to_owned()],
            hosts: hosts.iter().map(|host| Host::new(host)).collect(),
            path: Some(path),
        }
    }

    #[test]
    fn a_prefix_is_of_the_path_and_not_of_the_query() {
        let it = on(&[], PathMatch::Prefix("/payments".to_owned()));
        assert!(it.matches(b"POST", b"a", b"/payments"));
        assert!(it.matches(b"POST", b"a", b"/payments-old?x=1"));
        assert!(!it.matches(b"POST", b"a", b"/?/payments"));
        assert!(!it.matches(b"post", b"a", b"/payments"), "methods have a case");
    }

    #[test]
    fn an_exact_path_may_have_any_query_but_nothing_else() {
        let it = on(&[], PathMatch::Exact("/payments".to_owned()));
        assert!(it.matches(b"POST", b"a", b"/payments?x=/y"));
        assert!(!it.matches(b"POST", b"a", b"/payments/"));
    }

    #[test]
    fn a_regular_expression_fits_the_whole_path() {
        let it = on(&[], PathMatch::Regex(PathRegex::new("/v[12]/pay|/pay").unwrap()));
        assert!(it.matches(b"POST", b"a", b"/v1/pay?x"));
        assert!(it.matches(b"POST", b"a", b"/pay"));
        assert!(!it.matches(b"POST", b"a", b"/v1/pay/1"));
        assert!(!it.matches(b"POST", b"a", b"/x/pay"));
        assert!(!it.matches(b"POST", b"a", b"/pay\n"));
        assert!(PathRegex::new("/(").is_err());
        assert!(PathRegex::new("/a)|(/b").is_err(), "it would fit the beginning of a path");
    }

    #[test]
    fn hosts_are_compared_without_case_and_port() {
        let it = on(&["API.example", "*.shop.example"], PathMatch::Prefix("/".to_owned()));
        for host in ["api.example", "Api.Example:8443", "eu.shop.example", "a.b.shop.example:1"] {
            assert!(it.matches(b"POST", host.as_bytes(), b"/"), "{host}");
        }
        for host in ["example", "shop.example", "evilshop.example", "api.example.evil", ""] {
            assert!(!it.matches(b"POST", host.as_bytes(), b"/"), "{host}");
        }
        let it = on(&["[::1]"], PathMatch::Prefix("/".to_owned()));
        assert!(it.matches(b"POST", b"[::1]:80", b"/") && it.matches(b"POST", b"[::1]", b"/"));
    }

    #[test]
    fn a_rule_without_a_path_matches_nothing_by_itself() {
        let mut it = on(&[], PathMatch::Prefix("/".to_owned()));
        it.path = None;
        assert!(!it.matches(b"POST", b"a", b"/"));
    }
}
