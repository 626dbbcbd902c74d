//! What the Pilot knows of each job when it decides about the whole.

use std::sync::Arc;

use crate::config::spec::{JobKind, JobSpec, Trigger};
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::health::Health;
use crate::messages::job::{Missing, Phase};

/// One job as seen from above.
#[derive(Debug, Clone)]
pub struct JobView {
    /// Its name.
    pub name: Arc<str>,
    /// Job or coprocess.
    pub kind: JobKind,
    /// Whether it executes anything.
    pub has_process: bool,
    /// Whether its end ends the program.
    pub essential: bool,
    /// Whether it has health checks.
    pub has_health: bool,
    /// The jobs whose `healthy` event it waits or waited for.
    pub awaits_healthy: Vec<Arc<str>>,
    /// The jobs whose `exitSuccess` event it waits or waited for.
    pub awaits_success: Vec<Arc<str>>,
    /// The jobs that must outlive it, once they are resolved.
    pub needs: Vec<Arc<str>>,
    /// Whether it listens for the end of something, so that it may have to run while we shut down.
    pub closes: bool,
    /// What it is doing.
    pub phase: Phase,
    /// Whether it stops only to run again, or until it is started by hand.
    pub returns: bool,
    /// Its health.
    pub health: Health,
    /// What it still waits for while it waits.
    pub missing: Missing,
    /// How its last execution ended: 0, a status, or 128 plus the signal.
    pub last_status: Option<u8>,
    /// When its last execution ended, in the order of all ends.
    pub last_end: u64,
}

impl JobView {
    /// A job that has not begun.
    pub fn new(spec: &JobSpec, missing: Missing, keys: &[EventKey]) -> Self {
        let sources = |wanted: EventCode| -> Vec<Arc<str>> {
            let source = |key: &EventKey| match &key.source {
                Source::Job(name) if key.code == wanted && **name != *spec.name => Some(name.clone()),
                Source::Job(_) | Source::Global | Source::Watch(_) | Source::Check(_) | Source::Signal(_) => {
                    None
                }
            };
            keys.iter().filter_map(source).collect()
        };
        let ends = [EventCode::Shutdown, EventCode::Stopping, EventCode::Stopped];
        Self {
            name: spec.name.clone(),
            kind: spec.kind,
            has_process: spec.exec.is_some(),
            essential: spec.essential,
            has_health: !spec.health.is_empty(),
            awaits_healthy: sources(EventCode::Healthy),
            awaits_success: sources(EventCode::ExitSuccess),
            needs: vec![],
            closes: !matches!(spec.when.trigger, Trigger::Interval(_))
                && keys.iter().any(|key| ends.contains(&key.code)),
            phase: Phase::Waiting,
            returns: false,
            health: Health::Unknown,
            missing,
            last_status: None,
            last_end: 0,
        }
    }

    /// Whether it is over.
    pub fn is_complete(&self) -> bool {
        self.phase == Phase::Complete
    }

    /// Whether it can still publish an event of this code. Only certain knowledge says no: a job that will run again,
    /// or that a user may start again, can publish all that it ever could.
    pub fn can_emit(&self, code: EventCode) -> bool {
        let whole_life_ahead = match self.phase {
            Phase::Waiting
            | Phase::Running
            | Phase::TimedOut
            | Phase::Sweeping
            | Phase::Delayed
            | Phase::Halted => true,
            Phase::Holding
            | Phase::Deregistering
            | Phase::Draining
            | Phase::Terminating
            | Phase::Killing
            | Phase::Ending => self.returns,
            Phase::Complete => return false,
        };
        match code {
            EventCode::Stopped => true,
            EventCode::Stopping => whole_life_ahead,
            EventCode::ExitSuccess | EventCode::ExitFailed => {
                self.has_process && (whole_life_ahead || self.phase != Phase::Ending)
            }
            EventCode::Healthy | EventCode::Unhealthy => self.has_health && whole_life_ahead,
            EventCode::Startup
            | EventCode::Shutdown
            | EventCode::Changed
            | EventCode::EnterMaintenance
            | EventCode::ExitMaintenance
            | EventCode::Signal => false,
        }
    }
}
