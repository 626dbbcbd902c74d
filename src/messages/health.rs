//! Messages about health.

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

impl Health {
    /// Its name, as status and metrics show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Healthy => "healthy",
            Self::Unhealthy => "unhealthy",
            Self::Maintenance => "maintenance",
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The state of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Verdict {
    /// Not known yet.
    #[default]
    Unknown,
    /// The last try passed.
    Passing,
    /// `failures` tries in a row failed.
    Failing,
}

/// The verdict of a check changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub struct CheckChanged {
    /// The index of the check among those of the job.
    pub check: usize,
    /// The round that was given with [`CheckCommand::Begin`].
    pub round: u64,
    /// The new verdict.
    pub verdict: Verdict,
}

/// Command to a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub enum CheckCommand {
    /// The job's process has started: check it. The number of the round comes back with each verdict.
    Begin(u64),
    /// Stop checking until the next round.
    Pause,
    /// Publish the outcome of each try, or do not: whether some job waits for it.
    PublishOutcomes(bool),
    /// The check was removed: end the actor.
    Retire,
}
