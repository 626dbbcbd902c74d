//! The Pilot ends the program: carries out what [`super::life`] decides about a shutdown, within its budget.

use std::time::Duration;

use actix::prelude::*;
use slog::{debug, error, info, warn};
use tokio::time::Instant;

use super::life::{Reason, exit_status, orders};
use super::shutdown::Shutdown;
use super::view::JobView;
use super::{Pilot, Stage, global};
use crate::config::spec::StopBudget;
use crate::messages::event::EventCode;
use crate::messages::job::{JobCommand, Phase};
use crate::messages::process::{EndOrphans, OrphansGone};
use crate::messages::signal::Signal;

/// The share of the shutdown's budget after which everything left is told to stop.
const LAST_CALL: f64 = 0.8;
/// How long after the budget we leave with processes that even SIGKILL does not end.
const LEAVE_AFTER: Duration = Duration::from_secs(3);
/// Whoever stops us may signal us twice in one go, itself and through our group; later, it means it.
const REPEAT_AFTER: Duration = Duration::from_millis(250);
/// How long processes that jobs left behind have to end.
const ORPHAN_GRACE: Duration = Duration::from_secs(1);

impl Pilot {
    pub(super) fn shut_down(&mut self, reason: Reason, ctx: &mut Context<Self>) {
        let log = self.tools.log.logger();
        match &reason {
            Reason::Signal => info!(log, "shutting down"),
            Reason::Essential(name, Some(status)) => {
                info!(log, "shutting down: the essential job {name} ended with status {status}");
            }
            Reason::Essential(name, None) => {
                warn!(log, "shutting down: the essential job {name} is over without having run");
            }
            Reason::Completed => debug!(log, "shutting down: every job is complete"),
        }
        self.refuse_reloads();
        self.tools.board.write().shutting_down = true;
        let event = self.publish(global(EventCode::Shutdown));
        self.crew.resolve_needs();
        self.stage = Stage::ShuttingDown(Shutdown::new(reason, event, self.crew.views()));
        match self.spec.stop_timeout {
            StopBudget::Immediate => self.kill_all(ctx),
            StopBudget::Within(budget) => {
                ctx.run_later(budget.mul_f64(LAST_CALL), |pilot, _| pilot.last_call());
                ctx.run_later(budget, |pilot, ctx| {
                    if let Stage::ShuttingDown(_) = pilot.stage {
                        let log = pilot.tools.log.logger();
                        let jobs = pilot.crew.living();
                        warn!(log, "the time to stop is over: killing what is left"; "jobs" => jobs);
                        pilot.kill_all(ctx);
                    }
                });
            }
        }
        // Comes back after `shutdown` is delivered: what we send then finds its listeners at work.
        self.tools.bus.mark();
    }

    /// Everything left is told, but for those who wait for the end of another: that end may still come.
    fn last_call(&mut self) {
        let Stage::ShuttingDown(shutdown) = &mut self.stage else { return };
        let cause = Some(shutdown.event);
        for (index, job) in self.crew.views().iter().enumerate() {
            let may_still_be_called = job.closes && job.phase == Phase::Waiting;
            if !job.is_complete() && !may_still_be_called {
                shutdown.tell(index);
                self.crew.tell(index, JobCommand::Stop { cause, in_shutdown: true });
                self.crew.tell(index, JobCommand::Hurry);
            }
        }
    }

    fn kill_all(&mut self, ctx: &mut Context<Self>) {
        self.crew.tell_all(JobCommand::Kill);
        ctx.run_later(LEAVE_AFTER, |pilot, _| pilot.leave_regardless());
    }

    /// Some process does not even die of SIGKILL; whoever stops us must not wait for it.
    fn leave_regardless(&mut self) {
        if let Stage::ShuttingDown(_) = self.stage {
            let log = self.tools.log.logger();
            error!(log, "leaving although not all processes are gone"; "jobs" => self.crew.living());
            self.leave();
            // They had their time: nothing more is waited for.
            self.end_orphans(Duration::ZERO, Duration::ZERO);
        }
    }

    pub(super) fn go_on_stopping(&mut self) {
        if self.crew.views().iter().all(JobView::is_complete) {
            return self.leave();
        }
        let confirmed = self.crew.confirmed();
        let Stage::ShuttingDown(shutdown) = &mut self.stage else { return };
        if !shutdown.announced {
            return;
        }
        let orders = orders(self.crew.views(), &shutdown.told, &shutdown.started_before, &confirmed);
        let cause = Some(shutdown.event);
        for index in orders.stop.into_iter().filter(|index| shutdown.tell(*index)) {
            self.crew.tell(index, JobCommand::Stop { cause, in_shutdown: true });
        }
        self.crew.give_up(&orders.lost, true);
    }

    /// Every job is over. Processes that left their job's group may still live: they end before we do.
    fn leave(&mut self) {
        let Stage::ShuttingDown(shutdown) = &self.stage else { return };
        let status = shutdown.status.unwrap_or_else(|| exit_status(self.crew.views(), &shutdown.reason));
        if shutdown.reason == Reason::Completed {
            debug!(self.tools.log.logger(), "{}", shutdown.summary());
            if status != 0 {
                let log = self.tools.log.logger();
                info!(
                    log,
                    "every job is complete: exits with status {status}, that of the first job that failed"
                );
            }
        } else {
            info!(self.tools.log.logger(), "{}", shutdown.summary());
        }
        let budget_end = match self.spec.stop_timeout {
            StopBudget::Immediate => Some(shutdown.began),
            StopBudget::Within(budget) => shutdown.began.checked_add(budget),
        };
        let budget_left = budget_end.map(|end| end.saturating_duration_since(Instant::now()));
        self.stage = Stage::Leaving { status };
        self.end_orphans(budget_left.map_or(ORPHAN_GRACE, |left| left.min(ORPHAN_GRACE)), LEAVE_AFTER);
    }

    fn exit_with(&mut self, status: u8) {
        self.stage = Stage::Gone;
        if let Some(exit) = self.exit.take() {
            let _ = exit.send(status);
        }
    }

    fn end_orphans(&self, grace: Duration, patience: Duration) {
        self.tools.orphans.do_send(EndOrphans { grace, patience });
    }

    pub(super) fn interrupt(&mut self, signal: Signal, ctx: &mut Context<Self>) {
        let again = self.interrupted.is_some_and(|first| first.elapsed() >= REPEAT_AFTER);
        let first = self.interrupted.is_none();
        self.interrupted.get_or_insert_with(Instant::now);
        match &mut self.stage {
            Stage::Running | Stage::Reloading(_) => {
                info!(self.tools.log.logger(), "{signal} received");
                self.shut_down(Reason::Signal, ctx);
            }
            Stage::ShuttingDown(_) if again => {
                warn!(self.tools.log.logger(), "{signal} received again: killing everything");
                self.kill_all(ctx);
            }
            Stage::ShuttingDown(_) if first => {
                info!(self.tools.log.logger(), "{signal} received: shutting down already");
            }
            Stage::Leaving { .. } if again => self.end_orphans(Duration::ZERO, LEAVE_AFTER),
            Stage::ShuttingDown(_) | Stage::Leaving { .. } | Stage::Gone => {}
        }
    }
}

impl Handler<OrphansGone> for Pilot {
    type Result = ();

    fn handle(&mut self, _: OrphansGone, _: &mut Context<Self>) {
        if let Stage::Leaving { status } = self.stage {
            self.exit_with(status);
        }
    }
}
