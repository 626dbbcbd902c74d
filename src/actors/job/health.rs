//! A job's health: what its checks say, taken together.

use actix::prelude::Recipient;

use crate::messages::health::{CheckChanged, CheckCommand, Health, Verdict};

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

/// The checks of one job and what is known from them.
pub struct Checks {
    checks: Vec<Recipient<CheckCommand>>,
    verdicts: Vec<Verdict>,
    /// Counts executions: a verdict about an earlier one means nothing.
    round: u64,
    health: Health,
    /// The job's process runs.
    serving: bool,
    maintenance: bool,
}

impl Checks {
    /// Checks that have not begun.
    pub fn new(checks: Vec<Recipient<CheckCommand>>) -> Self {
        let verdicts = vec![Verdict::Unknown; checks.len()];
        Self { checks, verdicts, round: 0, health: Health::Unknown, serving: false, maintenance: false }
    }

    /// The job's health now.
    pub fn health(&self) -> Health {
        self.health
    }

    /// What each check says now.
    pub fn verdicts(&self) -> impl Iterator<Item = Verdict> + '_ {
        self.verdicts.iter().copied()
    }

    /// The job's process has started: nothing is known of it.
    pub fn begin(&mut self) {
        self.serving = true;
        self.reset();
        if !self.maintenance {
            self.tell(CheckCommand::Begin(self.round));
        }
    }

    /// The job's process has ended.
    pub fn pause(&mut self) {
        self.serving = false;
        self.reset();
        self.tell(CheckCommand::Pause);
    }

    /// Nothing is checked in maintenance; after it, nothing is known.
    pub fn maintain(&mut self, on: bool) {
        if self.maintenance == on {
            return;
        }
        self.maintenance = on;
        self.reset();
        self.tell(if self.serving && !on { CheckCommand::Begin(self.round) } else { CheckCommand::Pause });
    }

    /// The checks are not needed any more.
    pub fn retire(&self) {
        self.tell(CheckCommand::Retire);
    }

    fn reset(&mut self) {
        self.round += 1;
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

    fn tell(&self, command: CheckCommand) {
        for check in &self.checks {
            check.do_send(command);
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
        let mut checks = Checks { verdicts: vec![Verdict::Unknown], round: 2, ..Checks::new(vec![]) };
        assert_eq!(checks.note(CheckChanged { check: 0, round: 1, verdict: Verdict::Passing }), None);
        let passing = CheckChanged { check: 0, round: 2, verdict: Verdict::Passing };
        assert_eq!(checks.note(passing), Some(Health::Healthy));
        assert_eq!(checks.note(passing), None, "only changes are told");
    }
}
