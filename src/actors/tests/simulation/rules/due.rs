//! Rules that something comes: the end of a limit, of a process without a sign of life, of an unhealthy job.

use std::time::Duration;

use super::{AT_ONCE, Account, Rules};
use crate::config::spec::OnUnhealthy;
use crate::messages::health::Health;
use crate::messages::job::Phase;

/// States that should not last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Overdue {
    Waiting,
    Silent,
    Unhealthy,
    Failing,
    Unsignalled,
    Unstarted,
}

impl Overdue {
    const ALL: [Self; 6] =
        [Self::Waiting, Self::Silent, Self::Unhealthy, Self::Failing, Self::Unsignalled, Self::Unstarted];

    const fn rule(self) -> &'static str {
        match self {
            Self::Waiting => "a job waits no longer than its `when.timeout`",
            Self::Silent => "a process without a sign of life is ended by its watchdog",
            Self::Unhealthy => "`onUnhealthy` is obeyed",
            Self::Failing => "a job whose checks fail is not healthy",
            Self::Unsignalled => "a process gets the signal that a client sends",
            Self::Unstarted => "a job that a client starts runs",
        }
    }
}

impl Account {
    fn is(&self, overdue: Overdue) -> bool {
        let is_running = matches!(self.phase, Some((Phase::Running, _)));
        match overdue {
            Overdue::Waiting => {
                let is_first = !self.spec.when.trigger.is_periodic()
                    && self.fired == 0
                    && self.starts == 0
                    && self.ends == 0;
                let is_free = self.spec.group.is_none() && !self.is_told && self.orders == 0;
                let waits = is_first && is_free && !self.is_new && !self.is_stopping && !self.is_over;
                waits && self.spec.when.timeout.is_some_and(|limit| self.begun.elapsed() > limit)
            }
            Overdue::Silent => {
                let is_watched = is_running && self.lives && self.is_ready && self.sleeps == 0;
                let is_left_alone = !self.was_signalled && !self.says_stops && !self.is_nearly_late;
                let limit = self.spec.watchdog.unwrap_or(Duration::MAX);
                is_watched && is_left_alone && self.last_sign.elapsed() > limit
            }
            Overdue::Unhealthy => {
                let acts = self.spec.on_unhealthy != OnUnhealthy::Nothing;
                acts && is_running && self.lives && !self.was_signalled && self.health == Health::Unhealthy
            }
            Overdue::Failing => {
                let has_failed =
                    |name: &str, most: u32| self.failed.get(name).is_some_and(|count| *count > most);
                let fails = self.spec.health.iter().any(|check| has_failed(&check.name, check.failures));
                is_running && fails && self.health == Health::Healthy
            }
            Overdue::Unstarted => {
                let is_over = matches!(self.phase, Some((Phase::Halted | Phase::Complete, _)));
                // In a group others may have to stop first.
                let is_alone = self.orders == 0 && self.spec.group.is_none();
                self.is_owed_a_start && is_over && is_alone && self.spec.exec.is_some()
            }
            Overdue::Unsignalled => {
                let Some((signal, at, execution)) = self.owed_signal else { return false };
                let is_same = self.lives && self.starts == execution && self.executed == execution;
                let came = self.signalled.get(&signal).is_some_and(|came| *came >= at);
                is_running && is_same && !self.was_signalled && !came
            }
        }
    }
}

impl Rules {
    /// Looks at what a job should not be for longer than it takes to be noticed.
    pub(super) fn inspect_due(&self, now: Duration, account: &mut Account) {
        for overdue in Overdue::ALL {
            let is_extended = overdue == Overdue::Silent && now <= account.needs_until + AT_ONCE;
            if !account.is(overdue) || is_extended {
                account.overdue.remove(&overdue);
            } else if now.saturating_sub(*account.overdue.entry(overdue).or_insert(now)) > 2 * AT_ONCE {
                self.break_rule(overdue.rule(), &*account.spec.name);
            }
        }
    }
}
