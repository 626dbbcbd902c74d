//! Which deaths by SIGKILL mean that memory ran out.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::messages::moment::Moment;

/// Processes that are killed for memory together are waited for within this time.
const KILLED_TOGETHER: Duration = Duration::from_secs(1);

/// The kernel's count of processes that it killed for memory. The kernel does not tell which ones: if a process was killed by a
/// SIGKILL that we did not send, and the count has risen, that is taken for the reason. The count also rises when a server
/// loses a worker that we do not know; then the next such death may be explained wrongly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MemoryKills {
    count: u64,
    /// When the count was last seen to have risen.
    rose: Option<Moment>,
}

impl MemoryKills {
    pub(super) fn new(count: Option<u64>) -> Self {
        Self { count: count.unwrap_or(0), rose: None }
    }

    /// Whether what the count is now explains a death by SIGKILL.
    pub(super) fn explain(&mut self, now: Moment, count: Option<u64>) -> bool {
        if let Some(count) = count.filter(|count| *count > self.count) {
            *self = Self { count, rose: Some(now) };
        }
        self.rose.is_some_and(|rose| now.since(rose) < KILLED_TOGETHER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rise_explains_the_deaths_of_its_moment_and_no_later_one() {
        let now = Moment::default();
        let mut kills = MemoryKills::new(Some(2));
        assert!(!kills.explain(now, Some(2)), "killed by hand");
        assert!(kills.explain(now, Some(4)));
        assert!(kills.explain(now, Some(4)), "the second of two that were killed together");
        assert!(!kills.explain(now.plus(KILLED_TOGETHER), Some(4)));
        assert!(!MemoryKills::new(None).explain(now, None), "a kernel that does not tell");
    }
}
