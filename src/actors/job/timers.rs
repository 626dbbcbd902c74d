//! Starts and cancels the timers that a job's machine asks for, and waits for the clock on the wall for its schedule.

use std::io;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use actix::prelude::*;
use slog::warn;

use super::Job;
use super::machine::schedule::NextRun;
use super::machine::{Deadline, Input};
use crate::actors::task::{Task, cancel};
use crate::messages::moment::WallTime;
use crate::process::random_share;
use crate::process::wall_clock::{self, WallTimer};

impl Job {
    pub(super) fn start_deadline(&mut self, deadline: Deadline, wait: Duration, ctx: &mut Context<Self>) {
        self.cancel_deadline(deadline, ctx);
        let elapsed = move |job: &mut Self, ctx: &mut Context<Self>| {
            job.deadlines.retain(|(kind, _)| *kind != deadline);
            job.advance(Input::DeadlineElapsed(deadline), ctx);
        };
        self.deadlines.push((deadline, Task::later(wait, ctx, elapsed)));
    }

    pub(super) fn cancel_deadline(&mut self, deadline: Deadline, ctx: &mut Context<Self>) {
        if let Some(place) = self.deadlines.iter().position(|(kind, _)| *kind == deadline) {
            self.deadlines.swap_remove(place).1.cancel(ctx);
        }
    }

    pub(super) fn read_clock(&mut self, ctx: &mut Context<Self>) {
        self.advance(Input::ClockRead(wall_clock::read(random_share())), ctx);
    }

    /// Reads the clock again at that time, and when somebody sets it.
    pub(super) fn start_clock(&mut self, at: WallTime, ctx: &mut Context<Self>) {
        cancel(&mut self.clock_wait, ctx);
        self.clock_wait = Some(match self.set_wall_timer(at) {
            Ok(timer) => {
                let elapsed = async move { timer.wait().await };
                Task::spawn(elapsed, ctx, |(), job: &mut Self, ctx| job.read_clock(ctx))
            }
            Err(error) => {
                warn!(self.log, "a change of the clock will be noticed late: cannot set a timer: {error}");
                let wait = wall_clock::system_time(at).duration_since(SystemTime::now()).unwrap_or_default();
                Task::later(wait, ctx, Self::read_clock)
            }
        });
    }

    fn set_wall_timer(&mut self, at: WallTime) -> io::Result<Rc<WallTimer>> {
        let timer = match &self.wall_timer {
            Some(timer) => Rc::clone(timer),
            None => Rc::clone(self.wall_timer.insert(Rc::new(WallTimer::new()?))),
        };
        timer.set(at)?;
        Ok(timer)
    }

    /// When the job runs next by its schedule.
    pub(super) fn next_run(&self) -> Option<SystemTime> {
        match self.driver.machine().next_run(self.resources.clock.now())? {
            NextRun::At(time) => Some(wall_clock::system_time(time)),
            NextRun::In(time) => SystemTime::now().checked_add(time),
        }
    }
}
