//! What is looked for, and why. `docs/check.md` has a section for each.

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A guarantee does not hold, or nothing works.
    Error,
    /// It works, until something happens that will.
    Warning,
    /// To be known; nothing need be done.
    Note,
}

/// Something that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "`Lint::why` says what each is")]
pub enum Lint {
    ClientIsCredential,
    ClientsAnonymous,
    ClientsAreOne,
    RuleShadowed,
    StateFailurePasses,
    FilterNotFound,
    ConfigurationDiffers,
    RouteNamesNoRule,
    FilterOffOnRoute,
    StopIterationNotAllowed,
    FailurePolicyOpen,
    FailurePolicyNotReload,
    EnvironmentNotPassed,
    DirectSkipsFilters,
    DirectSkipsRoute,
    ClusterSkipsFilters,
    AuthenticationAfter,
    ClientForgeable,
    ClientUnproven,
    JwtPayloadMissing,
    ClientCertificateOptional,
    BufferTooSmall,
    BufferTooSmallToStore,
    RepliesRewritten,
    MarkersMissing,
    RouteRetries,
    RouteRetriesUnsent,
    RouteHedges,
    RouteMirrors,
    RouteRedirects,
    OuterTimeoutMissing,
    OuterTimeoutTooShort,
    InnerTimeoutTooShort,
    RouteTimeoutTooShort,
    PathNotNormalised,
    ClusterMissing,
    ClusterNotInternal,
    InternalListenerMissing,
    InternalListenersOff,
    CorsHidesReplays,
    CorsBlocksKeys,
    CorsAfter,
    NotJudged,
}

// === impl Severity ===

impl Severity {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

// === impl Lint ===

impl Lint {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 43] = [
        Self::ClientIsCredential,
        Self::ClientsAnonymous,
        Self::ClientsAreOne,
        Self::RuleShadowed,
        Self::StateFailurePasses,
        Self::FilterNotFound,
        Self::ConfigurationDiffers,
        Self::RouteNamesNoRule,
        Self::FilterOffOnRoute,
        Self::StopIterationNotAllowed,
        Self::FailurePolicyOpen,
        Self::FailurePolicyNotReload,
        Self::EnvironmentNotPassed,
        Self::DirectSkipsFilters,
        Self::DirectSkipsRoute,
        Self::ClusterSkipsFilters,
        Self::AuthenticationAfter,
        Self::ClientForgeable,
        Self::ClientUnproven,
        Self::JwtPayloadMissing,
        Self::ClientCertificateOptional,
        Self::BufferTooSmall,
        Self::BufferTooSmallToStore,
        Self::RepliesRewritten,
        Self::MarkersMissing,
        Self::RouteRetries,
        Self::RouteRetriesUnsent,
        Self::RouteHedges,
        Self::RouteMirrors,
        Self::RouteRedirects,
        Self::OuterTimeoutMissing,
        Self::OuterTimeoutTooShort,
        Self::InnerTimeoutTooShort,
        Self::RouteTimeoutTooShort,
        Self::PathNotNormalised,
        Self::ClusterMissing,
        Self::ClusterNotInternal,
        Self::InternalListenerMissing,
        Self::InternalListenersOff,
        Self::CorsHidesReplays,
        Self::CorsBlocksKeys,
        Self::CorsAfter,
        Self::NotJudged,
    ];

    /// What scripts know it by.
    #[must_use]
    pub const fn id(self) -> &'static str {
        self.about().0
    }

    /// How much it matters.
    #[must_use]
    pub const fn severity(self) -> Severity {
        self.about().1
    }

    /// Why it matters.
    #[must_use]
    pub const fn why(self) -> &'static str {
        self.about().2
    }

    #[expect(clippy::too_many_lines, reason = "a table")]
    const fn about(self) -> (&'static str, Severity, &'static str) {
        use Severity::{Error, Note, Warning};
        match self {
            Self::ClientIsCredential => (
                "client-is-credential",
                Warning,
                "Keys are kept by client. A credential that is renewed is another client: a retry \
                 with the new one executes again.",
            ),
            Self::ClientsAnonymous => (
                "clients-anonymous",
                Warning,
                "All clients without a name share their keys: who guesses or repeats another's key \
                 gets the other's answer.",
            ),
            Self::ClientsAreOne => (
                "clients-are-one",
                Note,
                "Whoever may call shares keys and answers with all others: right where there is one client, or one partner.",
            ),
            Self::RuleShadowed => (
                "rule-shadowed",
                Warning,
                "The first rule that matches holds, and an earlier one matches whatever this one \
                 would.",
            ),
            Self::StateFailurePasses => (
                "state-failure-passes",
                Note,
                "While the state cannot be asked, retries are executed again, unguarded.",
            ),
            Self::FilterNotFound => (
                "filter-not-found",
                Error,
                "No listener of this document has a Wasm filter of ours, so nothing is guarded.",
            ),
            Self::ConfigurationDiffers => (
                "configuration-differs",
                Note,
                "Envoy runs what is embedded; what was checked here is the file.",
            ),
            Self::RouteNamesNoRule => (
                "route-names-no-rule",
                Error,
                "The filter refuses every request by a route that names a rule which it does not have.",
            ),
            Self::FilterOffOnRoute => (
                "filter-off-on-route",
                Warning,
                "What a rule guards passes unguarded by this route, and no answer says so.",
            ),
            Self::StopIterationNotAllowed => (
                "stop-iteration-not-allowed",
                Error,
                "The filter holds the headers until a claim is answered. Without this it would \
                 never see a body, and guarded requests with one would hang.",
            ),
            Self::FailurePolicyOpen => (
                "failure-policy-open",
                Error,
                "When the filter fails, every request would pass unguarded.",
            ),
            Self::FailurePolicyNotReload => (
                "failure-policy-not-reload",
                Warning,
                "When the filter fails, its worker would refuse every request until Envoy is \
                 started anew.",
            ),
            Self::EnvironmentNotPassed => (
                "environment-not-passed",
                Error,
                "The filter reads its secrets and its token from variables of the VM, which has \
                 those alone that it is handed. It refuses to start without them.",
            ),
            Self::DirectSkipsFilters => (
                "direct-skips-filters",
                Error,
                "A direct execution goes from the filter straight to the cluster: the filters after \
                 it do not see guarded requests.",
            ),
            Self::DirectSkipsRoute => (
                "direct-skips-route",
                Error,
                "A direct execution goes from the filter straight to the cluster: what the route \
                 says beside its cluster is not done.",
            ),
            Self::ClusterSkipsFilters => (
                "cluster-skips-filters",
                Warning,
                "A detached execution goes through the internal listener: of the filters after \
                 ours it sees those alone that are there too.",
            ),
            Self::AuthenticationAfter => (
                "authentication-after",
                Error,
                "Replays are answered before this filter is reached: who has lost the right to \
                 call, or never had it, gets stored answers.",
            ),
            Self::ClientForgeable => (
                "client-forgeable",
                Error,
                "Keys are kept by client. Who can choose the name gets another's answers.",
            ),
            Self::ClientUnproven => (
                "client-unproven",
                Note,
                "Keys are kept by client. Whether the filters before ours set this header, whatever \
                 the client sent, cannot be seen from here.",
            ),
            Self::JwtPayloadMissing => (
                "jwt-payload-missing",
                Error,
                "The claim is read from the payload that jwt_authn has put into metadata. Without \
                 it no client has a name.",
            ),
            Self::ClientCertificateOptional => (
                "client-certificate-optional",
                Error,
                "The client's name is read from its certificate, which has to be asked for and to \
                 be verified.",
            ),
            Self::BufferTooSmall => (
                "buffer-too-small",
                Warning,
                "Bodies are held until their claim is answered. What exceeds Envoy's buffer is \
                 refused by Envoy, with a 413 in plain text, before the rule's own limit.",
            ),
            Self::BufferTooSmallToStore => (
                "buffer-too-small-to-store",
                Error,
                "Answers of attached executions are held until they are stored. One that exceeds \
                 Envoy's buffer becomes a 500, though the upstream has executed.",
            ),
            Self::RepliesRewritten => (
                "replies-rewritten",
                Error,
                "To Envoy, answers and replays are local replies: this would put another status or \
                 body into their place.",
            ),
            Self::MarkersMissing => (
                "markers-missing",
                Error,
                "Two headers tell the filter whether an answer is the upstream's or Envoy's own, \
                 and whether the request reached the upstream. Without them every outcome is \
                 unknown.",
            ),
            Self::RouteRetries => (
                "route-retries",
                Error,
                "Envoy would execute a request several times under one claim, and the filter would \
                 see one answer.",
            ),
            Self::RouteRetriesUnsent => (
                "route-retries-unsent",
                Note,
                "Envoy retries what did not reach the upstream, which executes nothing twice.",
            ),
            Self::RouteHedges => (
                "route-hedges",
                Error,
                "Envoy would execute a request several times at once under one claim.",
            ),
            Self::RouteMirrors => (
                "route-mirrors",
                Error,
                "Every execution would have a copy elsewhere, which no claim counts.",
            ),
            Self::RouteRedirects => (
                "route-redirects",
                Error,
                "Envoy would answer the upstream's redirect with another request, under the same claim.",
            ),
            Self::OuterTimeoutMissing => (
                "outer-timeout-missing",
                Warning,
                "A client that waits for its claim or its answer is covered by no route's timeout: \
                 if the filter fails meanwhile, nothing else ends its request.",
            ),
            Self::OuterTimeoutTooShort => (
                "outer-timeout-too-short",
                Warning,
                "Envoy would end a client's request that the filter still works for, without the \
                 answer.",
            ),
            Self::InnerTimeoutTooShort => (
                "inner-timeout-too-short",
                Error,
                "Envoy would end an execution before its time: its outcome is unknown then.",
            ),
            Self::RouteTimeoutTooShort => (
                "route-timeout-too-short",
                Error,
                "Envoy would end an execution before its time: its outcome is unknown then. \
                 Without a timeout of its own, a route has one of 15 s.",
            ),
            Self::PathNotNormalised => (
                "path-not-normalised",
                Warning,
                "Rules go by path. Where one resource has several spellings, some are unguarded.",
            ),
            Self::ClusterMissing => (
                "cluster-missing",
                Error,
                "The filter calls this cluster, and there is none of that name.",
            ),
            Self::ClusterNotInternal => (
                "cluster-not-internal",
                Error,
                "Executions through a cluster expect an internal listener's two headers in every \
                 answer. Straight from an upstream, every outcome is unknown.",
            ),
            Self::InternalListenerMissing => (
                "internal-listener-missing",
                Error,
                "Executions go to this internal listener, and there is none of that name.",
            ),
            Self::InternalListenersOff => (
                "internal-listeners-off",
                Error,
                "Without this extension Envoy cannot connect to its own internal listeners.",
            ),
            Self::CorsHidesReplays => (
                "cors-hides-replays",
                Warning,
                "The filter exposes its headers to scripts in browsers; the policy replaces that by \
                 its own list, and scripts could not tell a replay from a first answer.",
            ),
            Self::CorsBlocksKeys => (
                "cors-blocks-keys",
                Warning,
                "Browsers send a header from scripts only where it is allowed: requests with keys never come.",
            ),
            Self::CorsAfter => (
                "cors-after",
                Warning,
                "Replays and refusals are answered before this filter is reached, so browsers' scripts must not read them.",
            ),
            Self::NotJudged => (
                "not-judged",
                Note,
                "It is not in this document, or this program does not understand it: see to it yourself.",
            ),
        }
    }
}
