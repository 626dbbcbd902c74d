//! The timers of `when`: the ticks of an interval, and the end of the wait for the first trigger. Both begin at startup.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::timers::text;
use super::{Action, Actions, State, lifecycle};
use crate::actors::machine::Severity;
use crate::config::spec::Trigger;
use crate::messages::job::Phase;
use crate::messages::moment::Moment;

/// What the timer of `when` is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Schedule {
    /// The next tick, a multiple of the interval after this moment.
    Ticks(Duration, Moment),
    /// The end of the wait for the first trigger.
    TriggerTimeout(Duration),
}

impl State {
    pub(super) fn schedule_from_startup(&mut self, now: Moment, list: &mut Actions) {
        if let Trigger::Interval(interval) = self.spec.when.trigger {
            self.schedule_tick(now, interval, now, list);
        } else if let Some(timeout) = self.spec.when.timeout {
            self.schedule = Some(Schedule::TriggerTimeout(timeout));
            list.push(Action::StartSchedule(timeout));
        }
    }

    /// Begins the ticks of an interval anew, if they had ended.
    pub(super) fn resume_ticks(&mut self, now: Moment, list: &mut Actions) {
        if let (Trigger::Interval(interval), None) = (&self.spec.when.trigger, self.schedule) {
            self.schedule_tick(now, *interval, now, list);
        }
    }

    fn schedule_tick(&mut self, now: Moment, interval: Duration, first: Moment, list: &mut Actions) {
        self.schedule = Some(Schedule::Ticks(interval, first));
        list.push(Action::StartSchedule(until_next(interval, now.since(first))));
    }

    pub(super) fn cancel_schedule(&mut self, list: &mut Actions) {
        list.extend(self.schedule.take().map(|_| Action::CancelSchedule));
    }

    pub(super) fn schedule_elapsed(&mut self, now: Moment, list: &mut Actions) {
        match self.schedule.take() {
            Some(Schedule::Ticks(interval, first)) => {
                self.schedule_tick(now, interval, first, list);
                self.advance(lifecycle::Input::IntervalElapsed, list);
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
