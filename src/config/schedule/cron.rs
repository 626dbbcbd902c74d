//! Cron expressions: which local times they name. Pure, and without time zones.
//!
//! Why not a crate: `croner` brings chrono, together 70 kB of program, and finds the next time in a zone by rules of its own,
//! where our manual promises what happens when clocks change. What is left of it without zones is this file. The calendar is
//! that of `time`, which is part of the program anyway.

use std::fmt;

use serde::{Deserialize, Serialize};
use time::Date;

const DAY: i64 = 86_400;
/// The Julian day of 1970-01-01.
const EPOCH: i32 = 2_440_588;
/// A date that does not come in this time never comes: 29 February on a given weekday needs up to 40 years.
const MOST_DAYS: i64 = 50 * 366;

/// Expressions with names of their own.
const NICKNAMES: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// The local times that an expression names. Sets of numbers are bits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: Days,
    months: u64,
    weekdays: Weekdays,
}

/// The days of a month.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Days {
    numbers: u64,
    /// `L`: the last one.
    last: bool,
    /// It begins with `*`, and so does not compete with the weekdays.
    is_open: bool,
}

/// The weekdays, from Sunday.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Weekdays {
    numbers: u64,
    /// `MON#2`: the second Monday of a month, as bits of 1 to 5 for each weekday.
    ordinals: [u8; 7],
    /// `FRIL`: the last Friday of a month.
    last: u8,
    is_open: bool,
}

/// What is wrong with an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronError {
    /// The field and what was expected there.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

impl CronError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None }
    }

    fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

/// A field of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Second,
    Minute,
    Hour,
    Day,
    Month,
    Weekday,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day of the month",
            Self::Month => "month",
            Self::Weekday => "day of the week",
        })
    }
}

/// A whole number without a sign.
fn whole(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}

impl Field {
    /// The least and the largest number; 7 is Sunday, too.
    const fn range(self) -> (u32, u32) {
        match self {
            Self::Second | Self::Minute => (0, 59),
            Self::Hour => (0, 23),
            Self::Day => (1, 31),
            Self::Month => (1, 12),
            Self::Weekday => (0, 7),
        }
    }

    fn wrong(self, text: &str) -> CronError {
        let (least, most) = self.range();
        let names = match self {
            Self::Month => ", or a name from JAN to DEC",
            Self::Weekday => ", or a name from SUN to SAT",
            Self::Second | Self::Minute | Self::Hour | Self::Day => "",
        };
        CronError::new(format!("{self}: expected a number from {least} to {most}{names}, found {text:?}"))
    }

    /// A number or a name.
    fn number(self, text: &str) -> Result<u32, CronError> {
        let named = |names: &[&str], first: u32| {
            let position = names.iter().position(|name| name.eq_ignore_ascii_case(text));
            position.and_then(|position| u32::try_from(position).ok()).map(|position| position + first)
        };
        let name = match self {
            Self::Month => named(&MONTHS, 1),
            Self::Weekday => named(&WEEKDAYS, 0),
            Self::Second | Self::Minute | Self::Hour | Self::Day => None,
        };
        let number = name.or_else(|| whole(text));
        let (least, most) = self.range();
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| self.wrong(text))
    }

    /// The numbers of one item of a list, as bits: `*`, `5`, `1-5`, each with a step such as `/2`.
    fn item(self, text: &str) -> Result<u64, CronError> {
        let (span, step) = match text.split_once('/') {
            Some((span, step)) => (span, Some(step)),
            None => (text, None),
        };
        let (least, most) = self.range();
        // The week has one Sunday, unless somebody writes 7.
        let most = if self == Self::Weekday { 6 } else { most };
        let (first, last) = match span.split_once('-') {
            _ if span == "*" || span == "?" => (least, most),
            Some((first, last)) => {
                let (first, last) = (self.number(first)?, self.number(last)?);
                // FRI-SUN
                let last = if self == Self::Weekday && last == 0 && first > 0 { 7 } else { last };
                (first, last)
            }
            None => {
                let first = self.number(span)?;
                (first, if step.is_some() { most.max(first) } else { first })
            }
        };
        if first > last {
            return Err(CronError::new(format!("{self}: {text:?} ends before it begins"))
                .help("write two ranges, such as `22-23,0-2`"));
        }
        let step = match step {
            None => 1,
            Some(step) => {
                let number = whole(step).filter(|number| (1..=60).contains(number));
                let wrong = || {
                    CronError::new(format!("{self}: expected a step from 1 to 60 after `/`, found {step:?}"))
                };
                number.ok_or_else(wrong)?
            }
        };
        let bits = (first..=last).step_by(step as usize).fold(0, |bits, number| bits | 1 << number);
        // 7 is Sunday.
        Ok(if self == Self::Weekday { (bits | bits >> 7) & 0x7f } else { bits })
    }

    fn list(self, text: &str) -> Result<u64, CronError> {
        text.split(',').try_fold(0, |bits, item| Ok(bits | self.item(item)?))
    }
}

impl Pattern {
    /// Reads an expression of five fields, of six with seconds first, or a name such as `@daily`.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let text = text.trim();
        if text.starts_with('@') {
            let lower = text.to_ascii_lowercase();
            let Some((_, meaning)) = NICKNAMES.iter().find(|(name, _)| *name == lower) else {
                return Err(unknown_nickname(text));
            };
            return Self::parse(meaning);
        }
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let (second, [minute, hour, day, month, weekday]) = match *fields.as_slice() {
            [minute, hour, day, month, weekday] => ("0", [minute, hour, day, month, weekday]),
            [second, minute, hour, day, month, weekday] => (second, [minute, hour, day, month, weekday]),
            _ => {
                let message =
                    format!("expected five fields, or six with seconds first, found {}", fields.len());
                let help = "minute, hour, day of the month, month, day of the week: \"30 3 * * 1-5\" is 3:30 on weekdays";
                return Err(CronError::new(message).help(help));
            }
        };
        Ok(Self {
            seconds: Field::Second.list(second)?,
            minutes: Field::Minute.list(minute)?,
            hours: Field::Hour.list(hour)?,
            days: Days::parse(day)?,
            months: Field::Month.list(month)?,
            weekdays: Weekdays::parse(weekday)?,
        })
    }

    /// Whether it names several seconds of a minute.
    pub const fn is_several_times_a_minute(&self) -> bool {
        self.seconds.count_ones() > 1
    }

    /// The first local time that it names, at or after this one, in seconds since 1970-01-01 by the local clock; `None` if
    /// that never comes.
    pub fn next(&self, from: i64) -> Option<i64> {
        let (first, time) = (from.div_euclid(DAY), from.rem_euclid(DAY));
        for day in first..first + MOST_DAYS {
            if !self.has_day(date(day)?) {
                continue;
            }
            if let Some(time) = self.time_from(if day == first { time } else { 0 }) {
                return Some(day * DAY + time);
            }
        }
        None
    }

    /// The first time of a day, at or after this second of it.
    fn time_from(&self, second: i64) -> Option<i64> {
        let second = u32::try_from(second).ok()?;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let next = |bits: u64, from: u32| (from..60).find(|number| bits >> number & 1 == 1);
        let found = |(hour, minute, second): (u32, u32, u32)| i64::from(hour * 3600 + minute * 60 + second);
        if self.hours >> hour & 1 == 1 {
            if self.minutes >> minute & 1 == 1
                && let Some(second) = next(self.seconds, second)
            {
                return Some(found((hour, minute, second)));
            }
            if let Some(minute) = next(self.minutes, minute + 1) {
                return Some(found((hour, minute, next(self.seconds, 0)?)));
            }
        }
        let hour = next(self.hours, hour + 1)?;
        Some(found((hour, next(self.minutes, 0)?, next(self.seconds, 0)?)))
    }

    /// Whether it names times of that day. As in every cron, of a day of the month and a weekday one is enough if both are
    /// given.
    fn has_day(&self, date: Date) -> bool {
        if self.months >> u8::from(date.month()) & 1 == 0 {
            return false;
        }
        let (by_day, by_weekday) = (self.days.has(date), self.weekdays.has(date));
        if self.days.is_open || self.weekdays.is_open { by_day && by_weekday } else { by_day || by_weekday }
    }
}

fn unknown_nickname(text: &str) -> CronError {
    let error = CronError::new(format!("there is no schedule {text:?}"));
    match text.to_ascii_lowercase().as_str() {
        "@reboot" => error.help("leave `when` out to run the job at startup"),
        every if every.starts_with("@every") => error.help("use `interval` instead of `cron`"),
        _ => error.help("the schedules with a name are @hourly, @daily, @weekly, @monthly and @yearly"),
    }
}

impl Days {
    fn parse(text: &str) -> Result<Self, CronError> {
        let mut days = Self { numbers: 0, last: false, is_open: text.starts_with(['*', '?']) };
        for item in text.split(',') {
            if item.eq_ignore_ascii_case("L") {
                days.last = true;
            } else {
                days.numbers |= Field::Day.item(item)?;
            }
        }
        Ok(days)
    }

    fn has(&self, date: Date) -> bool {
        self.numbers >> date.day() & 1 == 1 || self.last && date.day() == length(date)
    }
}

impl Weekdays {
    fn parse(text: &str) -> Result<Self, CronError> {
        let mut weekdays =
            Self { numbers: 0, ordinals: [0; 7], last: 0, is_open: text.starts_with(['*', '?']) };
        for item in text.split(',') {
            weekdays.add(item)?;
        }
        Ok(weekdays)
    }

    fn add(&mut self, item: &str) -> Result<(), CronError> {
        let weekday = |text: &str| Field::Weekday.number(text).map(|number| number % 7);
        if let Some((day, ordinal)) = item.split_once('#') {
            let number = whole(ordinal).filter(|number| (1..=5).contains(number));
            let wrong = || {
                CronError::new(format!(
                    "{}: expected a number from 1 to 5 after `#`, found {ordinal:?}",
                    Field::Weekday
                ))
            };
            let (day, number) = (weekday(day)?, number.ok_or_else(wrong)?);
            if let Some(ordinals) = self.ordinals.get_mut(day as usize) {
                *ordinals |= 1 << number;
            }
        } else if let Some(day) = item.strip_suffix(['L', 'l']) {
            if day.is_empty() {
                let error =
                    CronError::new(format!("{}: expected a day before `L`, found none", Field::Weekday));
                return Err(error.help("\"5L\" or \"FRIL\" is the last Friday of the month"));
            }
            self.last |= 1 << weekday(day)?;
        } else {
            self.numbers |= Field::Weekday.item(item)?;
        }
        Ok(())
    }

    fn has(&self, date: Date) -> bool {
        let weekday = date.weekday().number_days_from_sunday();
        let ordinal = (date.day() - 1) / 7 + 1;
        let ordinals = self.ordinals.get(usize::from(weekday)).copied().unwrap_or_default();
        let is_last = date.day() + 7 > length(date);
        self.numbers >> weekday & 1 == 1
            || ordinals >> ordinal & 1 == 1
            || is_last && self.last >> weekday & 1 == 1
    }
}

/// The day of that number, counted from 1970-01-01.
pub(super) fn date(day: i64) -> Option<Date> {
    Date::from_julian_day(i32::try_from(day).ok()?.checked_add(EPOCH)?).ok()
}

/// The number of a day, counted from 1970-01-01.
pub(super) fn day_number(date: Date) -> i64 {
    i64::from(date.to_julian_day() - EPOCH)
}

/// The days of the date's month.
fn length(date: Date) -> u8 {
    date.month().length(date.year())
}

#[cfg(test)]
mod tests {
    use time::Month;

    use super::*;

    /// Seconds of a local time such as `2026-03-01 03:30:00`.
    fn at(text: &str) -> i64 {
        let numbers: Vec<i64> = text.split(['-', ' ', ':']).map(|part| part.parse().unwrap()).collect();
        let month = Month::try_from(u8::try_from(numbers[1]).unwrap()).unwrap();
        let date = Date::from_calendar_date(
            i32::try_from(numbers[0]).unwrap(),
            month,
            u8::try_from(numbers[2]).unwrap(),
        );
        let time = numbers[3..].iter().chain(&[0, 0]).take(3).fold(0, |time, part| time * 60 + part);
        day_number(date.unwrap()) * DAY + time
    }

    fn text(local: i64) -> String {
        let (day, time) = (date(local.div_euclid(DAY)).unwrap(), local.rem_euclid(DAY));
        format!("{day} {:02}:{:02}:{:02}", time / 3600, time / 60 % 60, time % 60)
    }

    /// The first times from a moment on.
    fn times(pattern: &str, from: &str, number: usize) -> Vec<String> {
        let pattern = Pattern::parse(pattern).unwrap();
        let mut from = at(from);
        let mut found = Vec::new();
        while found.len() < number
            && let Some(next) = pattern.next(from)
        {
            found.push(text(next));
            from = next + 1;
        }
        found
    }

    fn error(pattern: &str) -> String {
        let error = Pattern::parse(pattern).unwrap_err();
        error.help.map_or(error.message.clone(), |help| format!("{} ({help})", error.message))
    }

    #[test]
    fn a_weekday_schedule_leaves_out_the_weekend() {
        // 2026-11-13 is a Friday.
        let expected = ["2026-11-13 03:30:00", "2026-11-16 03:30:00", "2026-11-17 03:30:00"];
        assert_eq!(times("30 3 * * 1-5", "2026-11-13 03:30:00", 3), expected);
        assert_eq!(times("30 3 * * mon-fri", "2026-11-13 03:29:59", 3), expected);
    }

    #[test]
    fn lists_ranges_and_steps_name_every_time_once() {
        assert_eq!(
            times("*/20,5 * * * *", "2026-01-01 00:01:00", 3).join(" "),
            "2026-01-01 00:05:00 2026-01-01 00:20:00 2026-01-01 00:40:00"
        );
        assert_eq!(
            times("*/20,40-45/5 * * * *", "2026-01-01 00:21:00", 3).join(" "),
            "2026-01-01 00:40:00 2026-01-01 00:45:00 2026-01-01 01:00:00"
        );
        assert_eq!(
            times("0 9-17/4 * * *", "2026-01-01 10:00:00", 3).join(" "),
            "2026-01-01 13:00:00 2026-01-01 17:00:00 2026-01-02 09:00:00"
        );
        assert_eq!(
            times("50/5 23 * * *", "2026-01-01 00:00:00", 3).join(" "),
            "2026-01-01 23:50:00 2026-01-01 23:55:00 2026-01-02 23:50:00"
        );
        assert_eq!(
            times("*/7 30 12 * * *", "2026-01-01 12:30:50", 2).join(" "),
            "2026-01-01 12:30:56 2026-01-02 12:30:00"
        );
        assert_eq!(
            times("59 59 23 31 12 *", "2026-12-31 23:59:59", 2).join(" "),
            "2026-12-31 23:59:59 2027-12-31 23:59:59"
        );
    }

    #[test]
    fn sunday_is_0_and_7_and_ends_a_range() {
        for sunday in ["0", "7", "SUN", "sun", "7-7", "0-0", "SUN-SUN", "0-7/7"] {
            assert_eq!(
                times(&format!("0 0 * * {sunday}"), "2026-11-09 00:00:00", 1),
                ["2026-11-15 00:00:00"],
                "{sunday}"
            );
        }
        for weekend in ["SAT-SUN", "6-7", "6,0"] {
            let found = times(&format!("0 0 * * {weekend}"), "2026-11-14 00:00:00", 2);
            assert_eq!(found, ["2026-11-14 00:00:00", "2026-11-15 00:00:00"], "{weekend}");
        }
        assert_eq!(times("0 0 * * */2", "2026-11-15 00:00:00", 4).len(), 4);
    }

    #[test]
    fn l_is_the_last_day_and_the_last_weekday_of_a_month() {
        let expected =
            ["2027-12-31 12:00:00", "2028-01-31 12:00:00", "2028-02-29 12:00:00", "2028-03-31 12:00:00"];
        assert_eq!(times("0 12 L * *", "2027-12-01 00:00:00", 4), expected);
        assert_eq!(
            times("0 0 * * 5L", "2026-11-01 00:00:00", 2),
            ["2026-11-27 00:00:00", "2026-12-25 00:00:00"]
        );
        assert_eq!(times("0 0 * * SATL", "2026-10-01 00:00:00", 1), ["2026-10-31 00:00:00"]);
        assert_eq!(
            times("0 0 15,L 2 *", "2026-02-01 00:00:00", 2),
            ["2026-02-15 00:00:00", "2026-02-28 00:00:00"]
        );
    }

    #[test]
    fn an_ordinal_is_that_weekday_of_a_month() {
        assert_eq!(
            times("0 0 * * MON#2", "2026-11-01 00:00:00", 2),
            ["2026-11-09 00:00:00", "2026-12-14 00:00:00"]
        );
        assert_eq!(times("0 0 * * 1#5", "2026-11-01 00:00:00", 1), ["2026-11-30 00:00:00"]);
        assert_eq!(
            times("0 0 * * 1#1,3#3", "2026-11-01 00:00:00", 2),
            ["2026-11-02 00:00:00", "2026-11-18 00:00:00"]
        );
    }

    #[test]
    fn of_a_day_and_a_weekday_one_is_enough_unless_one_is_a_star() {
        let either = ["2026-11-13 00:00:00", "2026-11-15 00:00:00", "2026-11-20 00:00:00"];
        assert_eq!(times("0 0 15 * 5", "2026-11-11 00:00:00", 3), either);
        assert_eq!(
            times("0 0 */2 * 5", "2026-11-11 00:00:00", 2),
            ["2026-11-13 00:00:00", "2026-11-27 00:00:00"]
        );
    }

    #[test]
    fn a_day_that_never_comes_is_found_out_and_a_rare_one_is_not_taken_for_it() {
        assert_eq!(times("0 0 30 2 *", "2026-01-01 00:00:00", 1), [""; 0]);
        assert_eq!(times("0 0 31 4,6,9,11 *", "2026-01-01 00:00:00", 1), [""; 0]);
        assert_eq!(times("0 0 29 2 *", "2096-03-01 00:00:00", 1), ["2104-02-29 00:00:00"]);
        assert_eq!(times("0 0 29 2 */7", "2088-03-01 00:00:00", 1), ["2128-02-29 00:00:00"], "a Sunday");
    }

    #[test]
    fn names_stand_for_expressions() {
        for (name, meaning) in NICKNAMES {
            assert_eq!(Pattern::parse(name), Pattern::parse(meaning), "{name}");
        }
        assert_eq!(times("@weekly", "2026-11-11 00:00:00", 1), ["2026-11-15 00:00:00"]);
    }

    #[test]
    fn a_month_is_a_number_or_a_name() {
        for (number, name) in (1..).zip(MONTHS) {
            let [by_number, by_name] = [number.to_string(), name.to_owned()]
                .map(|month| Pattern::parse(&format!("0 0 1 {month} *")));
            assert_eq!(by_name.unwrap(), by_number.unwrap(), "{name}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (pattern, expected) in [
            ("60 * * * *", "minute: expected a number from 0 to 59, found \"60\""),
            ("* 24 * * *", "hour: expected a number from 0 to 23, found \"24\""),
            ("* * 0 * *", "day of the month: expected a number from 1 to 31, found \"0\""),
            ("* * * 13 *", "month: expected a number from 1 to 12, or a name from JAN to DEC, found \"13\""),
            (
                "* * * * 8",
                "day of the week: expected a number from 0 to 7, or a name from SUN to SAT, found \"8\"",
            ),
            (
                "* * * * MO",
                "day of the week: expected a number from 0 to 7, or a name from SUN to SAT, found \"MO\"",
            ),
            ("+1 * * * *", "minute: expected a number from 0 to 59, found \"+1\""),
            ("*/+5 * * * *", "minute: expected a step from 1 to 60 after `/`, found \"+5\""),
            ("* * * * 1#+2", "day of the week: expected a number from 1 to 5 after `#`, found \"+2\""),
            (", * * * *", "minute: expected a number from 0 to 59, found \"\""),
            ("5-1 * * * *", "minute: \"5-1\" ends before it begins (write two ranges, such as `22-23,0-2`)"),
            ("*/0 * * * *", "minute: expected a step from 1 to 60 after `/`, found \"0\""),
            ("* * * * 1#6", "day of the week: expected a number from 1 to 5 after `#`, found \"6\""),
            (
                "* * * * L",
                "day of the week: expected a day before `L`, found none (\"5L\" or \"FRIL\" is the last Friday of the month)",
            ),
            ("* * 15W * *", "day of the month: expected a number from 1 to 31, found \"15W\""),
            ("@reboot", "there is no schedule \"@reboot\" (leave `when` out to run the job at startup)"),
            ("@every 5m", "there is no schedule \"@every 5m\" (use `interval` instead of `cron`)"),
            (
                "@often",
                "there is no schedule \"@often\" (the schedules with a name are @hourly, @daily, @weekly, @monthly and \
                 @yearly)",
            ),
        ] {
            assert_eq!(error(pattern), expected, "{pattern}");
        }
        for fields in ["", "* * * *", "* * * * * * *"] {
            assert!(
                error(fields).starts_with("expected five fields, or six with seconds first, found"),
                "{fields}"
            );
        }
    }

    #[test]
    fn the_next_time_is_the_first_that_the_pattern_has() {
        // Every second of two days around a change of the month, against the definition.
        let from = at("2028-02-28 23:00:00");
        for pattern in
            ["*/7 3,9 */5 * * *", "0 59 23 L * *", "15 10 * 1 3 *", "* * * * * 2", "30 */9 1-3 29 2 2#5"]
        {
            let pattern = Pattern::parse(pattern).unwrap();
            let has = |local: i64| {
                let (day, time) = (date(local.div_euclid(DAY)).unwrap(), local.rem_euclid(DAY));
                let bit = |bits: u64, number: i64| bits >> number & 1 == 1;
                pattern.has_day(day)
                    && bit(pattern.hours, time / 3600)
                    && bit(pattern.minutes, time / 60 % 60)
                    && bit(pattern.seconds, time % 60)
            };
            let mut expected = None;
            for local in (from..from + 2 * DAY).rev() {
                if has(local) {
                    expected = Some(local);
                }
                if let Some(expected) = expected {
                    assert_eq!(pattern.next(local), Some(expected), "{}", text(local));
                }
            }
            assert!(expected.is_some());
        }
    }
}
