//! Whether Envoy would rewrite what the filter answers.

use super::{Case, Findings, Lint};
use crate::check::node::Node;

/// What a mapper may replace.
const REPLACED: [&str; 3] = ["status_code", "body", "body_format_override"];

/// Whether answers of ours fit a filter. All of several filters say at most what the least says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Never,
    Unknown,
    May,
}

pub(super) fn check(case: &Case<'_>, found: &mut Findings) {
    let Some(config) = case.guard.manager.node.get("local_reply_config") else { return };
    let instead = "mappers alone whose filter is a response_flag_filter: answers of ours have no \
                   flag";
    if let Some(format) = config.get("body_format") {
        let what = "body_format replaces the body of every local reply";
        found.add(Lint::RepliesRewritten, case.place(format.path()), what, instead);
    }
    for mapper in config.items("mappers") {
        let replaced: Vec<&str> =
            REPLACED.into_iter().filter(|field| mapper.get(field).is_some()).collect();
        if replaced.is_empty() {
            continue;
        }
        let replaced = replaced.join(", ");
        match mapper.get("filter").map_or(Fit::May, |filter| fit(&filter)) {
            Fit::Never => {}
            Fit::Unknown => {
                let what = format!("whether our answers fit the mapper that replaces {replaced}");
                found.add(Lint::NotJudged, case.place(mapper.path()), what, instead);
            }
            Fit::May => {
                let what = format!("a mapper that our answers may fit replaces {replaced}");
                found.add(Lint::RepliesRewritten, case.place(mapper.path()), what, instead);
            }
        }
    }
}

/// Whether an access log filter lets answers of ours through.
fn fit(filter: &Node<'_>) -> Fit {
    if let Some(flags) = filter.get("response_flag_filter") {
        // Without flags it is any flag, and answers of ours have none.
        return if flags.texts("flags").contains(&"-") { Fit::May } else { Fit::Never };
    }
    if filter.get("and_filter").is_some() {
        return filter.items("and_filter.filters").iter().map(fit).min().unwrap_or(Fit::May);
    }
    if filter.get("or_filter").is_some() {
        return filter.items("or_filter.filters").iter().map(fit).max().unwrap_or(Fit::May);
    }
    let unknown = ["extension_filter", "metadata_filter"];
    if unknown.iter().any(|it| filter.get(it).is_some()) { Fit::Unknown } else { Fit::May }
}
