//! Groups of jobs in the validated configuration.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Limit;

/// Jobs that are restarted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GroupSpec {
    /// Unique among groups.
    pub name: Arc<str>,
    /// Its members, in the order in which they start; at least one.
    pub jobs: Vec<Arc<str>>,
    /// Which members are restarted when the execution of one ends.
    pub strategy: Strategy,
    /// The group gives up at the restart after so many within `per`.
    pub limit: Limit,
    /// The time within which restarts are counted.
    pub per: Duration,
    /// What follows when it gives up.
    pub on_exhausted: OnExhausted,
}

impl GroupSpec {
    /// The members that are restarted together with that one.
    pub fn restarted_with(&self, member: usize) -> std::ops::Range<usize> {
        match self.strategy {
            Strategy::OneForOne => member..member.saturating_add(1),
            Strategy::OneForAll => 0..self.jobs.len(),
            Strategy::RestForOne => member..self.jobs.len(),
        }
    }
}

/// The place of a job in its group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupPlace {
    /// The name of the group.
    pub group: Arc<str>,
    /// The members that start before it.
    pub after: Vec<Arc<str>>,
}

/// Which members of a group are restarted when the execution of one ends and it is to be restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Strategy {
    /// That member alone.
    #[default]
    OneForOne,
    /// All members.
    OneForAll,
    /// That member and those listed after it.
    RestForOne,
}

/// What follows when a group gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum OnExhausted {
    /// The program shuts down.
    #[default]
    Shutdown,
    /// All members complete.
    Stop,
}
