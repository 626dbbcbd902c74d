//! Which failed executions get a dossier, and what it says. A kill during a stop gets one too, though `crash_reason.rs` does not
//! count it.

use std::time::Duration;

use super::lifecycle::Timer;
use super::reasons::{Kill, StopReason};
use super::timers::{self, Countdown};
use super::{Action, Actions, State};
use crate::config::spec::Limit;
use crate::messages::crashes::Failure;
use crate::messages::job::Phase;
use crate::messages::process::{ExitStatus, Pid, ProcessEnded, Unstarted};
use crate::messages::signal::Signal;

impl State {
    /// Has a failure noted, before the job goes on.
    pub(super) fn note_failure(
        &self,
        ended: &ProcessEnded,
        success: bool,
        lasted: Duration,
        list: &mut Actions,
    ) {
        if success || ended.unstarted == Some(Unstarted::Cancelled) || self.ended_as_asked(ended) {
            return;
        }
        let (signal, core_dumped) = match ended.status {
            ExitStatus::Signal { signal, core_dumped } => (Some(signal), core_dumped),
            ExitStatus::Code(_) => (None, false),
        };
        list.push(Action::NoteFailure(Failure {
            pid: ended.pid.filter(|_| ended.unstarted.is_none()).map(Pid::number),
            status: ended.status.shell_code(),
            signal,
            core_dumped,
            killed_by: self.killed_by(ended),
            reason: self.last_exit.as_ref().map_or_else(String::new, |(_, reason)| reason.clone()),
            lasted,
        }));
    }

    /// Whether it was told to stop and did, in whatever way. What had to be killed for that has failed.
    fn ended_as_asked(&self, ended: &ProcessEnded) -> bool {
        let phase = self.life.phase;
        let is_asked = phase.is_stopping() && !self.stop_reason.is_some_and(StopReason::is_ill_health);
        let was_asked_to_stop = matches!(phase, Phase::Terminating | Phase::Ending);
        let is_violent = ended.for_memory
            || matches!(ended.status, ExitStatus::Signal { core_dumped: true, .. })
            || ended.status.tells_of_sigkill();
        is_asked && was_asked_to_stop && !is_violent
    }

    /// The sender of the signal that ended the process. waitid(2) tells only the signal; if we did not send it, somebody
    /// else did.
    fn killed_by(&self, ended: &ProcessEnded) -> Option<String> {
        let phase = self.life.phase;
        if ended.for_memory {
            return Some("the kernel, for lack of memory".to_owned());
        }
        if ended.unstarted.is_some() {
            return None;
        }
        let stop = self.stop_reason.filter(|_| phase.is_stopping()).map(StopReason::text);
        let over =
            if self.kill == Some(Kill::NotReady) { "it was not ready in time" } else { "its time was over" };
        let asked = if phase == Phase::TimedOut { Some(over) } else { stop };
        let ours = |rule: &str| format!("containerpilot: {rule}");
        let ExitStatus::Signal { signal, .. } = ended.status else { return asked.map(ours) };
        let rule = if self.kill == Some(Kill::Watchdog) && matches!(signal, Signal::ABRT | Signal::KILL) {
            Some("its watchdog heard nothing")
        } else if signal == Signal::KILL && self.kill.is_some() {
            asked.or(Some(over))
        } else if self.signalled == Some(signal) {
            Some("the signal was asked for by hand")
        } else {
            asked.filter(|_| signal == self.spec.stop.signal)
        };
        let elsewhere = || format!("not containerpilot; the kernel does not tell a parent who sent {signal}");
        Some(rule.map_or_else(elsewhere, ours))
    }

    /// The consequence of a failure for the job, and whether it is final.
    pub fn decision(&self) -> (String, bool) {
        let stop = || self.stop_reason.map_or("it will not run again", StopReason::text);
        match self.life.phase {
            Phase::Running => (format!("restarted{}", self.count()), true),
            Phase::Delayed => {
                let delay = match &self.timer {
                    Some(Countdown { timer: Timer::Delay(_), limit, .. }) => {
                        format!(" in {}", timers::text(*limit))
                    }
                    Some(_) | None => String::new(),
                };
                (format!("restarts{delay}{}", self.count()), true)
            }
            Phase::Queued => (format!("restarts when its group lets it{}", self.count()), true),
            Phase::Waiting => ("waits until it is to run again".to_owned(), true),
            Phase::TimedOut | Phase::Sweeping => {
                ("the rest of its processes is being ended".to_owned(), false)
            }
            Phase::Holding
            | Phase::Deregistering
            | Phase::Draining
            | Phase::Terminating
            | Phase::Killing
            | Phase::Ending => (format!("stops: {}", stop()), false),
            Phase::Halted => ("stays stopped: it was stopped by hand".to_owned(), true),
            Phase::Complete if self.stop_reason.is_some() => (format!("is over: {}", stop()), true),
            Phase::Complete => (format!("is not restarted{}", self.exhausted()), true),
        }
    }

    /// Which restart this is, where restarts are counted since the last trigger.
    fn count(&self) -> String {
        match (self.life.restarts, self.spec.restarts) {
            (0, _) => String::new(),
            (restarts, Limit::Finite(limit)) => format!(" (restart {restarts} of {limit})"),
            (restarts, Limit::Unlimited) => format!(" (restart {restarts})"),
        }
    }

    fn exhausted(&self) -> String {
        match self.spec.restarts {
            Limit::Finite(0) => ": `restarts` is \"never\"".to_owned(),
            Limit::Finite(limit) if self.life.restarts >= limit => {
                format!(": its {limit} restarts are used up")
            }
            Limit::Finite(_) | Limit::Unlimited => ": its `restarts` exclude this end".to_owned(),
        }
    }
}
