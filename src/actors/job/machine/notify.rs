//! Follows what the process of a job tells by systemd's notify protocol.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::readiness::Readiness;
use super::{Actions, Deadline, State};
use crate::actors::machine::Severity;
use crate::config::spec::ReadyBy;
use crate::messages::job::Phase;
use crate::messages::moment::Moment;
use crate::messages::notify::Notification;
use crate::messages::process::{ExecutionId, Pid};

/// Facts about the present execution: its deadlines, and all that its process has told.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct ExecutionFacts {
    /// When it was requested.
    pub launched: Option<Moment>,
    /// When it has to be ready.
    pub ready_until: Option<Moment>,
    /// It was not ready in time, as we were late ourselves, and has its time once more.
    pub is_ready_spared: bool,
    /// It has asked for time until then before it is killed.
    pub stop_until: Option<Moment>,
    /// It is about to end.
    pub stopping: bool,
    /// It reloads its configuration.
    pub reloading: bool,
    /// What it does, in its own words.
    pub status: Option<Box<str>>,
    /// Why it fails, in words.
    pub error: Option<Box<str>>,
    /// Its main process, if that is not the one that was started.
    pub main_process: Option<Pid>,
    /// The longest silence that it has asked for; zero: it is not watched.
    pub watchdog: Option<Duration>,
    /// Its last sign of life; `None` if it is not watched.
    pub last_sign: Option<Moment>,
    /// It was silent for too long, as we were, and has its time once more.
    pub is_spared: bool,
}

impl State {
    pub(super) fn notified(&mut self, id: ExecutionId, news: &Notification, list: &mut Actions) {
        if !self.is_current(id) {
            return;
        }
        self.note_sign(news, list);
        if news.is_mere_sign_of_life() {
            return;
        }
        let told = &mut self.told;
        told.status = news.status.as_deref().map(Box::from).or(told.status.take());
        told.error = news.error.as_deref().map(Box::from).or(told.error.take());
        told.main_process = news.main_process.or(told.main_process);
        if let Some(time) = news.extension {
            let stops = self.life.phase.is_stopping() || self.told.stopping || news.stopping;
            self.extend(time, stops);
        }
        if news.reloading && !self.told.reloading {
            self.told.reloading = true;
            self.log(Severity::Info, "reloads", list);
        }
        if news.ready {
            self.ready_notified(list);
        }
        if news.stopping && !self.told.stopping {
            self.stops_by_itself(list);
        }
        self.settle(list);
    }

    fn ready_notified(&mut self, list: &mut Actions) {
        if std::mem::take(&mut self.told.reloading) {
            self.log(Severity::Info, "has reloaded", list);
        }
        if self.spec.ready.by == Some(ReadyBy::Notify) {
            self.become_ready(list);
        }
    }

    /// The process ends by its own will: it cannot be used any more, and need not give signs of life.
    fn stops_by_itself(&mut self, list: &mut Actions) {
        self.told.stopping = true;
        if self.readiness == Readiness::Ready {
            self.readiness = Readiness::Past;
        }
        self.told.last_sign = None;
        self.cancel_deadline(Deadline::Watchdog, list);
        if self.life.phase == Phase::Running {
            self.log(Severity::Info, "says that it stops", list);
        }
    }

    /// The process needs this much time from now on: to become ready, or to end, if it stops.
    fn extend(&mut self, time: Duration, stops: bool) {
        let until = self.now.plus(time);
        if let Some(ready_until) = &mut self.told.ready_until {
            *ready_until = until.max(*ready_until);
        }
        if stops {
            self.told.stop_until = self.told.stop_until.max(Some(until));
        }
    }

    /// How long it is until then; `None` if that is over.
    pub(super) fn time_until(&self, moment: Moment) -> Option<Duration> {
        Some(moment.since(self.now)).filter(|rest| !rest.is_zero())
    }

    /// Why an execution ended, with the error that it has told.
    pub(super) fn with_error(&self, reason: String) -> String {
        match &self.told.error {
            Some(error) => format!("{reason}: {error}"),
            None => reason,
        }
    }
}
