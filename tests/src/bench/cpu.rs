//! CPU time of processes, as Linux tells it.

use std::time::Duration;

use rustix::param::clock_ticks_per_second;

/// What each process has used so far; nothing on systems that do not tell.
pub(super) struct CpuTime(Vec<(&'static str, Duration)>);

// === impl CpuTime ===

impl CpuTime {
    pub(super) fn of(processes: &[(&'static str, u32)]) -> Self {
        Self(processes.iter().filter_map(|(name, pid)| Some((*name, used(*pid)?))).collect())
    }

    /// What was used since then.
    pub(super) fn since(&self, before: &Self) -> Vec<(&'static str, Duration)> {
        let pairs = self.0.iter().zip(&before.0);
        pairs.map(|((name, now), (_, before))| (*name, now.saturating_sub(*before))).collect()
    }
}

/// User and system time of a process and all its threads.
fn used(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name may hold anything, even `) `. Fields 14 and 15, of which two are cut
    // off with it.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let ticks: u64 = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
    Some(Duration::from_secs(ticks) / u32::try_from(clock_ticks_per_second()).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn work_uses_time() {
        let before = used(std::process::id()).unwrap();
        let started = std::time::Instant::now();
        while used(std::process::id()).unwrap() <= before {
            assert!(started.elapsed() < crate::wait::DEADLINE, "busy, and no time was used");
        }
    }
}
