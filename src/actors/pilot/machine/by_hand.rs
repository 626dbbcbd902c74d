//! What people order by hand: to start, stop, restart or signal a job, and maintenance.

use super::member::Member;
use super::{Action, Reply, Stage, State, global};
use crate::actors::machine::{LogLine, Severity};
use crate::messages::control::{ControlJob, JobOrder, Refusal};
use crate::messages::event::EventCode;
use crate::messages::job::{JobCommand, Phase};

impl State {
    /// Carries out an order to a job, or refuses it.
    pub(super) fn order(&self, request: u64, control: &ControlJob) -> Vec<Action> {
        match self.command_for(control) {
            Ok(command) => {
                let line = LogLine::new(Severity::Info, format!("by hand: {}", control.order));
                vec![
                    Action::Log(line.about("job", &control.name)),
                    Action::Tell(control.name.as_str().into(), command),
                    Action::Reply(request, Reply::Order(Ok(()))),
                ]
            }
            Err(refusal) => vec![Action::Reply(request, Reply::Order(Err(refusal)))],
        }
    }

    fn command_for(&self, control: &ControlJob) -> Result<JobCommand, Refusal> {
        let Some(job) = self.members.get(&control.name) else {
            return Err(Refusal::NoSuchJob(control.name.clone()));
        };
        match &self.stage {
            Stage::Running => {}
            // Who waits for a stubborn process may want to end it.
            Stage::Reloading(_) | Stage::ShuttingDown(_) if matches!(control.order, JobOrder::Signal(_)) => {}
            Stage::Reloading(_) => return Err(Refusal::NotNow("a reload is under way".into())),
            Stage::ShuttingDown(_) | Stage::EndingOrphans { .. } | Stage::Gone => {
                return Err(Refusal::NotNow("the program is shutting down".into()));
            }
        }
        command(control.order, job.phase)
            .map_err(|reason| Refusal::NotNow(format!("job \"{}\" {reason}", control.name)))
    }

    /// Enters or leaves maintenance.
    pub(super) fn set_maintenance(&mut self, request: u64, on: bool) -> Vec<Action> {
        if self.maintenance == on {
            return vec![Action::Reply(request, Reply::Maintenance(false))];
        }
        self.maintenance = on;
        let (verb, code) = if on {
            ("entering", EventCode::EnterMaintenance)
        } else {
            ("leaving", EventCode::ExitMaintenance)
        };
        let mut actions =
            vec![Action::log(Severity::Info, format!("{verb} maintenance")), Action::Publish(global(code))];
        // Complete jobs too: they may be started by hand.
        let tell = |job: &Member| Action::Tell(job.name().clone(), JobCommand::Maintain(on));
        actions.extend(self.members.list().iter().map(tell));
        actions.push(Action::Reply(request, Reply::Maintenance(true)));
        actions
    }
}

/// The command for an order to a job in that phase, or why there is none.
fn command(order: JobOrder, phase: Phase) -> Result<JobCommand, &'static str> {
    let is_alive = matches!(phase, Phase::Running | Phase::TimedOut) || phase.is_stopping();
    match (order, phase) {
        (JobOrder::Start, Phase::Running | Phase::TimedOut) => Err("runs already"),
        (JobOrder::Start, _) => Ok(JobCommand::Start),
        (JobOrder::Stop, Phase::Complete | Phase::Halted) => Err("does not run"),
        (JobOrder::Stop, _) => Ok(JobCommand::Halt),
        (JobOrder::Restart, _) => Ok(JobCommand::Restart),
        (JobOrder::Signal(signal), _) if is_alive => Ok(JobCommand::Signal(signal)),
        (JobOrder::Signal(_), _) => Err("has no process to signal"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::signal::Signal;

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
