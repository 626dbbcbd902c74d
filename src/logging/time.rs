//! Times in records: RFC 3339 in UTC with nine digits of a second. Pure: the time is an argument.
//!
//! Written by hand: `time` and `jiff` render the whole time for each record; here only the nanoseconds change within a
//! second. The calendar below is all that would be saved.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes of a rendered time.
const LENGTH: usize = 30;
/// Where the nine digits of nanoseconds begin.
const NANOS_AT: usize = 20;
const SECONDS_PER_DAY: u64 = 86_400;

/// A time rendered as `2026-11-15T02:43:00.123456789Z`.
#[derive(Debug, Clone)]
pub struct TimeText {
    second: u64,
    text: [u8; LENGTH],
}

impl Default for TimeText {
    fn default() -> Self {
        let mut text = *b"0000-00-00T00:00:00.000000000Z";
        render_second(0, &mut text);
        Self { second: 0, text }
    }
}

impl TimeText {
    /// The text of `time`.
    pub fn new(time: SystemTime) -> Self {
        let mut text = Self::default();
        text.set(time);
        text
    }

    /// Renders another time; a time before 1970 becomes 1970-01-01T00:00:00.
    pub fn set(&mut self, time: SystemTime) {
        let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        if since_epoch.as_secs() != self.second {
            self.second = since_epoch.as_secs();
            render_second(self.second, &mut self.text);
        }
        digits(since_epoch.subsec_nanos(), self.text.get_mut(NANOS_AT..NANOS_AT + 9));
    }

    /// The rendered bytes.
    pub fn as_bytes(&self) -> &[u8; LENGTH] {
        &self.text
    }
}

/// Writes everything but the nanoseconds.
fn render_second(second: u64, text: &mut [u8; LENGTH]) {
    let (year, month, day) = civil_from_days(second / SECONDS_PER_DAY);
    let of_day = (second % SECONDS_PER_DAY) as u32;
    digits(year, text.get_mut(0..4));
    digits(month, text.get_mut(5..7));
    digits(day, text.get_mut(8..10));
    digits(of_day / 3600, text.get_mut(11..13));
    digits(of_day / 60 % 60, text.get_mut(14..16));
    digits(of_day % 60, text.get_mut(17..19));
}

/// Fills `place` with the last digits of `number`, with leading zeros.
fn digits(mut number: u32, place: Option<&mut [u8]>) {
    for digit in place.into_iter().flatten().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Year, month and day of a number of days since 1970-01-01 in the Gregorian calendar.
///
/// Years are counted from March, so that the leap day is the last of its year; the calendar repeats every
/// 400 years (146,097 days).
fn civil_from_days(days: u64) -> (u32, u32, u32) {
    let days = days + 719_468; // since 0000-03-01
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let (month, next_year) = if march_month < 10 { (march_month + 3, 0) } else { (march_month - 9, 1) };
    ((year_of_era + era * 400 + next_year) as u32, month as u32, day as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(seconds: u64, nanos: u32) -> String {
        let text = TimeText::new(UNIX_EPOCH + Duration::new(seconds, nanos));
        String::from_utf8(text.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn known_times_are_rendered_as_rfc_3339() {
        assert_eq!(shown(0, 0), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(shown(951_782_399, 999_999_999), "2000-02-28T23:59:59.999999999Z");
        assert_eq!(shown(951_782_400, 0), "2000-02-29T00:00:00.000000000Z");
        assert_eq!(shown(951_868_800, 1), "2000-03-01T00:00:00.000000001Z");
        assert_eq!(shown(1_234_567_890, 5_000), "2009-02-13T23:31:30.000005000Z");
        assert_eq!(shown(1_709_164_800, 0), "2024-02-29T00:00:00.000000000Z");
        assert_eq!(shown(1_794_710_580, 123_456_789), "2026-11-15T02:43:00.123456789Z");
        assert_eq!(shown(4_107_542_399, 0), "2100-02-28T23:59:59.000000000Z");
        assert_eq!(shown(4_107_542_400, 0), "2100-03-01T00:00:00.000000000Z");
        assert_eq!(shown(253_402_300_799, 0), "9999-12-31T23:59:59.000000000Z");
    }

    #[test]
    fn a_time_before_1970_shows_as_its_first_moment() {
        let text = TimeText::new(UNIX_EPOCH - Duration::from_secs(5));
        assert_eq!(text.as_bytes(), b"1970-01-01T00:00:00.000000000Z");
    }

    #[test]
    fn every_day_follows_the_day_before() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..200_000 {
            assert_eq!(civil_from_days(days), (year, month, day));
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 => 28 + u32::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }

    proptest! {
        #[test]
        fn setting_a_text_again_shows_the_same_as_a_new_one(
            times in proptest::collection::vec((1_700_000_000u64..1_700_000_004, 0u32..1_000_000_000), 1..20)
        ) {
            let mut reused = TimeText::default();
            for (seconds, nanos) in times {
                let time = UNIX_EPOCH + Duration::new(seconds, nanos);
                reused.set(time);
                let new = TimeText::new(time);
                prop_assert_eq!(reused.as_bytes(), new.as_bytes());
            }
        }
    }
}
