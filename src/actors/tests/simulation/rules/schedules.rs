//! Rules about schedules: no run is early or doubled, and none is lost.

use std::time::Duration;

use tokio::time::Instant;

use super::{Account, Ledger, Rules};
use crate::config::spec::Trigger;
use crate::messages::moment::WallTime;
use crate::process::wall_clock;

/// A clock that is set back by more was wrong: the schedule begins anew.
const CORRECTION: i64 = 3 * 3_600_000;

/// A run that begins up to this late counts as on time.
const TOLERANCE: i64 = 60_000;

/// The time by the clock on the wall.
pub(super) fn wall() -> WallTime {
    wall_clock::read(0.0).wall
}

impl Account {
    /// Whether its schedule allows a run now; takes note of that run.
    pub(super) fn is_scheduled(&mut self, is_awakening: bool, now: WallTime) -> bool {
        let Trigger::Cron(cron) = &self.spec.when.trigger else { return true };
        let done = self.scheduled;
        let due = cron.next(done);
        // A run that was decided before the machine slept is followed by one that makes up for the others.
        // If somebody has just set the clock back, runs go on from the new time.
        self.scheduled = due.filter(|_| is_awakening).unwrap_or(now).min(wall()).max(done);
        std::mem::take(&mut self.is_owed) || due.is_some_and(|due| due <= now)
    }

    /// Whether a run that begins now is one that was missed for longer than a busy machine takes, and not to be made up for.
    pub(super) fn is_missed(&self, now: WallTime) -> bool {
        let Trigger::Cron(cron) = &self.spec.when.trigger else { return false };
        let latest = WallTime::from_milliseconds(now.milliseconds() - TOLERANCE - 2000);
        !cron.catch_up && cron.next(latest).is_none_or(|due| due > now)
    }

    /// Whether a run is due just now: it may be decided on, and not have begun.
    pub(super) fn is_due_now(&self) -> bool {
        let Trigger::Cron(cron) = &self.spec.when.trigger else { return false };
        let now = wall();
        cron.next(WallTime::from_milliseconds(now.milliseconds() - 1)).is_some_and(|due| due <= now)
    }

    /// Somebody is about to set the clock, which says so much: is a run due that has not begun?
    fn note_what_is_due(&mut self, now: WallTime) {
        let Trigger::Cron(cron) = &self.spec.when.trigger else { return };
        self.is_owed |= self.starts > 0 && cron.next(self.scheduled).is_some_and(|due| due <= now);
    }

    /// Whether it has waited for longer than it takes to start for a run that was due.
    pub(super) fn has_lost_a_run(&self, waited: Duration) -> bool {
        let Trigger::Cron(cron) = &self.spec.when.trigger else { return false };
        let now = wall();
        let waited = i64::try_from(waited.as_millis()).unwrap_or(i64::MAX);
        let began = WallTime::from_milliseconds(now.milliseconds() - waited);
        cron.next(began.max(self.scheduled)).is_some_and(|due| now.since(due) > 1000)
    }
}

impl Ledger {
    /// The time by which something that happens now was decided: by the old one, if somebody has just set the clock.
    pub(super) fn decided_at(&self) -> WallTime {
        let just_was = self.clock_was.filter(|(at, _)| *at == Instant::now()).map(|(_, was)| was);
        just_was.map_or(wall(), |was| was.max(wall()))
    }
}

impl Rules {
    /// Somebody is about to set the clock.
    pub fn clock_set_by(&self, milliseconds: i64) {
        let mut ledger = self.ledger.borrow_mut();
        ledger.clock_changes += 1;
        let was = ledger.decided_at();
        ledger.clock_was = Some((Instant::now(), was));
        let now = WallTime::from_milliseconds(wall().milliseconds() + milliseconds);
        // Changes that come together count as one, which may be a large one.
        let may_be_large = milliseconds < -CORRECTION || ledger.clock_changes > 1;
        for account in ledger.jobs.values_mut() {
            account.note_what_is_due(was);
            // Nor is it known whether a schedule that has had no run has begun.
            if may_be_large || account.starts == 0 {
                account.scheduled = account.scheduled.min(now);
            }
        }
    }
}
