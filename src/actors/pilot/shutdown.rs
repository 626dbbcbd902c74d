//! What is kept of a shutdown under way: who was told and when, and who took longest.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::life::{Reason, exit_status};
use super::view::JobView;
use crate::messages::job::Phase;

/// A shutdown under way.
#[derive(Debug)]
pub struct Shutdown {
    /// Why.
    pub reason: Reason,
    /// The status to exit with, if how jobs end from now on has no say in it.
    pub status: Option<u8>,
    /// Since when.
    pub began: Instant,
    /// The event that tells of it.
    pub event: u64,
    /// Whether `shutdown` has reached everybody, so that we may tell jobs to stop.
    pub announced: bool,
    /// Who was told to stop.
    pub told: Vec<bool>,
    /// Who ran when it began.
    pub started_before: Vec<bool>,
    /// When each was told.
    told_at: Vec<Option<Instant>>,
    /// Who took longest, and how long.
    slowest: Option<(Arc<str>, Duration)>,
}

impl Shutdown {
    /// A shutdown that begins now.
    pub fn new(reason: Reason, event: u64, jobs: &[JobView]) -> Self {
        let status = match reason {
            Reason::Signal | Reason::Essential(..) => Some(exit_status(jobs, &reason)),
            Reason::Completed => None,
        };
        Self {
            reason,
            status,
            began: Instant::now(),
            event,
            announced: false,
            told: vec![false; jobs.len()],
            started_before: jobs.iter().map(|job| job.phase != Phase::Waiting).collect(),
            told_at: vec![None; jobs.len()],
            slowest: None,
        }
    }

    /// Notes that a job is told to stop; false if it was before.
    pub fn tell(&mut self, index: usize) -> bool {
        match (self.told.get_mut(index), self.told_at.get_mut(index)) {
            (Some(told), Some(at)) if !*told => {
                *told = true;
                *at = Some(Instant::now());
                true
            }
            (Some(_) | None, _) => false,
        }
    }

    /// Notes that a job is over.
    pub fn completed(&mut self, index: usize, name: &Arc<str>) {
        let Some(Some(at)) = self.told_at.get_mut(index).map(Option::take) else { return };
        let took = at.elapsed();
        if self.slowest.as_ref().is_none_or(|(_, longest)| took > *longest) {
            self.slowest = Some((name.clone(), took));
        }
    }

    /// How long it took, and who took longest.
    pub fn summary(&self) -> String {
        let took = self.began.elapsed().as_secs_f64();
        match &self.slowest {
            Some((name, longest)) => {
                format!("shutdown took {took:.3}s, of which job {name} took {:.3}s", longest.as_secs_f64())
            }
            None => format!("shutdown took {took:.3}s"),
        }
    }
}
