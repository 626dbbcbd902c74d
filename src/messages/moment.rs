//! Time as decisions see it: a machine never asks a clock, it is told the time with each input.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A moment, as the time since the program began. It never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Moment(Duration);

impl Moment {
    /// The moment at which so much time has passed since the program began.
    pub const fn after(since_beginning: Duration) -> Self {
        Self(since_beginning)
    }

    /// The time since the program began.
    pub const fn since_beginning(self) -> Duration {
        self.0
    }

    /// How long ago `earlier` was; nothing if it is still to come.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment that is so much later.
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
