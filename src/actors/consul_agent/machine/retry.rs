//! How long to wait before a call is tried again: grows, is capped, and differs from caller to caller.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const SHORTEST_CAP: Duration = Duration::from_millis(250);
const LONGEST_CAP: Duration = Duration::from_secs(5);
/// The same for the first caller in trouble: all others wait for its success.
const CAP_OF_FIRST: Duration = Duration::from_secs(1);
const SHORTEST_DEADLINE: Duration = Duration::from_secs(1);

/// The wait after that many failures in a row, for something that is repeated each `heartbeat` anyway. One caller is
/// the first of those in trouble: it tries more often, so that the end of an outage is noticed soon at little cost.
/// `random` in 0..1 chooses within the upper half, so that many callers do not come back together.
pub fn delay(failures: u32, heartbeat: Duration, is_first: bool, random: f64) -> Duration {
    let cap = heartbeat.clamp(SHORTEST_CAP, if is_first { CAP_OF_FIRST } else { LONGEST_CAP });
    let doublings = failures.saturating_sub(1).min(16);
    let longest = FIRST.saturating_mul(1 << doublings).min(cap);
    longest.mul_f64(0.5 + 0.5 * random.clamp(0.0, 1.0))
}

/// How long a call about something with that heartbeat may take: together with the longest wait it stays below
/// two heartbeats, unless those are very short.
pub fn deadline(heartbeat: Duration) -> Duration {
    heartbeat.clamp(SHORTEST_DEADLINE, LONGEST_CAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_grow_up_to_the_cap() {
        let waits: Vec<u128> = (1..7).map(|n| delay(n, SECOND, false, 1.0).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(delay(u32::MAX, Duration::MAX, false, 1.0), LONGEST_CAP);
    }

    #[test]
    fn the_first_of_those_in_trouble_tries_each_second() {
        assert_eq!(delay(u32::MAX, Duration::MAX, true, 1.0), SECOND);
        assert_eq!(delay(u32::MAX, SECOND / 2, true, 1.0), SECOND / 2);
    }

    #[test]
    fn jitter_shortens_a_wait_by_at_most_half() {
        assert_eq!(delay(3, SECOND, false, 0.0), Duration::from_millis(200));
        assert!(delay(1, Duration::ZERO, true, 0.0) >= Duration::from_millis(50), "never a busy loop");
    }

    #[test]
    fn a_hanging_call_and_the_wait_after_it_take_at_most_two_heartbeats() {
        for seconds in 1..60 {
            let heartbeat = seconds * SECOND;
            assert!(deadline(heartbeat) + delay(u32::MAX, heartbeat, false, 1.0) <= 2 * heartbeat);
        }
    }
}
