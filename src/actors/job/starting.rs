//! How a job starts its process: when the log can take its output. The start itself happens on another thread; its
//! outcome comes back as a message.

use actix::prelude::*;
use slog::{debug, error, info};
use tokio::time::Instant;

use super::{Execution, Job};
use crate::messages::job::Phase;
use crate::messages::process::ProcessStarted;
use crate::process::{Kind, Order, Owner};

impl Job {
    /// Asks for the process, now or as soon as there is room in the log.
    pub(super) fn spawn(&mut self, ctx: &mut Context<Self>) {
        let Some(command) = self.spec.exec.clone() else { return };
        if !self.spec.raw_output && self.around.sink.is_flooded() {
            debug!(self.log, "waits for the log, which is not read fast enough");
            return self.spawn_when_log_has_room(ctx);
        }
        let order = Order {
            job: self.spec.clone(),
            command,
            kind: Kind::Job,
            raw_output: self.spec.raw_output,
            occasion: self.occasion.clone(),
        };
        self.runs += 1;
        let address = ctx.address();
        let owner = Owner {
            started: address.clone().recipient(),
            ended: address.clone().recipient(),
            gone: address.recipient(),
        };
        let id = self.around.launcher.launch(order, owner);
        self.execution = Some(Execution { id, process: None });
    }

    /// Its program could not be executed.
    pub(super) fn note_failure(&mut self, reason: &str, status: u8) {
        error!(self.log, "{reason}");
        self.last_status = Some(status);
        self.last_exit = Some(reason.to_owned());
    }

    fn spawn_when_log_has_room(&mut self, ctx: &mut Context<Self>) {
        self.execution = None;
        let sink = self.around.sink.clone();
        let room = fut::wrap_future(async move { sink.room().await });
        self.postponed = Some(ctx.spawn(room.map(|(), job: &mut Self, ctx| {
            job.postponed = None;
            job.spawn(ctx);
            job.show();
        })));
    }
}

impl Handler<ProcessStarted> for Job {
    type Result = ();

    fn handle(&mut self, started: ProcessStarted, _: &mut Context<Self>) {
        let Some(execution) = self.execution.as_mut().filter(|execution| execution.id == started.execution)
        else {
            return;
        };
        execution.process = Some((started.pid, Instant::now()));
        if self.is_routine() {
            debug!(self.log, "started"; "pid" => started.pid.number());
        } else {
            info!(self.log, "started"; "pid" => started.pid.number());
        }
        if self.state.phase == Phase::Running {
            self.checks.begin();
        }
        self.show();
    }
}
