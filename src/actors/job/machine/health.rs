//! A job's health: what its checks say, taken together, and when they check.

use serde::{Deserialize, Serialize};

use super::readiness::Readiness;
use super::{Action, Actions, State};
use crate::actors::machine::Severity;
use crate::messages::event::EventCode;
use crate::messages::health::{CheckChanged, CheckCommand, Health, Verdict};
use crate::messages::job::Phase;

/// The health of a job whose checks say this; `before` stands while some check has yet to say anything.
pub fn combine(before: Health, verdicts: &[Verdict]) -> Health {
    if verdicts.is_empty() {
        return Health::Unknown;
    }
    if verdicts.contains(&Verdict::Failing) {
        return Health::Unhealthy;
    }
    if verdicts.contains(&Verdict::Unknown) {
        return before;
    }
    Health::Healthy
}

/// The verdicts of one job's checks, and its health that follows from them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checks {
    verdicts: Vec<Verdict>,
    /// Counts executions: a verdict about an earlier one means nothing.
    round: u64,
    health: Health,
    /// The job's process runs.
    serving: bool,
    maintenance: bool,
}

impl Checks {
    /// So many checks, which have not begun.
    pub fn new(number: usize) -> Self {
        let verdicts = vec![Verdict::Unknown; number];
        Self { verdicts, round: 0, health: Health::Unknown, serving: false, maintenance: false }
    }

    pub const fn health(&self) -> Health {
        self.health
    }

    /// What each check says now.
    pub fn verdicts(&self) -> impl Iterator<Item = Verdict> + '_ {
        self.verdicts.iter().copied()
    }

    /// The job's process has started: nothing is known of it. In maintenance nothing is checked.
    pub fn begin(&mut self) -> Option<CheckCommand> {
        self.serving = true;
        self.reset();
        (!self.maintenance).then_some(CheckCommand::Begin(self.round))
    }

    /// The job's process has ended, or is being ended.
    pub fn pause(&mut self) -> CheckCommand {
        self.serving = false;
        self.reset();
        CheckCommand::Pause
    }

    /// Nothing is checked in maintenance; after it, nothing is known.
    pub fn maintain(&mut self, on: bool) -> Option<CheckCommand> {
        if self.maintenance == on {
            return None;
        }
        self.maintenance = on;
        self.reset();
        Some(if self.serving && !on { CheckCommand::Begin(self.round) } else { CheckCommand::Pause })
    }

    /// Whether nothing is checked.
    pub const fn are_off(&self) -> bool {
        self.maintenance
    }

    fn reset(&mut self) {
        self.round = self.round.saturating_add(1);
        self.health = if self.maintenance { Health::Maintenance } else { Health::Unknown };
        self.verdicts.fill(Verdict::Unknown);
    }

    /// Takes note of a verdict; the job's health if it changed.
    pub fn note(&mut self, change: CheckChanged) -> Option<Health> {
        if change.round != self.round {
            return None;
        }
        *self.verdicts.get_mut(change.check)? = change.verdict;
        let health = combine(self.health, &self.verdicts);
        let changed = health != self.health;
        self.health = health;
        changed.then_some(health)
    }
}

impl State {
    /// A job that something else executes is checked for as long as it serves.
    pub(super) fn check_without_process(&mut self, before: Phase, list: &mut Actions) {
        match (before == Phase::Running, self.life.phase == Phase::Running) {
            (false, true) => {
                self.readiness = Readiness::No;
                list.extend(self.checks.begin().map(Action::Check));
            }
            (true, false) => self.serve_no_more(list),
            (true, true) | (false, false) => {}
        }
    }

    /// The process has ended, or is being ended: it is neither checked nor ready.
    pub(super) fn serve_no_more(&mut self, list: &mut Actions) {
        if self.readiness == Readiness::Ready {
            self.readiness = Readiness::Past;
        }
        list.push(Action::Check(self.checks.pause()));
    }

    /// Once the job is told to stop, its health is no longer published: jobs that wait for it are given up. Its checks go on
    /// while it serves the jobs that act on its `stopping`.
    pub(super) fn check_changed(&mut self, change: CheckChanged, list: &mut Actions) {
        let (severity, text, code) = match self.checks.note(change) {
            Some(Health::Healthy) => (Severity::Info, "healthy", EventCode::Healthy),
            Some(Health::Unhealthy) => (Severity::Warning, "unhealthy", EventCode::Unhealthy),
            Some(Health::Unknown | Health::Maintenance) | None => return self.settle(list),
        };
        self.log(severity, text, list);
        if !self.life.phase.is_stopping() {
            self.publish(code, None, list);
        }
        if code == EventCode::Healthy && self.spec.ready.by.is_none() {
            self.become_ready(list);
        }
        self.settle(list);
        if code == EventCode::Unhealthy {
            self.restart_for_health(list);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_healthy_when_every_check_passes() {
        use Verdict::{Failing, Passing, Unknown};
        assert_eq!(combine(Health::Unknown, &[Passing, Unknown]), Health::Unknown);
        assert_eq!(combine(Health::Unknown, &[Passing, Passing]), Health::Healthy);
        assert_eq!(combine(Health::Healthy, &[Passing, Failing]), Health::Unhealthy);
        assert_eq!(combine(Health::Unknown, &[Unknown, Failing]), Health::Unhealthy);
        assert_eq!(combine(Health::Unhealthy, &[Passing, Passing]), Health::Healthy);
    }

    #[test]
    fn a_job_without_checks_is_never_healthy() {
        assert_eq!(combine(Health::Unknown, &[]), Health::Unknown);
    }

    #[test]
    fn a_verdict_about_an_earlier_execution_means_nothing() {
        let mut checks = Checks { round: 2, ..Checks::new(1) };
        assert_eq!(checks.note(CheckChanged { check: 0, round: 1, verdict: Verdict::Passing }), None);
        let passing = CheckChanged { check: 0, round: 2, verdict: Verdict::Passing };
        assert_eq!(checks.note(passing), Some(Health::Healthy));
        assert_eq!(checks.note(passing), None, "only changes are told");
    }
}
