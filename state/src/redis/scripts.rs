//! The scripts, as they are loaded.

use latchkey_core::record::HISTORY_MAX;
use redis::Cmd;

use crate::outage::STAMP_GAP_US;

/// A script; each is described in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Script {
    Claim,
    Renew,
    Complete,
    Fail,
    Release,
    Resolve,
    Forget,
    Get,
    Stamp,
    Expired,
    Sweep,
}

/// All scripts, and the names that Redis knows them by.
#[derive(Debug)]
pub(super) struct Scripts(Vec<(Script, redis::Script, String)>);

// === impl Script ===

impl Script {
    const ALL: [Self; 11] = [
        Self::Claim,
        Self::Renew,
        Self::Complete,
        Self::Fail,
        Self::Release,
        Self::Resolve,
        Self::Forget,
        Self::Get,
        Self::Stamp,
        Self::Expired,
        Self::Sweep,
    ];

    const fn parts(self) -> &'static [&'static str] {
        match self {
            Self::Claim => &[include_str!("history.lua"), include_str!("claim.lua")],
            Self::Renew => &[include_str!("settle.lua"), include_str!("renew.lua")],
            Self::Complete => &[
                include_str!("history.lua"),
                include_str!("settle.lua"),
                include_str!("complete.lua"),
            ],
            Self::Fail => &[include_str!("settle.lua"), include_str!("fail.lua")],
            Self::Release => &[include_str!("release.lua")],
            Self::Resolve => &[include_str!("resolve.lua")],
            Self::Forget => &[include_str!("forget.lua")],
            Self::Get => &[include_str!("get.lua")],
            Self::Stamp => &[include_str!("stamp.lua")],
            Self::Expired => &[include_str!("expired.lua")],
            Self::Sweep => &[include_str!("sweep.lua")],
        }
    }

    /// The constants and the prelude, then what is the script's own.
    fn code(self) -> String {
        let constants =
            format!("local STAMP_GAP_US, HISTORY_MAX = {STAMP_GAP_US}, {HISTORY_MAX}\n");
        let mut code = constants + include_str!("prelude.lua");
        for part in self.parts() {
            code.push('\n');
            code.push_str(part);
        }
        code
    }
}

// === impl Scripts ===

impl Scripts {
    pub(super) fn new() -> Self {
        let load = |script: Script| {
            let code = script.code();
            (script, redis::Script::new(&code), code)
        };
        Self(Script::ALL.into_iter().map(load).collect())
    }

    /// The digest that Redis runs `script` by.
    pub(super) fn digest(&self, script: Script) -> &str {
        // The order is that of the enum, whose discriminants count from 0.
        self.0.get(script as usize).map_or("", |(_, loaded, _)| loaded.get_hash())
    }

    /// What loads them all.
    pub(super) fn load(&self) -> impl Iterator<Item = Cmd> {
        self.0.iter().map(|(_, _, code)| {
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(code);
            load
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_is_found_by_its_own_number() {
        for (at, script) in Script::ALL.into_iter().enumerate() {
            assert_eq!(script as usize, at);
        }
        let scripts = Scripts::new();
        let mut digests: Vec<_> = Script::ALL.map(|script| scripts.digest(script)).to_vec();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), Script::ALL.len());
    }
}
