//! After which ends a job is restarted, which ends are a success, and what ill health leads to, in the validated
//! configuration.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::messages::process::ExitStatus;
use crate::messages::signal::Signal;

/// After which ends a job is restarted, and how its restarts are counted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RestartRule {
    /// Whether a success, a failure or both are followed by a restart.
    pub on: RestartOn,
    /// Ends that are not followed by a restart.
    pub except: Vec<EndOfRun>,
    /// Only restarts within this time count; `None`: all since the last trigger.
    pub per: Option<Duration>,
}

impl RestartRule {
    /// Whether a job may be restarted after a run that ended like this.
    pub fn allows(&self, status: ExitStatus, success: bool) -> bool {
        let is_wanted = match self.on {
            RestartOn::Always => true,
            RestartOn::Failure => !success,
            RestartOn::Success => success,
        };
        is_wanted && !self.excludes(status)
    }

    /// Whether `except` has this end.
    pub fn excludes(&self, status: ExitStatus) -> bool {
        self.except.iter().any(|end| end.is(status))
    }
}

/// Which ends are followed by a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum RestartOn {
    /// Every end.
    #[default]
    Always,
    /// Ends that are no success.
    Failure,
    /// Ends that are a success.
    Success,
}

/// One way in which a run can end: a status, or a signal that killed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndOfRun {
    /// The process exited with this status.
    Code(u8),
    /// This signal killed the process.
    Signal(Signal),
}

impl EndOfRun {
    /// Whether a process with that status ended in this way.
    pub fn is(self, status: ExitStatus) -> bool {
        match (self, status) {
            (Self::Code(wanted), ExitStatus::Code(code)) => wanted == code,
            (Self::Signal(wanted), ExitStatus::Signal { signal, .. }) => wanted == signal,
            (Self::Code(_), ExitStatus::Signal { .. }) | (Self::Signal(_), ExitStatus::Code(_)) => false,
        }
    }
}

/// What follows when a job becomes unhealthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum OnUnhealthy {
    /// The event alone.
    #[default]
    Nothing,
    /// The job is stopped and started again.
    Restart,
    /// The program shuts down.
    Shutdown,
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: ExitStatus = ExitStatus::Code(1);
    const KILLED: ExitStatus = ExitStatus::Signal { signal: Signal::TERM, core_dumped: true };

    #[test]
    fn a_rule_allows_the_ends_that_it_is_for() {
        for (on, after_success, after_failure) in [
            (RestartOn::Always, true, true),
            (RestartOn::Failure, false, true),
            (RestartOn::Success, true, false),
        ] {
            let rule = RestartRule { on, ..RestartRule::default() };
            assert_eq!(rule.allows(ExitStatus::Code(0), true), after_success, "{on:?}");
            assert_eq!(rule.allows(FAILED, false), after_failure, "{on:?}");
        }
    }

    #[test]
    fn what_is_excepted_is_not_restarted() {
        let except = vec![EndOfRun::Code(1), EndOfRun::Signal(Signal::TERM)];
        let rule = RestartRule { except, ..RestartRule::default() };
        assert!(!rule.allows(FAILED, false) && !rule.allows(KILLED, false));
        assert!(rule.allows(ExitStatus::Code(143), false), "a status is no signal");
        assert!(rule.allows(ExitStatus::Code(15), false), "nor is the number of one");
    }
}
