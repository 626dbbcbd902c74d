//! What the Pilot knows of each job when it decides about the whole.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::config::spec::{JobKind, JobSpec, OnUnhealthy};
use crate::messages::event::{EventCode, Source};
use crate::messages::health::Health;
use crate::messages::job::{JobChanged, Missing, Phase};
use crate::messages::moment::Moment;

/// One job of the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Member {
    pub spec: Arc<JobSpec>,
    /// Tells it from others that had this name before.
    pub generation: u64,
    pub phase: Phase,
    /// Whether it stops only to run again, or until it is started by hand.
    pub returns: bool,
    pub health: Health,
    /// Whether its current execution is ready.
    pub ready: bool,
    /// Whether any of its executions was ready.
    pub has_been_ready: bool,
    /// Whether it was ever healthy.
    pub has_been_healthy: bool,
    /// The events that it still waits for.
    pub missing: Missing,
    /// How its last execution ended: 0, a status, or 128 plus the signal.
    pub last_status: Option<u8>,
    /// When its last execution ended, in the order of all ends.
    pub last_end: u64,
    /// The jobs that must outlive it, found out when jobs begin to stop.
    pub needs: Vec<Arc<str>>,
    /// When it was told to stop, by the reload or shutdown under way.
    pub told: Option<Moment>,
    /// Whether it ran, or had run, when the reload or shutdown under way began.
    pub ran_before: bool,
    /// The number of the last question where it is.
    pub asked: u64,
    /// The number of the last question that it answered.
    pub answered: u64,
    /// The number of the last order of its group that it has carried out.
    pub group_order: u64,
}

impl Member {
    /// A job that has not begun.
    pub fn new(spec: Arc<JobSpec>, generation: u64) -> Self {
        Self {
            generation,
            phase: Phase::Waiting,
            returns: false,
            health: Health::Unknown,
            ready: false,
            has_been_ready: false,
            has_been_healthy: false,
            missing: spec.when.beginning().first_missing(),
            last_status: None,
            last_end: 0,
            needs: vec![],
            told: None,
            ran_before: false,
            asked: 0,
            answered: 0,
            group_order: 0,
            spec,
        }
    }

    pub fn name(&self) -> &Arc<str> {
        &self.spec.name
    }

    pub fn note(&mut self, change: &JobChanged) {
        self.phase = change.phase;
        self.returns = change.returns;
        self.health = change.health;
        self.ready = change.ready;
        self.has_been_ready |= change.ready;
        self.has_been_healthy |= change.health == Health::Healthy;
        self.missing = change.missing.clone();
        self.last_status = change.last_status;
        self.answered = change.answers.unwrap_or(self.answered);
        self.group_order = change.group_order;
    }

    pub fn is_complete(&self) -> bool {
        self.phase == Phase::Complete
    }

    pub fn is_in_group(&self, name: &str) -> bool {
        self.spec.group.as_ref().is_some_and(|place| *place.group == *name)
    }

    /// Whether it is a job and not a coprocess.
    pub fn is_ordinary(&self) -> bool {
        self.spec.kind == JobKind::Job
    }

    /// Whether its first start is over: the program was executed, that failed, or the job was stopped before.
    pub fn was_started(&self) -> bool {
        let is_not_to_be = matches!(self.phase, Phase::Halted | Phase::Complete);
        self.ready || self.last_status.is_some() || is_not_to_be
    }

    /// Whether it is unhealthy, and the program is to end then.
    pub fn is_too_ill(&self) -> bool {
        self.spec.on_unhealthy == OnUnhealthy::Shutdown
            && self.health == Health::Unhealthy
            && !self.phase.is_stopping()
            && !self.is_complete()
    }

    /// Whether it is still to be told to stop.
    pub fn remains(&self) -> bool {
        !self.is_complete() && self.told.is_none()
    }

    /// The other jobs whose event of that code it waits or waited for.
    pub fn awaits(&self, code: EventCode) -> impl Iterator<Item = &Arc<str>> {
        self.spec.when.keys().iter().filter_map(move |key| match &key.source {
            Source::Job(name) if key.code == code && name != self.name() => Some(name),
            Source::Job(_)
            | Source::Global
            | Source::Watch(_)
            | Source::Check(_)
            | Source::Group(_)
            | Source::Signal(_) => None,
        })
    }

    /// The other jobs that it uses: it waits or waited for them to be ready or healthy.
    pub fn awaits_service(&self) -> impl Iterator<Item = &Arc<str>> {
        self.awaits(EventCode::Ready).chain(self.awaits(EventCode::Healthy))
    }

    /// The groups that it uses: it waits or waited for them to be ready or healthy.
    pub fn awaited_groups(&self) -> impl Iterator<Item = &str> {
        self.spec.when.keys().iter().filter_map(|key| match (&key.source, key.code) {
            (Source::Group(name), EventCode::Ready | EventCode::Healthy) => Some(&**name),
            _ => None,
        })
    }

    /// Whether it waits for its first run with a time limit, and so ends if that does not come.
    pub fn gives_up_in_time(&self) -> bool {
        self.phase == Phase::Waiting && self.spec.when.timeout.is_some() && self.last_status.is_none()
    }

    /// Whether it listens for the end of something, so that it may have to run while we shut down.
    pub fn listens_for_an_end(&self) -> bool {
        let ends = [EventCode::Shutdown, EventCode::Stopping, EventCode::Stopped];
        self.spec.when.keys().iter().any(|key| ends.contains(&key.code))
    }

    /// Whether it runs when another job stops, or when the group of that does.
    pub fn awaits_end_of(&self, other: &Self) -> bool {
        let is_end = |code| matches!(code, EventCode::Stopping | EventCode::Stopped);
        self.spec.when.keys().iter().filter(|key| is_end(key.code)).any(|key| match &key.source {
            Source::Job(name) => name == other.name(),
            Source::Group(name) => other.is_in_group(name),
            Source::Global | Source::Watch(_) | Source::Check(_) | Source::Signal(_) => false,
        })
    }

    /// Whether it can still publish an event of this code. Only certain knowledge says no: a job that will run again,
    /// or that a user may start again, can publish all that it ever could.
    pub fn can_emit(&self, code: EventCode) -> bool {
        let whole_life_ahead = match self.phase {
            Phase::Waiting
            | Phase::Running
            | Phase::TimedOut
            | Phase::Sweeping
            | Phase::Queued
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
            // Each execution can come to be ready; what nothing executes is ready as soon as it need not wait, or healthy.
            EventCode::Stopping | EventCode::Ready => whole_life_ahead,
            EventCode::ExitSuccess | EventCode::ExitFailed => {
                self.spec.exec.is_some() && (whole_life_ahead || self.phase != Phase::Ending)
            }
            EventCode::Healthy | EventCode::Unhealthy => !self.spec.health.is_empty() && whole_life_ahead,
            EventCode::Startup
            | EventCode::Shutdown
            | EventCode::Changed
            | EventCode::EnterMaintenance
            | EventCode::ExitMaintenance
            | EventCode::Signal => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{job, with};
    use super::*;
    use crate::config::spec::Trigger;
    use crate::messages::event::EventKey;

    #[test]
    fn a_job_uses_the_groups_that_it_waits_for_to_be_ready_or_healthy() {
        let of = |name: &str, code| EventKey { code, source: Source::Group(Arc::from(name)) };
        let keys = vec![
            of("a", EventCode::Ready),
            of("b", EventCode::Healthy),
            of("c", EventCode::Stopped),
            EventKey { code: EventCode::Ready, source: Source::Job(Arc::from("d")) },
        ];
        let waits = with(job("app", Phase::Waiting), |spec| {
            spec.when.trigger = Trigger::All(keys);
        });
        assert_eq!(waits.awaited_groups().collect::<Vec<_>>(), ["a", "b"]);
    }
}
