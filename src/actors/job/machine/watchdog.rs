//! The watchdog of a job: its process must give signs of life, or it is ended.

use std::time::Duration;

use super::lifecycle::Timer;
use super::reasons::Kill;
use super::timers::text;
use super::{Actions, Deadline, State};
use crate::actors::machine::{Severity, is_late};
use crate::messages::job::Phase;
use crate::messages::notify::{Notification, WatchdogSign};
use crate::messages::signal::Signal;

/// How long a process has to end after SIGABRT, if nothing else is configured.
const ABORT_LIMIT: Duration = Duration::from_secs(5);

impl State {
    /// The longest silence, if the process is watched.
    fn longest_silence(&self) -> Option<Duration> {
        self.told.watchdog.or(self.spec.watchdog).filter(|time| !time.is_zero())
    }

    /// From now on silence counts.
    pub(super) fn begin_watchdog(&mut self, list: &mut Actions) {
        if let Some(limit) = self.longest_silence() {
            self.told.last_sign = Some(self.now);
            self.set_deadline(Deadline::Watchdog, limit, list);
        }
    }

    /// Takes note of what the process tells its watchdog. A sign only moves the end of the time; the timer is not set anew.
    pub(super) fn note_sign(&mut self, news: &Notification, list: &mut Actions) {
        if let Some(period) = news.watchdog_period {
            self.told.watchdog = Some(period);
            self.cancel_deadline(Deadline::Watchdog, list);
            self.told.last_sign = None;
            let is_begun = self.spec.ready.by.is_none() || self.is_ready();
            if is_begun && self.can_be_watched() {
                self.begin_watchdog(list);
            }
        }
        match news.watchdog {
            Some(WatchdogSign::Alive) if self.told.last_sign.is_some() => {
                self.told.last_sign = Some(self.now);
                self.told.is_spared = false;
            }
            Some(WatchdogSign::Trigger) if self.can_be_watched() => {
                self.abort("has triggered its watchdog", list);
            }
            Some(WatchdogSign::Alive | WatchdogSign::Trigger) | None => {}
        }
    }

    fn can_be_watched(&self) -> bool {
        self.life.phase == Phase::Running && self.kill.is_none() && !self.told.stopping
    }

    pub(super) fn watchdog_elapsed(&mut self, list: &mut Actions) {
        let (Some(limit), Some(last)) = (self.longest_silence(), self.told.last_sign) else { return };
        if !self.can_be_watched() {
            return;
        }
        let end = last.plus(limit);
        match self.time_until(end) {
            Some(rest) => self.set_deadline(Deadline::Watchdog, rest, list),
            None if is_late(self.now, end) && !self.told.is_spared => {
                self.told.is_spared = true;
                self.begin_watchdog(list);
            }
            None => self.abort(&format!("was silent for longer than its watchdog of {}", text(limit)), list),
        }
    }

    /// Ends the execution with SIGABRT, so that it can leave a core dump.
    fn abort(&mut self, reason: &str, list: &mut Actions) {
        self.kill = Some(Kill::Watchdog);
        self.told.last_sign = None;
        self.watchdog_kills = self.watchdog_kills.saturating_add(1);
        self.cancel_deadlines(list);
        self.log(Severity::Warning, format!("{reason}: it gets SIGABRT"), list);
        self.serve_no_more(list);
        self.signal(Signal::ABRT, list);
        let limit = self.limit(Timer::KillTimeout).unwrap_or(ABORT_LIMIT);
        self.set_deadline(Deadline::Abort, limit, list);
        self.settle(list);
    }

    pub(super) fn abort_elapsed(&mut self, list: &mut Actions) {
        self.log(Severity::Warning, "did not end after SIGABRT: it is killed", list);
        self.kill_for(Kill::Watchdog, list);
    }
}
