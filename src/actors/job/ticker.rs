//! The ticks of an interval: multiples of it after startup, however long a tick was late.

use std::time::Duration;

/// How long until the next tick, `elapsed` after the first; never zero.
pub fn until_next(interval: Duration, elapsed: Duration) -> Duration {
    let interval = interval.max(Duration::from_millis(1));
    let into = elapsed.as_nanos() % interval.as_nanos();
    interval - Duration::from_nanos(u64::try_from(into).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(500);

    #[test]
    fn ticks_do_not_drift() {
        assert_eq!(until_next(INTERVAL, Duration::ZERO), INTERVAL);
        assert_eq!(until_next(INTERVAL, Duration::from_millis(503)), Duration::from_millis(497));
    }

    #[test]
    fn a_stall_is_followed_by_one_tick_and_not_by_a_burst() {
        assert_eq!(until_next(INTERVAL, Duration::from_millis(2720)), Duration::from_millis(280));
    }

    #[test]
    fn a_tick_that_is_exactly_due_is_the_one_that_just_came() {
        assert_eq!(until_next(INTERVAL, Duration::from_secs(5)), INTERVAL);
    }
}
