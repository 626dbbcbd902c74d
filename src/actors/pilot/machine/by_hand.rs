//! Orders of users: to start, stop, restart or signal a job, and maintenance.

use super::member::Member;
use super::members::may_have_process;
use super::{Action, Reply, Stage, State, global};
use crate::actors::machine::{LogLine, Severity};
use crate::messages::control::{ControlJob, JobOrder, Refusal};
use crate::messages::event::EventCode;
use crate::messages::job::{JobCommand, Phase};
use crate::messages::moment::Moment;

impl State {
    /// Carries out an order to a job, or refuses it.
    pub(super) fn order(&mut self, now: Moment, request: u64, control: &ControlJob) -> Vec<Action> {
        let (reply, mut actions) = match self.carry_out_order(now, control) {
            Ok(actions) => (Ok(()), actions),
            Err(refusal) => (Err(refusal), vec![]),
        };
        if reply.is_ok() {
            let line = LogLine::new(Severity::Info, format!("by hand: {}", control.order));
            actions.insert(0, Action::Log(line.about("job", &control.name)));
        }
        actions.push(Action::Reply(request, Reply::Order(reply)));
        actions
    }

    fn carry_out_order(&mut self, now: Moment, control: &ControlJob) -> Result<Vec<Action>, Refusal> {
        let job = self.members.get(&control.name);
        let job = job.map(|job| (job.phase, has_process(job)));
        if job.is_none() && self.find_group(&control.name).is_none() {
            return Err(Refusal::NoSuchJob(control.name.clone()));
        }
        self.allows(control.order)?;
        let Some((phase, has_process)) = job else {
            return self.order_group(now, &control.name, control.order);
        };
        let changes =
            self.group_of(&control.name).is_some_and(|group| group.is_about_to_change(&control.name));
        let command = command(control.order, phase, has_process, changes)
            .map_err(|reason| Refusal::NotNow(format!("job \"{}\" {reason}", control.name)))?;
        let in_group = self.order_in_group(now, &control.name, control.order);
        Ok(in_group.unwrap_or_else(|| vec![Action::Tell(control.name.as_str().into(), command)]))
    }

    /// Whether an order can be carried out at this stage of the program.
    fn allows(&self, order: JobOrder) -> Result<(), Refusal> {
        match &self.stage {
            Stage::Running => Ok(()),
            // A user who waits for a stubborn process may want to end it.
            Stage::Reloading(_) | Stage::ShuttingDown(_) if matches!(order, JobOrder::Signal(_)) => Ok(()),
            Stage::Reloading(_) => Err(Refusal::NotNow("a reload is under way".into())),
            Stage::ShuttingDown(_) | Stage::EndingOrphans { .. } | Stage::Gone => {
                Err(Refusal::NotNow("the program is shutting down".into()))
            }
        }
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

/// Whether it may have a process: one that Consul only knows has none.
fn has_process(job: &Member) -> bool {
    job.spec.exec.is_some() && may_have_process(job.phase)
}

/// The command for an order to a job in that phase, or why there is none. `has_process`: it may have one. `changes`: its group is about to stop one that runs,
/// or to start one that does not.
fn command(
    order: JobOrder,
    phase: Phase,
    has_process: bool,
    changes: bool,
) -> Result<JobCommand, &'static str> {
    match (order, phase) {
        (JobOrder::Start, Phase::Running | Phase::TimedOut) if !changes => Err("runs already"),
        (JobOrder::Start, _) => Ok(JobCommand::Start),
        (JobOrder::Stop, Phase::Complete | Phase::Halted) if !changes => Err("does not run"),
        (JobOrder::Stop, _) => Ok(JobCommand::Halt),
        (JobOrder::Restart, _) => Ok(JobCommand::Restart),
        (JobOrder::Signal(signal), _) if has_process => Ok(JobCommand::Signal(signal)),
        (JobOrder::Signal(_), _) => Err("has no process to signal"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{job, with};
    use super::*;
    use crate::messages::signal::Signal;

    #[test]
    fn orders_that_make_no_sense_now_are_refused() {
        let at_rest = |order, phase| command(order, phase, may_have_process(phase), false);
        assert_eq!(at_rest(JobOrder::Start, Phase::Running), Err("runs already"));
        assert_eq!(at_rest(JobOrder::Start, Phase::Halted), Ok(JobCommand::Start));
        assert_eq!(at_rest(JobOrder::Stop, Phase::Complete), Err("does not run"));
        assert_eq!(at_rest(JobOrder::Stop, Phase::Delayed), Ok(JobCommand::Halt));
        assert_eq!(at_rest(JobOrder::Restart, Phase::Complete), Ok(JobCommand::Restart));
        assert!(at_rest(JobOrder::Signal(Signal::HUP), Phase::Waiting).is_err());
        assert!(at_rest(JobOrder::Signal(Signal::HUP), Phase::Terminating).is_ok());
        assert!(at_rest(JobOrder::Signal(Signal::HUP), Phase::Ending).is_err(), "its process has ended");
    }

    #[test]
    fn a_job_without_a_program_has_no_process_to_signal() {
        let running = job("app", Phase::Running);
        assert!(has_process(&running));
        assert!(!has_process(&with(running, |spec| spec.exec = None)));
    }

    #[test]
    fn what_a_group_is_about_to_do_can_be_taken_back() {
        assert_eq!(command(JobOrder::Start, Phase::Running, true, true), Ok(JobCommand::Start));
        assert_eq!(command(JobOrder::Stop, Phase::Complete, false, true), Ok(JobCommand::Halt));
        assert!(command(JobOrder::Signal(Signal::HUP), Phase::Halted, false, true).is_err());
    }
}
