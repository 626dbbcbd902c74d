//! How a job starts its process: when the log can take its output and it is its turn.

use actix::prelude::*;
use slog::{debug, error};
use tokio::time::Instant;

use super::lifecycle::Input;
use super::{Execution, Job};
use crate::process::{Order, Owner, Turn};

impl Job {
    /// Starts the process, now or as soon as there is room in the log and a turn.
    pub(super) fn spawn(&mut self, ctx: &mut Context<Self>) {
        if !self.spec.raw_output && self.around.launcher.children.log_is_flooded() {
            debug!(self.log, "waits for the log, which is not read fast enough");
            return self.spawn_after(self.around.launcher.children.log_room(), ctx);
        }
        match self.around.launcher.pace.try_turn() {
            Some(turn) => self.execute(turn, ctx),
            None => self.execute_in_turn(ctx),
        }
    }

    fn execute(&mut self, turn: Turn, ctx: &mut Context<Self>) {
        let Some(command) = &self.spec.exec else { return };
        let order = Order {
            name: &self.spec.name,
            command,
            execution: &self.spec.execution,
            raw_output: self.spec.raw_output,
            occasion: self.occasion.as_ref(),
        };
        self.runs += 1;
        let owner = Owner { ended: ctx.address().recipient(), gone: ctx.address().recipient() };
        match self.around.launcher.launch(turn, &order, owner) {
            Ok(pid) => {
                debug!(self.log, "started"; "pid" => pid.number());
                self.execution = Some(Execution { pid, started: Instant::now() });
                self.around.launcher.environ.borrow_mut().set_process(&self.spec.name, Some(pid));
                self.checks.begin();
            }
            Err(error) => {
                self.note_failure(&error.to_string(), error.shell_code());
                // In a later turn: a loop of failures must not keep others from theirs.
                ctx.spawn(fut::wrap_future(tokio::task::yield_now()).map(|(), job: &mut Self, ctx| {
                    job.hold = None;
                    job.advance(Input::SpawnFailed, ctx);
                }));
            }
        }
    }

    /// Its program could not be executed.
    pub(super) fn note_failure(&mut self, reason: &str, status: u8) {
        error!(self.log, "{reason}");
        self.execution = None;
        self.last_status = Some(status);
        self.last_exit = Some(reason.to_owned());
    }

    fn spawn_after(&mut self, event: impl Future<Output = ()> + 'static, ctx: &mut Context<Self>) {
        self.execution = None;
        self.postponed = Some(ctx.spawn(fut::wrap_future(event).map(|(), job: &mut Self, ctx| {
            job.postponed = None;
            job.spawn(ctx);
            job.show();
        })));
    }

    fn execute_in_turn(&mut self, ctx: &mut Context<Self>) {
        self.execution = None;
        let turn = fut::wrap_future(self.around.launcher.pace.turn());
        self.postponed = Some(ctx.spawn(turn.map(|turn, job: &mut Self, ctx| {
            job.postponed = None;
            if let Some(turn) = turn {
                job.execute(turn, ctx);
                job.show();
            }
        })));
    }
}
