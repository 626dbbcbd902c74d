//! Go's string and character literals: reading them, and writing them as `%q` does.

use std::rc::Rc;

/// Reads the inside of a string in double quotes.
pub(super) fn unquote(inside: &str) -> Result<Rc<str>, String> {
    let mut bytes = Vec::with_capacity(inside.len());
    let mut rest = inside;
    while !rest.is_empty() {
        let (unit, after) = unescape(rest, '"')?;
        match unit {
            Unit::Byte(byte) => bytes.push(byte),
            Unit::Character(character) => {
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        rest = after;
    }
    let text = String::from_utf8(bytes).map_err(|_| "the escapes of this string are not valid UTF-8")?;
    Ok(Rc::from(text))
}

/// Reads the inside of a raw string: Go drops its carriage returns.
pub(super) fn unquote_raw(inside: &str) -> Rc<str> {
    if inside.contains('\r') { Rc::from(inside.replace('\r', "")) } else { Rc::from(inside) }
}

/// Reads the inside of a character constant: its code point, or the byte of an escape such as `\xFF`.
pub(super) fn unquote_character(inside: &str) -> Result<i64, String> {
    let wrong = || format!("expected exactly one character between the quotes, found '{inside}'");
    if inside.is_empty() {
        return Err(wrong());
    }
    let (unit, rest) = unescape(inside, '\'')?;
    if !rest.is_empty() {
        return Err(wrong());
    }
    Ok(match unit {
        Unit::Byte(byte) => i64::from(byte),
        Unit::Character(character) => i64::from(u32::from(character)),
    })
}

/// Escapes of one letter.
const ESCAPES: [(char, char); 8] = [
    ('a', '\x07'),
    ('b', '\x08'),
    ('f', '\x0C'),
    ('n', '\n'),
    ('r', '\r'),
    ('t', '\t'),
    ('v', '\x0B'),
    ('\\', '\\'),
];

/// What one character or escape of a literal stands for.
enum Unit {
    Byte(u8),
    Character(char),
}

/// Takes one character or escape off a literal in the given quotes.
fn unescape(text: &str, quote: char) -> Result<(Unit, &str), String> {
    let mut characters = text.chars();
    let first = characters.next().unwrap_or_default();
    if first != '\\' {
        return Ok((Unit::Character(first), characters.as_str()));
    }
    let kind = characters.next().ok_or("a backslash must be followed by what it escapes")?;
    let rest = characters.as_str();
    let plain = |character| Ok((Unit::Character(character), rest));
    if let Some((_, character)) = ESCAPES.iter().find(|(name, _)| *name == kind) {
        return plain(*character);
    }
    match kind {
        'x' => digits(rest, 2, 16).map(|(code, rest)| (Unit::Byte(code as u8), rest)),
        'u' => code_point(rest, 4),
        'U' => code_point(rest, 8),
        '0'..='7' => {
            let (code, after) = digits(text.get(1..).unwrap_or_default(), 3, 8)?;
            let byte = u8::try_from(code).map_err(|_| format!("the escape \\{code:o} is no byte"))?;
            Ok((Unit::Byte(byte), after))
        }
        other if other == quote => plain(other),
        other => Err(format!("unknown escape \\{other}")),
    }
}

fn code_point(text: &str, length: usize) -> Result<(Unit, &str), String> {
    let (code, rest) = digits(text, length, 16)?;
    let character =
        char::from_u32(code).ok_or_else(|| format!("the escape {code:X} is no Unicode character"))?;
    Ok((Unit::Character(character), rest))
}

/// Takes a number of exactly `length` digits off a text.
fn digits(text: &str, length: usize, base: u32) -> Result<(u32, &str), String> {
    let wrong = || format!("this escape needs {length} digits of base {base}");
    let (number, rest) = text.split_at_checked(length).ok_or_else(wrong)?;
    if !number.chars().all(|digit| digit.is_digit(base)) {
        return Err(wrong());
    }
    Ok((u32::from_str_radix(number, base).map_err(|_| wrong())?, rest))
}

/// Writes a text in the given quotes, with escapes for what cannot be printed or, if asked, all that is not ASCII.
pub(super) fn quote(text: &str, quote: char, ascii_only: bool) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push(quote);
    for character in text.chars() {
        escape(&mut quoted, character, quote, ascii_only);
    }
    quoted.push(quote);
    quoted
}

fn escape(quoted: &mut String, character: char, quote: char, ascii_only: bool) {
    let code = u32::from(character);
    if let Some((name, _)) = ESCAPES.iter().find(|(_, escaped)| *escaped == character) {
        quoted.extend(['\\', *name]);
        return;
    }
    match character {
        _ if character == quote => quoted.extend(['\\', character]),
        _ if is_printable(character) && (character.is_ascii() || !ascii_only) => quoted.push(character),
        '\0'..=' ' | '\x7F' => quoted.push_str(&format!("\\x{code:02x}")),
        _ if code <= 0xFFFF => quoted.push_str(&format!("\\u{code:04x}")),
        _ => quoted.push_str(&format!("\\U{code:08x}")),
    }
}

/// Whether a text can be written between backquotes unchanged.
pub(super) fn can_backquote(text: &str) -> bool {
    text.chars().all(|c| c == '\t' || !matches!(c, '\0'..='\x1F' | '\x7F' | '`' | '\u{FEFF}'))
}

/// Whether Go prints the character as it is: letters, marks, numbers, punctuation, symbols and the ASCII space.
pub(super) fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return matches!(character, ' '..='~');
    }
    // Rust escapes the same categories, but for combining marks at the start of a text: so not at its start.
    let mut text = String::from("x");
    text.push(character);
    text.escape_debug().nth(1) == Some(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_as_go_reads_them() {
        let cases = [
            (r"a\tb\n\\", "a\tb\n\\"),
            (r#"say \"hi\""#, "say \"hi\""),
            (r"\x41\102\u00e9\U0001F600", "AB\u{e9}\u{1F600}"),
            (r"\xc3\xa9", "é"),
            (r"\a\b\f\r\v\000", "\x07\x08\x0C\r\x0B\0"),
            ("日本", "日本"),
        ];
        for (written, expected) in cases {
            assert_eq!(unquote(written).as_deref(), Ok(expected), "{written}");
        }
    }

    #[test]
    fn bad_escapes_are_refused() {
        for written in [
            r"\q",
            r"\'",
            r"\x4",
            r"\xzz",
            r"\u12",
            r"\ud800",
            r"\U00110000",
            r"\400",
            r"\8",
            r"\xff",
            r"\",
            r"\x+1",
        ] {
            assert!(unquote(written).is_err(), "{written}");
        }
    }

    #[test]
    fn raw_strings_lose_only_carriage_returns() {
        assert_eq!(&*unquote_raw("a\\n\r\n"), "a\\n\n");
    }

    #[test]
    fn character_constants_are_numbers() {
        let cases = [
            ("a", 97),
            (r"\n", 10),
            (r"\'", 39),
            ("\"", 34),
            (r"\xFF", 255),
            ("パ", 0x30d1),
            (r"\u30d1", 0x30d1),
        ];
        for (written, expected) in cases {
            assert_eq!(unquote_character(written), Ok(expected), "{written}");
        }
        for written in ["", "xx", r#"\""#, r"\"] {
            assert!(unquote_character(written).is_err(), "{written}");
        }
    }

    #[test]
    fn texts_are_quoted_as_go_quotes_them() {
        assert_eq!(quote("a\"b'\\\n\x07\x01\x7f", '"', false), r#""a\"b'\\\n\a\x01\x7f""#);
        assert_eq!(quote("日☺\u{ad}\u{10ffff}", '"', false), r#""日☺\u00ad\U0010ffff""#);
        assert_eq!(quote("日☺", '"', true), r#""\u65e5\u263a""#);
        assert_eq!(quote("'", '\'', false), r"'\''");
    }

    #[test]
    fn backquotes_cannot_hold_control_characters() {
        assert!(can_backquote("a\t\"日"));
        for text in ["`", "\n", "\x7f", "\u{feff}"] {
            assert!(!can_backquote(text), "{text:?}");
        }
    }
}
