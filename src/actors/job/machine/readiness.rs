//! When an execution of a job can be used: told once, by the event `ready`.

use serde::{Deserialize, Serialize};

use super::reasons::Kill;
use super::timers::text;
use super::{Action, Actions, Deadline, State, lifecycle};
use crate::actors::machine::{Severity, is_late};
use crate::config::spec::ReadyBy;
use crate::messages::event::EventCode;
use crate::messages::health::Health;
use crate::messages::job::Phase;
use crate::messages::process::ExecutionId;

/// Whether an execution can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Readiness {
    /// Not yet.
    No,
    /// It can.
    Ready,
    /// It could: it ends, or is being ended.
    Past,
}

impl State {
    /// Whether the execution under way can be used.
    pub(super) fn is_ready(&self) -> bool {
        self.readiness == Readiness::Ready
    }

    /// Whether its process is being started, or nothing has told yet whether it can be used.
    pub(super) fn is_starting(&self) -> bool {
        let is_judged = self.spec.ready.by.is_none() && self.checks.health() != Health::Unknown;
        let is_known = self.readiness != Readiness::No || is_judged;
        self.spec.exec.is_some() && !(self.pid().is_some() && is_known)
    }

    /// The process was requested: its time to become ready begins.
    pub(super) fn await_ready(&mut self, list: &mut Actions) {
        self.told.launched = Some(self.now);
        self.begin_time_to_become_ready(list);
    }

    /// In maintenance nothing is checked, so no job can become ready by its checks: its time begins anew after that.
    fn begin_time_to_become_ready(&mut self, list: &mut Actions) {
        let is_by_checks = self.spec.ready.by.is_none() && !self.spec.health.is_empty();
        if let Some(limit) = self.spec.ready.timeout.filter(|_| !(is_by_checks && self.checks.are_off())) {
            self.told.ready_until = Some(self.now.plus(limit));
            self.set_deadline(Deadline::Ready, limit, list);
        }
    }

    /// Maintenance begins or ends.
    pub(super) fn maintain(&mut self, on: bool, list: &mut Actions) {
        let Some(command) = self.checks.maintain(on) else { return };
        list.push(Action::Check(command));
        let is_awaited = self.spec.exec.is_some() && self.readiness == Readiness::No;
        if self.spec.ready.by.is_none() && is_awaited && self.life.phase == Phase::Running {
            self.cancel_deadline(Deadline::Ready, list);
            self.begin_time_to_become_ready(list);
        }
        self.settle(list);
    }

    /// The program was executed. It is checked and watched from now on, unless it has yet to tell that it is ready.
    pub(super) fn begin_service(&mut self, list: &mut Actions) {
        if self.spec.ready.by.is_some() {
            return;
        }
        list.extend(self.checks.begin().map(Action::Check));
        self.begin_watchdog(list);
        self.ready_by_start(list);
    }

    /// Without checks, that the program was executed is all that there is to know.
    pub(super) fn ready_by_start(&mut self, list: &mut Actions) {
        if self.spec.health.is_empty() {
            self.become_ready(list);
        }
    }

    /// The process has told by its descriptor or its output that it can be used.
    pub(super) fn ready_told(&mut self, id: ExecutionId, list: &mut Actions) {
        let is_its_way = matches!(self.spec.ready.by, Some(ReadyBy::Descriptor(_) | ReadyBy::Log(_)));
        if is_its_way && self.is_current(id) {
            self.become_ready(list);
            self.settle(list);
        }
    }

    /// Tells that the execution can be used, once. A job that was told to stop, or that ends, has no news of this kind.
    pub(super) fn become_ready(&mut self, list: &mut Actions) {
        let ends = self.life.phase != Phase::Running || self.kill.is_some() || self.told.stopping;
        let is_executed = self.spec.exec.is_none() || self.pid().is_some();
        if ends || !is_executed || self.readiness != Readiness::No {
            return;
        }
        self.readiness = Readiness::Ready;
        self.ready_after = self.told.launched.map(|launched| self.now.since(launched)).or(self.ready_after);
        self.cancel_deadline(Deadline::Ready, list);
        if self.spec.ready.by.is_some() {
            self.log(Severity::Info, "is ready", list);
            list.extend(self.checks.begin().map(Action::Check));
            self.begin_watchdog(list);
        }
        self.publish(EventCode::Ready, None, list);
    }

    pub(super) fn deadline_elapsed(&mut self, deadline: Deadline, list: &mut Actions) {
        // One that was cancelled may have elapsed already.
        let Some(place) = self.deadlines.iter().position(|known| *known == deadline) else { return };
        self.deadlines.remove(place);
        match deadline {
            Deadline::Ready => self.ready_elapsed(list),
            Deadline::Watchdog => self.watchdog_elapsed(list),
            Deadline::Abort => self.abort_elapsed(list),
        }
    }

    fn ready_elapsed(&mut self, list: &mut Actions) {
        let Some(until) = self.told.ready_until else { return };
        if let Some(rest) = self.time_until(until) {
            return self.set_deadline(Deadline::Ready, rest, list);
        }
        if is_late(self.now, until) && !self.told.is_ready_spared {
            self.told.is_ready_spared = true;
            return self.begin_time_to_become_ready(list);
        }
        let limit = text(self.spec.ready.timeout.unwrap_or_default());
        self.log(Severity::Warning, format!("was not ready within {limit}: it is killed"), list);
        self.kill_for(Kill::NotReady, list);
    }

    /// Kills the execution; the restart rules apply.
    pub(super) fn kill_for(&mut self, kill: Kill, list: &mut Actions) {
        self.advance(lifecycle::Input::RunTimeoutElapsed, list);
        self.kill = Some(kill);
    }

    pub(super) fn set_deadline(&mut self, deadline: Deadline, time: std::time::Duration, list: &mut Actions) {
        if !self.deadlines.contains(&deadline) {
            self.deadlines.push(deadline);
        }
        list.push(Action::StartDeadline(deadline, time));
    }

    pub(super) fn cancel_deadline(&mut self, deadline: Deadline, list: &mut Actions) {
        if let Some(place) = self.deadlines.iter().position(|known| *known == deadline) {
            self.deadlines.remove(place);
            list.push(Action::CancelDeadline(deadline));
        }
    }

    /// The limits of an execution count while it runs, not while it is ended.
    pub(super) fn cancel_deadlines(&mut self, list: &mut Actions) {
        list.extend(std::mem::take(&mut self.deadlines).into_iter().map(Action::CancelDeadline));
    }
}
