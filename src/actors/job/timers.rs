//! The clock of a job: the timer of its phase, the ticks of its interval, the end of its wait for a trigger.

use std::time::Duration;

use actix::prelude::*;
use slog::{info, warn};
use tokio::time::Instant;

use super::lifecycle::{Input, Timer};
use super::{DEREGISTRATION_LIMIT, Job, STEP_LIMIT, backoff, ticker};
use crate::config::spec::Trigger;
use crate::messages::job::Phase;
use crate::process::random_share;

impl Job {
    pub(super) fn arm(&mut self, timer: Timer, ctx: &mut Context<Self>) {
        self.cancel_timer(ctx);
        let (limit, input) = self.limit(timer);
        self.timer = limit.map(|limit| {
            ctx.run_later(limit, move |job, ctx| {
                job.timer = None;
                match timer {
                    Timer::RunTimeout => {
                        let (verb, limit) = (if job.pid().is_some() { "ran" } else { "was being started" }, text(limit));
                        warn!(job.log, "{verb} longer than its timeout of {limit}: it is killed"; "pid" => job.pid());
                    }
                    Timer::KillTimeout => {
                        let (signal, limit) = (job.spec.stop.signal, text(limit));
                        warn!(job.log, "did not end within {limit} of {signal}: it is killed"; "pid" => job.pid());
                    }
                    Timer::Delay(_) | Timer::Hold | Timer::Deregistration | Timer::Drain => {}
                }
                job.advance(input, ctx);
            })
        });
    }

    /// How long a timer lasts, and what its end means. In a shutdown its budget is what bounds the waits.
    pub(super) fn limit(&self, timer: Timer) -> (Option<Duration>, Input) {
        let step_limit = (!self.in_shutdown).then_some(STEP_LIMIT);
        match timer {
            Timer::RunTimeout => (self.spec.timeout, Input::RunTimeoutElapsed),
            Timer::Delay(delay) => {
                let delay = backoff::jittered(&self.spec.backoff, delay, random_share());
                info!(self.log, "restarts in {}", text(delay); "pid" => self.pid());
                (Some(delay), Input::DelayElapsed)
            }
            Timer::Hold => (self.spec.stop.wait.or(step_limit), Input::HoldEnded),
            Timer::Deregistration => (Some(DEREGISTRATION_LIMIT), Input::DeregistrationEnded),
            Timer::Drain => (Some(self.spec.stop.drain), Input::DrainElapsed),
            Timer::KillTimeout => (self.spec.stop.kill_timeout.or(step_limit), Input::KillTimeoutElapsed),
        }
    }

    pub(super) fn cancel_timer(&mut self, ctx: &mut Context<Self>) {
        if let Some(timer) = self.timer.take() {
            ctx.cancel_future(timer);
        }
    }

    pub(super) fn cancel_schedule(&mut self, ctx: &mut Context<Self>) {
        if let Some(schedule) = self.schedule.take() {
            ctx.cancel_future(schedule);
        }
    }

    /// Startup is when all timers of `when` begin.
    pub(super) fn schedule_from_startup(&mut self, ctx: &mut Context<Self>) {
        if let Trigger::Interval(interval) = self.spec.when.trigger {
            self.schedule_tick(interval, Instant::now(), ctx);
        } else if let Some(timeout) = self.spec.when.timeout {
            self.schedule = Some(ctx.run_later(timeout, move |job, ctx| {
                job.schedule = None;
                if job.state.phase == Phase::Waiting {
                    let (missing, limit) = (job.listener.missing(), text(timeout));
                    warn!(job.log, "gives up: {missing} has not come within {limit}");
                    job.never_ran = Some(format!("{missing} has not come within {limit}"));
                }
                job.advance(Input::TriggerExpired, ctx);
            }));
        }
    }

    pub(super) fn schedule_tick(&mut self, interval: Duration, first: Instant, ctx: &mut Context<Self>) {
        let wait = ticker::until_next(interval, first.elapsed());
        self.schedule = Some(ctx.run_later(wait, move |job, ctx| {
            job.schedule_tick(interval, first, ctx);
            job.advance(Input::IntervalElapsed, ctx);
        }));
    }

    /// Starts by hand; the ticks of an interval that had ended begin anew.
    pub(super) fn by_hand(&mut self, input: Input, ctx: &mut Context<Self>) {
        self.occasion = None;
        self.advance(input, ctx);
        if let (Trigger::Interval(interval), None) = (&self.spec.when.trigger, self.schedule) {
            self.schedule_tick(*interval, Instant::now(), ctx);
        }
    }
}

fn text(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    if milliseconds < 1000 { format!("{milliseconds}ms") } else { format!("{:.1}s", duration.as_secs_f64()) }
}
