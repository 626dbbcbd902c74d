//! Go's `fmt.Sprintf`, `Sprint` and `Sprintln`: format strings, argument indexes and the notes that Go leaves in
//! the text when format and arguments do not match. The values themselves are written in `format`.

use super::budget::Draft;
use super::format::{Directive, write_plain};
use super::value::Value;

/// Go ignores widths and precisions beyond this.
const LARGEST_NUMBER: i64 = 1_000_000;

pub(super) fn write_formatted(out: &mut Draft, format: &str, arguments: &[Value]) {
    let mut printf = Printf { rest: format, arguments, next: 0, reordered: false, good_index: true };
    while !out.is_full() {
        let Some((text, after)) = printf.rest.split_once('%') else {
            out.push_str(printf.rest);
            break;
        };
        out.push_str(text);
        printf.rest = after;
        printf.directive(out);
    }
    printf.write_extra(out);
}

/// Writes the arguments one after another, with a space between two that are both no strings.
pub(super) fn write_spaced(out: &mut Draft, arguments: &[Value]) {
    let mut after_string = true;
    for argument in arguments {
        let is_string = matches!(argument, Value::Text(_));
        if !is_string && !after_string {
            out.push(' ');
        }
        write_plain(out, argument);
        after_string = is_string;
    }
}

/// Writes the arguments with spaces between them and a newline after them.
pub(super) fn write_line(out: &mut Draft, arguments: &[Value]) {
    for (at, argument) in arguments.iter().enumerate() {
        if at > 0 {
            out.push(' ');
        }
        write_plain(out, argument);
    }
    out.push('\n');
}

struct Printf<'f> {
    rest: &'f str,
    arguments: &'f [Value],
    /// The argument that the next verb takes.
    next: usize,
    /// Whether an index was used, after which arguments may well be left over.
    reordered: bool,
    /// Whether the indexes of the current directive make sense.
    good_index: bool,
}

impl Printf<'_> {
    /// Reads and obeys what follows a `%`.
    fn directive(&mut self, out: &mut Draft) {
        self.good_index = true;
        let mut directive = self.flags();
        let mut after_index = self.index();
        after_index = self.width(out, &mut directive, after_index);
        after_index = self.precision(out, &mut directive, after_index);
        if !after_index {
            self.index();
        }
        let mut characters = self.rest.chars();
        let Some(verb) = characters.next() else {
            out.push_str("%!(NOVERB)");
            return;
        };
        self.rest = characters.as_str();
        self.verb(out, &directive, verb);
    }

    fn verb(&mut self, out: &mut Draft, directive: &Directive, verb: char) {
        if verb == '%' {
            out.push('%');
        } else if !self.good_index {
            note(out, verb, "BADINDEX");
        } else if let Some(argument) = self.arguments.get(self.next) {
            self.next += 1;
            let directive = if verb == 'v' {
                // These flags have another meaning for %v, and none for the numbers in it.
                Directive { go_syntax: directive.sharp, sharp: false, plus: false, ..*directive }
            } else {
                *directive
            };
            directive.write(out, argument, verb);
        } else {
            note(out, verb, "MISSING");
        }
    }

    fn flags(&mut self) -> Directive {
        let mut directive = Directive::default();
        loop {
            let mut characters = self.rest.chars();
            match characters.next() {
                Some('#') => directive.sharp = true,
                Some('0') => directive.zero = !directive.minus,
                Some('+') => directive.plus = true,
                Some('-') => {
                    directive.minus = true;
                    directive.zero = false;
                }
                Some(' ') => directive.space = true,
                Some(_) | None => return directive,
            }
            self.rest = characters.as_str();
        }
    }

    /// Reads a width; tells whether an index still waits for what it is for.
    fn width(&mut self, out: &mut Draft, directive: &mut Directive, after_index: bool) -> bool {
        if let Some(rest) = self.rest.strip_prefix('*') {
            self.rest = rest;
            match self.number_argument() {
                Some(width) => {
                    directive.width = usize::try_from(width.unsigned_abs()).ok();
                    if width < 0 {
                        directive.minus = true;
                        directive.zero = false;
                    }
                }
                None => out.push_str("%!(BADWIDTH)"),
            }
            return false;
        }
        directive.width = self.number();
        if after_index && directive.width.is_some() {
            self.good_index = false;
        }
        after_index
    }

    /// Reads a precision; tells whether an index still waits for what it is for.
    fn precision(&mut self, out: &mut Draft, directive: &mut Directive, after_index: bool) -> bool {
        let Some(rest) = self.rest.strip_prefix('.') else { return after_index };
        self.rest = rest;
        if after_index {
            self.good_index = false;
        }
        let after_index = self.index();
        if let Some(rest) = self.rest.strip_prefix('*') {
            self.rest = rest;
            directive.precision =
                self.number_argument().and_then(|precision| usize::try_from(precision).ok());
            if directive.precision.is_none() {
                out.push_str("%!(BADPREC)");
            }
            return false;
        }
        directive.precision = Some(self.number().unwrap_or_default());
        after_index
    }

    /// Reads an index such as `[2]`, if there is one.
    fn index(&mut self) -> bool {
        let Some(rest) = self.rest.strip_prefix('[') else { return false };
        self.reordered = true;
        // Go does not look for the end of an index in a rest too short to hold one.
        let Some((inside, after)) = rest.split_once(']').filter(|_| rest.len() > 1) else {
            self.good_index = false;
            self.rest = rest;
            return false;
        };
        self.rest = after;
        let digits = !inside.is_empty() && inside.bytes().all(|byte| byte.is_ascii_digit());
        let number = inside.parse::<i64>().ok().filter(|number| digits && *number <= LARGEST_NUMBER);
        let index = number.and_then(|number| usize::try_from(number - 1).ok());
        match index.filter(|index| *index < self.arguments.len()) {
            Some(index) => self.next = index,
            None => self.good_index = false,
        }
        number.is_some()
    }

    /// Reads digits. Of a number that is too large nothing is left to read, as in Go.
    fn number(&mut self) -> Option<usize> {
        let after = self.rest.trim_start_matches(|character: char| character.is_ascii_digit());
        let digits = self.rest.get(..self.rest.len() - after.len()).unwrap_or_default();
        if digits.is_empty() {
            return None;
        }
        let number = digits.parse::<i64>().ok().filter(|number| *number <= LARGEST_NUMBER);
        self.rest = if number.is_some() { after } else { "" };
        number.and_then(|number| usize::try_from(number).ok())
    }

    /// Takes an argument as a width or precision.
    fn number_argument(&mut self) -> Option<i64> {
        let argument = self.arguments.get(self.next)?;
        self.next += 1;
        argument.as_integer().filter(|number| (-LARGEST_NUMBER..=LARGEST_NUMBER).contains(number))
    }

    /// Notes the arguments that no verb has taken.
    fn write_extra(&self, out: &mut Draft) {
        let left = self.arguments.get(self.next..).unwrap_or_default();
        if self.reordered || left.is_empty() {
            return;
        }
        out.push_str("%!(EXTRA ");
        for (at, argument) in left.iter().enumerate() {
            if at > 0 {
                out.push_str(", ");
            }
            if !matches!(argument, Value::Nil) {
                out.push_str(argument.go_type());
                out.push('=');
            }
            write_plain(out, argument);
        }
        out.push(')');
    }
}

fn note(out: &mut Draft, verb: char, what: &str) {
    out.push_str("%!");
    out.push(verb);
    out.push('(');
    out.push_str(what);
    out.push(')');
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::super::budget::Budget;
    use super::super::span::Span;
    use super::*;

    fn finish(out: Draft) -> String {
        out.finish(&mut Budget::new(), Span { start: 0, end: 0 }).unwrap().to_string()
    }

    fn sprintf(format: &str, arguments: &[Value]) -> String {
        let mut out = Draft::default();
        write_formatted(&mut out, format, arguments);
        finish(out)
    }

    fn check(cases: &[(&str, Value, &str)]) {
        for (format, value, expected) in cases {
            assert_eq!(sprintf(format, std::slice::from_ref(value)), *expected, "{format} of {value:?}");
        }
    }

    #[test]
    fn strings() {
        let text = Value::text;
        check(&[
            ("%s", text("abc"), "abc"),
            ("%5s|", text("abc"), "  abc|"),
            ("%-5s|", text("abc"), "abc  |"),
            ("%05s", text("abc"), "00abc"),
            ("%.2s", text("日本語"), "日本"),
            ("%2s", text("☺"), " ☺"),
            ("%q", text("a\"b"), "\"a\\\"b\""),
            ("%#q", text("a\"b"), "`a\"b`"),
            ("%#q", text("a`b"), "\"a`b\""),
            ("%+q", text("⌘"), "\"\\u2318\""),
            ("%10q", text("⌘"), "       \"⌘\""),
            ("%-010q|", text("⌘"), "\"⌘\"       |"),
            ("%x", text("xyz"), "78797a"),
            ("%X", text("xyz"), "78797A"),
            ("% x", text("xyz"), "78 79 7a"),
            ("%#x", text("xyz"), "0x78797a"),
            ("%# X", text("xyz"), "0X78 0X79 0X7A"),
            ("%.1x", text("日"), "e6"),
            ("% 02x", text(""), "00"),
            ("%v", text("a"), "a"),
            ("%#v", text("a"), "\"a\""),
            ("%T", text("a"), "string"),
            ("%t", text("a"), "%!t(string=a)"),
            ("%5d", text("hi"), "%!d(string=   hi)"),
        ]);
    }

    #[test]
    fn integers() {
        let int = Value::Int;
        check(&[
            ("%d", int(-12345), "-12345"),
            ("%+d", int(5), "+5"),
            ("% d", int(5), " 5"),
            ("%05d", int(-42), "-0042"),
            ("%-5d|", int(42), "42   |"),
            ("%.3d", int(7), "007"),
            ("%8.3d", int(-7), "    -007"),
            ("%08.3d", int(7), "     007"),
            ("%.0d", int(0), ""),
            ("%.0d", int(7), "7"),
            ("%06.0d", int(0), "      "),
            ("%b", int(-6), "-110"),
            ("%#b", int(7), "0b111"),
            ("%o", int(668), "1234"),
            ("%#o", int(668), "01234"),
            ("%O", int(668), "0o1234"),
            ("%X", int(255), "FF"),
            ("%#X", int(255), "0XFF"),
            ("%#06x", int(255), "0x0000ff"),
            ("%-#20.8x|", int(0x1234abc), "0x01234abc          |"),
            ("%c", int(0x672c), "本"),
            ("%c", int(-1), "\u{fffd}"),
            ("%q", int(39), "'\\''"),
            ("%q", int(0x263a), "'☺'"),
            ("%+q", int(0x263a), "'\\u263a'"),
            ("%U", int(0), "U+0000"),
            ("%#U", int(0x263a), "U+263A '☺'"),
            ("%U", int(-1), "U+FFFFFFFFFFFFFFFF"),
            ("%#14.6U", int(0x2318), "  U+002318 '⌘'"),
            ("%v", int(7), "7"),
            ("%+v", int(7), "7"),
            ("%#v", int(7), "7"),
            ("%d", int(i64::MIN), "-9223372036854775808"),
            ("%#v", Value::Byte(11), "0xb"),
            ("%T", Value::Byte(11), "uint8"),
            ("%d", Value::Byte(11), "11"),
            ("%s", int(1), "%!s(int=1)"),
            ("%z", int(1), "%!z(int=1)"),
            ("%w", int(1), "%!w(int=1)"),
        ]);
    }

    #[test]
    fn floats() {
        let float = Value::Float;
        check(&[
            ("%v", float(1e6), "1e+06"),
            ("%v", float(1000.0), "1000"),
            ("%#v", float(1.0), "1"),
            ("%f", float(1234.5678e-8), "0.000012"),
            ("%F", float(1.0), "1.000000"),
            ("%e", float(1234.5678e3), "1.234568e+06"),
            ("%E", float(-7.0), "-7.000000E+00"),
            ("%g", float(1234.5678e3), "1.2345678e+06"),
            ("%G", float(-1e-9), "-1E-09"),
            ("%6.2f", float(2.34567), "  2.35"),
            ("%+07.2f", float(1.0), "+001.00"),
            ("% 07.2f", float(1.0), " 001.00"),
            ("%07.2f", float(-1.0), "-001.00"),
            ("%7.2f", float(-1.0), "  -1.00"),
            ("%-7.2f|", float(1.0), "1.00   |"),
            ("%.3g", float(100000.0), "1e+05"),
            ("%#g", float(1.1), "1.10000"),
            ("%#g", float(123456.0), "123456."),
            ("%#g", float(1e6), "1.00000e+06"),
            ("%#.4g", float(0.0), "0.000"),
            ("%#.4g", float(0.012), "0.01200"),
            ("%#.0f", float(1.0), "1."),
            ("%#.0e", float(123.0), "1.e+02"),
            ("%b", float(-1.0), "-4503599627370496p-52"),
            ("%+.3x", float(1.0), "+0x1.000p+00"),
            ("%.3X", float(-1.0), "-0X1.000P+00"),
            ("%d", float(1.5), "%!d(float64=1.5)"),
            ("%s", float(1.5), "%!s(float64=1.5)"),
        ]);
    }

    #[test]
    fn other_values() {
        let ints = || Value::Ints(Rc::from([1, 2, 15]));
        let strings = || Value::Strings(Rc::from([Rc::from("a"), Rc::from("b")]));
        check(&[
            ("%v", ints(), "[1 2 15]"),
            ("%#x", ints(), "[0x1 0x2 0xf]"),
            ("%03d", ints(), "[001 002 015]"),
            ("%q", strings(), "[\"a\" \"b\"]"),
            ("%#v", strings(), "[]string{\"a\", \"b\"}"),
            ("%#v", ints(), "[]int{1, 2, 15}"),
            ("%d", strings(), "[%!d(string=a) %!d(string=b)]"),
            ("%T", strings(), "[]string"),
            ("%t", Value::Bool(false), "false"),
            ("%6v", Value::Bool(true), "  true"),
            ("%q", Value::Bool(true), "%!q(bool=true)"),
            ("%10v", Value::Nil, "     <nil>"),
            ("%T", Value::Nil, "<nil>"),
            ("%5d", Value::Nil, "%!d(<nil>)"),
        ]);
    }

    #[test]
    fn a_format_that_does_not_match_its_arguments_leaves_notes() {
        let one = [Value::Int(1)];
        assert_eq!(sprintf("%d %d", &one), "1 %!d(MISSING)");
        assert_eq!(sprintf("no verbs", &one), "no verbs%!(EXTRA int=1)");
        assert_eq!(sprintf("", &[Value::Nil, Value::text("a")]), "%!(EXTRA <nil>, string=a)");
        assert_eq!(sprintf("%d %", &one), "1 %!(NOVERB)");
        assert_eq!(sprintf("%", &[]), "%!(NOVERB)");
        assert_eq!(sprintf("100%%", &[]), "100%");
        assert_eq!(sprintf("%5%", &[]), "%");
        assert_eq!(sprintf("%é", &one), "%!é(int=1)");
        assert_eq!(sprintf("%184467440737095516170v", &[Value::Int(0)]), "%!(NOVERB)%!(EXTRA int=0)");
    }

    #[test]
    fn widths_and_precisions_come_from_arguments() {
        let (int, text) = (Value::Int, Value::text);
        assert_eq!(sprintf("%*d", &[int(5), int(42)]), "   42");
        assert_eq!(sprintf("%-*d|", &[int(5), int(42)]), "42   |");
        assert_eq!(sprintf("%*d|", &[int(-5), int(42)]), "42   |");
        assert_eq!(sprintf("%.*f", &[int(2), Value::Float(2.34567)]), "2.35");
        assert_eq!(sprintf("%*d", &[text("x"), int(42)]), "%!(BADWIDTH)42");
        assert_eq!(sprintf("%.*d", &[int(-1), int(42)]), "%!(BADPREC)42");
        assert_eq!(sprintf("%*d", &[int(2_000_000), int(42)]), "%!(BADWIDTH)42");
        assert_eq!(sprintf("%*", &[int(4)]), "%!(NOVERB)");
        assert_eq!(sprintf("%*d", &[]), "%!(BADWIDTH)%!d(MISSING)");
    }

    #[test]
    fn arguments_are_chosen_by_index() {
        let two = [Value::Int(1), Value::Int(2)];
        assert_eq!(sprintf("%[2]d %[1]d", &two), "2 1");
        assert_eq!(sprintf("%[2]d", &two), "2");
        assert_eq!(sprintf("%[1]d %d", &two), "1 2");
        assert_eq!(sprintf("%[2]*[1]d", &two), " 1");
        assert_eq!(sprintf("%[3]*.[2]*[1]f", &[Value::Float(12.0), Value::Int(2), Value::Int(6)]), " 12.00");
        assert_eq!(sprintf("%[5]d", &two), "%!d(BADINDEX)");
        assert_eq!(sprintf("%[3]d", &two), "%!d(BADINDEX)");
        assert_eq!(sprintf("%[+1]d", &two), "%!d(BADINDEX)");
        assert_eq!(sprintf("%[0]d", &two), "%!d(BADINDEX)");
        assert_eq!(sprintf("%[x]d", &two), "%!d(BADINDEX)");
        assert_eq!(sprintf("%[]d", &two), "%!d(BADINDEX)");
        assert_eq!(sprintf("%[2]2d", &two), "%!d(BADINDEX)");
        assert_eq!(sprintf("%[1].2d", &two), "%!d(BADINDEX)");
        assert_eq!(sprintf("%[]", &two), "%!](BADINDEX)");
        assert_eq!(sprintf("%[1", &two), "%!(NOVERB)");
        assert_eq!(sprintf("%[xd", &two), "%!x(BADINDEX)d");
    }

    #[test]
    fn print_puts_spaces_only_between_values_that_are_no_strings() {
        let print = |arguments: &[Value]| {
            let mut out = Draft::default();
            write_spaced(&mut out, arguments);
            finish(out)
        };
        let (one, x) = (Value::Int(1), Value::text("x"));
        assert_eq!(print(&[one.clone(), one.clone(), x.clone(), x.clone(), one.clone()]), "1 1xx1");
        assert_eq!(print(&[Value::Nil, Value::Bool(true)]), "<nil> true");
        assert_eq!(print(&[]), "");
        let mut out = Draft::default();
        write_line(&mut out, &[one, x.clone(), x]);
        assert_eq!(finish(out), "1 x x\n");
    }

    #[test]
    fn a_format_bomb_stops_at_the_limit() {
        let mut out = Draft::default();
        let format = "%1000000d".repeat(100);
        write_formatted(&mut out, &format, &vec![Value::Int(1); 100]);
        assert!(out.is_full());
    }
}
