//! Follows a schedule by the clock on the wall: which due time is next, and what becomes of those that passed while the
//! machine slept or the clock was set. Pure: what the clocks say is an argument.

use serde::{Deserialize, Serialize};

use crate::config::schedule::CronSpec;
use crate::messages::moment::{ClockReading, WallTime};

/// A run that begins up to this late, beside its `jitter`, counts as on time: a busy machine loses none.
const TOLERANCE: i64 = 60_000;
/// If the clock is set by more than this, it was wrong: the schedule follows the new time at once, as cron does.
const CORRECTION: i64 = 3 * 3_600_000;
/// Clocks that differ by less were not set.
const NOISE: i64 = 1000;
/// Due times that are counted one by one after a pause.
const MOST_COUNTED: u64 = 1000;

/// Where a schedule is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Calendar {
    /// The last reading of the clocks.
    last: ClockReading,
    /// Every due time until this one had its turn: none has a second one when the clock is set back.
    done: WallTime,
    /// The next due time, and when its run begins, which is later by chance.
    next: Option<(WallTime, WallTime)>,
}

/// The consequences of a reading of the clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Due {
    /// The job is to run now.
    pub runs: bool,
    /// Due times that passed without a run of their own.
    pub missed: u64,
}

impl Calendar {
    /// A schedule that begins now.
    pub(super) fn new(spec: &CronSpec, now: ClockReading) -> Self {
        let mut calendar = Self { last: now, done: now.wall, next: None };
        calendar.plan(spec);
        calendar
    }

    /// When the next run begins; `None` if there is none.
    pub(super) fn next(&self) -> Option<WallTime> {
        self.next.map(|(_, begins)| begins)
    }

    /// It is that time now: the next run is due, somebody has set the clock, or the machine has slept.
    pub(super) fn follow(&mut self, spec: &CronSpec, now: ClockReading) -> Due {
        let set_by = self.set_by(now);
        self.last = now;
        if set_by < -CORRECTION || set_by > CORRECTION && !spec.catch_up {
            *self = Self::new(spec, now);
            return Due::default();
        }
        let Some((due, _)) = self.next.filter(|(_, begins)| *begins <= now.wall) else {
            return Due::default();
        };
        let (latest, number) = passed(spec, due, now.wall);
        let is_on_time = now.wall.since(latest.plus(spec.jitter)) <= TOLERANCE;
        // If the clock was set forward past due runs, one of them starts at once, as after the hour that summer time leaves out.
        let runs = is_on_time || spec.catch_up || set_by > 0;
        self.done = latest;
        self.plan(spec);
        Due { runs, missed: number - u64::from(runs) }
    }

    /// By how many milliseconds somebody has set the clock since it was read last; negative: back. Time that passed, asleep or
    /// awake, is no such change.
    fn set_by(&self, now: ClockReading) -> i64 {
        let passed = WallTime::default().plus(now.since_boot.saturating_sub(self.last.since_boot));
        let set_by = now.wall.since(self.last.wall).saturating_sub(passed.milliseconds());
        if set_by.abs() <= NOISE { 0 } else { set_by }
    }

    fn plan(&mut self, spec: &CronSpec) {
        let begins = |due: WallTime| (due, due.plus(spec.jitter.mul_f64(self.last.chance.clamp(0.0, 1.0))));
        self.next = spec.next(self.done).map(begins);
    }
}

/// The latest of the due times from the first to now, and how many they are.
fn passed(spec: &CronSpec, first: WallTime, now: WallTime) -> (WallTime, u64) {
    let (mut latest, mut number) = (first, 1);
    while let Some(next) = spec.next(latest).filter(|next| *next <= now) {
        if number == MOST_COUNTED {
            return (now, number);
        }
        (latest, number) = (next, number + 1);
    }
    (latest, number)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::config::schedule::cron::Pattern;
    use crate::config::schedule::zone::Zone;

    /// 2027-01-01 UTC.
    const NEW_YEAR: i64 = 1_798_761_600_000;
    const HOUR: i64 = 3_600_000;
    const DAY: i64 = 24 * HOUR;

    fn spec(text: &str, zone: &str) -> CronSpec {
        CronSpec {
            text: text.to_owned(),
            pattern: Pattern::parse(text).unwrap(),
            zone: Zone::named(zone).unwrap(),
            jitter: Duration::ZERO,
            catch_up: false,
        }
    }

    /// A machine with its clocks, and a calendar that is woken as a timer of the kernel would.
    struct World {
        spec: CronSpec,
        calendar: Calendar,
        wall: i64,
        boot: u64,
        chance: f64,
        runs: Vec<i64>,
        missed: u64,
    }

    impl World {
        fn new(spec: CronSpec, wall: i64) -> Self {
            let reading = ClockReading {
                wall: WallTime::from_milliseconds(wall),
                since_boot: Duration::ZERO,
                chance: 0.0,
            };
            let calendar = Calendar::new(&spec, reading);
            Self { spec, calendar, wall, boot: 0, chance: 0.0, runs: vec![], missed: 0 }
        }

        /// The kernel wakes us.
        fn wake(&mut self) {
            let now = ClockReading {
                wall: WallTime::from_milliseconds(self.wall),
                since_boot: Duration::from_millis(self.boot),
                chance: self.chance,
            };
            let due = self.calendar.follow(&self.spec, now);
            if due.runs {
                self.runs.push(self.wall);
            }
            self.missed += due.missed;
            assert!(
                self.calendar.next().is_none_or(|next| next > now.wall || self.spec.jitter > Duration::ZERO)
            );
        }

        fn passes(&mut self, milliseconds: i64) {
            self.wall += milliseconds;
            self.boot += u64::try_from(milliseconds).unwrap();
        }

        /// Time goes by, and the timer elapses whenever it is time.
        fn lives(&mut self, milliseconds: i64) {
            let until = self.wall + milliseconds;
            while let Some(next) =
                self.calendar.next().map(WallTime::milliseconds).filter(|next| *next <= until)
            {
                self.passes((next - self.wall).max(0));
                self.wake();
            }
            self.passes(until - self.wall);
        }

        /// Time goes by while nothing runs.
        fn sleeps(&mut self, milliseconds: i64) {
            self.passes(milliseconds);
            self.wake();
        }

        fn is_set_by(&mut self, milliseconds: i64) {
            self.wall += milliseconds;
            self.wake();
        }
    }

    fn hourly() -> World {
        World::new(spec("@hourly", "UTC"), NEW_YEAR + HOUR / 2)
    }

    #[test]
    fn a_clock_that_is_corrected_by_little_was_not_set() {
        for correction in [-CORRECTION, CORRECTION] {
            let mut world = World::new(spec("@yearly", "UTC"), NEW_YEAR + 30 * DAY);
            let before = world.calendar.done;
            world.is_set_by(correction);
            assert_eq!(world.calendar.done, before);
            world.is_set_by(correction + correction.signum());
            assert_ne!(world.calendar.done, before);
        }
    }

    #[test]
    fn a_run_comes_at_each_due_time_and_not_before() {
        let mut world = hourly();
        world.lives(3 * HOUR);
        assert_eq!(world.runs, [1, 2, 3].map(|hour| NEW_YEAR + hour * HOUR));
        assert_eq!(world.missed, 0);
    }

    #[test]
    fn a_busy_machine_costs_no_run() {
        let mut world = hourly();
        world.passes(HOUR / 2 + 59_000);
        world.wake();
        assert_eq!((world.runs.len(), world.missed), (1, 0));
        world.lives(HOUR);
        assert_eq!(world.runs.last(), Some(&(NEW_YEAR + 2 * HOUR)), "the next one is not late");
    }

    #[test]
    fn what_a_pause_made_us_miss_is_counted_and_made_up_by_one_run_if_wanted() {
        for (catch_up, runs, missed) in [(false, 0, 5), (true, 1, 4)] {
            let mut world = hourly();
            world.spec.catch_up = catch_up;
            world.sleeps(5 * HOUR);
            assert_eq!((world.runs.len(), world.missed), (runs, missed), "{catch_up}");
            world.lives(HOUR);
            assert_eq!((world.runs.len(), world.missed), (runs + 1, missed));
        }
    }

    #[test]
    fn a_pause_that_missed_nothing_is_followed_by_nothing() {
        let mut world = hourly();
        world.spec.catch_up = true;
        world.sleeps(HOUR / 4);
        assert_eq!((world.runs.len(), world.missed), (0, 0));
    }

    #[test]
    fn a_clock_set_forward_over_a_run_has_it_at_once() {
        let mut world = hourly();
        world.is_set_by(2 * HOUR);
        assert_eq!((world.runs.clone(), world.missed), (vec![NEW_YEAR + 2 * HOUR + HOUR / 2], 1));
        world.lives(HOUR);
        assert_eq!(world.runs.len(), 2);
    }

    #[test]
    fn a_clock_set_back_over_a_run_does_not_repeat_it() {
        let mut world = hourly();
        world.lives(HOUR);
        world.is_set_by(-HOUR);
        world.lives(HOUR);
        assert_eq!(world.runs, [NEW_YEAR + HOUR]);
        world.lives(HOUR);
        assert_eq!(world.runs, [NEW_YEAR + HOUR, NEW_YEAR + 2 * HOUR]);
    }

    #[test]
    fn a_clock_that_was_wrong_by_days_is_followed_at_once() {
        let mut world = hourly();
        world.lives(HOUR);
        world.is_set_by(-400 * DAY);
        world.lives(HOUR);
        assert_eq!(world.runs.len(), 2, "it does not wait for 400 days");
        world.is_set_by(20_000 * DAY);
        assert_eq!((world.runs.len(), world.missed), (2, 0), "nothing was missed when the clock was wrong");
        world.lives(HOUR);
        assert_eq!(world.runs.len(), 3);
    }

    #[test]
    fn a_year_asleep_costs_no_more_than_a_day() {
        let mut world = World::new(spec("* * * * * *", "UTC"), NEW_YEAR);
        world.spec.catch_up = true;
        world.sleeps(366 * DAY);
        assert_eq!((world.runs.len(), world.missed), (1, MOST_COUNTED - 1));
        world.lives(10_000);
        assert_eq!(world.runs.len(), 11);
    }

    #[test]
    fn jitter_delays_a_run_by_chance_and_never_the_next_one() {
        let mut world = hourly();
        world.spec.jitter = Duration::from_secs(600);
        (world.chance, world.calendar) =
            (0.5, Calendar::new(&world.spec, ClockReading { chance: 0.25, ..world.calendar.last }));
        world.lives(2 * HOUR);
        assert_eq!(world.runs, [NEW_YEAR + HOUR + 150_000, NEW_YEAR + 2 * HOUR + 300_000]);
        assert_eq!(world.missed, 0);
    }

    #[test]
    fn after_a_pause_a_run_is_on_time_for_as_long_as_jitter_could_have_delayed_it() {
        let late = 600_000 + TOLERANCE;
        for (catch_up, after_due, runs) in
            [(false, 0, 1), (false, late, 1), (false, late + 1, 0), (true, late + 1, 1)]
        {
            let mut world = hourly();
            (world.spec.jitter, world.spec.catch_up) = (Duration::from_secs(600), catch_up);
            world.sleeps(4 * HOUR + HOUR / 2 + after_due);
            assert_eq!((world.runs.len(), world.missed), (runs, 5 - runs as u64), "{catch_up} {after_due}");
        }
    }

    #[test]
    fn a_schedule_that_never_comes_has_no_next_run() {
        let mut world = World::new(spec("0 0 30 2 *", "UTC"), NEW_YEAR);
        assert_eq!(world.calendar.next(), None);
        world.is_set_by(HOUR);
        assert_eq!((world.runs.len(), world.missed), (0, 0));
    }

    /// What may happen to a machine.
    #[derive(Debug, Clone, Copy)]
    enum Happening {
        Lives(i64),
        Sleeps(i64),
        Set(i64),
    }

    fn happening() -> impl Strategy<Value = Happening> {
        prop_oneof![
            4 => (0..40 * DAY).prop_map(Happening::Lives),
            1 => (0..3 * DAY).prop_map(Happening::Sleeps),
            2 => (-CORRECTION..CORRECTION).prop_map(Happening::Set),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

        /// A year with sleeps and with clocks that are set by up to three hours: every due time that the clock showed or was
        /// set over has one turn. It runs, or is counted as missed.
        #[test]
        fn no_run_is_lost_doubled_or_early_whatever_happens_to_the_clock(
            zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Africa/Cairo"]),
            text in prop::sample::select(vec!["@hourly", "30 2 * * *", "*/20 1-4 * * *", "0 12 L * *"]),
            catch_up: bool,
            happenings in prop::collection::vec(happening(), 1..24),
        ) {
            let spec = CronSpec { catch_up, ..spec(text, zone) };
            let mut world = World::new(spec.clone(), NEW_YEAR);
            let mut latest = NEW_YEAR;
            for happening in happenings {
                let (runs, before) = (world.runs.len(), world.wall);
                match happening {
                    Happening::Lives(time) => world.lives(time),
                    Happening::Sleeps(time) => {
                        world.sleeps(time);
                        prop_assert!(world.runs.len() <= runs + 1, "one run makes up for all");
                    }
                    Happening::Set(by) => {
                        world.is_set_by(by);
                        prop_assert!(world.runs.len() <= runs + usize::from(by > 0));
                    }
                }
                latest = latest.max(world.wall).max(before);
            }
            // The due times that the clock has shown.
            let first = spec.next(WallTime::from_milliseconds(NEW_YEAR));
            let all = std::iter::successors(first, |due| spec.next(*due)).map(WallTime::milliseconds);
            let due: Vec<i64> = all.take_while(|due| *due <= latest).collect();
            prop_assert_eq!(world.runs.len() as u64 + world.missed, due.len() as u64, "{:?}", world.runs);
            // No run is doubled, and none is early: as many due times have come as there were runs, at each of them.
            let mut runs = world.runs.clone();
            runs.sort_unstable();
            runs.dedup();
            prop_assert_eq!(runs.len(), world.runs.len());
            for (number, run) in runs.iter().enumerate() {
                let due = due.partition_point(|due| due <= run);
                prop_assert!(due > number, "the run at {} is early", run);
            }
        }
    }
}
