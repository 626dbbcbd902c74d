//! Signals that are passed on to jobs. A signal that a job asks for has no other meaning to us, but jobs that wait for it
//! as an event still run.

use super::{Action, State};
use crate::messages::event::EventKey;
use crate::messages::job::JobCommand;
use crate::messages::signal::Signal;

impl State {
    /// Passes a signal on to the jobs that ask for it; `None` if none does.
    pub(super) fn forward(&self, signal: Signal, event: &EventKey) -> Option<Vec<Action>> {
        let asking = self.spec.jobs.iter().filter(|job| job.forward.contains(&signal));
        let mut actions: Vec<Action> =
            asking.map(|job| Action::Tell(job.name.clone(), JobCommand::Forward(signal))).collect();
        if actions.is_empty() {
            return None;
        }
        if self.is_awaited(event) {
            actions.push(Action::Publish(event.clone()));
        }
        Some(actions)
    }

    /// Whether some job waits for an event.
    pub(super) fn is_awaited(&self, event: &EventKey) -> bool {
        self.spec.jobs.iter().any(|job| job.when.keys().contains(event))
    }
}
