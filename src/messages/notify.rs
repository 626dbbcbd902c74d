//! What a process tells about itself by systemd's notify protocol.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::process::Pid;

/// One message of a process to its supervisor, as far as a job acts on it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Notification {
    /// `READY=1`: it can be used, or has reloaded.
    pub ready: bool,
    /// `RELOADING=1`: it reloads its configuration.
    pub reloading: bool,
    /// `STOPPING=1`: it is about to end.
    pub stopping: bool,
    /// `STATUS=`: what it does, for people; printable and short.
    pub status: Option<String>,
    /// `ERRNO=`: why it fails, in words.
    pub error: Option<String>,
    /// `MAINPID=`: which of its processes is the main one.
    pub main_process: Option<Pid>,
    /// `WATCHDOG=`.
    pub watchdog: Option<WatchdogSign>,
    /// `WATCHDOG_USEC=`: the longest silence from now on; zero ends the watch.
    pub watchdog_period: Option<Duration>,
    /// `EXTEND_TIMEOUT_USEC=`: it needs this much time from now on.
    pub extension: Option<Duration>,
}

/// What a process tells its watchdog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatchdogSign {
    /// It is alive.
    Alive,
    /// It has found an error of its own, and is to be treated as silent.
    Trigger,
}

impl Notification {
    /// Whether it says that the process is alive, and nothing else.
    pub fn is_mere_sign_of_life(&self) -> bool {
        *self == Self { watchdog: Some(WatchdogSign::Alive), ..Self::default() }
    }
}
