//! The time that machines work with. A machine has no clock: the time comes with each input.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point in time, as the time since the program began. It never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Moment(Duration);

impl Moment {
    /// The moment this long after the program began.
    pub const fn after(since_beginning: Duration) -> Self {
        Self(since_beginning)
    }

    /// The time since the program began.
    pub const fn since_beginning(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment this much later.
    pub const fn plus(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_between_two_moments_and_never_backwards() {
        let (first, second) = (Moment::default(), Moment::default().plus(Duration::from_secs(2)));
        assert_eq!(second.since(first), Duration::from_secs(2));
        assert_eq!(first.since(second), Duration::ZERO);
        assert!(first < second);
    }
}
