//! One child process, with its log.

use std::fs::{File, OpenOptions};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::Watchdog;

/// How much of a log a failure shows.
const LOG_BYTES_SHOWN: usize = 4 * 1024;

/// How often the end of a process is looked for.
const LOOK: Duration = Duration::from_millis(10);

/// A child process, killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    watchdog: Watchdog,
    over: bool,
}

// === impl Process ===

impl Process {
    /// Starts `command` with its output going to `NAME.log` in `folder`, after what earlier
    /// processes of that name wrote there.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        name: &str,
        command: &mut Command,
        folder: &Path,
        watchdog: &Watchdog,
    ) -> anyhow::Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let file = append(&log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name} ({:?})", command.get_program()))?;
        let process =
            Self { name: name.to_owned(), child, log, watchdog: watchdog.clone(), over: false };
        watchdog.started(process.child.id())?;
        Ok(process)
    }

    /// What its log is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it as `kill -9` does, and waits until it is gone.
    pub fn kill(&mut self) {
        // It may have ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.end();
    }

    /// Asks it to end and waits for that.
    ///
    /// # Errors
    /// When it has not ended within `deadline`.
    pub fn terminate(&mut self, deadline: Duration) -> anyhow::Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.end();
                return Ok(status);
            }
            if started.elapsed() > deadline {
                bail!("{} has not ended {deadline:?} after it was asked to", self.name);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it has ended.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), signal)
            .with_context(|| format!("{} has ended", self.name))
    }

    /// Fails when the process has ended, with the end of its log.
    ///
    /// # Errors
    /// Just then.
    pub fn check_alive(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} has ended ({status}):\n{}", self.name, self.log_end()),
        }
    }

    /// The end of its log.
    #[must_use]
    pub fn log_end(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let start = log.len().saturating_sub(LOG_BYTES_SHOWN);
        String::from_utf8_lossy(&log[start..]).into_owned()
    }

    fn end(&mut self) {
        if !self.over {
            self.over = true;
            self.watchdog.ended(self.child.id());
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.over {
            self.kill();
        }
    }
}

fn append(log: &Path) -> anyhow::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("cannot write {}", log.display()))
}
