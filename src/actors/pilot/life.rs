//! The decisions about the whole program, as pure functions over what is known of its jobs: who is given up,
//! when we shut down, who is told to stop next, and the exit status.

use std::collections::HashSet;
use std::sync::Arc;

use super::reach::{Outside, reachable};
use super::view::JobView;
use crate::config::spec::JobKind;
use crate::messages::event::{EventCode, Source};
use crate::messages::job::{Missing, Phase};

/// Why the program ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// SIGTERM or SIGINT.
    Signal,
    /// An essential job completed, with this status, if it ever ran.
    Essential(Arc<str>, Option<u8>),
    /// Every job is complete.
    Completed,
}

/// What is to be done while the program runs normally.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Course {
    /// Jobs whose events can no longer come.
    pub lost: Vec<usize>,
    /// The program is to end.
    pub shut_down: Option<Reason>,
}

/// What to do now that some job changed, outside of a shutdown.
pub fn course(jobs: &[JobView], startup_pending: bool) -> Course {
    if let Some(job) = jobs.iter().find(|job| job.essential && job.is_complete()) {
        let reason = Reason::Essential(job.name.clone(), job.last_status);
        return Course { lost: vec![], shut_down: Some(reason) };
    }
    let possible = Outside { startup: startup_pending, shutdown: true, world: true, coprocesses: true };
    let lost = indices(unreachable(jobs, possible));
    let shut_down = (!startup_pending && !kept_alive(jobs)).then_some(Reason::Completed);
    Course { lost, shut_down }
}

/// Waiting jobs that nothing can start any more. Who gives up still publishes `stopping` and `stopped`, so those
/// who wait for that from one of them have their turn later, unless they all wait for each other.
fn unreachable(jobs: &[JobView], outside: Outside) -> Vec<bool> {
    let alive = reachable(jobs, outside);
    let lost: Vec<bool> =
        jobs.iter().zip(alive).map(|(job, alive)| job.phase == Phase::Waiting && !alive).collect();
    let ends: HashSet<&str> =
        jobs.iter().zip(&lost).filter(|(_, lost)| **lost).map(|(job, _)| &*job.name).collect();
    let hopes = |job: &JobView| {
        let keys = match &job.missing {
            Missing::Nothing => return false,
            Missing::AnyOf(keys) | Missing::AllOf(keys) => keys,
        };
        keys.iter().any(|key| {
            let end = matches!(key.code, EventCode::Stopping | EventCode::Stopped);
            end && matches!(&key.source, Source::Job(name) if **name != *job.name && ends.contains(&**name))
        })
    };
    let first: Vec<bool> = jobs.iter().zip(&lost).map(|(job, lost)| *lost && !hopes(job)).collect();
    if first.contains(&true) { first } else { lost }
}

fn indices(flags: impl IntoIterator<Item = bool>) -> Vec<usize> {
    flags.into_iter().enumerate().filter_map(|(index, flag)| flag.then_some(index)).collect()
}

/// Whether some job is a reason to go on.
fn kept_alive(jobs: &[JobView]) -> bool {
    let ordinary = Outside { startup: false, shutdown: false, world: true, coprocesses: false };
    let alive = reachable(jobs, ordinary);
    let all = Outside { shutdown: true, coprocesses: true, ..ordinary };
    let ever = reachable(jobs, all);
    jobs.iter().zip(alive.iter().zip(&ever)).any(|(job, (ordinary, ever))| {
        let secondary = job.kind == JobKind::Coprocess;
        // Only the shutdown itself, or the end of a coprocess, can start it: it waits for us, not we for it.
        let dormant = job.phase == Phase::Waiting && !ordinary && *ever;
        !job.is_complete() && !secondary && !dormant
    })
}

/// Who hears what during a shutdown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Orders {
    /// To be told to stop.
    pub stop: Vec<usize>,
    /// Listeners for an end that can no longer come.
    pub lost: Vec<usize>,
}

/// The jobs to be told something now, in a shutdown.
///
/// `told` are those told to stop already, `started_before` those that ran when the shutdown began, and
/// `confirmed` those that said after all events so far that they still wait.
pub fn orders(jobs: &[JobView], told: &[bool], started_before: &[bool], confirmed: &[bool]) -> Orders {
    let closing = Outside { startup: false, shutdown: false, world: false, coprocesses: true };
    let unreachable = unreachable(jobs, closing);
    let gone = unreachable.iter().zip(confirmed).map(|(unreachable, confirmed)| *unreachable && *confirmed);
    let candidates: Vec<Candidate<'_>> = jobs
        .iter()
        .zip(told.iter().zip(started_before.iter().zip(gone)))
        .map(|(job, (told, (started_before, gone)))| Candidate {
            job,
            told: *told,
            closer: job.closes && !started_before,
            gone,
        })
        .collect();
    let needed: HashSet<&str> = candidates
        .iter()
        .filter(|candidate| candidate.may_run())
        .flat_map(|candidate| candidate.job.needs.iter().map(|name| &**name))
        .collect();
    let free = indices(candidates.iter().map(|candidate| {
        let waits = candidate.job.phase == Phase::Waiting;
        candidate.remains() && (waits || !needed.contains(&*candidate.job.name))
    }));
    let lost = indices(candidates.iter().zip(unreachable).map(|(candidate, lost)| candidate.closer && lost));
    let stuck = free.is_empty() && lost.is_empty() && !candidates.iter().any(Candidate::progresses);
    // Those who wait for each other: no order satisfies all.
    let stop = if stuck { indices(candidates.iter().map(Candidate::remains)) } else { free };
    Orders { stop, lost }
}

/// A job during the shutdown.
struct Candidate<'a> {
    job: &'a JobView,
    /// Told to stop already.
    told: bool,
    /// Listens for an end, and so may still have work to do.
    closer: bool,
    /// Waits for what can no longer come, for certain.
    gone: bool,
}

impl Candidate<'_> {
    /// Is still to be told to stop.
    fn remains(&self) -> bool {
        !self.job.is_complete() && !self.told && !self.closer
    }

    /// Lives, or can come to life during the shutdown.
    fn may_run(&self) -> bool {
        !self.job.is_complete() && (self.job.phase != Phase::Waiting || (self.closer && !self.gone))
    }

    /// Will end without being told anything more.
    fn progresses(&self) -> bool {
        !self.job.is_complete() && (self.told || (self.closer && self.job.phase != Phase::Waiting))
    }
}

/// The status that the program exits with. For an essential job that never ran it is to be asked for when the shutdown
/// begins: how the jobs end that we stop says nothing.
pub fn exit_status(jobs: &[JobView], reason: &Reason) -> u8 {
    match reason {
        Reason::Signal => 0,
        Reason::Essential(_, Some(status)) => *status,
        // What it needed did not come: that is no success.
        Reason::Essential(_, None) => first_failure(jobs).unwrap_or(1),
        Reason::Completed => first_failure(jobs).unwrap_or(0),
    }
}

/// The status of the first job whose last execution failed.
fn first_failure(jobs: &[JobView]) -> Option<u8> {
    let failed = jobs
        .iter()
        .filter(|job| job.kind == JobKind::Job && job.phase != Phase::Halted)
        .filter_map(|job| job.last_status.filter(|status| *status != 0).map(|status| (job.last_end, status)));
    failed.min().map(|(_, status)| status)
}

#[cfg(test)]
mod tests;
