//! The timer of a job's phase: how long it lasts, and what its end means.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::lifecycle::{Input, Timer};
use super::{Action, Actions, State};
use crate::actors::machine::{Severity, is_late};
use crate::config::spec::backoff;
use crate::messages::moment::Moment;

/// How long Consul may take to forget a job that stops.
const DEREGISTRATION_LIMIT: Duration = Duration::from_secs(2);
/// How long a step of a stop may take outside a shutdown, unless configured.
const STEP_LIMIT: Duration = Duration::from_secs(5);

/// A timer that is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Countdown {
    pub timer: Timer,
    /// How long it lasts.
    pub limit: Duration,
    due: Moment,
    /// It elapsed too late once, and was set anew.
    is_spared: bool,
}

impl State {
    pub(super) fn start_timer(&mut self, timer: Timer, list: &mut Actions) {
        self.cancel_timer(list);
        let Some(limit) = self.limit(timer) else { return };
        let due = self.now.plus(limit);
        self.timer = Some(Countdown { timer, limit, due, is_spared: false });
        list.push(match timer {
            Timer::Delay(_) => Action::DrawJitter,
            Timer::RunTimeout | Timer::Hold | Timer::Deregistration | Timer::Drain | Timer::KillTimeout => {
                Action::StartTimer(limit)
            }
        });
    }

    /// How long a timer lasts, if it is not endless. In a shutdown its budget is what bounds the waits.
    pub(super) fn limit(&self, timer: Timer) -> Option<Duration> {
        let step_limit = (!self.in_shutdown).then_some(STEP_LIMIT);
        match timer {
            Timer::RunTimeout => self.spec.timeout,
            Timer::Delay(delay) => Some(delay),
            Timer::Hold => self.spec.stop.wait.or(step_limit),
            Timer::Deregistration => Some(DEREGISTRATION_LIMIT),
            Timer::Drain => Some(self.spec.stop.drain),
            Timer::KillTimeout => self.spec.stop.kill_timeout.or(step_limit),
        }
    }

    /// Starts the delay before a restart, spread by chance.
    pub(super) fn start_delay(&mut self, random: f64, list: &mut Actions) {
        if let Some(Countdown { timer: Timer::Delay(_), limit, .. }) = &mut self.timer {
            *limit = backoff::jittered(&self.spec.backoff, *limit, random);
            let delay = *limit;
            self.log(Severity::Info, format!("restarts in {}", text(delay)), list);
            list.push(Action::StartTimer(delay));
        }
    }

    pub(super) fn cancel_timer(&mut self, list: &mut Actions) {
        list.extend(self.timer.take().map(|_| Action::CancelTimer));
    }

    pub(super) fn timer_elapsed(&mut self, list: &mut Actions) {
        let Some(countdown) = self.timer.take() else { return };
        let Countdown { timer, limit, due, is_spared } = countdown;
        if let (Timer::KillTimeout, Some(rest)) =
            (timer, self.told.stop_until.and_then(|until| self.time_until(until)))
        {
            self.timer = Some(Countdown { due: self.now.plus(rest), ..countdown });
            return list.push(Action::StartTimer(rest));
        }
        let kills = matches!(timer, Timer::RunTimeout | Timer::KillTimeout);
        if kills && is_late(self.now, due) && !is_spared {
            self.timer = Some(Countdown { due: self.now.plus(limit), is_spared: true, ..countdown });
            return list.push(Action::StartTimer(limit));
        }
        let limit = text(limit);
        let input = match timer {
            Timer::RunTimeout => {
                let verb = if self.pid().is_some() { "ran" } else { "was being started" };
                let text = format!("{verb} longer than its timeout of {limit}: it is killed");
                self.log(Severity::Warning, text, list);
                Input::RunTimeoutElapsed
            }
            Timer::KillTimeout => {
                let text = format!("did not end within {limit} of {}: it is killed", self.spec.stop.signal);
                self.log(Severity::Warning, text, list);
                Input::KillTimeoutElapsed
            }
            Timer::Delay(_) => Input::DelayElapsed,
            Timer::Hold => Input::HoldEnded,
            Timer::Deregistration => Input::DeregistrationEnded,
            Timer::Drain => Input::DrainElapsed,
        };
        self.advance(input, list);
    }
}

/// A time as the log has it.
pub(super) fn text(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    if milliseconds < 1000 { format!("{milliseconds}ms") } else { format!("{:.1}s", duration.as_secs_f64()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_below_a_second_are_told_in_milliseconds() {
        assert_eq!(text(Duration::from_millis(999)), "999ms");
        assert_eq!(text(Duration::from_millis(1000)), "1.0s");
    }
}
