//! What a job is told: each message becomes an input of its lifecycle.

use std::time::Duration;

use actix::prelude::*;
use slog::{error, info, warn};

use super::lifecycle::{Ended, Input, Process};
use super::{Job, reasons};
use crate::config::spec::Trigger;
use crate::messages::bus::{HoldReleased, Notice};
use crate::messages::discovery::Withdrawn;
use crate::messages::event::EventCode;
use crate::messages::health::{CheckChanged, Health};
use crate::messages::job::{JobCommand, Phase};
use crate::messages::process::{GroupGone, ProcessEnded, Unstarted};
use crate::messages::signal::Signal;

impl Handler<Notice> for Job {
    type Result = ();

    fn handle(&mut self, notice: Notice, ctx: &mut Context<Self>) {
        let key = &notice.event.key;
        if key.code == EventCode::Startup && self.schedule.is_none() {
            self.schedule_from_startup(ctx);
        }
        if !self.listener.observe(key) {
            return;
        }
        if !matches!(self.spec.when.trigger, Trigger::Interval(_)) {
            self.cancel_schedule(ctx);
        }
        self.cause = notice.cause();
        self.occasion = Some(key.clone());
        self.advance(Input::Triggered, ctx);
        if self.state.phase == Phase::Running || self.state.pending {
            self.hold = notice.hold.or(self.hold.take());
        }
    }
}

impl Handler<ProcessEnded> for Job {
    type Result = ();

    fn handle(&mut self, ended: ProcessEnded, ctx: &mut Context<Self>) {
        let Some(execution) = self.execution.as_ref().filter(|execution| execution.id == ended.execution)
        else {
            return;
        };
        let lasted = execution.process.map_or(Duration::ZERO, |(_, started)| started.elapsed());
        self.checks.pause();
        if !self.state.pending {
            self.hold = None;
        }
        let reason = reasons::end(&ended, self.kill);
        self.ended = Some(reasons::of_end(&ended, &reason));
        match &ended.unstarted {
            Some(Unstarted::Failed(reason)) => {
                self.note_failure(reason, ended.status.shell_code());
                return self.advance(Input::SpawnFailed, ctx);
            }
            Some(Unstarted::Cancelled) => {
                self.runs = self.runs.saturating_sub(1);
                return self.advance(Input::SpawnFailed, ctx);
            }
            None => {}
        }
        self.log_end(&ended);
        self.last_status = Some(ended.status.shell_code());
        self.last_exit = Some(reason);
        self.advance(Input::Exited(Ended { success: ended.status.is_success(), lasted }), ctx);
        if !ended.leftover {
            self.advance(Input::GroupGone, ctx);
        }
    }
}

impl Handler<GroupGone> for Job {
    type Result = ();

    fn handle(&mut self, GroupGone(id): GroupGone, ctx: &mut Context<Self>) {
        if self.execution.as_ref().is_some_and(|execution| execution.id == id) {
            self.advance(Input::GroupGone, ctx);
        }
    }
}

impl Handler<Withdrawn> for Job {
    type Result = ();

    fn handle(&mut self, _: Withdrawn, ctx: &mut Context<Self>) {
        self.advance(Input::DeregistrationEnded, ctx);
    }
}

impl Handler<HoldReleased> for Job {
    type Result = ();

    fn handle(&mut self, HoldReleased(number): HoldReleased, ctx: &mut Context<Self>) {
        if number == self.holds {
            self.advance(Input::HoldEnded, ctx);
        }
    }
}

impl Handler<CheckChanged> for Job {
    type Result = ();

    fn handle(&mut self, change: CheckChanged, _: &mut Context<Self>) {
        match self.checks.note(change) {
            Some(Health::Healthy) => {
                info!(self.log, "healthy"; "pid" => self.pid());
                self.publish(EventCode::Healthy);
            }
            Some(Health::Unhealthy) => {
                warn!(self.log, "unhealthy"; "pid" => self.pid());
                self.publish(EventCode::Unhealthy);
            }
            Some(Health::Unknown | Health::Maintenance) | None => {}
        }
        self.advertise();
        self.report();
        self.show();
    }
}

impl Handler<JobCommand> for Job {
    type Result = ();

    fn handle(&mut self, command: JobCommand, ctx: &mut Context<Self>) {
        match command {
            JobCommand::Stop { cause, in_shutdown } => {
                self.in_shutdown |= in_shutdown;
                self.cause = cause.or(self.cause);
                self.stop_reason = Some(if in_shutdown {
                    "the program shuts down"
                } else {
                    "a reload changed or removed the job"
                });
                self.advance(Input::StopRequested, ctx);
            }
            JobCommand::Answer(number) => self.tell_pilot(Some(number)),
            JobCommand::GiveUp { in_shutdown } => {
                self.note_loss(in_shutdown);
                self.advance(Input::TriggerExpired, ctx);
            }
            JobCommand::Hurry => {
                self.advance(Input::HoldEnded, ctx);
                self.advance(Input::DrainElapsed, ctx);
            }
            JobCommand::Kill => {
                if self.state.process != Process::None && self.state.phase != Phase::Killing {
                    warn!(self.log, "is killed: its time to stop is over"; "pid" => self.pid());
                }
                self.stop_reason = self.stop_reason.or(Some("it is killed, together with the program"));
                self.advance(Input::KillRequested, ctx);
            }
            JobCommand::Halt => {
                self.stop_reason = Some("it is stopped by hand");
                self.advance(Input::HaltRequested, ctx);
            }
            JobCommand::Start => self.by_hand(Input::StartRequested, ctx),
            JobCommand::Restart => {
                self.stop_reason = Some("it is restarted by hand");
                self.by_hand(Input::RestartRequested, ctx);
            }
            JobCommand::Signal(signal) => self.signal(signal),
            JobCommand::Maintain(on) => self.maintain(on),
            JobCommand::Retire => {
                self.checks.retire();
                ctx.stop();
            }
        }
    }
}

impl Drop for Job {
    /// Nobody waits forever for a job whose actor died by a panic.
    fn drop(&mut self) {
        if !std::thread::panicking() || matches!(self.state.phase, Phase::Complete | Phase::Halted) {
            return;
        }
        error!(self.log, "the job's actor ended unexpectedly: its processes are killed");
        self.end_with(Signal::KILL);
        if let Some(advertisement) = &mut self.advertisement {
            advertisement.withdraw(None);
        }
        if !self.state.phase.is_stopping() {
            self.publish(EventCode::Stopping);
        }
        self.publish(EventCode::Stopped);
        self.state.phase = Phase::Complete;
        self.report();
    }
}
