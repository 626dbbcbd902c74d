//! What is said about health.

use std::fmt;

use actix::prelude::Message;
use serde::{Deserialize, Serialize};

/// The health of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Health {
    /// Not known yet, or nothing checks it.
    Unknown,
    /// Every check passes.
    Healthy,
    /// Some check fails.
    Unhealthy,
    /// Not checked while the container is in maintenance.
    Maintenance,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown",
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
            Self::Maintenance => "maintenance",
        })
    }
}

/// The state of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// Not known yet.
    Unknown,
    /// The last try passed.
    Passing,
    /// As many tries in a row failed as it takes.
    Failing,
}

/// A check of a job came to another verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub struct CheckChanged {
    /// Which of the job's checks.
    pub check: usize,
    /// The execution that was checked.
    pub round: u64,
    /// What it says now.
    pub verdict: Verdict,
}

/// Command to a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub enum CheckCommand {
    /// The job's process has started: check it, as that round.
    Begin(u64),
    /// Check nothing until the next round.
    Pause,
    /// It is not needed any more.
    Retire,
}
