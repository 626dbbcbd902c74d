//! When an execution of a job can be used, in the validated configuration.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::JobSpec;

/// When an execution is ready, and how long that may take.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReadySpec {
    /// How its process tells; `None`: it is ready when first healthy or, without checks, when its program was executed.
    pub by: Option<ReadyBy>,
    /// It is killed if it is not ready in this time.
    pub timeout: Option<Duration>,
}

/// How a process tells that it can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadyBy {
    /// By `READY=1` to the socket of systemd's protocol.
    Notify,
    /// By a newline to this descriptor.
    Descriptor(i32),
    /// By a line of its output that matches this expression.
    Log(String),
}

impl JobSpec {
    /// Whether its process is given a socket for systemd's protocol.
    pub fn has_notify_socket(&self) -> bool {
        self.ready.by == Some(ReadyBy::Notify) || self.watchdog.is_some()
    }
}
