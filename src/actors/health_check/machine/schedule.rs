//! The times between the tries of a check, and the verdict that follows from their outcomes. Pure.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::spec::CheckSpec;
use crate::messages::health::Verdict;

/// The shortest time between tries of a job that has just started.
const SOONEST: Duration = Duration::from_millis(50);

/// Tries that are due between two ticks begin together at the first: waking up costs several times as much as a try
/// over HTTP or TCP.
const TICK: Duration = Duration::from_millis(10);
/// The shortest interval whose tries are moved to a tick: with shorter ones, users would notice the difference.
const SHORTEST_ALIGNED_INTERVAL: Duration = Duration::from_secs(1);

/// The result of the tries of one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// The verdict so far.
    pub verdict: Verdict,
    /// Failures since the last pass.
    pub failures: u32,
    /// Whether any try has passed.
    pub passed: bool,
}

impl Progress {
    /// The result after one more try, which ended `age` after the job's process started.
    #[must_use]
    pub fn after(self, spec: &CheckSpec, passed: bool, age: Duration) -> Self {
        if passed {
            return Self { verdict: Verdict::Passing, failures: 0, passed: true };
        }
        if self.is_new(spec, age) {
            return self; // The job may not be ready yet.
        }
        let failures = self.failures.saturating_add(1);
        let verdict = if failures >= spec.failures { Verdict::Failing } else { self.verdict };
        Self { verdict, failures, ..self }
    }

    /// Is the job so new that a failure does not count?
    fn is_new(self, spec: &CheckSpec, age: Duration) -> bool {
        !self.passed && age < spec.interval
    }

    /// How long to wait for the next try after one that began at `began` and is over at `age`, both counted from the
    /// start of the job's process; `start` is the time of that start on the clock that all checks share.
    pub fn until_next(self, spec: &CheckSpec, began: Duration, age: Duration, start: Duration) -> Duration {
        if self.is_new(spec, age) {
            let step = (spec.interval / 10).max(SOONEST);
            // The last try of the first window is at its end, so that there is a verdict then.
            return began.saturating_add(step).saturating_sub(age).min(spec.interval - age);
        }
        let due = began.saturating_add(spec.interval);
        if due > age {
            return align_to_tick(spec, due - age, start.saturating_add(age));
        }
        // The try took longer than the interval: skip the tries that were due meanwhile.
        let late = (age - began).as_nanos() % spec.interval.as_nanos().max(1);
        let wait = spec.interval - Duration::from_nanos(u64::try_from(late).unwrap_or(0));
        align_to_tick(spec, wait, start.saturating_add(age))
    }
}

/// Shortens a wait that begins `now` so that it ends at a tick. This applies only if the interval is a multiple of the
/// tick, so that it shortens the first wait only.
fn align_to_tick(spec: &CheckSpec, wait: Duration, now: Duration) -> Duration {
    let due = now.saturating_add(wait).as_nanos();
    let early = u64::try_from(due % TICK.as_nanos()).map_or(Duration::ZERO, Duration::from_nanos);
    let is_aligned = spec.interval >= SHORTEST_ALIGNED_INTERVAL
        && spec.interval.as_nanos().is_multiple_of(TICK.as_nanos());
    if is_aligned && wait > early { wait - early } else { wait }
}

/// How long after the start of the job's process the first try is.
pub fn first_try(spec: &CheckSpec) -> Duration {
    SOONEST.min(spec.interval)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::spec::{CommandLine, Probe};
    use std::sync::Arc;

    fn spec(interval_ms: u64, failures: u32) -> CheckSpec {
        CheckSpec {
            name: Arc::from("check"),
            probe: Probe::Exec(Arc::new(CommandLine { program: "true".into(), args: vec![] })),
            interval: ms(interval_ms),
            timeout: ms(interval_ms),
            failures,
            raw_output: false,
        }
    }

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn the_first_try_is_50_ms_after_the_start() {
        assert_eq!(first_try(&spec(5000, 1)), ms(50));
        assert_eq!(first_try(&spec(10, 1)), ms(10));
    }

    #[test]
    fn a_new_job_is_tried_every_tenth_of_the_interval_until_it_passes() {
        let check = spec(5000, 1);
        let new = Progress::default();
        assert_eq!(new.until_next(&check, ms(50), ms(60), Duration::ZERO), ms(490));
        assert_eq!(new.until_next(&spec(200, 1), ms(50), ms(50), Duration::ZERO), ms(50));
        let passed = new.after(&check, true, ms(60));
        assert_eq!(passed.until_next(&check, ms(50), ms(60), Duration::ZERO), ms(4990));
    }

    #[test]
    fn the_last_try_of_the_first_window_is_at_its_end() {
        assert_eq!(
            Progress::default().until_next(&spec(5000, 1), ms(4900), ms(4910), Duration::ZERO),
            ms(90)
        );
    }

    #[test]
    fn a_failure_of_a_new_job_leaves_its_health_unknown() {
        let check = spec(5000, 1);
        let early = Progress::default().after(&check, false, ms(4999));
        assert_eq!(early, Progress::default());
        assert_eq!(early.after(&check, false, ms(5000)).verdict, Verdict::Failing);
    }

    #[test]
    fn a_job_that_has_passed_once_is_no_longer_new() {
        let check = spec(5000, 1);
        let passed = Progress::default().after(&check, true, ms(50));
        assert_eq!(passed.after(&check, false, ms(60)).verdict, Verdict::Failing);
    }

    #[test]
    fn as_many_failures_in_a_row_as_configured_make_it_fail() {
        let check = spec(1000, 3);
        let mut progress = Progress::default().after(&check, true, ms(50));
        for expected in [Verdict::Passing, Verdict::Passing, Verdict::Failing] {
            progress = progress.after(&check, false, ms(9000));
            assert_eq!(progress.verdict, expected);
        }
        assert_eq!(progress.after(&check, true, ms(9000)).verdict, Verdict::Passing);
    }

    #[test]
    fn a_pass_starts_the_count_of_failures_over() {
        let check = spec(1000, 2);
        let progress = [false, true, false]
            .into_iter()
            .fold(Progress { passed: true, ..Progress::default() }, |p, pass| {
                p.after(&check, pass, ms(9000))
            });
        assert_eq!((progress.verdict, progress.failures), (Verdict::Passing, 1));
    }

    #[test]
    fn tries_that_are_due_soon_after_each_other_begin_together() {
        let check = spec(1000, 1);
        for now in [0, 3, 9] {
            assert_eq!(ms(now) + align_to_tick(&check, ms(1000), ms(now)), ms(1000));
        }
        assert_eq!(align_to_tick(&check, ms(1000), ms(10)), ms(1000));
        assert_eq!(align_to_tick(&check, ms(3), ms(18)), ms(2));
        assert_eq!(align_to_tick(&check, ms(3), ms(15)), ms(3), "never at once: no two tries at one tick");
        assert_eq!(align_to_tick(&check, ms(8), ms(10)), ms(8), "never at once");
        for other in [990, 1005] {
            assert_eq!(align_to_tick(&spec(other, 1), ms(other), ms(3)), ms(other), "users would notice");
        }
    }

    #[test]
    fn tries_keep_their_rhythm_and_skip_what_a_slow_one_missed() {
        let check = spec(1000, 1);
        let old = Progress { passed: true, ..Progress::default() };
        assert_eq!(old.until_next(&check, ms(3000), ms(3200), Duration::ZERO), ms(800));
        assert_eq!(old.until_next(&check, ms(3000), ms(5300), Duration::ZERO), ms(700));
        assert_eq!(old.until_next(&check, ms(3000), ms(4000), Duration::ZERO), ms(1000), "one was missed");
    }

    #[test]
    fn the_longest_times_do_not_overflow() {
        let check = CheckSpec { interval: Duration::MAX, ..spec(1000, 1) };
        let passed = Progress { passed: true, ..Progress::default() };
        for progress in [Progress::default(), passed] {
            for times in [[ms(1); 3], [Duration::MAX; 3]] {
                let [began, age, start] = times;
                assert!(progress.until_next(&check, began, age, start) <= Duration::MAX);
            }
        }
    }
}
