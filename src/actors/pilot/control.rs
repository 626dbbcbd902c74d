//! What the control plane asks of the Pilot.

use actix::prelude::*;
use slog::info;
use tokio::sync::oneshot;

use super::{Pilot, Stage, global};
use crate::config::exec_limits::{ExecLimits, cost_of_job, length};
use crate::config::spec::Environment;
use crate::messages::control::{
    ChangeEnvironment, ControlJob, JobOrder, Refusal, Reload, ReloadSummary, SetMaintenance,
};
use crate::messages::event::EventCode;
use crate::messages::job::{JobCommand, Phase};

impl Handler<Reload> for Pilot {
    type Result = ResponseFuture<Result<ReloadSummary, Refusal>>;

    fn handle(&mut self, reload: Reload, ctx: &mut Context<Self>) -> Self::Result {
        if !matches!(self.stage, Stage::Running | Stage::Reloading(_)) {
            return Box::pin(async { Err(Refusal::NotNow("the program is shutting down".into())) });
        }
        let (answer, answered) = oneshot::channel();
        self.request_reload(reload, Some(answer), ctx);
        Box::pin(async move {
            answered.await.unwrap_or_else(|_| Err(Refusal::NotNow("the reload was given up".into())))
        })
    }
}

impl Handler<ControlJob> for Pilot {
    type Result = Result<(), Refusal>;

    fn handle(&mut self, control: ControlJob, _: &mut Context<Self>) -> Self::Result {
        let Some(index) = self.crew.find(&control.name) else {
            return Err(Refusal::NoSuchJob(control.name));
        };
        match &self.stage {
            Stage::Running => {}
            // Who waits for a stubborn process may want to end it.
            Stage::Reloading(_) | Stage::ShuttingDown(_) if matches!(control.order, JobOrder::Signal(_)) => {}
            Stage::Reloading(_) => return Err(Refusal::NotNow("a reload is under way".into())),
            Stage::ShuttingDown(_) | Stage::Leaving { .. } | Stage::Gone => {
                return Err(Refusal::NotNow("the program is shutting down".into()));
            }
        }
        let phase = self.crew.views().get(index).map(|job| job.phase);
        let command = command(control.order, phase.unwrap_or(Phase::Waiting))
            .map_err(|reason| Refusal::NotNow(format!("job \"{}\" {reason}", control.name)))?;
        info!(self.tools.log.logger(), "by hand: {}", control.order; "job" => control.name);
        self.crew.tell(index, command);
        Ok(())
    }
}

/// The command for an order to a job in that phase, or why there is none.
fn command(order: JobOrder, phase: Phase) -> Result<JobCommand, &'static str> {
    let alive = matches!(phase, Phase::Running | Phase::TimedOut) || phase.is_stopping();
    match (order, phase) {
        (JobOrder::Start, Phase::Running | Phase::TimedOut) => Err("runs already"),
        (JobOrder::Start, _) => Ok(JobCommand::Start),
        (JobOrder::Stop, Phase::Complete | Phase::Halted) => Err("does not run"),
        (JobOrder::Stop, _) => Ok(JobCommand::Halt),
        (JobOrder::Restart, _) => Ok(JobCommand::Restart),
        (JobOrder::Signal(signal), _) if alive => Ok(JobCommand::Signal(signal)),
        (JobOrder::Signal(_), _) => Err("has no process to signal"),
    }
}

impl Handler<SetMaintenance> for Pilot {
    type Result = bool;

    fn handle(&mut self, SetMaintenance(on): SetMaintenance, _: &mut Context<Self>) -> bool {
        if self.maintenance == on {
            return false;
        }
        info!(self.tools.log.logger(), "{} maintenance", if on { "entering" } else { "leaving" });
        self.maintenance = on;
        self.tools.board.write().maintenance = on;
        self.publish(global(if on { EventCode::EnterMaintenance } else { EventCode::ExitMaintenance }));
        self.crew.tell_all(JobCommand::Maintain(on));
        true
    }
}

impl Handler<ChangeEnvironment> for Pilot {
    type Result = Result<(), Refusal>;

    fn handle(
        &mut self,
        ChangeEnvironment(changes): ChangeEnvironment,
        _: &mut Context<Self>,
    ) -> Self::Result {
        let mut environ = self.tools.environ.borrow_mut();
        let mut changed = environ.clone();
        changed.change(&changes);
        let largest_job = self.spec.jobs.iter().map(|job| cost_of_job(job)).max().unwrap_or_default();
        acceptable(&changes, changed.cost() + largest_job, ExecLimits::current())
            .map_err(Refusal::TooLarge)?;
        *environ = changed;
        Ok(())
    }
}

/// Whether processes can still be started after these changes, when variables and arguments cost `total` then.
fn acceptable(changes: &Environment, total: usize, limits: ExecLimits) -> Result<(), String> {
    let set = changes.iter().filter_map(|(name, value)| Some((name, length(name, value.as_ref()?))));
    let Some((name, longest)) = set.max_by_key(|(_, length)| *length) else { return Ok(()) };
    let (string, all) = (limits.string(), limits.total());
    if longest > string {
        return Err(format!(
            "{name}: it would take {longest} bytes; no process can be started with a variable of more than {string}"
        ));
    }
    if total > all {
        return Err(format!(
            "{name}: with it all variables would take {total} bytes; no process can be started with more than {all}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::signal::Signal;

    #[test]
    fn variables_that_would_keep_processes_from_starting_are_refused() {
        let limits = ExecLimits::default();
        let set = |bytes: usize| vec![("A".to_owned(), Some("x".repeat(bytes))), ("B".into(), None)];
        assert_eq!(acceptable(&set(131_069), limits.total(), limits), Ok(()));
        let refused = |changes, total| acceptable(&changes, total, limits).unwrap_err();
        assert!(refused(set(131_070), 0).starts_with("A: it would take 131073 bytes; "));
        assert!(refused(set(1), limits.total() + 1).starts_with("A: with it all variables would take "));
        assert_eq!(
            acceptable(&vec![("B".into(), None)], limits.total() + 1, limits),
            Ok(()),
            "it gets better"
        );
    }

    #[test]
    fn orders_that_make_no_sense_now_are_refused() {
        assert_eq!(command(JobOrder::Start, Phase::Running), Err("runs already"));
        assert_eq!(command(JobOrder::Start, Phase::Halted), Ok(JobCommand::Start));
        assert_eq!(command(JobOrder::Stop, Phase::Complete), Err("does not run"));
        assert_eq!(command(JobOrder::Stop, Phase::Delayed), Ok(JobCommand::Halt));
        assert_eq!(command(JobOrder::Restart, Phase::Complete), Ok(JobCommand::Restart));
        assert!(command(JobOrder::Signal(Signal::HUP), Phase::Waiting).is_err());
        assert!(command(JobOrder::Signal(Signal::HUP), Phase::Terminating).is_ok());
    }
}
