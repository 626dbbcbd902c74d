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

/// A time by the clock on the wall, in milliseconds since 1970-01-01 UTC. It goes back when somebody sets the clock back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct WallTime(i64);

impl WallTime {
    /// So many milliseconds since 1970-01-01 UTC.
    pub const fn from_milliseconds(milliseconds: i64) -> Self {
        Self(milliseconds)
    }

    /// So many seconds since 1970-01-01 UTC.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// Milliseconds since 1970-01-01 UTC.
    pub const fn milliseconds(self) -> i64 {
        self.0
    }

    /// Whole seconds since 1970-01-01 UTC.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// The milliseconds from `other` to this time; negative if `other` is later.
    pub const fn since(self, other: Self) -> i64 {
        self.0.saturating_sub(other.0)
    }

    /// The time this much later.
    pub fn plus(self, time: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX)))
    }
}

/// What the clocks say at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClockReading {
    /// The clock on the wall.
    pub wall: WallTime,
    /// The time since the machine was booted, sleep included: nobody can set it.
    pub since_boot: Duration,
    /// A random number in 0..1, for what is to be spread by chance.
    pub chance: f64,
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
