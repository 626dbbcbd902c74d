//! Tells others of a job: events, reports to the Pilot, the status that users see, lines in the log.

use super::lifecycle::{Afterwards, Process};
use super::{Action, Actions, State};
use crate::actors::machine::Severity;
use crate::messages::event::{Detail, EventCode};
use crate::messages::job::{JobChanged, Phase};
use crate::messages::process::Pid;
use crate::messages::status::JobStatus;

impl State {
    /// Publishes an event, with the hold of that number for those who act on it.
    pub(super) fn publish(&mut self, code: EventCode, hold: Option<u64>, list: &mut Actions) {
        let detail = self.detail(code);
        list.push(Action::Publish { code, detail, hold });
    }

    /// The details that an event of this job carries.
    fn detail(&mut self, code: EventCode) -> Detail {
        match code {
            EventCode::ExitSuccess | EventCode::ExitFailed => self.ended.take().unwrap_or_default(),
            EventCode::Stopping => Detail { pid: self.live_pid(), ..Detail::reason(self.why_it_stops()) },
            EventCode::Ready | EventCode::Healthy | EventCode::Unhealthy => {
                Detail { pid: self.live_pid(), ..Detail::default() }
            }
            EventCode::Startup
            | EventCode::Shutdown
            | EventCode::Changed
            | EventCode::Stopped
            | EventCode::EnterMaintenance
            | EventCode::ExitMaintenance
            | EventCode::Signal => Detail::default(),
        }
    }

    fn why_it_stops(&self) -> String {
        if let Some(reason) = self.stop_reason {
            return reason.text().to_owned();
        }
        match (&self.never_ran, &self.last_exit) {
            (Some(reason), _) if !self.has_run() => format!("will not run: {reason}"),
            (_, Some((_, exit))) => format!("will not run again: {exit}"),
            (_, None) => "will not run again".to_owned(),
        }
    }

    /// Tells the Pilot where the job is, if it is somewhere else than it was told last.
    pub(super) fn report(&mut self, list: &mut Actions) {
        let seen = (self.life.phase, self.returns(), self.checks.health(), self.is_ready());
        if self.reported.replace(seen) != Some(seen) {
            list.push(Action::Report(self.changed(None)));
        }
    }

    /// Whether it stops, but not for good.
    fn returns(&self) -> bool {
        self.life.phase.is_stopping() && self.life.afterwards != Afterwards::Complete
    }

    /// Where the job is, as the Pilot is told; the number is that of the question that it answers.
    pub fn changed(&self, answers: Option<u64>) -> JobChanged {
        JobChanged {
            name: self.spec.name.clone(),
            generation: self.generation,
            phase: self.life.phase,
            returns: self.returns(),
            health: self.checks.health(),
            ready: self.is_ready(),
            missing: self.listener.missing(),
            last_status: self.last_outcome,
            answers,
            is_restart: self.life.is_restart,
            group_order: self.group_order,
            cause: self.cause,
        }
    }

    /// The job as users see it, but for the time at which its phase began.
    pub fn status(&self) -> JobStatus {
        let names = self.spec.health.iter().map(|check| check.name.clone());
        let is_running = self.life.phase == Phase::Running;
        JobStatus {
            health: self.checks.health(),
            checks: names.zip(self.checks.verdicts()).collect(),
            pid: self
                .told
                .main_process
                .filter(|_| self.life.process == Process::Live)
                .map(Pid::number)
                .or(self.live_pid()),
            starting: is_running && self.is_starting(),
            ready: self.is_ready(),
            tells_ready: self.spec.ready.by.is_some(),
            status_text: self
                .told
                .status
                .as_deref()
                .filter(|_| self.life.process == Process::Live)
                .map(str::to_owned),
            ready_after: self.ready_after,
            // A process can also ask for a watchdog, or trigger it.
            watchdog_kills: (self.spec.watchdog.is_some() || self.watchdog_kills > 0)
                .then_some(self.watchdog_kills),
            restarts: self.runs.saturating_sub(1),
            last_exit: self.last_exit.clone(),
            succeeded: self.last_outcome == Some(0),
            advertised: self.spec.advertise.as_ref().map(|spec| (spec.address.to_string(), spec.port)),
            group: self.spec.group.as_ref().map(|place| place.group.clone()),
            essential: self.spec.essential,
            required: self.spec.required,
            has_run: self.has_run(),
            never_ran: self.never_ran.clone().filter(|_| !self.has_run()),
            missed_runs: self.spec.when.trigger.is_periodic().then_some(self.missed_runs),
            early_ends: self.life.early_ends,
            settles_after: self.spec.backoff.reset_after,
            account: self.account(),
            ..JobStatus::new(self.life.phase)
        }
    }

    /// A job that something else executes runs as soon as it need not wait.
    pub(super) fn has_run(&self) -> bool {
        self.runs > 0 || self.spec.exec.is_none() && self.life.phase != Phase::Waiting
    }

    /// The process that runs now.
    fn live_pid(&self) -> Option<i32> {
        self.pid().filter(|_| self.life.process == Process::Live)
    }

    pub(super) fn log(&self, severity: Severity, text: impl Into<String>, list: &mut Actions) {
        list.push(Action::Log(severity, text.into(), self.pid()));
    }
}
