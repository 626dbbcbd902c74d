//! The restart rules of a job: which ends are a success, after which ends it may run again, and how many restarts count
//! at a moment.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::lifecycle::{self, Policy};
use super::reasons::{Kill, StopReason};
use super::{Actions, State};
use crate::actors::machine::Severity;
use crate::config::duration::GoDuration;
use crate::config::spec::{JobSpec, Limit, OnUnhealthy};
use crate::messages::job::Phase;
use crate::messages::moment::Moment;
use crate::messages::process::{ExitStatus, ProcessEnded};

/// The restarts within the last `restarts.per`, oldest first; at most as many as its limit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Window(VecDeque<Moment>);

impl Window {
    /// Forgets what is older than `per`; the number of the others.
    fn forget(&mut self, now: Moment, per: Duration) -> u32 {
        while self.0.front().is_some_and(|first| now.since(*first) >= per) {
            self.0.pop_front();
        }
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// Notes that so many restarts count now.
    fn note(&mut self, now: Moment, number: u32) {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        // Fewer than before: the job was started by hand, and begins anew.
        self.0.drain(..self.0.len().saturating_sub(number));
        while self.0.len() < number {
            self.0.push_back(now);
        }
    }
}

/// How a run ended, by the job's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Judgement {
    /// It counts as a success.
    pub success: bool,
    /// It may be followed by a restart.
    pub may_restart: bool,
    /// The status that the rest of the program sees: 0 if and only if it was a success.
    pub status: u8,
}

/// Judges the end of a run. One that we ended because it took too long or was unhealthy has failed, whatever it returned.
pub(super) fn judge(spec: &JobSpec, status: ExitStatus, has_failed: bool) -> Judgement {
    let success = !has_failed && spec.success.iter().any(|end| end.is(status));
    let may_restart = spec.restart_rule.allows(status, success);
    Judgement { success, may_restart, status: if success { 0 } else { status.shell_code().max(1) } }
}

impl State {
    /// The settings that decide what follows the end of a process.
    pub(super) fn policy(&self) -> Policy {
        let mut policy = Policy::from(&*self.spec);
        if self.is_last_run {
            policy.restarts = Limit::Finite(0);
        }
        policy
    }

    /// Before an input: restarts that are older than `restarts.per` no longer count.
    pub(super) fn forget_restarts(&mut self) {
        if let Some(per) = self.spec.restart_rule.per {
            self.life.restarts = self.restarted.forget(self.now, per);
        }
    }

    /// After an input: notes the restart that it led to.
    pub(super) fn note_restarts(&mut self) {
        if self.spec.restart_rule.per.is_some() {
            self.restarted.note(self.now, self.life.restarts);
        }
    }

    /// Takes note of the end of a run.
    pub(super) fn judge(&mut self, ended: &ProcessEnded) -> Judgement {
        let is_stopped_for_health = self.stop_reason.is_some_and(StopReason::is_ill_health);
        let has_failed = is_stopped_for_health || self.was_ended_for_time() || ended.unstarted.is_some();
        let judgement = judge(&self.spec, ended.status, has_failed);
        self.last_outcome = Some(judgement.status);
        self.is_last_run = !judgement.may_restart;
        judgement
    }

    /// Whether we ended the run because it took too long, or was silent for too long.
    pub(super) fn was_ended_for_time(&self) -> bool {
        self.life.phase == Phase::TimedOut || self.kill == Some(Kill::Watchdog)
    }

    /// Says why a run is the last one, if the rules decide that.
    pub(super) fn log_last_run(&mut self, status: ExitStatus, judgement: Judgement, list: &mut Actions) {
        self.no_restart = self.why_no_restart(status, judgement);
        if let Some(reason) = self.no_restart.clone() {
            // The success of a job that is to run until it succeeds is nothing to tell.
            let severity = if judgement.success { Severity::Debug } else { Severity::Info };
            self.log(severity, format!("is not restarted: {reason}"), list);
        }
    }

    /// Why a job that could be restarted is not, where its settings alone do not tell.
    fn why_no_restart(&self, status: ExitStatus, judgement: Judgement) -> Option<String> {
        let rule = &self.spec.restart_rule;
        if self.life.phase.is_stopping() || self.life.pending || self.spec.restarts == Limit::Finite(0) {
            return None;
        }
        if rule.excludes(status) {
            return Some("`restarts.except` has this end".to_owned());
        }
        if !judgement.may_restart {
            return Some(format!(
                "`restarts.on` is for {} only",
                if judgement.success { "failures" } else { "successes" }
            ));
        }
        match (self.spec.restarts, rule.per) {
            (Limit::Finite(limit), Some(per)) if self.life.restarts >= limit => {
                Some(format!("it was restarted {limit} times within {}", GoDuration::from(per)))
            }
            (Limit::Finite(_) | Limit::Unlimited, _) => None,
        }
    }

    /// Stops a job that has become unhealthy, if it is to be restarted then.
    pub(super) fn restart_for_health(&mut self, list: &mut Actions) {
        if self.spec.on_unhealthy != OnUnhealthy::Restart || self.life.phase != Phase::Running {
            return;
        }
        self.stop_reason = Some(StopReason::Unhealthy);
        self.advance(lifecycle::Input::IllHealth, list);
        if self.life.afterwards != lifecycle::Afterwards::Restart {
            self.stop_reason = Some(StopReason::UnhealthyForGood);
            self.log(Severity::Warning, "is stopped because it is unhealthy, and has no restart left", list);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> Moment {
        Moment::after(SECOND * u32::try_from(seconds).unwrap())
    }

    #[test]
    fn a_restart_counts_for_as_long_as_the_window_is() {
        let mut window = Window::default();
        window.note(at(1), 1);
        window.note(at(4), 2);
        assert_eq!(window.forget(at(10), SECOND * 10), 2);
        assert_eq!(window.forget(at(11), SECOND * 10), 1);
        assert_eq!(window.forget(at(14), SECOND * 10), 0);
    }

    #[test]
    fn a_start_by_hand_empties_the_window() {
        let mut window = Window::default();
        window.note(at(1), 3);
        window.note(at(2), 0);
        assert_eq!(window, Window::default());
    }
}
