//! A Redis on a socket in a directory of its own, which can go away and come back.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::process::{Home, eventually};

pub(crate) struct Redis {
    socket: PathBuf,
    child: Option<Child>,
}

impl Redis {
    /// One that is not there yet.
    pub(crate) fn absent(home: &Home) -> Self {
        Self { socket: home.path("redis.sock"), child: None }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis+unix://{}", self.socket.display())
    }

    pub(crate) fn start(&mut self) {
        let child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(&self.socket)
            .current_dir(self.socket.parent().unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is needed for this test");
        self.child = Some(child);
        let listens = || std::os::unix::net::UnixStream::connect(&self.socket).ok();
        eventually("Redis listens", listens);
    }

    pub(crate) fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.stop();
    }
}
