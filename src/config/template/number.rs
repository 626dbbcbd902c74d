//! Number literals of Go: decimal, hexadecimal, octal and binary integers with underscores, and floats.

use super::value::Value;

pub(super) fn parse(literal: &str) -> Result<Value, String> {
    let wrong = || format!("\"{literal}\" is not a number");
    if !underscores_separate_digits(literal) {
        return Err(wrong());
    }
    let written = literal.replace('_', "").to_ascii_lowercase();
    let (negative, digits) = match written.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, written.strip_prefix('+').unwrap_or(&written)),
    };
    if digits.ends_with('i') {
        return Err(format!("\"{literal}\" is an imaginary number, which is not supported"));
    }
    let float = match digits.strip_prefix("0x") {
        Some(hexadecimal) if hexadecimal.contains('p') => hexadecimal_float(hexadecimal),
        None if digits.contains(['.', 'e']) => decimal_float(digits),
        Some(_) | None => return integer(digits, negative, literal),
    };
    float.map(|value| Value::Float(if negative { -value } else { value })).ok_or_else(wrong)
}

fn integer(digits: &str, negative: bool, literal: &str) -> Result<Value, String> {
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x', ..] => (16, digits.get(2..).unwrap_or_default()),
        [b'0', b'o', ..] => (8, digits.get(2..).unwrap_or_default()),
        [b'0', b'b', ..] => (2, digits.get(2..).unwrap_or_default()),
        [b'0', _, ..] => (8, digits),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(base)) {
        return Err(format!("\"{literal}\" is not a number"));
    }
    // The digits are checked, so that only the size can be wrong.
    let magnitude = i128::from_str_radix(digits, base).unwrap_or(i128::MAX);
    let value = if negative { -magnitude } else { magnitude };
    i64::try_from(value).map(Value::Int).map_err(|_| format!("{literal} does not fit into 64 bits"))
}

fn decimal_float(digits: &str) -> Option<f64> {
    // Rust's own syntax is this one plus words such as "inf".
    let shaped = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    digits.parse::<f64>().ok().filter(|value| shaped && value.is_finite())
}

/// Reads what follows the `0x` of a number such as `0x1.8p-3`.
fn hexadecimal_float(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once('p')?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let number = u64::from_str_radix(&digits, 16).ok()?;
    let exponent_digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if !exponent_digits.chars().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let exponent = exponent.parse::<i32>().ok()?.checked_sub(4 * i32::try_from(fraction.len()).ok()?)?;
    // In two halves, so that neither power overflows while the product does not.
    let half = exponent / 2;
    let value = number as f64 * 2f64.powi(half) * 2f64.powi(exponent - half);
    value.is_finite().then_some(value)
}

/// Whether each underscore stands between two digits, or between a base prefix and a digit.
fn underscores_separate_digits(literal: &str) -> bool {
    let unsigned = literal.strip_prefix(['+', '-']).unwrap_or(literal);
    let hexadecimal = unsigned.starts_with("0x") || unsigned.starts_with("0X");
    let bytes = unsigned.as_bytes();
    let is_digit = |at: usize| {
        let byte = bytes.get(at).copied().unwrap_or_default();
        if hexadecimal { byte.is_ascii_hexdigit() } else { byte.is_ascii_digit() }
    };
    let is_prefix = |at: usize| {
        at == 1 && unsigned.starts_with('0') && bytes.get(1).is_some_and(|byte| b"xXoObB".contains(byte))
    };
    bytes.iter().enumerate().filter(|(_, byte)| **byte == b'_').all(|(at, _)| {
        let before = at.checked_sub(1).is_some_and(|before| is_digit(before) || is_prefix(before));
        before && is_digit(at + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_in_every_base() {
        let cases = [
            ("0", 0),
            ("-0", 0),
            ("73", 73),
            ("+73", 73),
            ("-73", -73),
            ("7_3", 73),
            ("073", 0o73),
            ("0_7", 7),
            ("0o73", 0o73),
            ("0O73", 0o73),
            ("0x7F", 127),
            ("0X_7f", 127),
            ("0b10_01", 9),
            ("0xef", 239),
            ("0xe_f", 239),
            ("0XE_F", 239),
            ("-0x10", -16),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ];
        for (literal, expected) in cases {
            assert!(matches!(parse(literal), Ok(Value::Int(value)) if value == expected), "{literal}");
        }
    }

    #[test]
    fn a_point_or_an_exponent_makes_a_float() {
        let cases = [
            ("1.5", 1.5),
            ("-1.2", -1.2),
            (".5", 0.5),
            ("+.5", 0.5),
            ("5.", 5.0),
            ("1e3", 1000.0),
            ("1E-2", 0.01),
            ("1e1_9", 1e19),
            ("1_000.5", 1000.5),
            ("08.5", 8.5),
            ("0x1p4", 16.0),
            ("0X_1P-4", 0.0625),
            ("0x1.8p1", 3.0),
            ("-0x.8p0", -0.5),
            ("0x1p-1074", 5e-324),
        ];
        for (literal, expected) in cases {
            assert!(matches!(parse(literal), Ok(Value::Float(value)) if value == expected), "{literal}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        let wrong = [
            "",
            "+",
            "-",
            ".",
            "+-2",
            "08",
            "0b2",
            "0o8",
            "0x",
            "0xg",
            "0x123.",
            "1e",
            "1e.",
            "1_",
            "_1",
            "1__2",
            "1_.5",
            "1._5",
            "1e_5",
            "0e_5",
            "0x1p_4",
            "0x1.8",
            "0xp1",
            "0x1p",
            "0x1p+-1",
            "0x+1p1",
            "1e400",
            "0x1p9999",
            "1+2",
            "1.2.3",
            "9223372036854775808",
            "99999999999999999999999999999999999999999999",
        ];
        for literal in wrong {
            assert!(parse(literal).is_err(), "{literal}");
        }
    }

    #[test]
    fn imaginary_numbers_say_so() {
        for literal in ["4i", "1.5i", "1+2i", "-1.2+4.2i"] {
            assert!(parse(literal).unwrap_err().contains("imaginary"), "{literal}");
        }
    }
}
