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
use crate::messages::job::JobCommand;
use crate::messages::signal::Signal;

/// The share of the shutdown's budget after which everything left is told to stop.
const LAST_CALL: f64 = 0.8;
/// How long after the budget we leave with processes that even SIGKILL does not end.
const LEAVE_AFTER: Duration = Duration::from_secs(3);
/// How long processes that jobs left behind have to end.
const ORPHAN_GRACE: Duration = Duration::from_secs(1);
/// How often they are looked for, once everything else is over.
const ORPHAN_POLL: Duration = Duration::from_millis(10);

impl Pilot {
    pub(super) fn shut_down(&mut self, reason: Reason, ctx: &mut Context<Self>) {
        let log = self.tools.log.logger();
        match &reason {
            Reason::Signal => info!(log, "shutting down"),
            Reason::Essential(name, status) => {
                info!(log, "shutting down: the essential job {name} ended with status {status}");
            }
            Reason::Completed => debug!(log, "shutting down: every job is complete"),
        }
        self.refuse_reloads();
        self.tools.board.write().shutting_down = true;
        let event = self.publish(global(EventCode::Shutdown));
        self.stage = Stage::ShuttingDown(Shutdown::new(reason, event, self.crew.views()));
        match self.spec.stop_timeout {
            StopBudget::Immediate => self.crew.tell_all(JobCommand::Kill),
            StopBudget::Within(budget) => {
                ctx.run_later(budget.mul_f64(LAST_CALL), |pilot, _| pilot.last_call());
                ctx.run_later(budget, |pilot, _| pilot.kill_all());
                ctx.run_later(budget.saturating_add(LEAVE_AFTER), |pilot, ctx| pilot.leave_regardless(ctx));
            }
        }
        // Comes back after `shutdown` is delivered: what we send then finds its listeners at work.
        self.tools.bus.mark();
    }

    fn last_call(&mut self) {
        let Stage::ShuttingDown(shutdown) = &mut self.stage else { return };
        let cause = Some(shutdown.event);
        for index in 0..self.crew.views().len() {
            shutdown.tell(index);
        }
        self.crew.tell_all(JobCommand::Stop { cause, in_shutdown: true });
        self.crew.tell_all(JobCommand::Hurry);
    }

    fn kill_all(&mut self) {
        if let Stage::ShuttingDown(_) = self.stage {
            let log = self.tools.log.logger();
            warn!(log, "the time to stop is over: killing what is left"; "jobs" => self.crew.living());
            self.crew.tell_all(JobCommand::Kill);
        }
    }

    /// Some process does not even die of SIGKILL; whoever stops us must not wait for it.
    fn leave_regardless(&mut self, ctx: &mut Context<Self>) {
        if let Stage::ShuttingDown(_) = self.stage {
            let log = self.tools.log.logger();
            error!(log, "leaving although not all processes are gone"; "jobs" => self.crew.living());
            self.leave(ctx);
        }
    }

    pub(super) fn go_on_stopping(&mut self, ctx: &mut Context<Self>) {
        if self.crew.views().iter().all(JobView::is_complete) {
            return self.leave(ctx);
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
        self.crew.give_up(&orders.lost);
    }

    /// Every job is over. Processes that left their job's group may still live: they end before we do.
    fn leave(&mut self, ctx: &mut Context<Self>) {
        let Stage::ShuttingDown(shutdown) = &self.stage else { return };
        let status = exit_status(self.crew.views(), &shutdown.reason);
        if shutdown.reason == Reason::Completed {
            debug!(self.tools.log.logger(), "{}", shutdown.summary());
        } else {
            info!(self.tools.log.logger(), "{}", shutdown.summary());
        }
        let budget_end = match self.spec.stop_timeout {
            StopBudget::Immediate => Some(shutdown.began),
            StopBudget::Within(budget) => shutdown.began.checked_add(budget),
        };
        let grace_end = Instant::now() + ORPHAN_GRACE;
        let kill_from = budget_end.map_or(grace_end, |end| end.min(grace_end));
        self.stage = Stage::Leaving { status, kill_from };
        self.tools.children.signal_adopted(Signal::TERM);
        self.wait_for_orphans(ctx);
    }

    fn wait_for_orphans(&mut self, ctx: &mut Context<Self>) {
        let Stage::Leaving { status, kill_from } = self.stage else { return };
        let late = kill_from.elapsed() >= LEAVE_AFTER;
        if late || !self.tools.children.has_adopted() {
            self.stage = Stage::Gone;
            if let Some(exit) = self.exit.take() {
                let _ = exit.send(status);
            }
            return;
        }
        if Instant::now() >= kill_from {
            // Again and again: each that dies may leave us its children.
            self.tools.children.signal_adopted(Signal::KILL);
        }
        ctx.run_later(ORPHAN_POLL, Self::wait_for_orphans);
    }

    pub(super) fn interrupt(&mut self, signal: Signal, ctx: &mut Context<Self>) {
        match &mut self.stage {
            Stage::Running | Stage::Reloading(_) => {
                info!(self.tools.log.logger(), "{signal} received");
                self.shut_down(Reason::Signal, ctx);
            }
            Stage::ShuttingDown(_) => {
                warn!(self.tools.log.logger(), "{signal} received again: killing everything");
                self.crew.tell_all(JobCommand::Kill);
            }
            Stage::Leaving { kill_from, .. } => *kill_from = (*kill_from).min(Instant::now()),
            Stage::Gone => {}
        }
    }
}
