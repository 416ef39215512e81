//! Running other programs, and ending them when we are ended.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::{Outcome, fail};

/// The workspace's folder.
pub(crate) fn workspace() -> Outcome<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_path_buf)
        .ok_or_else(|| fail!("the workspace's folder is missing"))
}

/// The target folder, which is where this very program was built.
pub(crate) fn target() -> Outcome<PathBuf> {
    let here = std::env::current_exe().map_err(|error| fail!("cannot find myself: {error}"))?;
    here.ancestors()
        .nth(2)
        .map(Path::to_path_buf)
        .ok_or_else(|| fail!("{} is not in a target folder", here.display()))
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Outcome<Command> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace()?);
    Ok(command)
}

/// Runs `command` to its end, its output being ours; a failure names `what`.
pub(crate) fn run(command: &mut Command, what: &str) -> Outcome<()> {
    let status = Led::start(command)?.wait()?;
    if status.success() { Ok(()) } else { Err(fail!("could not {what}: {status}")) }
}

/// What `command` prints, or nothing when it cannot be run or fails.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A child that leads a process group of its own, to which our signals are passed on: whoever
/// ends us ends all that we started, whether at the terminal or with `kill`.
pub(crate) struct Led {
    child: Child,
    signals: signal_hook::iterator::Handle,
    passing_on: JoinHandle<bool>,
}

// === impl Led ===

impl Led {
    /// Starts `command`.
    pub(crate) fn start(command: &mut Command) -> Outcome<Self> {
        use std::os::unix::process::CommandExt as _;
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
            .map_err(|error| fail!("cannot listen for signals: {error}"))?;
        let child = command
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| fail!("cannot start {:?}: {error}", command.get_program()))?;
        let handle = signals.handle();
        let group = Pid::from_child(&child);
        let passing_on = thread::spawn(move || {
            let mut interrupted = false;
            for _ in &mut signals {
                interrupted = true;
                // An error means that the group is gone already, which is what is wanted.
                let _ = kill_process_group(group, Signal::TERM);
            }
            interrupted
        });
        Ok(Self { child, signals: handle, passing_on })
    }

    /// The child, to read from.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits for its end; a signal of ours that ended it is a failure of its own.
    pub(crate) fn wait(mut self) -> Outcome<ExitStatus> {
        let status = self.child.wait().map_err(|error| fail!("lost a child: {error}"));
        self.signals.close();
        match self.passing_on.join() {
            Ok(false) => status,
            Ok(true) | Err(_) => Err(fail!("interrupted")),
        }
    }
}
