//! Requests of the control socket to the Pilot, and the replies.

use std::fmt;

use actix::prelude::Message;
use serde::{Deserialize, Serialize};

use super::signal::Signal;

/// Load the configuration again and restart the jobs that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "Result<ReloadSummary, Refusal>")]
pub struct Reload {
    /// Restart unchanged jobs, too.
    pub restart_all: bool,
    /// Only reply what would be done.
    pub dry_run: bool,
}

/// What a reload did, or would do: names of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReloadSummary {
    /// New, changed, or restarted.
    pub started: Vec<String>,
    /// Removed, changed, or restarted.
    pub stopped: Vec<String>,
    /// Untouched.
    pub kept: Vec<String>,
}

/// An order of the operator to one job.
#[derive(Debug, Clone, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "Result<(), Refusal>")]
pub struct ControlJob {
    /// The name of the job.
    pub name: String,
    /// The order.
    pub order: JobOrder,
}

/// The orders that an operator can give to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobOrder {
    /// Run now.
    Start,
    /// Stop, and stay stopped until started or reloaded.
    Stop,
    /// Stop and run again.
    Restart,
    /// Send a signal to its processes.
    Signal(Signal),
}

impl fmt::Display for JobOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("start"),
            Self::Stop => f.write_str("stop"),
            Self::Restart => f.write_str("restart"),
            Self::Signal(signal) => signal.fmt(f),
        }
    }
}

/// Enter or leave maintenance; replies whether that changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "bool")]
pub struct SetMaintenance(pub bool);

/// Change the environment of processes started from now on: set, or unset where `None`.
#[derive(Debug, Clone, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "Result<(), Refusal>")]
pub struct ChangeEnvironment(pub Vec<(String, Option<String>)>);

/// Why the Pilot refused a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// There is no such job.
    NoSuchJob(String),
    /// It cannot be done now, for this reason.
    NotNow(String),
    /// The new configuration has errors; the whole report.
    BadConfiguration(String),
    /// No process could be started with these variables, for this reason.
    TooLarge(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchJob(name) => write!(f, "there is no job \"{name}\""),
            Self::NotNow(reason) | Self::BadConfiguration(reason) | Self::TooLarge(reason) => {
                f.write_str(reason)
            }
        }
    }
}
