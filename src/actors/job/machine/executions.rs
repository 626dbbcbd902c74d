//! The job's process: when it is started, and what its start and its end mean.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::lifecycle::{Ended, Input, Process};
use super::notify::ExecutionFacts;
use super::readiness::Readiness;
use super::reasons::Kill;
use super::{Action, Actions, State, reasons};
use crate::actors::machine::Severity;
use crate::config::spec::Trigger;
use crate::messages::event::EventCode;
use crate::messages::job::Phase;
use crate::messages::moment::Moment;
use crate::messages::process::{ExecutionId, Pid, ProcessEnded, ProcessStarted, Unstarted};
use crate::messages::signal::Signal;

/// Starts and successes of a job with a shorter interval are logged at DEBUG.
const ROUTINE_INTERVAL: Duration = Duration::from_secs(60);

/// One execution of the job's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Execution {
    pub id: ExecutionId,
    /// Its process and when that became its program; `None` while it is being started.
    pub process: Option<(Pid, Moment)>,
}

impl State {
    /// The execution under way, or the last one.
    pub fn execution(&self) -> Option<ExecutionId> {
        self.execution.map(|execution| execution.id)
    }

    /// The process of that execution.
    pub fn pid(&self) -> Option<i32> {
        let (pid, _) = self.execution?.process?;
        Some(pid.number())
    }

    pub(super) fn is_current(&self, id: ExecutionId) -> bool {
        self.execution() == Some(id)
    }

    /// Starts the process, if the log has room for its output.
    pub(super) fn spawn(&mut self, list: &mut Actions) {
        (self.kill, self.stop_reason, self.execution) = (None, None, None);
        (self.readiness, self.told) = (Readiness::No, ExecutionFacts::default());
        self.signalled = None;
        (self.is_last_run, self.no_restart) = (false, None);
        self.awaits_log = !self.spec.raw_output && !self.follows_an_end();
        list.push(if self.awaits_log { Action::CheckLog } else { self.launch() });
    }

    /// Whether it runs because others stop: they wait for it, and a shutdown does not last for ever.
    fn follows_an_end(&self) -> bool {
        let code = self.occasion.as_ref().map(|key| key.code);
        matches!(code, Some(EventCode::Stopping | EventCode::Stopped | EventCode::Shutdown))
    }

    pub(super) fn log_checked(&mut self, is_flooded: bool, list: &mut Actions) {
        if !self.awaits_log {
            return;
        }
        if is_flooded {
            self.log(Severity::Debug, "waits for the log, which is not read fast enough", list);
            list.push(Action::AwaitLog);
        } else {
            self.awaits_log = false;
            list.extend([self.launch(), Action::Show]);
        }
    }

    fn launch(&mut self) -> Action {
        self.runs = self.runs.saturating_add(1);
        Action::Launch(self.occasion.clone())
    }

    /// The process was requested.
    pub(super) fn launched(&mut self, id: ExecutionId, list: &mut Actions) {
        self.execution = Some(Execution { id, process: None });
        self.await_ready(list);
    }

    pub(super) fn started(&mut self, started: ProcessStarted, list: &mut Actions) {
        let Some(execution) = self.execution.as_mut().filter(|execution| execution.id == started.execution)
        else {
            return;
        };
        execution.process = Some((started.pid, self.now));
        self.log(if self.is_routine() { Severity::Debug } else { Severity::Info }, "started", list);
        if self.life.phase == Phase::Running {
            self.begin_service(list);
            self.settle(list);
        } else {
            list.push(Action::Show);
        }
    }

    pub(super) fn process_ended(&mut self, ended: &ProcessEnded, list: &mut Actions) {
        let Some(execution) = self.execution.filter(|execution| execution.id == ended.execution) else {
            return;
        };
        self.serve_no_more(list);
        if !self.life.pending {
            self.release_hold(list);
        }
        // Nor is there time left for what it leaves behind.
        if ended.leftover && self.kill == Some(Kill::NoTimeLeft) {
            list.push(Action::End(execution.id, Signal::KILL));
        }
        let reason = self.with_error(reasons::end(ended, self.kill));
        self.ended = Some(reasons::of_end(ended, &reason));
        match &ended.unstarted {
            Some(Unstarted::Failed(reason)) => {
                self.log(Severity::Error, reason.as_str(), list);
                self.last_exit = Some((ended.status.shell_code(), reason.clone()));
                let judgement = self.judge(ended);
                self.log_last_run(ended.status, judgement, list);
                self.note_failure(ended, judgement.success, Duration::ZERO, list);
                // A process that was killed right at its start may have left others: they are ended before the next run.
                let failed = Input::Exited(Ended { success: false, lasted: Duration::ZERO });
                return self.advance(if ended.leftover { failed } else { Input::SpawnFailed }, list);
            }
            Some(Unstarted::Cancelled) => {
                self.runs = self.runs.saturating_sub(1);
                return self.advance(Input::SpawnFailed, list);
            }
            None => {}
        }
        let judgement = self.judge(ended);
        self.log_end(ended, judgement.success, list);
        self.log_last_run(ended.status, judgement, list);
        self.last_exit = Some((ended.status.shell_code(), reason));
        let lasted = execution.process.map_or(Duration::ZERO, |(_, started)| self.now.since(started));
        self.note_failure(ended, judgement.success, lasted, list);
        self.advance(Input::Exited(Ended { success: judgement.success, lasted }), list);
        if !ended.leftover {
            self.advance(Input::GroupGone, list);
        }
    }

    fn log_end(&self, ended: &ProcessEnded, success: bool, list: &mut Actions) {
        let pid = ended.pid.map(Pid::number);
        let asked = self.life.phase.is_stopping() || self.life.phase == Phase::TimedOut;
        let severity = if ended.for_memory || !ended.daemons.is_empty() || !(success || asked) {
            Severity::Warning
        } else if asked || self.is_routine() {
            Severity::Debug
        } else {
            Severity::Info
        };
        list.push(Action::Log(severity, ended.to_string(), pid));
        if !ended.daemons.is_empty() {
            let text = "must stay in the foreground: what it put into the background ends with it";
            list.push(Action::Log(Severity::Warning, text.to_owned(), pid));
        }
    }

    /// Whether it runs so often that a line for each start and success would drown all others.
    fn is_routine(&self) -> bool {
        match &self.spec.when.trigger {
            Trigger::Interval(interval) => *interval < ROUTINE_INTERVAL,
            Trigger::Cron(cron) => cron.pattern.is_several_times_a_minute(),
            Trigger::Once(_) | Trigger::Each(_) | Trigger::All(_) | Trigger::Any(_) => false,
        }
    }

    /// Asks the process to end. It is not checked any more: that it does not answer is no news.
    pub(super) fn end(&mut self, signal: Signal, list: &mut Actions) {
        self.serve_no_more(list);
        if let Some(execution) = self.execution() {
            self.log(Severity::Debug, format!("sends {signal}"), list);
            list.push(Action::End(execution, signal));
        }
    }

    /// Passes on a signal that we got.
    pub(super) fn forward(&self, signal: Signal, list: &mut Actions) {
        match self.execution().filter(|_| self.life.process == Process::Live) {
            Some(execution) => {
                self.log(Severity::Debug, format!("forwards {signal}"), list);
                list.push(Action::Forward(execution, self.told.main_process, signal));
            }
            None => self.log(Severity::Debug, format!("has no process to forward {signal} to"), list),
        }
    }

    pub(super) fn signal(&self, signal: Signal, list: &mut Actions) {
        if let Some(execution) = self.execution() {
            self.log(Severity::Debug, format!("sends {signal}"), list);
            list.push(Action::Signal(execution, signal));
        }
    }
}
