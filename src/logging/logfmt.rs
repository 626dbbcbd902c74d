//! Values as logrus' text formatter writes them: without quotes if no character needs them, else quoted by the rules of
//! Go's `%q`.

use super::escape::{ByteSet, Escape, byte_set, find, write_escaped, write_into};

/// Appends `value`, in quotes if it needs them. An empty value stays empty, as with logrus.
pub fn write_value(value: &[u8], out: &mut Vec<u8>) {
    if find(value, &IN_QUOTES).is_some() {
        write_quoted(value, out);
    } else {
        out.extend_from_slice(value);
    }
}

/// The bytes for which logrus quotes a value: all but letters, digits and `-./@^_+`.
const IN_QUOTES: ByteSet = byte_set!(
    0..=b'*' | b',' | b':'..=b'?' | b'['..=b']' | b'`' | b'{'..
);

fn write_quoted(value: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    write_escaped::<Quoted>(value, out);
    out.push(b'"');
}

/// The rules of `%q`.
struct Quoted;

impl Escape for Quoted {
    const SPECIAL: ByteSet = byte_set!(b'"' | b'\\' | 0..=0x1f | 0x7f..);

    fn write_character(character: char, out: &mut Vec<u8>) {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\x07' => out.extend_from_slice(b"\\a"),
            '\x08' => out.extend_from_slice(b"\\b"),
            '\x0c' => out.extend_from_slice(b"\\f"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\x0b' => out.extend_from_slice(b"\\v"),
            '\0'..='\x1f' | '\x7f' => write_into(out, format_args!("\\x{:02x}", u32::from(character))),
            _ if is_printable(character) => {
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            '\u{80}'..='\u{ffff}' => write_into(out, format_args!("\\u{:04x}", u32::from(character))),
            _ => write_into(out, format_args!("\\U{:08x}", u32::from(character))),
        }
    }

    fn write_invalid(byte: u8, out: &mut Vec<u8>) {
        write_into(out, format_args!("\\x{byte:02x}"));
    }
}

/// Go's `strconv.IsPrint` for characters beyond ASCII: letters, marks, numbers, punctuation and symbols.
///
/// The standard library offers these classes only through `escape_debug`, which leaves printable characters as they are.
/// At the start of a string it also escapes combining marks, so a letter is put before the character.
fn is_printable(character: char) -> bool {
    let mut buffer = [b'a'; 5];
    let Some(rest) = buffer.get_mut(1..) else { return false };
    let length = 1 + character.encode_utf8(rest).len();
    let text = buffer.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default();
    text.escape_debug().nth(1) == Some(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: impl AsRef<[u8]>) -> String {
        let mut out = Vec::new();
        write_value(value.as_ref(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn harmless_values_stay_bare() {
        assert_eq!(shown("hello"), "hello");
        assert_eq!(shown("AZaz09-._/@^+"), "AZaz09-._/@^+");
        for byte in 0..=255u8 {
            let plain = byte.is_ascii_alphanumeric() || b"-._/@^+".contains(&byte);
            assert_eq!(find(&[byte], &IN_QUOTES).is_some(), !plain, "{byte}");
        }
        assert_eq!(shown(""), "");
    }

    #[test]
    fn anything_else_is_quoted() {
        assert_eq!(shown("hello world"), r#""hello world""#);
        assert_eq!(shown("a=b"), r#""a=b""#);
        assert_eq!(shown("12:30"), r#""12:30""#);
        assert_eq!(shown("(x)*~#"), r#""(x)*~#""#);
        assert_eq!(shown("é"), "\"é\"");
    }

    #[test]
    fn quotes_backslashes_and_control_characters_are_escaped_as_go_does() {
        assert_eq!(shown(r#"say "hi" \o/"#), r#""say \"hi\" \\o/""#);
        assert_eq!(shown("\x07\x08\x0c\n\r\t\x0b"), r#""\a\b\f\n\r\t\v""#);
        assert_eq!(shown("\0\x01\x1b[31m\x1f\x7f"), r#""\x00\x01\x1b[31m\x1f\x7f""#);
    }

    #[test]
    fn printable_unicode_stays_and_the_rest_is_escaped() {
        assert_eq!(shown("naïve ☃ 日本 😀"), "\"naïve ☃ 日本 😀\"");
        assert_eq!(shown("e\u{301}"), "\"e\u{301}\"", "a combining mark is printable");
        assert_eq!(shown("\u{301}"), "\"\u{301}\"");
        assert_eq!(shown("\u{80}\u{a0}\u{ad}"), r#""\u0080\u00a0\u00ad""#);
        assert_eq!(shown("\u{200b}\u{2028}\u{feff}\u{e000}"), r#""\u200b\u2028\ufeff\ue000""#);
        assert_eq!(shown("\u{e0001}\u{10ffff}"), r#""\U000e0001\U0010ffff""#);
        assert_eq!(shown("\u{fffd}"), "\"\u{fffd}\"");
    }

    #[test]
    fn each_byte_of_invalid_utf_8_is_shown_in_hexadecimal() {
        assert_eq!(shown(b"a\xff\xfeb"), r#""a\xff\xfeb""#);
        assert_eq!(shown(b"\xe2\x82"), r#""\xe2\x82""#, "a cut sequence");
        assert_eq!(shown(b"\xed\xa0\x80"), r#""\xed\xa0\x80""#, "a surrogate");
        assert_eq!(shown(b"\xc0\x80\xc3\xa9"), "\"\\xc0\\x80é\"", "an overlong form");
    }
}
