//! Carries out the commands of the Pilot; most become inputs of the lifecycle.

use super::lifecycle::{Input, Process};
use super::reasons::StopReason;
use super::schedule::Schedule;
use super::{Action, Actions, State};
use crate::actors::machine::Severity;
use crate::messages::health::CheckCommand;
use crate::messages::job::{GroupOrder, JobCommand, Missing, Phase, StopOccasion};

impl State {
    pub(super) fn command(&mut self, command: JobCommand, list: &mut Actions) {
        match command {
            JobCommand::Stop { cause, occasion } => {
                self.in_shutdown |= occasion == StopOccasion::Shutdown;
                self.cause = cause.or(self.cause);
                self.stop_reason = Some(match occasion {
                    StopOccasion::Shutdown => StopReason::Shutdown,
                    StopOccasion::Reload => StopReason::Reload,
                    StopOccasion::Group => StopReason::GroupGaveUp,
                });
                self.advance(Input::StopRequested, list);
            }
            JobCommand::Answer(number) => list.push(Action::Report(self.changed(Some(number)))),
            JobCommand::GiveUp { in_shutdown } => {
                self.note_loss(in_shutdown, list);
                self.advance(Input::TriggerExpired, list);
            }
            JobCommand::Hurry => {
                self.advance(Input::HoldEnded, list);
                self.advance(Input::DrainElapsed, list);
            }
            JobCommand::Kill => {
                if self.life.process != Process::None && self.life.phase != Phase::Killing {
                    self.log(Severity::Warning, "is killed: its time to stop is over", list);
                }
                self.stop_reason.get_or_insert(StopReason::Killed);
                self.advance(Input::KillRequested, list);
            }
            JobCommand::Halt => {
                self.stop_reason = Some(StopReason::Halted);
                self.advance(Input::HaltRequested, list);
            }
            JobCommand::Start => self.by_hand(Input::StartRequested, list),
            JobCommand::Restart => {
                self.stop_reason = Some(StopReason::Restarted);
                self.by_hand(Input::RestartRequested, list);
            }
            JobCommand::Signal(signal) => {
                self.signalled = Some(signal);
                self.signal(signal, list);
            }
            JobCommand::Forward(signal) => self.forward(signal, list),
            JobCommand::Requeue(order) => self.group_order(order, Input::QueueRequested, list),
            JobCommand::Proceed(order) => self.group_order(order, Input::TurnCame, list),
            JobCommand::Maintain(on) => self.maintain(on, list),
            JobCommand::Retire => {
                self.retired = true;
                list.extend([Action::Check(CheckCommand::Retire), Action::Stop]);
            }
        }
    }

    /// Says why a job will not run; one that has run, or could only run at the end, needs no words.
    fn note_loss(&mut self, in_shutdown: bool, list: &mut Actions) {
        if self.life.phase == Phase::Waiting && self.runs == 0 && !in_shutdown {
            let missing = self.listener.missing();
            // Which of several it is, the Pilot knows, and does not tell.
            let is_one_of = matches!(&missing, Missing::AllOf(keys) if keys.len() > 1);
            let which = if is_one_of { "at least one of " } else { "" };
            let reason = format!("{which}{missing} can no longer come");
            self.log(Severity::Warning, format!("will not run: {reason}"), list);
            self.never_ran = Some(reason);
        }
    }

    /// Carries out an order of its group, and reports that it did, even if nothing changed by it.
    fn group_order(&mut self, order: GroupOrder, input: Input, list: &mut Actions) {
        if matches!(self.life.phase, Phase::Running | Phase::TimedOut | Phase::Sweeping) {
            self.stop_reason = Some(StopReason::Group);
        }
        self.cause = order.cause.or(self.cause);
        self.advance(input, list);
        self.group_order = order.number;
        self.reported = None;
        self.report(list);
    }

    /// Starts by hand; nothing gives up waiting for its trigger after that. The ticks of an interval that had ended begin anew.
    fn by_hand(&mut self, input: Input, list: &mut Actions) {
        self.occasion = None;
        if matches!(self.schedule, Some(Schedule::TriggerTimeout(_))) {
            self.cancel_schedule(list);
        }
        self.advance(input, list);
        self.resume_ticks(list);
    }
}
