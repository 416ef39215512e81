//! The table.

use std::fmt;
use std::time::Duration;

use super::{Case, Plan, Sample};
use crate::stage::StoreKind;

/// What was measured, as medians over the rounds.
pub struct Report {
    plan: Plan,
    rows: Vec<Row>,
}

struct Row {
    store: StoreKind,
    case: Case,
    requests_per_s: f64,
    /// To the bare gateway beside the same store.
    ratio: f64,
    p50: Duration,
    p99: Duration,
    /// Calls to the state endpoint for one request: the smaller, the larger the batches.
    state_calls: f64,
    /// CPU time per request, by process.
    cpu: Vec<(&'static str, Duration)>,
}

/// The order of the table's columns.
const PROCESSES: [&str; 5] = ["envoy", "latchkey", "redis", "upstream", "load"];

// === impl Report ===

impl Report {
    pub(super) fn new(plan: Plan, samples: &[Sample]) -> Self {
        let mut rows: Vec<Row> = Vec::new();
        for sample in samples {
            let known = rows.iter().any(|row| row.store == sample.store && row.case == sample.case);
            if !known {
                rows.push(Row::new(sample.store, sample.case, samples));
            }
        }
        let bare: Vec<_> = rows
            .iter()
            .filter(|row| row.case == Case::Bare)
            .map(|row| (row.store, row.requests_per_s))
            .collect();
        for row in &mut rows {
            let bare = bare.iter().find(|(store, _)| *store == row.store);
            row.ratio = bare.map_or(f64::NAN, |(_, bare)| row.requests_per_s / bare);
        }
        Self { plan, rows }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { rounds, duration, connections } = self.plan;
        writeln!(
            formatter,
            "{connections} connections, 2 Envoy workers, bodies of 100 B, execute.direct; medians \
             of {rounds} rounds of {duration:?}\n"
        )?;
        write!(
            formatter,
            "| store | requests | per s | to bare | p50 ms | p99 ms | state calls |"
        )?;
        for process in PROCESSES {
            write!(formatter, " {process} µs |")?;
        }
        writeln!(formatter, "\n|---|---|{}", "---:|".repeat(5 + PROCESSES.len()))?;
        for row in &self.rows {
            row.fmt(formatter)?;
        }
        writeln!(formatter, "\nState calls and CPU time in µs are per request.")
    }
}

// === impl Sample ===

impl Sample {
    fn calls_per_request(&self) -> f64 {
        self.state_calls as f64 / self.measured.requests() as f64
    }
}

// === impl Row ===

impl Row {
    fn new(store: StoreKind, case: Case, samples: &[Sample]) -> Self {
        let samples: Vec<_> =
            samples.iter().filter(|it| it.store == store && it.case == case).collect();
        let times = |time: &dyn Fn(&Sample) -> Duration| {
            let seconds = samples.iter().map(|sample| time(sample).as_secs_f64()).collect();
            Duration::from_secs_f64(median(seconds))
        };
        let cpu_of = |process: &'static str| {
            let used: Vec<f64> = samples
                .iter()
                .filter_map(|sample| {
                    let (_, used) = sample.cpu.iter().find(|(name, _)| *name == process)?;
                    Some(used.as_secs_f64() / sample.measured.requests() as f64)
                })
                .collect();
            (!used.is_empty()).then(|| (process, Duration::from_secs_f64(median(used))))
        };
        Self {
            store,
            case,
            requests_per_s: median(samples.iter().map(|it| it.measured.throughput()).collect()),
            ratio: f64::NAN,
            p50: times(&|sample| sample.measured.quantile(0.5)),
            p99: times(&|sample| sample.measured.quantile(0.99)),
            state_calls: median(samples.iter().map(|it| it.calls_per_request()).collect()),
            cpu: PROCESSES.into_iter().filter_map(cpu_of).collect(),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let store = match self.store {
            StoreKind::Sqlite => "SQLite",
            StoreKind::Redis => "Redis",
        };
        let case = match self.case {
            Case::Bare => "bare Envoy",
            Case::First => "first",
            Case::Replay => "replayed",
        };
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(
            formatter,
            "| {store} | {case} | {:.0} | {:.2} | {:.1} | {:.1} | {:.2} |",
            self.requests_per_s,
            self.ratio,
            ms(self.p50),
            ms(self.p99),
            self.state_calls
        )?;
        for process in PROCESSES {
            match self.cpu.iter().find(|(name, _)| *name == process) {
                Some((_, used)) => write!(formatter, " {:.0} |", used.as_secs_f64() * 1e6)?,
                None => write!(formatter, " |")?,
            }
        }
        writeln!(formatter)
    }
}

/// The one in the middle; of an even number the mean of the two there, and NaN of none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), 3.0);
        assert!(median(Vec::new()).is_nan());
    }
}
