//! One value under one verb and its flags, as Go's `fmt` writes it; the format string is read in `printf`.

use super::budget::Draft;
use super::float::{self, Style};
use super::quote::{can_backquote, is_printable, quote};
use super::value::Value;

/// Exact decimals of a large or tiny number take long to compute: as long as writing this many bytes.
const FLOAT_TOIL: usize = 2048;

/// The flags, width and precision between `%` and a verb.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Directive {
    pub(super) plus: bool,
    pub(super) minus: bool,
    pub(super) sharp: bool,
    pub(super) space: bool,
    pub(super) zero: bool,
    /// `%#v`: Go syntax.
    pub(super) go_syntax: bool,
    pub(super) width: Option<usize>,
    pub(super) precision: Option<usize>,
}

/// Writes a value under `%v` without flags, which is how templates print.
pub(super) fn write_plain(out: &mut Draft, value: &Value) {
    Directive::default().write(out, value, 'v');
}

impl Directive {
    pub(super) fn write(&self, out: &mut Draft, value: &Value, verb: char) {
        match (verb, value) {
            ('T', value) => self.text(out, value.go_type()),
            ('v', Value::Nil) => self.pad(out, "<nil>"),
            // An address would differ from run to run.
            ('p', _) | (_, Value::Nil) => self.bad_verb(out, value, verb),
            ('t' | 'v', Value::Bool(truth)) => self.pad(out, &truth.to_string()),
            (_, Value::Int(int)) => self.integer(out, value, i128::from(*int), verb),
            (_, Value::Byte(byte)) => self.integer(out, value, i128::from(*byte), verb),
            (_, Value::Float(float)) => self.float(out, *float, verb),
            (_, Value::Text(text)) => self.string(out, text, verb),
            (_, Value::Strings(_) | Value::Ints(_) | Value::Environment(_)) => self.list(out, value, verb),
            (_, Value::Bool(_)) => self.bad_verb(out, value, verb),
        }
    }

    /// What Go writes for a verb that does not suit the value: `%!d(string=hi)`.
    fn bad_verb(&self, out: &mut Draft, value: &Value, verb: char) {
        out.push_str("%!");
        out.push(verb);
        out.push('(');
        out.push_str(value.go_type());
        if !matches!(value, Value::Nil) {
            out.push('=');
            self.write(out, value, 'v');
        }
        out.push(')');
    }

    fn pad(&self, out: &mut Draft, text: &str) {
        let missing = self.width.unwrap_or_default().saturating_sub(text.chars().count());
        let fill = if self.zero { '0' } else { ' ' };
        if self.minus {
            out.push_str(text);
            out.push_repeated(fill, missing);
        } else {
            out.push_repeated(fill, missing);
            out.push_str(text);
        }
    }

    fn without_zero(&self) -> Directive {
        Directive { zero: false, ..*self }
    }

    /// The sign of a number, if it is written.
    fn sign(&self, is_negative: bool) -> &'static str {
        match (is_negative, self.plus, self.space) {
            (true, _, _) => "-",
            (false, true, _) => "+",
            (false, false, true) => " ",
            (false, false, false) => "",
        }
    }

    fn string(&self, out: &mut Draft, text: &str, verb: char) {
        match verb {
            'v' if self.go_syntax => self.quoted(out, text),
            'v' | 's' => self.text(out, text),
            'q' => self.quoted(out, text),
            'x' => self.hexadecimal(out, text, false),
            'X' => self.hexadecimal(out, text, true),
            _ => self.bad_verb(out, &Value::text(text), verb),
        }
    }

    fn text(&self, out: &mut Draft, text: &str) {
        self.pad(out, self.truncated(text));
    }

    fn quoted(&self, out: &mut Draft, text: &str) {
        let text = self.truncated(text);
        if self.sharp && can_backquote(text) {
            self.pad(out, &format!("`{text}`"));
        } else {
            self.pad(out, &quote(text, '"', self.plus));
        }
    }

    /// The precision of a string counts characters.
    fn truncated<'t>(&self, text: &'t str) -> &'t str {
        let cut = self.precision.and_then(|length| text.char_indices().nth(length));
        cut.and_then(|(at, _)| text.get(..at)).unwrap_or(text)
    }

    /// The bytes of a string; here the precision counts bytes.
    fn hexadecimal(&self, out: &mut Draft, text: &str, upper: bool) {
        let length = self.precision.map_or(text.len(), |precision| precision.min(text.len()));
        let prefix = if upper { "0X" } else { "0x" };
        let mut written = String::new();
        for (at, byte) in text.bytes().take(length).enumerate() {
            if self.space && at > 0 {
                written.push(' ');
            }
            if self.sharp && (self.space || at == 0) {
                written.push_str(prefix);
            }
            written.push_str(&if upper { format!("{byte:02X}") } else { format!("{byte:02x}") });
        }
        self.pad(out, &written);
    }

    fn integer(&self, out: &mut Draft, value: &Value, number: i128, verb: char) {
        let unsigned = matches!(value, Value::Byte(_));
        match verb {
            'v' if self.go_syntax && unsigned => {
                Directive { sharp: true, ..*self }.number(out, number, 16, verb);
            }
            'v' | 'd' => self.number(out, number, 10, verb),
            'b' => self.number(out, number, 2, verb),
            'o' | 'O' => self.number(out, number, 8, verb),
            'x' | 'X' => self.number(out, number, 16, verb),
            'c' => self.pad(out, character(number).encode_utf8(&mut [0; 4])),
            'q' => {
                let text = character(number).to_string();
                self.pad(out, &quote(&text, '\'', self.plus));
            }
            'U' => self.unicode(out, number),
            _ => self.bad_verb(out, value, verb),
        }
    }

    fn number(&self, out: &mut Draft, number: i128, base: u32, verb: char) {
        let sign = self.sign(number < 0);
        // Leading zeros come from a precision or from the zero flag, in this order.
        let least = match (self.precision, self.width) {
            (Some(0), _) if number == 0 => return self.without_zero().pad(out, ""),
            (Some(precision), _) => precision,
            (None, Some(width)) if self.zero => width.saturating_sub(sign.len()),
            (None, _) => 0,
        };
        let magnitude = number.unsigned_abs();
        let digits = match base {
            2 => format!("{magnitude:b}"),
            8 => format!("{magnitude:o}"),
            16 if verb == 'X' => format!("{magnitude:X}"),
            16 => format!("{magnitude:x}"),
            _ => magnitude.to_string(),
        };
        let zeros = "0".repeat(least.saturating_sub(digits.len()));
        let prefix = match (base, verb) {
            (8, 'O') => "0o",
            (8, _) if self.sharp && !zeros.starts_with('0') && !digits.starts_with('0') => "0",
            (2, _) if self.sharp => "0b",
            (16, 'X') if self.sharp => "0X",
            (16, _) if self.sharp => "0x",
            _ => "",
        };
        self.without_zero().pad(out, &format!("{sign}{prefix}{zeros}{digits}"));
    }

    fn unicode(&self, out: &mut Draft, number: i128) {
        // Go shows the bits of a negative number.
        let code = number as u64;
        let least = self.precision.unwrap_or_default().max(4);
        let digits = format!("{code:X}");
        let mut written = format!("U+{}{digits}", "0".repeat(least.saturating_sub(digits.len())));
        let character = u32::try_from(code).ok().and_then(char::from_u32).filter(|c| is_printable(*c));
        if let Some(character) = character.filter(|_| self.sharp) {
            written.push_str(&format!(" '{character}'"));
        }
        self.without_zero().pad(out, &written);
    }

    fn float(&self, out: &mut Draft, value: f64, verb: char) {
        let (style, default) = match verb {
            'v' | 'g' | 'G' => (Style::Shorter, None),
            'e' | 'E' => (Style::Exponent, Some(6)),
            'f' | 'F' => (Style::Point, Some(6)),
            'x' | 'X' => (Style::Hexadecimal, None),
            'b' => (Style::Binary, None),
            _ => return self.bad_verb(out, &Value::Float(value), verb),
        };
        let sign = self.sign(value.is_sign_negative() && !value.is_nan());
        if value.is_nan() {
            return self.without_zero().pad(out, &format!("{sign}NaN"));
        }
        if value.is_infinite() {
            let sign = if sign.is_empty() { "+" } else { sign };
            return self.without_zero().pad(out, &format!("{sign}Inf"));
        }
        let precision = self.precision.or(default);
        out.toil(FLOAT_TOIL);
        let mut digits = float::format(value.abs(), style, precision);
        if self.sharp && style != Style::Binary {
            digits = with_point(&digits, style, precision);
        }
        if matches!(verb, 'E' | 'G' | 'X') {
            digits = digits.to_ascii_uppercase();
        }
        if self.zero && !sign.is_empty() {
            // The zeros go between the sign and the digits.
            out.push_str(sign);
            let width = self.width.map(|width| width.saturating_sub(sign.len()));
            Directive { width, ..*self }.pad(out, &digits);
        } else {
            self.pad(out, &format!("{sign}{digits}"));
        }
    }

    fn list(&self, out: &mut Draft, value: &Value, verb: char) {
        let is_map = matches!(value, Value::Environment(_));
        let (open, separator, close) = match (self.go_syntax, is_map) {
            (true, _) => ("{", ", ", "}"),
            (false, true) => ("map[", " ", "]"),
            (false, false) => ("[", " ", "]"),
        };
        if self.go_syntax {
            out.push_str(value.go_type());
        }
        out.push_str(open);
        for (at, (key, element)) in value.entries().into_iter().flatten().enumerate() {
            if out.is_full() {
                return;
            }
            if at > 0 {
                out.push_str(separator);
            }
            if is_map {
                self.write(out, &key, verb);
                out.push(':');
            }
            self.write(out, &element, verb);
        }
        out.push_str(close);
    }
}

/// The character with this code, or the one that stands for what is none.
fn character(code: i128) -> char {
    u32::try_from(code).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The sharp flag keeps the point of a float and, in the shorter style, the zeros that fill its precision.
fn with_point(digits: &str, style: Style, precision: Option<usize>) -> String {
    let exponent_mark = if style == Style::Hexadecimal { 'p' } else { 'e' };
    let exponent_from = digits.find(exponent_mark).unwrap_or(digits.len());
    let (mantissa, exponent) = digits.split_at_checked(exponent_from).unwrap_or((digits, ""));
    let point = if mantissa.contains('.') { "" } else { "." };
    let zeros = if style == Style::Shorter { missing_zeros(mantissa, precision.unwrap_or(6)) } else { 0 };
    format!("{mantissa}{point}{}{exponent}", "0".repeat(zeros))
}

/// How many zeros a mantissa lacks to show this many significant digits. A zero counts if it is all there is.
fn missing_zeros(mantissa: &str, wanted: usize) -> usize {
    let significant = mantissa.trim_start_matches(['0', '.']);
    let shown = significant.chars().filter(|digit| *digit != '.').count();
    wanted.saturating_sub(if mantissa == "0" { 1 } else { shown })
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::config::template::value::environment;

    fn write(directive: Directive, value: &Value, verb: char) -> String {
        let mut out = Draft::default();
        directive.write(&mut out, value, verb);
        let here = crate::config::template::span::Span { start: 0, end: 0 };
        out.finish(&mut crate::config::template::budget::Budget::new(), here).unwrap().to_string()
    }

    fn plain(value: &Value, verb: char) -> String {
        write(Directive::default(), value, verb)
    }

    #[test]
    fn every_kind_of_value_has_a_plain_form() {
        assert_eq!(plain(&Value::Nil, 'v'), "<nil>");
        assert_eq!(plain(&Value::Bool(true), 'v'), "true");
        assert_eq!(plain(&Value::Int(-3), 'v'), "-3");
        assert_eq!(plain(&Value::Byte(97), 'v'), "97");
        assert_eq!(plain(&Value::Float(10.1), 'v'), "10.1");
        assert_eq!(plain(&Value::text("a b"), 'v'), "a b");
        assert_eq!(plain(&Value::Ints(Rc::from([1, 2])), 'v'), "[1 2]");
        assert_eq!(plain(&Value::Strings(Rc::from([Rc::from("a"), Rc::from("")])), 'v'), "[a ]");
        let map = [("A".to_owned(), "1".to_owned()), ("B".to_owned(), "2".to_owned())].into();
        assert_eq!(plain(&Value::Environment(environment(&map)), 'v'), "map[A:1 B:2]");
    }

    #[test]
    fn an_unfit_verb_names_type_and_value() {
        assert_eq!(plain(&Value::text("hi"), 'd'), "%!d(string=hi)");
        assert_eq!(plain(&Value::Int(1), 's'), "%!s(int=1)");
        assert_eq!(plain(&Value::Nil, 'd'), "%!d(<nil>)");
        assert_eq!(plain(&Value::Ints(Rc::from([0, 1])), 's'), "[%!s(int=0) %!s(int=1)]");
        assert_eq!(plain(&Value::Int(27), 'p'), "%!p(int=27)");
        assert_eq!(plain(&Value::Bool(true), 'd'), "%!d(bool=true)");
        assert_eq!(plain(&Value::Float(1.5), 'd'), "%!d(float64=1.5)");
    }

    #[test]
    fn infinities_and_nan_are_never_padded_with_zeros() {
        let zeros = Directive { zero: true, width: Some(6), ..Directive::default() };
        assert_eq!(write(zeros, &Value::Float(f64::INFINITY), 'f'), "  +Inf");
        assert_eq!(write(zeros, &Value::Float(f64::NAN), 'f'), "   NaN");
        assert_eq!(write(zeros, &Value::Float(f64::NEG_INFINITY), 'f'), "  -Inf");
    }
}
