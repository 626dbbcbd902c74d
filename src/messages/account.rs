//! Why a job is in its present phase: for `status`, `why` and `graph`. No decision depends on it.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::event::EventKey;
use super::job::Missing;

/// Why a job is where it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Account {
    /// The events that it waits for, or waited for when it gave up before its first run.
    pub missing: Missing,
    /// When the timer of its phase elapses.
    pub until: Option<SystemTime>,
    /// When it gives up waiting for its events.
    pub gives_up: Option<SystemTime>,
    /// Its process is to start as soon as the log has room for its output.
    pub awaits_log: bool,
    /// The limit that its process has exceeded, for which it is being ended.
    pub exceeded: Option<Exceeded>,
    /// Why it stops or was stopped, in words.
    pub stop_reason: Option<String>,
    /// Why it is not restarted, where its settings alone do not tell.
    pub no_restart: Option<String>,
    /// Whether its last execution failed by its own rules.
    pub failed: bool,
    /// Executions since it was configured.
    pub runs: u64,
    /// The event that started its last execution; `None` if a user did, or before the first.
    pub occasion: Option<EventKey>,
    /// The number of the last event in the chain that led here.
    pub cause: Option<u64>,
    /// Its first execution.
    pub first_run: FirstRun,
}

impl Account {
    /// Whether it waits for the event that started its last execution to come again, as with `each`.
    pub fn has_had_event(&self) -> bool {
        let keys = match &self.missing {
            Missing::Nothing => return false,
            Missing::AnyOf(keys) | Missing::AllOf(keys) => keys,
        };
        self.occasion.as_ref().is_some_and(|occasion| keys.contains(occasion))
    }
}

/// A limit of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exceeded {
    /// Its `timeout`.
    Timeout,
    /// Its `ready.timeout`.
    ReadyTimeout,
    /// Its `watchdog`, or it has triggered that itself.
    Watchdog,
}

impl Exceeded {
    /// What the process did, in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Timeout => "ran longer than its timeout",
            Self::ReadyTimeout => "was not ready within its ready.timeout",
            Self::Watchdog => "is being ended by its watchdog",
        }
    }
}

/// The first execution of a job; times are since the program began.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FirstRun {
    /// The event that led to it.
    pub occasion: Option<EventKey>,
    /// When its program was executed.
    pub started: Option<Duration>,
    /// When it could be used: when it was ready.
    pub up: Option<Duration>,
    /// When it ended.
    pub ended: Option<Duration>,
}

/// The last tries of a check, which all failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailingCheck {
    /// Why the last one did.
    pub reason: String,
    /// The number of failures in a row.
    pub times: u64,
    /// When the first of them was.
    pub since: SystemTime,
    /// When it is tried again.
    pub next: Option<SystemTime>,
}

/// An event that a job's `when` names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Awaited {
    /// The event.
    pub key: EventKey,
    /// Whether the job has seen it.
    pub happened: bool,
    /// Whether it can still come.
    pub can_still_come: bool,
}
