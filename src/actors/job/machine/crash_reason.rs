//! Which ends of a run are crashes: failures that nobody had asked for.

use super::State;
use super::restarts::judge;
use crate::messages::job::Phase;
use crate::messages::process::{CrashReason, ExitStatus, ProcessEnded, Unstarted};

impl State {
    /// Why an end that is about to be told is a crash; `None` if it is none. To be asked before the input.
    pub fn crash(&self, ended: &ProcessEnded) -> Option<CrashReason> {
        if !self.is_current(ended.execution) || self.life.phase.is_stopping() {
            return None;
        }
        if self.life.phase == Phase::TimedOut {
            return Some(CrashReason::Timeout);
        }
        match &ended.unstarted {
            Some(Unstarted::Cancelled) => return None,
            Some(Unstarted::Failed(_)) => return Some(CrashReason::Start),
            None => {}
        }
        if judge(&self.spec, ended.status, self.was_ended_for_time()).success {
            return None;
        }
        Some(match ended.status {
            ExitStatus::Code(_) | ExitStatus::Signal { .. } if ended.for_memory => CrashReason::Memory,
            // A user asked for this signal.
            ExitStatus::Signal { signal, .. } if self.signalled == Some(signal) => return None,
            ExitStatus::Signal { .. } => CrashReason::Signal,
            ExitStatus::Code(_) => CrashReason::Status,
        })
    }
}
