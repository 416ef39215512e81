//! What the filter counts, defined once.

/// An event that is counted. The names are contracts: dashboards and alerts hold to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// A first execution was started.
    FirstExecutions,
    /// A further execution of a key was started.
    Reexecutions,
    /// A stored outcome was told.
    Replays,
    /// A duplicate of a running request was refused.
    Conflicts,
    /// A key was used for another request.
    Mismatches,
    /// A duplicate of a request whose outcome is unknown was refused.
    Held,
    /// A retry was deferred.
    RetryLater,
    /// A retry was refused for good.
    Exhausted,
    /// A request was refused because the state could not be asked.
    StateFailures,
    /// A request was refused because the worker has too much to do.
    Overloads,
    /// An answer was told before it could be stored.
    Unstored,
    /// An execution ended, and something else was told in place of its outcome.
    Fenced,
    /// An execution's outcome is unknown.
    Ambiguous,
    /// A call to the state failed.
    StateCallsFailed,
    /// A duplicate waited for the outcome.
    Waits,
    /// A request with a key passed unguarded.
    Bypassed,
    /// A request without a key passed unguarded.
    Unkeyed,
    /// A request was refused for what it was.
    Refused,
}

/// The gauge of requests that are claimed, executed or settled now.
pub const EXECUTIONS_IN_FLIGHT: &str = "latchkey_executions_in_flight";

impl Metric {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::FirstExecutions,
        Self::Reexecutions,
        Self::Replays,
        Self::Conflicts,
        Self::Mismatches,
        Self::Held,
        Self::RetryLater,
        Self::Exhausted,
        Self::StateFailures,
        Self::Overloads,
        Self::Unstored,
        Self::Fenced,
        Self::Ambiguous,
        Self::StateCallsFailed,
        Self::Waits,
        Self::Bypassed,
        Self::Unkeyed,
        Self::Refused,
    ];

    /// Its name. Envoy shows it as `wasmcustom.<name>`, and to Prometheus as it is.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FirstExecutions => "latchkey_first_executions",
            Self::Reexecutions => "latchkey_reexecutions",
            Self::Replays => "latchkey_replays",
            Self::Conflicts => "latchkey_conflicts",
            Self::Mismatches => "latchkey_mismatches",
            Self::Held => "latchkey_held",
            Self::RetryLater => "latchkey_retry_later",
            Self::Exhausted => "latchkey_exhausted",
            Self::StateFailures => "latchkey_state_failures",
            Self::Overloads => "latchkey_overloads",
            Self::Unstored => "latchkey_unstored",
            Self::Fenced => "latchkey_fenced",
            Self::Ambiguous => "latchkey_ambiguous",
            Self::StateCallsFailed => "latchkey_state_calls_failed",
            Self::Waits => "latchkey_waits",
            Self::Bypassed => "latchkey_bypassed",
            Self::Unkeyed => "latchkey_unkeyed",
            Self::Refused => "latchkey_refused",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_names_every_metric_of_the_filter_and_no_other() {
        let docs = include_str!("../../../docs/metrics.md");
        let filter = docs.split_once("## What the filter counts").unwrap().1;
        let filter = filter.split("\n## ").next().unwrap();
        let documented: Vec<_> = filter
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
            .map(|(name, _)| name)
            .collect();
        let mut names: Vec<_> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        names.push(EXECUTIONS_IN_FLIGHT);
        assert_eq!(documented, names);
    }
}
