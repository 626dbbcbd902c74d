//! Schedules in time zones: what is due around changes of the clock.

use std::collections::HashSet;

use super::*;

/// Zones with changes of an hour, of half an hour, at midnight, on both halves of the earth, and by no rule.
const TEN: [&str; 10] = [
    "Europe/Berlin",
    "Europe/Dublin",
    "America/New_York",
    "America/St_Johns",
    "America/Havana",
    "America/Santiago",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "Pacific/Chatham",
    "Africa/Casablanca",
];
/// 2027-01-01 UTC.
const NEW_YEAR: i64 = 1_798_761_600;
const DAY: i64 = 86_400;
/// A quarter of an hour: every change of a clock is at a multiple of it, and by one.
const STEP: usize = 900;

fn spec(text: &str, zone: &str) -> CronSpec {
    CronSpec {
        text: text.to_owned(),
        pattern: Pattern::parse(text).unwrap(),
        zone: Zone::named(zone).unwrap(),
        jitter: Duration::ZERO,
        catch_up: false,
    }
}

/// All moments at which it is due in a time.
fn due(spec: &CronSpec, from: i64, until: i64) -> Vec<i64> {
    let mut found = Vec::new();
    let mut after = WallTime::from_seconds(from);
    while let Some(next) = spec.next(after).filter(|next| next.seconds() < until) {
        found.push(next.seconds());
        after = next;
    }
    found
}

/// The local time of a moment, in seconds.
fn local(zone: &Zone, moment: i64) -> i64 {
    moment + i64::from(zone.offset_at(moment))
}

/// A year and the day before it, quarter by quarter of an hour: the moment and its local time.
fn quarters(zone: &Zone) -> Vec<(i64, i64)> {
    let moments = (NEW_YEAR - DAY..NEW_YEAR + 366 * DAY).step_by(STEP);
    moments.map(|moment| (moment, local(zone, moment))).collect()
}

/// The definition: each local time that is named and comes is due when it comes first; each that is left out is due at the
/// change.
fn by_definition(pattern: &Pattern, quarters: &[(i64, i64)]) -> Vec<i64> {
    let (&(_, mut latest), &(_, last)) = (quarters.first().unwrap(), quarters.last().unwrap());
    let all = std::iter::successors(pattern.next(latest), |local| pattern.next(local + 1));
    let named: HashSet<i64> = all.take_while(|local| *local <= last).collect();
    let mut found = Vec::new();
    for &(moment, now) in quarters {
        // Local times that came now: one, many if the clock was set forward, none that is new after it was set back.
        let mut come = (latest + 900..=now).step_by(STEP);
        if come.any(|local| named.contains(&local)) && moment >= NEW_YEAR {
            found.push(moment);
        }
        latest = latest.max(now);
    }
    found
}

#[test]
fn no_run_is_lost_doubled_or_early_at_the_clock_changes_of_a_year_in_ten_zones() {
    for zone in TEN {
        let quarters = quarters(&Zone::named(zone).unwrap());
        for text in [
            "30 2 * * *",
            "*/15 * * * *",
            "0 0 * * *",
            "@hourly",
            "15 1-3 * * 0",
            "45 23 L * *",
            "0 3 1 * 1#2",
        ] {
            let spec = spec(text, zone);
            assert_eq!(
                due(&spec, NEW_YEAR - 1, NEW_YEAR + 366 * DAY),
                by_definition(&spec.pattern, &quarters),
                "{text} in {zone}"
            );
        }
    }
}

#[test]
fn a_daily_run_comes_once_on_each_of_365_days() {
    for zone in TEN {
        for text in ["30 2 * * *", "0 0 * * *", "30 0 * * *", "15 2 * * *", "30 1 * * *"] {
            let spec = spec(text, zone);
            let first = local(&spec.zone, NEW_YEAR).div_euclid(DAY) * DAY + DAY;
            let from = spec.zone.moment_of(first) - 1;
            let runs = due(&spec, from, spec.zone.moment_of(first + 365 * DAY));
            assert_eq!(runs.len(), 365, "{text} in {zone}");
            let days: HashSet<i64> = runs.iter().map(|run| local(&spec.zone, *run).div_euclid(DAY)).collect();
            assert_eq!(days.len(), 365, "{text} in {zone}");
        }
    }
}

#[test]
fn a_time_that_is_left_out_runs_at_the_first_moment_after_it_and_one_that_comes_twice_runs_once() {
    let berlin = spec("30 2 * * *", "Europe/Berlin");
    // 02:30 in summer is 00:30 UTC, in winter 01:30 UTC.
    // 2027-03-28 01:00 UTC: 02:00 becomes 03:00. 2027-10-31 01:00 UTC: 03:00 becomes 02:00.
    let (forward, back) = (1_806_195_600, 1_824_944_400);
    let runs = due(&berlin, forward - DAY, forward + DAY);
    assert_eq!(runs, [forward - DAY + 1800, forward, forward + DAY - 1800]);
    let runs = due(&berlin, back - DAY, back + 2 * DAY);
    assert_eq!(runs, [back - 1800, back + DAY + 1800]);
}

#[test]
fn the_year_does_not_matter_to_utc() {
    let spec = spec("0 0 29 2 *", "UTC");
    assert_eq!(due(&spec, NEW_YEAR, NEW_YEAR + 6 * 366 * DAY).len(), 2);
}
