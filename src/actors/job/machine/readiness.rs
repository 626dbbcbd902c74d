//! When an execution of a job can be used: told once, by the event `ready`.

use super::{Actions, State};
use crate::messages::event::EventCode;
use crate::messages::job::Phase;

impl State {
    /// The program was executed. Without checks, that is all that there is to know.
    pub(super) fn ready_by_start(&mut self, list: &mut Actions) {
        if self.spec.health.is_empty() {
            self.become_ready(list);
        }
    }

    /// Tells that the execution can be used, once. A job that was told to stop has no news of this kind.
    pub(super) fn become_ready(&mut self, list: &mut Actions) {
        if self.ready || self.life.phase != Phase::Running {
            return;
        }
        self.ready = true;
        self.publish(EventCode::Ready, None, list);
    }
}
