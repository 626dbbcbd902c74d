//! The rule of a time zone in the form of POSIX, as in the variable TZ and at the end of each file of the IANA database:
//! `CET-1CEST,M3.5.0,M10.5.0/3`. Hours may be beyond a day (RFC 9636).

use serde::{Deserialize, Serialize};
use time::{Date, Month};

use crate::config::schedule::cron::{date, day_number};

const DAY: i64 = 86_400;
const HOUR: i32 = 3600;

/// How far local time is ahead of UTC, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Rule {
    /// Always as far.
    Fixed(i32),
    /// With a change of the clock twice a year.
    Changing {
        /// In standard time.
        standard: i32,
        /// In summer time.
        summer: i32,
        /// When summer time begins, by the clock of standard time.
        begins: Change,
        /// When it ends, by the clock of summer time.
        ends: Change,
    },
}

/// When a clock changes in a year.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Change {
    day: Day,
    /// Seconds from midnight.
    time: i32,
}

/// A day of a year.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Day {
    /// `M3.5.0`: in this month the weekday of that number, of the week of that number; 5 is the last one.
    Weekday { month: u8, week: u8, weekday: u8 },
    /// `J60`: the day of that number from 1 on, of a year without 29 February.
    Julian(u16),
    /// `59`: the day of that number from 0 on.
    Number(u16),
}

impl Rule {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut rest = Rest(text);
        rest.name()?;
        let standard = -rest.time(24)?;
        if rest.0.is_empty() {
            return Some(Self::Fixed(standard));
        }
        rest.name()?;
        let summer = if rest.0.starts_with(',') { standard + HOUR } else { -rest.time(24)? };
        let (begins, ends) = (rest.change()?, rest.change()?);
        rest.0.is_empty().then_some(Self::Changing { standard, summer, begins, ends })
    }

    /// The offset at a moment, in seconds since 1970-01-01 UTC.
    pub(super) fn offset_at(&self, moment: i64) -> i32 {
        let (standard, summer, begins, ends) = match *self {
            Self::Fixed(offset) => return offset,
            Self::Changing { standard, summer, begins, ends } => (standard, summer, begins, ends),
        };
        let Some(today) = date((moment + i64::from(standard)).div_euclid(DAY)) else { return standard };
        let begins = begins.of(today.year()) - i64::from(standard);
        let ends = ends.of(today.year()) - i64::from(summer);
        // South of the equator, summer time spans the new year.
        let is_summer =
            if begins < ends { (begins..ends).contains(&moment) } else { !(ends..begins).contains(&moment) };
        if is_summer { summer } else { standard }
    }
}

impl Change {
    /// When it is in a year, in seconds since 1970-01-01 by the clock that it is given in.
    fn of(self, year: i32) -> i64 {
        let first = |month: u8| {
            let month = Month::try_from(month).ok();
            let date = month.and_then(|month| Date::from_calendar_date(year, month, 1).ok());
            date.map_or(0, day_number)
        };
        let day = match self.day {
            Day::Number(number) => first(1) + i64::from(number),
            Day::Julian(number) => {
                let is_leap = time::util::is_leap_year(year);
                first(1) + i64::from(number) - i64::from(!(is_leap && number >= 60))
            }
            Day::Weekday { month, week, weekday } => {
                let start = first(month);
                let length = Month::try_from(month).map_or(30, |month| month.length(year));
                // 1970-01-01 was a Thursday.
                let until_first = (i64::from(weekday) - (start + 4)).rem_euclid(7);
                let day = until_first + 7 * (i64::from(week) - 1);
                start + if day >= i64::from(length) { day - 7 } else { day }
            }
        };
        day * DAY + i64::from(self.time)
    }
}

/// What is still to be read.
struct Rest<'a>(&'a str);

impl Rest<'_> {
    fn take(&mut self, is_part: impl Fn(char) -> bool) -> &str {
        let length = self.0.find(|c| !is_part(c)).unwrap_or(self.0.len());
        let (part, rest) = self.0.split_at_checked(length).unwrap_or_default();
        self.0 = rest;
        part
    }

    fn skip(&mut self, prefix: char) -> bool {
        let rest = self.0.strip_prefix(prefix);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// `CET` or `<+03>`.
    fn name(&mut self) -> Option<()> {
        if self.skip('<') {
            let length = self.take(|c| c.is_ascii_alphanumeric() || c == '+' || c == '-').len();
            return (self.skip('>') && length > 0).then_some(());
        }
        (self.take(|c| c.is_ascii_alphabetic()).len() >= 3).then_some(())
    }

    fn number<T: std::str::FromStr>(&mut self) -> Option<T> {
        self.take(|c| c.is_ascii_digit()).parse().ok()
    }

    /// `-3:30`, in seconds.
    fn time(&mut self, most_hours: i32) -> Option<i32> {
        let is_negative = self.skip('-');
        if !is_negative {
            self.skip('+');
        }
        let mut seconds = self.number::<i32>().filter(|hours| *hours <= most_hours)? * HOUR;
        for unit in [60, 1] {
            if self.skip(':') {
                seconds += self.number::<i32>().filter(|number| *number < 60)? * unit;
            }
        }
        Some(if is_negative { -seconds } else { seconds })
    }

    /// `,M3.5.0/3`
    fn change(&mut self) -> Option<Change> {
        if !self.skip(',') {
            return None;
        }
        let day = if self.skip('M') {
            let month: u8 = self.number()?;
            self.skip('.').then_some(())?;
            let week: u8 = self.number()?;
            self.skip('.').then_some(())?;
            let weekday: u8 = self.number()?;
            let exists = (1..=12).contains(&month) && (1..=5).contains(&week) && weekday < 7;
            exists.then_some(Day::Weekday { month, week, weekday })?
        } else if self.skip('J') {
            Day::Julian(self.number().filter(|day| (1..=365).contains(day))?)
        } else {
            Day::Number(self.number().filter(|day| *day <= 365)?)
        };
        let time = if self.skip('/') { self.time(167)? } else { 2 * HOUR };
        Some(Change { day, time })
    }
}
