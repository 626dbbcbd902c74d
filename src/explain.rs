//! Why a job is where it is, in sentences for a tired person: first what is, then why, down to the root cause, then what
//! to do. Pure: from what the board and the Pilot know to text.

mod phases;
mod reason;
mod story;
#[cfg(test)]
mod tests;
pub mod words;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use crate::config::spec::{JobSpec, Spec};
use crate::messages::account::Awaited;
use crate::messages::status::{JobStatus, Overview};

pub use reason::reason;
pub use story::why;

/// All that an explanation is made from.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The board.
    pub overview: &'a Overview,
    /// The configuration in force.
    pub spec: &'a Spec,
    /// What the Pilot says of the events that jobs wait for.
    pub awaited: &'a BTreeMap<Arc<str>, Vec<Awaited>>,
    /// The reader of the log does not keep up, and jobs wait until they can print.
    pub is_log_full: bool,
    /// The time.
    pub now: SystemTime,
}

impl<'a> Scene<'a> {
    /// The status of a job.
    pub fn job(&self, name: &str) -> Option<&'a JobStatus> {
        self.overview.jobs.get(name).map(|job| &**job)
    }

    /// The configuration of a job; `None` if a reload is about to remove it.
    pub fn spec_of(&self, name: &str) -> Option<&'a JobSpec> {
        self.spec.jobs.iter().find(|job| &*job.name == name).map(|job| &**job)
    }
}

/// Why a job is where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// Its state, as `status` shows it.
    pub state: &'static str,
    /// One paragraph.
    pub summary: String,
    /// The events of its `when`.
    pub waits_for: Vec<Awaited>,
    /// When it, or what it waits for, is next tried.
    pub next_try: Option<SystemTime>,
    /// The last events of the jobs that the paragraph is about: the chain behind it begins there.
    pub causes: Vec<u64>,
    /// The job nearest to the root cause whose last run failed, if one did.
    pub failed: Option<Arc<str>>,
}
