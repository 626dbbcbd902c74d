//! How a job publishes its events: with what is known of the process and of the reasons.

use std::sync::Arc;

use super::Job;
use super::lifecycle::Process;
use crate::messages::bus::Hold;
use crate::messages::event::{Detail, EventCode, EventKey, Source};

impl Job {
    pub(super) fn publish(&mut self, code: EventCode) {
        self.publish_with(code, None);
    }

    /// Publishes an event, with a hold for those who act on it.
    pub(super) fn publish_with(&mut self, code: EventCode, hold: Option<Arc<Hold>>) {
        let (key, detail) = (self.key(code), self.detail(code));
        self.cause = Some(self.around.bus.publish_with(key, self.cause, detail, hold));
    }

    /// The details that an event of this job carries.
    fn detail(&mut self, code: EventCode) -> Detail {
        match code {
            EventCode::ExitSuccess | EventCode::ExitFailed => self.ended.take().unwrap_or_default(),
            EventCode::Stopping => Detail { pid: self.live_pid(), ..Detail::reason(self.why_it_stops()) },
            EventCode::Healthy | EventCode::Unhealthy => Detail { pid: self.live_pid(), ..Detail::default() },
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
            return reason.to_owned();
        }
        match (&self.never_ran, &self.last_exit) {
            (Some(reason), _) if !self.has_run() => format!("will not run: {reason}"),
            (_, Some(exit)) => format!("will not run again: {exit}"),
            (_, None) => "will not run again".to_owned(),
        }
    }

    /// The process that runs now.
    pub(super) fn live_pid(&self) -> Option<i32> {
        self.pid().filter(|_| self.state.process == Process::Live)
    }

    fn key(&self, code: EventCode) -> EventKey {
        EventKey { code, source: Source::Job(self.spec.name.clone()) }
    }
}
