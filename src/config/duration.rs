//! Durations as Go writes them (`1m30s`, `100ms`), since that is what ContainerPilot's configurations hold.
//! Parsing and printing follow Go's `time.ParseDuration` and `Duration.String` to the nanosecond. humantime and
//! go-parse-duration were weighed: both disagree with Go.

use std::fmt;
use std::time::Duration;

/// A length of time in nanoseconds, as Go counts it: it may be negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoDuration(i64);

/// The units, each with its nanoseconds. Go takes both the micro sign (U+00B5) and the Greek letter (U+03BC).
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", NANOS_PER_SECOND),
    ("m", 60 * NANOS_PER_SECOND),
    ("h", 3600 * NANOS_PER_SECOND),
];

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The magnitude of the most negative duration; positive ones end one short of it.
const LIMIT: u64 = 1 << 63;

impl From<Duration> for GoDuration {
    /// The same length of time; one that is too long for it becomes the longest.
    fn from(duration: Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl GoDuration {
    /// The length as the standard library's type; `None` if it is negative.
    pub fn as_std(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }

    /// A number of seconds, rounded to the nanosecond.
    pub fn from_seconds(seconds: f64) -> Result<Self, String> {
        let nanoseconds = (seconds * NANOS_PER_SECOND as f64).round();
        if seconds.is_nan() {
            return Err(format!("\"{seconds}\" {NOT_A_DURATION}"));
        }
        // 2⁶³ is exact as a float, while i64::MAX is not: everything below it fits.
        if nanoseconds < -(LIMIT as f64) || nanoseconds >= LIMIT as f64 {
            return Err(format!("\"{seconds}\" {}", too_large()));
        }
        Ok(Self(nanoseconds as i64))
    }

    /// Reads a duration exactly as Go's `time.ParseDuration` does. The error is a whole clause, the text included.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse_go(text).map_err(|problem| format!("{text:?} {problem}"))
    }

    /// Reads a duration as configurations spell it: a bare number is seconds, the rest is as in Go.
    pub fn parse_config(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        let is_bare_number = digits.contains(|c: char| c.is_ascii_digit())
            && digits.chars().all(|c| c.is_ascii_digit() || c == '.')
            && digits.matches('.').count() <= 1;
        let unit = if is_bare_number { "s" } else { "" };
        parse_go(&format!("{text}{unit}")).map_err(|problem| format!("{text:?} {problem}"))
    }
}

const NOT_A_DURATION: &str = "is not a duration such as \"1m30s\"";

fn too_large() -> String {
    format!("is too large; the longest duration is {}", GoDuration(i64::MAX))
}

fn parse_go(text: &str) -> Result<GoDuration, String> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if text.is_empty() {
        return Err("is empty; expected a duration such as \"1m30s\"".to_owned());
    }
    if rest.is_empty() {
        return Err(NOT_A_DURATION.to_owned());
    }
    if rest == "0" {
        return Ok(GoDuration(0));
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (nanoseconds, after) = parse_part(rest)?;
        total = total.checked_add(nanoseconds).filter(|&sum| sum <= LIMIT).ok_or_else(too_large)?;
        rest = after;
    }
    if negative {
        Ok(GoDuration(0i64.wrapping_sub_unsigned(total)))
    } else {
        i64::try_from(total).map(GoDuration).map_err(|_| too_large())
    }
}

/// One number with its unit: its nanoseconds, at most [`LIMIT`], and what follows it.
fn parse_part(text: &str) -> Result<(u64, &str), String> {
    let (whole_digits, rest) = split_digits(text);
    let (fraction_digits, rest) = rest.strip_prefix('.').map_or(("", rest), split_digits);
    if whole_digits.is_empty() && fraction_digits.is_empty() {
        return Err(NOT_A_DURATION.to_owned());
    }
    let (name, rest) = split_at_first(rest, |c| c == '.' || c.is_ascii_digit());
    if name.is_empty() {
        return Err("lacks a unit after a number; use ns, us, ms, s, m or h".to_owned());
    }
    let Some((_, unit)) = UNITS.iter().find(|(unit, _)| *unit == name) else {
        return Err(format!("has the unknown unit {name:?}; use ns, us, ms, s, m or h"));
    };
    let whole = if whole_digits.is_empty() { Some(0) } else { whole_digits.parse::<u64>().ok() };
    let nanoseconds = whole
        .and_then(|whole| whole.checked_mul(*unit))
        .and_then(|whole| whole.checked_add(fraction_of(fraction_digits, *unit)))
        .filter(|&sum| sum <= LIMIT)
        .ok_or_else(too_large)?;
    Ok((nanoseconds, rest))
}

/// The nanoseconds that the digits after a point stand for. Go computes this in floating point and ignores
/// digits that a 63-bit number cannot hold; equal results need the same steps.
fn fraction_of(digits: &str, unit: u64) -> u64 {
    let mut value: u64 = 0;
    let mut scale = 1.0;
    for digit in digits.bytes().map(|byte| u64::from(byte - b'0')) {
        if value > (LIMIT - 1) / 10 {
            break;
        }
        let next = value * 10 + digit;
        if next > LIMIT {
            break;
        }
        value = next;
        scale *= 10.0;
    }
    (value as f64 * (unit as f64 / scale)) as u64
}

fn split_digits(text: &str) -> (&str, &str) {
    split_at_first(text, |c| !c.is_ascii_digit())
}

fn split_at_first(text: &str, stop: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(stop).unwrap_or(text.len()))
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanoseconds {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanoseconds}ns"),
            1_000..1_000_000 => write!(f, "{}\u{b5}s", decimal(nanoseconds, 3)),
            1_000_000..NANOS_PER_SECOND => write!(f, "{}ms", decimal(nanoseconds, 6)),
            NANOS_PER_SECOND.. => {
                let minutes = nanoseconds / (60 * NANOS_PER_SECOND);
                let seconds = decimal(nanoseconds % (60 * NANOS_PER_SECOND), 9);
                match (minutes / 60, minutes % 60) {
                    (0, 0) => write!(f, "{seconds}s"),
                    (0, minutes) => write!(f, "{minutes}m{seconds}s"),
                    (hours, minutes) => write!(f, "{hours}h{minutes}m{seconds}s"),
                }
            }
        }
    }
}

/// A number whose last `digits` are decimals, without the zeros at its end.
fn decimal(number: u64, digits: usize) -> String {
    let written = format!("{number:0width$}", width = digits + 1);
    let (whole, decimals) = written.split_at(written.len() - digits);
    format!("{whole}.{decimals}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(serde::Deserialize)]
    struct GoCase {
        input: String,
        nanoseconds: Option<i64>,
        error: Option<String>,
    }

    fn error(text: &str) -> String {
        GoDuration::parse_config(text).unwrap_err()
    }

    #[test]
    fn every_text_is_read_as_go_reads_it() {
        let cases: Vec<GoCase> =
            serde_json::from_str(include_str!("../../tests/testdata/go-duration.json")).unwrap();
        assert!(!cases.is_empty());
        for case in cases {
            let parsed = GoDuration::parse(&case.input).ok().map(|duration| duration.0);
            assert_eq!(parsed, case.nanoseconds, "{:?}", case.input);
            assert_eq!(parsed.is_none(), case.error.is_some(), "{:?}", case.input);
        }
    }

    #[test]
    fn the_whole_range_of_go_is_read() {
        assert_eq!(GoDuration::parse("-9223372036854775808ns"), Ok(GoDuration(i64::MIN)));
        assert_eq!(GoDuration::parse("9223372036854775807ns"), Ok(GoDuration(i64::MAX)));
        assert_eq!(GoDuration::parse("2562047h47m16.854775807s"), Ok(GoDuration(i64::MAX)));
        for text in ["2562047h47m16.854775808s", "-9223372036854775809ns", "99999999999999999999s"] {
            assert!(error(text).contains("too large"), "{text}");
        }
    }

    #[test]
    fn digits_beyond_the_precision_of_go_are_ignored() {
        assert_eq!(GoDuration::parse("0.3333333333333333333h"), Ok(GoDuration(1_200_000_000_000)));
        assert_eq!(GoDuration::parse("0.100000000000000000000h"), Ok(GoDuration(360_000_000_000)));
        assert_eq!(GoDuration::parse("0.33333333333333333333h"), Ok(GoDuration(1_200_000_000_000)));
        assert_eq!(GoDuration::parse("0.9223372036854775807h"), Ok(GoDuration(3_320_413_933_267)));
    }

    #[test]
    fn a_bare_number_in_a_configuration_is_seconds() {
        for (text, nanoseconds) in [
            ("60", 60_000_000_000),
            ("1.5", 1_500_000_000),
            ("-1", -1_000_000_000),
            ("0", 0),
            (".5", 500_000_000),
            ("+2.", 2_000_000_000),
            ("10ms", 10_000_000),
        ] {
            assert_eq!(GoDuration::parse_config(text).unwrap().0, nanoseconds, "{text}");
        }
        assert!(GoDuration::parse("60").is_err());
    }

    #[test]
    fn errors_name_the_text_and_what_is_wrong_with_it() {
        assert_eq!(error("1d"), r#""1d" has the unknown unit "d"; use ns, us, ms, s, m or h"#);
        assert_eq!(error(""), r#""" is empty; expected a duration such as "1m30s""#);
        assert_eq!(error("1s500"), r#""1s500" lacks a unit after a number; use ns, us, ms, s, m or h"#);
        assert_eq!(error("soon"), r#""soon" is not a duration such as "1m30s""#);
        assert_eq!(error("-"), r#""-" is not a duration such as "1m30s""#);
        assert_eq!(error("1.2.3"), r#""1.2.3" lacks a unit after a number; use ns, us, ms, s, m or h"#);
        assert_eq!(
            error("99999999999"),
            r#""99999999999" is too large; the longest duration is 2562047h47m16.854775807s"#
        );
    }

    #[test]
    fn durations_print_as_in_go() {
        for (nanoseconds, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (100_000_000, "100ms"),
            (1_500_000_000, "1.5s"),
            (90_000_000_000, "1m30s"),
            (60_000_000_000, "1m0s"),
            (3_600_000_000_000, "1h0m0s"),
            (300_005_000_000, "5m0.005s"),
            (-1_000_000, "-1ms"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(GoDuration(nanoseconds).to_string(), text);
        }
    }

    #[test]
    fn seconds_become_nanoseconds_only_if_they_fit() {
        assert_eq!(GoDuration::from_seconds(1.5), Ok(GoDuration(1_500_000_000)));
        assert_eq!(GoDuration::from_seconds(0.1), Ok(GoDuration(100_000_000)));
        assert_eq!(GoDuration::from_seconds(-1.0), Ok(GoDuration(-1_000_000_000)));
        assert_eq!(GoDuration::from_seconds(-9_223_372_036.854_776), Ok(GoDuration(i64::MIN)));
        for seconds in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, 9_223_372_036.854_776] {
            assert!(GoDuration::from_seconds(seconds).is_err(), "{seconds}");
        }
    }

    #[test]
    fn a_negative_duration_has_no_standard_form() {
        assert_eq!(GoDuration(-1).as_std(), None);
        assert_eq!(GoDuration(5).as_std(), Some(Duration::from_nanos(5)));
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(nanoseconds in any::<i64>()) {
            let duration = GoDuration(nanoseconds);
            prop_assert_eq!(GoDuration::parse(&duration.to_string()), Ok(duration));
        }

        #[test]
        fn short_durations_are_read_back_too(nanoseconds in -10_000_000_000i64..10_000_000_000) {
            let duration = GoDuration(nanoseconds);
            prop_assert_eq!(GoDuration::parse_config(&duration.to_string()), Ok(duration));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,12}|[-+0-9.nµumsh]{0,30}") {
            let _ = GoDuration::parse(&text);
            let _ = GoDuration::parse_config(&text);
        }
    }
}
