//! Groups of jobs, as users write them.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::field::{OneOrMany, Opt};
use super::scalar::{Restarts, Time};
use crate::config::spec::{OnExhausted, Strategy};

/// Jobs that are restarted together.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RawGroup {
    /// Its name; `group.NAME` is the source of its events, and what `start`, `stop` and `restart` call it.
    pub name: Opt<String>,
    /// The names of its jobs, in the order in which they start. A job is in one group at most.
    pub jobs: Opt<OneOrMany<String>>,
    /// Which jobs are restarted when one of them ends and is to be restarted. Default "oneForOne".
    pub strategy: Opt<Strategy>,
    /// The most restarts within `per`; at the next one the group gives up. Default 3.
    pub limit: Opt<Restarts>,
    /// The time within which restarts are counted, at least 1ms. Default 30s.
    pub per: Opt<Time>,
    /// What to do when the group gives up. Default "shutdown".
    pub on_exhausted: Opt<OnExhausted>,
}
