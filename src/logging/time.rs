//! Times in records: RFC 3339 in UTC with nine digits of a second. Pure: the time is an argument.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use time::UtcDateTime;

/// Bytes of a rendered time.
const LENGTH: usize = 30;

/// A time rendered as `2026-11-15T02:43:00.123456789Z`.
#[derive(Debug, Clone)]
pub struct TimeText([u8; LENGTH]);

impl Default for TimeText {
    fn default() -> Self {
        Self::new(UNIX_EPOCH)
    }
}

impl TimeText {
    /// The text of `time`; a time before 1970 becomes 1970-01-01T00:00:00.
    pub fn new(time: SystemTime) -> Self {
        let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(since_epoch.as_secs()).unwrap_or(i64::MAX);
        // The calendar ends with the year 9999.
        let utc = UtcDateTime::from_unix_timestamp(seconds).unwrap_or(UtcDateTime::MAX);
        let (year, month, day) = (utc.year(), u8::from(utc.month()), utc.day());
        let (hour, minute, second) = utc.as_hms();
        let nanos = since_epoch.subsec_nanos();
        let mut text = [0; LENGTH];
        // Fails only if there is no room, and there is.
        let _ = write!(
            text.as_mut_slice(),
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z"
        );
        Self(text)
    }

    /// The rendered bytes.
    pub fn as_bytes(&self) -> &[u8; LENGTH] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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
            let expected = format!("{year}-{month:02}-{day:02}T00:00:00.000000000Z");
            assert_eq!(shown(days * 86_400, 0), expected);
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
}
