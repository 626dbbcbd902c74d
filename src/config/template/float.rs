//! Floating-point numbers as Go's `strconv.FormatFloat` writes them, without sign.

/// Rust writes at most this many digits after the point; no `f64` has more that are not zero.
const MAX_DIGITS: usize = 1100;

/// How a number is written, after Go's verbs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `%e`: 1.5e+06
    Exponent,
    /// `%f`: 1500000.0
    Point,
    /// `%g`: whichever is shorter
    Shorter,
    /// `%x`: 0x1.8p+01
    Hexadecimal,
    /// `%b`: 4503599627370496p-52
    Binary,
}

/// Writes a finite, non-negative number; without a precision, with as many digits as it needs to be read back.
pub(super) fn format(value: f64, style: Style, precision: Option<usize>) -> String {
    let missing = precision.unwrap_or_default().saturating_sub(MAX_DIGITS);
    match (style, precision) {
        (Style::Exponent, _) => {
            let (mantissa, exponent) = scientific(value, precision);
            with_exponent(&format!("{mantissa}{}", "0".repeat(missing)), 'e', exponent)
        }
        (Style::Point, Some(precision)) => {
            format!("{value:.0$}{1}", precision.min(MAX_DIGITS), "0".repeat(missing))
        }
        (Style::Point, None) => format!("{value}"),
        (Style::Shorter, _) => shorter(value, precision),
        (Style::Hexadecimal, _) => hexadecimal(value, precision),
        (Style::Binary, _) => binary(value),
    }
}

/// The digits of a number in scientific notation, with its point, and the exponent.
fn scientific(value: f64, decimals: Option<usize>) -> (String, i32) {
    let written = match decimals {
        Some(decimals) => format!("{value:.0$e}", decimals.min(MAX_DIGITS)),
        None => format!("{value:e}"),
    };
    let (mantissa, exponent) = written.split_once('e').unwrap_or((&written, "0"));
    (mantissa.to_owned(), exponent.parse().unwrap_or_default())
}

/// Go takes the exponent form below 1e-4 and from as many digits on as the precision has, 6 without one.
fn shorter(value: f64, precision: Option<usize>) -> String {
    let significant = precision.map(|precision| precision.max(1));
    let (mantissa, exponent) = scientific(value, significant.map(|digits| digits - 1));
    // Trailing zeros are not written in this style.
    let digits: String = mantissa.chars().filter(|digit| *digit != '.').collect();
    let digits = digits.trim_end_matches('0');
    let limit = significant.and_then(|digits| i32::try_from(digits).ok()).unwrap_or(6);
    if exponent < -4 || exponent >= limit {
        let (first, rest) = digits.split_at_checked(1).unwrap_or(("0", ""));
        let point = if rest.is_empty() { "" } else { "." };
        return with_exponent(&format!("{first}{point}{rest}"), 'e', exponent);
    }
    place_point(digits, exponent)
}

/// Writes digits whose first one counts 10^exponent.
fn place_point(digits: &str, exponent: i32) -> String {
    if exponent < 0 {
        let zeros = usize::try_from(-exponent - 1).unwrap_or_default();
        return format!("0.{}{digits}", "0".repeat(zeros));
    }
    let whole_length = usize::try_from(exponent).unwrap_or_default() + 1;
    match digits.split_at_checked(whole_length) {
        Some((whole, "")) => whole.to_owned(),
        Some((whole, fraction)) => format!("{whole}.{fraction}"),
        None => format!("{digits}{}", "0".repeat(whole_length - digits.len())),
    }
}

fn with_exponent(mantissa: &str, mark: char, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}{mark}{sign}{:02}", exponent.unsigned_abs())
}

/// The bits of a number as mantissa × 2^(exponent - 52).
fn decompose(value: f64) -> (u64, i32) {
    let bits = value.abs().to_bits();
    let mantissa = bits & ((1 << 52) - 1);
    match i32::try_from(bits >> 52).unwrap_or_default() {
        0 => (mantissa, -1022),
        exponent => (mantissa | 1 << 52, exponent - 1023),
    }
}

fn binary(value: f64) -> String {
    let (mantissa, exponent) = decompose(value);
    format!("{mantissa}p{:+}", exponent - 52)
}

fn hexadecimal(value: f64, precision: Option<usize>) -> String {
    let (mut mantissa, mut exponent) = decompose(value);
    if mantissa == 0 {
        exponent = 0;
    } else {
        let shift = mantissa.leading_zeros().saturating_sub(11);
        mantissa <<= shift;
        exponent -= shift as i32;
    }
    if let Some(precision @ 0..13) = precision {
        (mantissa, exponent) = round_hexadecimal(mantissa, exponent, precision);
    }
    let whole = mantissa >> 52;
    let fraction = format!("{:013x}", mantissa & ((1 << 52) - 1));
    let fraction = match precision {
        Some(precision @ 0..13) => fraction.get(..precision).unwrap_or_default().to_owned(),
        Some(precision) => format!("{fraction}{}", "0".repeat(precision - 13)),
        None => fraction.trim_end_matches('0').to_owned(),
    };
    let point = if fraction.is_empty() { "" } else { "." };
    with_exponent(&format!("0x{whole}{point}{fraction}"), 'p', exponent)
}

/// Rounds to this many hexadecimal digits after the point, halves to even.
fn round_hexadecimal(mantissa: u64, exponent: i32, precision: usize) -> (u64, i32) {
    let dropped = 52 - 4 * precision as u32;
    let kept = mantissa >> dropped;
    let rest = mantissa & ((1 << dropped) - 1);
    let half = 1 << (dropped - 1);
    let up = rest > half || (rest == half && kept & 1 == 1);
    let rounded = (kept + u64::from(up)) << dropped;
    if rounded >> 53 == 1 { (rounded >> 1, exponent + 1) } else { (rounded, exponent) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(style: Style, cases: &[(f64, Option<usize>, &str)]) {
        for (value, precision, expected) in cases {
            assert_eq!(format(*value, style, *precision), *expected, "{value} {precision:?}");
        }
    }

    #[test]
    fn the_exponent_has_a_sign_and_two_digits() {
        check(
            Style::Exponent,
            &[
                (1.0, Some(6), "1.000000e+00"),
                (1234567.8, Some(6), "1.234568e+06"),
                (1e-9, Some(2), "1.00e-09"),
                (1e100, Some(0), "1e+100"),
                (1.5, None, "1.5e+00"),
            ],
        );
    }

    #[test]
    fn a_fixed_point_rounds_halves_to_even() {
        check(
            Style::Point,
            &[
                (2.34567, Some(2), "2.35"),
                (0.5, Some(0), "0"),
                (2.5, Some(0), "2"),
                (1.0, Some(6), "1.000000"),
                (1e21, Some(1), "1000000000000000000000.0"),
            ],
        );
    }

    #[test]
    fn the_shorter_style_takes_the_exponent_form_as_go_does() {
        check(
            Style::Shorter,
            &[
                (0.0, None, "0"),
                (1000.0, None, "1000"),
                (123456.0, None, "123456"),
                (1e6, None, "1e+06"),
                (1234567.8, None, "1.2345678e+06"),
                (1e20, None, "1e+20"),
                (0.0001, None, "0.0001"),
                (0.00001, None, "1e-05"),
                (10.1, None, "10.1"),
                (100.0, Some(3), "100"),
                (1234.5678, Some(3), "1.23e+03"),
                (1e6, Some(10), "1000000"),
                (0.5, Some(0), "0.5"),
                (0.0, Some(3), "0"),
            ],
        );
    }

    #[test]
    fn binary_and_hexadecimal_show_the_bits() {
        check(Style::Binary, &[(1.0, None, "4503599627370496p-52"), (0.0, None, "0p-1074")]);
        check(
            Style::Hexadecimal,
            &[
                (1.0, None, "0x1p+00"),
                (0.0, None, "0x0p+00"),
                (123.0, Some(4), "0x1.ec00p+06"),
                (123.0, Some(0), "0x1p+07"),
                (1.0, Some(15), "0x1.000000000000000p+00"),
                (5e-324, None, "0x1p-1074"),
            ],
        );
    }

    #[test]
    fn hexadecimal_digits_are_rounded_to_the_nearest_and_halves_to_even() {
        check(
            Style::Hexadecimal,
            &[
                (1.25, Some(0), "0x1p+00"),      // 0x1.4
                (1.75, Some(0), "0x1p+01"),      // 0x1.c
                (1.03125, Some(1), "0x1.0p+00"), // 0x1.08
                (1.09375, Some(1), "0x1.2p+00"), // 0x1.18
                (1.96875, Some(1), "0x1.0p+01"), // 0x1.f8
            ],
        );
    }

    #[test]
    fn a_huge_precision_is_padded_with_zeros() {
        assert_eq!(format(1.5, Style::Point, Some(100_000)).len(), 100_002);
        assert_eq!(format(1.5, Style::Exponent, Some(100_000)).len(), 100_006);
        assert_eq!(format(1.5, Style::Shorter, Some(100_000)), "1.5");
        assert_eq!(format(1.5, Style::Hexadecimal, Some(100_000)).len(), 100_008);
    }
}
