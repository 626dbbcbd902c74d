//! How long a restart waits: a pure function of the settings and of how often the job ended early.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Delays between restarts: none, then 100 ms, then ×`factor` up to `max`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BackoffSpec {
    /// Shortest delay, the first included.
    pub min: Duration,
    /// Longest delay; zero turns backoff off.
    pub max: Duration,
    /// Growth from one delay to the next, at least 1.
    pub factor: f64,
    /// Random share added or taken away, 0 to 1.
    pub jitter: f64,
    /// A run of at least this long starts over.
    pub reset_after: Duration,
}

/// The delay of the second restart; the first is immediate.
const BASE: Duration = Duration::from_millis(100);

/// The delay before the next run after `early_ends` runs in a row ended early, before jitter.
pub fn delay(spec: &BackoffSpec, early_ends: u32) -> Duration {
    let nominal = match early_ends {
        0 => return Duration::ZERO, // nothing has ended: it is no restart
        1 => Duration::ZERO,
        count => grown(spec, count - 2),
    };
    nominal.max(spec.min).min(spec.max)
}

/// Spreads a delay by a random share of up to `spec.jitter` in either direction; `random` is in 0..1.
pub fn jittered(spec: &BackoffSpec, delay: Duration, random: f64) -> Duration {
    let share = 1.0 + spec.jitter * (2.0 * random - 1.0);
    Duration::try_from_secs_f64(delay.as_secs_f64() * share.clamp(0.0, 2.0)).unwrap_or(delay)
}

fn grown(spec: &BackoffSpec, doublings: u32) -> Duration {
    let factor = spec.factor.max(1.0).powi(i32::try_from(doublings).unwrap_or(i32::MAX));
    let seconds = BASE.as_secs_f64() * factor;
    if seconds.is_finite() && seconds < spec.max.as_secs_f64() {
        Duration::from_secs_f64(seconds)
    } else {
        spec.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> BackoffSpec {
        BackoffSpec {
            min: Duration::ZERO,
            max: Duration::from_secs(30),
            factor: 2.0,
            jitter: 0.1,
            reset_after: Duration::from_secs(10),
        }
    }

    #[test]
    fn a_delay_that_jitter_makes_too_long_for_a_duration_stays_as_it_is() {
        let spec = BackoffSpec { max: Duration::MAX, jitter: 1.0, ..spec() };
        assert_eq!(jittered(&spec, Duration::MAX, 1.0), Duration::MAX);
        assert_eq!(jittered(&spec, Duration::MAX, f64::NAN), Duration::MAX);
    }

    #[test]
    fn the_first_restart_is_immediate_the_second_waits_100_ms_then_delays_double_up_to_the_maximum() {
        let delays: Vec<u128> = (0..13).map(|ends| delay(&spec(), ends).as_millis()).collect();
        assert_eq!(delays, [0, 0, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
    }

    #[test]
    fn a_maximum_of_zero_turns_backoff_off() {
        let off = BackoffSpec { max: Duration::ZERO, ..spec() };
        assert!((0..40).all(|ends| delay(&off, ends).is_zero()));
    }

    #[test]
    fn a_minimum_delays_the_first_restart_too() {
        let slow = BackoffSpec { min: Duration::from_secs(1), ..spec() };
        assert_eq!(delay(&slow, 1), Duration::from_secs(1));
    }

    #[test]
    fn jitter_stays_within_its_share() {
        let base = Duration::from_secs(1);
        assert_eq!(jittered(&spec(), base, 0.0), Duration::from_millis(900));
        assert_eq!(jittered(&spec(), base, 0.5), base);
        assert_eq!(jittered(&spec(), base, 1.0), Duration::from_millis(1100));
    }

    #[test]
    fn endless_crashes_do_not_overflow() {
        assert_eq!(delay(&spec(), u32::MAX), Duration::from_secs(30));
    }
}
