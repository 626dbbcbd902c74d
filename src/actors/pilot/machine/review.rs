//! While the program runs: whose wait is over because its events can no longer come, and when the program ends.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::member::Member;
use super::startable::{Outside, can_live, lost};
use crate::messages::job::Phase;

/// Why the program ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// A signal that asks for it.
    Signal,
    /// An essential job completed, with this status, if it ever ran.
    Essential(Arc<str>, Option<u8>),
    /// A job became unhealthy whose `onUnhealthy` asks for it.
    Unhealthy(Arc<str>),
    /// A group gave up, after this job ended with that status.
    Group(Arc<str>, Arc<str>, Option<u8>),
    /// Every job is complete.
    Completed,
}

/// The consequences of a change while the program runs normally.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Review {
    /// Jobs whose events can no longer come.
    pub lost: Vec<usize>,
    /// The program is to end.
    pub end: Option<Reason>,
    /// It is to end only if these jobs still wait: an event that starts them may be on its way to them.
    pub dormant: Vec<usize>,
}

/// The consequences of a change of some job, outside of a shutdown.
pub fn review(jobs: &[Member]) -> Review {
    if let Some(job) = jobs.iter().find(|job| job.spec.essential && job.is_complete()) {
        let end = Some(Reason::Essential(job.name().clone(), job.last_status));
        return Review { end, ..Review::default() };
    }
    if let Some(job) = jobs.iter().find(|job| job.is_too_ill()) {
        return Review { end: Some(Reason::Unhealthy(job.name().clone())), ..Review::default() };
    }
    let lost = lost(jobs, Outside::RUNNING);
    match dormant(jobs) {
        None => Review { lost, ..Review::default() },
        Some(dormant) => Review { lost, end: Some(Reason::Completed), dormant },
    }
}

/// The jobs that only the shutdown itself, or the end of a coprocess, can start: they wait for us, not we for them. `None` if
/// another job is a reason to go on.
fn dormant(jobs: &[Member]) -> Option<Vec<usize>> {
    let alive = can_live(jobs, Outside { shutdown: false, coprocesses: false, ..Outside::RUNNING });
    let ever = can_live(jobs, Outside::RUNNING);
    let living = jobs.iter().enumerate().filter(|(_, job)| !job.is_complete() && job.is_ordinary());
    let is_dormant = |(index, job): (usize, &Member)| {
        let at = |list: &[bool]| list.get(index).copied().unwrap_or(false);
        (job.phase == Phase::Waiting && !at(&alive) && at(&ever)).then_some(index)
    };
    living.map(is_dormant).collect()
}

/// The status that the program exits with. For an essential job that never ran it is to be asked for when the shutdown
/// begins: how the jobs end that we stop says nothing.
pub fn exit_status(jobs: &[Member], reason: &Reason) -> u8 {
    match reason {
        Reason::Signal => 0,
        Reason::Essential(_, Some(status)) => *status,
        // The events that it waited for did not come: that is no success.
        Reason::Essential(_, None) => first_failure(jobs).unwrap_or(1),
        Reason::Unhealthy(_) => 1,
        Reason::Group(_, _, status) => status.unwrap_or(1),
        Reason::Completed => first_failure(jobs).unwrap_or(0),
    }
}

/// The status of the first job whose last execution failed.
fn first_failure(jobs: &[Member]) -> Option<u8> {
    let failed = jobs
        .iter()
        .filter(|job| job.is_ordinary() && job.phase != Phase::Halted)
        .filter_map(|job| job.last_status.filter(|status| *status != 0).map(|status| (job.last_end, status)));
    failed.min().map(|(_, status)| status)
}
