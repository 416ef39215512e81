//! The last to leave: ends what its program left behind.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;

/// Keeps a list of what there is to end, and acts on it when its input closes. In sh, since a
/// program of our own would have to be found, and this one is everywhere. Killed processes are
/// other programs' children, so it looks until they are gone and only then removes the folder,
/// which they might still write to.
const SCRIPT: &str = r#"
trap '' INT TERM HUP
left=' '
while read -r event pid; do
  case $event in
    started) left="$left$pid " ;;
    ended) left="${left%% $pid *} ${left#* $pid }" ;;
  esac
done
for pid in $left; do kill -KILL "$pid" 2>/dev/null; done
for pid in $left; do
  turns=0
  while kill -0 "$pid" 2>/dev/null && [ $turns -lt 50 ]; do sleep 0.1; turns=$((turns + 1)); done
done
[ "$2" = keep ] || rm -rf "$1"
"#;

/// A watchdog over one folder and the processes that work in it.
#[derive(Clone, Debug)]
pub struct Watchdog {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    script: Child,
    input: Option<ChildStdin>,
}

// === impl Watchdog ===

impl Watchdog {
    /// Starts to watch `folder`, which it removes at the end unless it is to `keep` it.
    ///
    /// # Errors
    /// When there is no `sh`.
    pub fn start(folder: &Path, keep: bool) -> anyhow::Result<Self> {
        let mut script = Command::new("sh")
            .args(["-c", SCRIPT, "latchkey-watchdog"])
            .arg(folder)
            .arg(if keep { "keep" } else { "remove" })
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start sh for the watchdog")?;
        let input = script.stdin.take();
        Ok(Self { shared: Arc::new(Mutex::new(Shared { script, input })) })
    }

    pub(super) fn started(&self, pid: u32) -> anyhow::Result<()> {
        self.tell("started", pid)
    }

    pub(super) fn ended(&self, pid: u32) {
        // A watchdog that is gone cannot kill the wrong process either.
        let _ = self.tell("ended", pid);
    }

    fn tell(&self, event: &str, pid: u32) -> anyhow::Result<()> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let input = shared.input.as_mut().context("the watchdog has ended")?;
        writeln!(input, "{event} {pid}").context("the watchdog has ended")
    }
}

// === impl Shared ===

impl Drop for Shared {
    fn drop(&mut self) {
        drop(self.input.take());
        // It ends at once when nothing is left, and its end is what removes the folder.
        let _ = self.script.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::Watchdog;

    fn sleeper() -> std::process::Child {
        Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap()
    }

    #[test]
    fn what_was_not_ended_is_killed_and_the_folder_removed() {
        let folder = tempfile::tempdir().unwrap().keep();
        std::fs::write(folder.join("file"), "left behind").unwrap();
        let (mut left, mut kept, mut also_left) = (sleeper(), sleeper(), sleeper());
        let watchdog = Watchdog::start(&folder, false).unwrap();
        for child in [&left, &kept, &also_left] {
            watchdog.started(child.id()).unwrap();
        }
        watchdog.ended(kept.id());
        // A child that is not waited for stays as a zombie, which still answers to its pid.
        let waiting = std::thread::spawn(move || (left.wait().unwrap(), also_left.wait().unwrap()));
        drop(watchdog);
        let (left, also_left) = waiting.join().unwrap();
        assert!(!left.success() && !also_left.success());
        assert!(!folder.exists());
        assert!(kept.try_wait().unwrap().is_none(), "it had ended, and its pid may be another's");
        kept.kill().unwrap();
        kept.wait().unwrap();
    }
}
