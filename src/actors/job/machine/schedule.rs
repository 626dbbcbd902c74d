//! The timers of `when`: the ticks of an interval or schedule, and the end of the wait for the first trigger. They begin at
//! startup; ticks with `after`, when those jobs are ready.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::calendar::{Calendar, Due};
use super::timers::text;
use super::{Action, Actions, State, lifecycle};
use crate::actors::machine::Severity;
use crate::config::spec::Trigger;
use crate::messages::job::{Missing, Phase};
use crate::messages::moment::{ClockReading, Moment, WallTime};

/// The purpose of the timer of `when`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Schedule {
    /// The next tick, a multiple of the interval after this moment.
    Ticks(Duration, Moment),
    /// The end of the wait for the first trigger.
    TriggerTimeout(Duration),
}

/// When a job runs next by its schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextRun {
    /// At this time by the clock on the wall.
    At(WallTime),
    /// After this time.
    In(Duration),
}

impl State {
    pub(super) fn schedule_from_beginning(&mut self, list: &mut Actions) {
        match self.spec.when.trigger {
            Trigger::Interval(interval) => self.schedule_tick(interval, self.now, list),
            Trigger::Cron(_) => list.push(Action::ReadClock),
            Trigger::Once(_) | Trigger::Each(_) | Trigger::All(_) | Trigger::Any(_) => {
                if let Some(timeout) = self.spec.when.timeout {
                    self.schedule = Some(Schedule::TriggerTimeout(timeout));
                    list.push(Action::StartSchedule(timeout));
                }
            }
        }
    }

    /// Begins the ticks of an interval or schedule anew, if they had ended; not before those are ready that they wait for.
    pub(super) fn resume_ticks(&mut self, list: &mut Actions) {
        if !self.spec.when.after.is_empty() && self.listener.missing() != Missing::Nothing {
            return;
        }
        match self.spec.when.trigger {
            Trigger::Interval(interval) if self.schedule.is_none() => {
                self.schedule_tick(interval, self.now, list);
            }
            Trigger::Cron(_) if self.calendar.is_none() => list.push(Action::ReadClock),
            Trigger::Interval(_)
            | Trigger::Cron(_)
            | Trigger::Once(_)
            | Trigger::Each(_)
            | Trigger::All(_)
            | Trigger::Any(_) => {}
        }
    }

    fn schedule_tick(&mut self, interval: Duration, first: Moment, list: &mut Actions) {
        self.schedule = Some(Schedule::Ticks(interval, first));
        list.push(Action::StartSchedule(until_next(interval, self.now.since(first))));
    }

    pub(super) fn cancel_schedule(&mut self, list: &mut Actions) {
        list.extend(self.schedule.take().map(|_| Action::CancelSchedule));
        list.extend(self.calendar.take().map(|_| Action::StopClock));
    }

    /// When it runs next by its schedule.
    pub fn next_run(&self, now: Moment) -> Option<NextRun> {
        if let Some(Schedule::Ticks(interval, first)) = self.schedule {
            return Some(NextRun::In(until_next(interval, now.since(first))));
        }
        self.calendar.as_ref().and_then(|calendar| calendar.next()).map(NextRun::At)
    }

    /// The clock on the wall says this: the schedule begins, its next run is due, or somebody has set the clock.
    pub(super) fn clock_read(&mut self, reading: ClockReading, list: &mut Actions) {
        let Trigger::Cron(cron) = &self.spec.when.trigger else { return };
        if matches!(self.life.phase, Phase::Complete | Phase::Halted) {
            return;
        }
        let due = match &mut self.calendar {
            Some(calendar) => calendar.follow(cron, reading),
            None => Due::default(),
        };
        let calendar = self.calendar.get_or_insert_with(|| Box::new(Calendar::new(cron, reading)));
        match calendar.next() {
            Some(next) => list.push(Action::StartClock(next)),
            None => self.log(Severity::Warning, "will not run: its schedule never comes", list),
        }
        if due.missed > 0 {
            self.missed_runs += due.missed;
            let text = format!("{} of its scheduled runs did not come", due.missed);
            self.log(Severity::Warning, text, list);
        }
        if due.runs {
            self.tick(list);
        } else {
            list.push(Action::Show);
        }
    }

    /// It is time to run. A tick that finds the last run alive is skipped, and counted.
    fn tick(&mut self, list: &mut Actions) {
        let is_free = self.life.phase == Phase::Waiting;
        // The first run of all is no restart. One that was given up before its program was found is no execution.
        let has_run = self.runs > 0 || self.life.early_ends > 0;
        let is_first = is_free && !has_run && self.spec.when.waits_for_clock();
        let input = if is_first { lifecycle::Input::Triggered } else { lifecycle::Input::IntervalElapsed };
        self.advance(input, list);
        if !is_free && !self.life.pending {
            self.missed_runs += 1;
            self.log(Severity::Debug, "skips a scheduled run: the last one has not ended", list);
            list.push(Action::Show);
        }
    }

    pub(super) fn schedule_elapsed(&mut self, list: &mut Actions) {
        match self.schedule.take() {
            Some(Schedule::Ticks(interval, first)) => {
                self.schedule_tick(interval, first, list);
                self.tick(list);
            }
            Some(Schedule::TriggerTimeout(timeout)) => {
                if self.life.phase == Phase::Waiting {
                    let reason = format!("{} has not come within {}", self.listener.missing(), text(timeout));
                    self.log(Severity::Warning, format!("gives up: {reason}"), list);
                    self.never_ran = Some(reason);
                }
                self.advance(lifecycle::Input::TriggerExpired, list);
            }
            None => {}
        }
    }
}

/// How long until the next tick, `elapsed` after the first; never zero. A late tick does not delay those after it.
fn until_next(interval: Duration, elapsed: Duration) -> Duration {
    let interval = interval.max(Duration::from_millis(1));
    let into = elapsed.as_nanos() % interval.as_nanos();
    interval - Duration::from_nanos(u64::try_from(into).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(500);

    #[test]
    fn ticks_do_not_drift() {
        assert_eq!(until_next(INTERVAL, Duration::ZERO), INTERVAL);
        assert_eq!(until_next(INTERVAL, Duration::from_millis(503)), Duration::from_millis(497));
    }

    #[test]
    fn a_stall_is_followed_by_one_tick_and_not_by_a_burst() {
        assert_eq!(until_next(INTERVAL, Duration::from_millis(2720)), Duration::from_millis(280));
    }

    #[test]
    fn a_tick_that_is_exactly_due_is_the_one_that_just_came() {
        assert_eq!(until_next(INTERVAL, Duration::from_secs(5)), INTERVAL);
    }
}
