//! Strings as Go's `encoding/json` writes them by default, HTML escaping included.

use super::escape::{ByteSet, Escape, byte_set, write_escaped, write_into};

/// Appends `text` as a JSON string; invalid UTF-8 becomes `\ufffd`, once for each byte.
pub fn write_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    write_escaped::<Json>(text, out);
    out.push(b'"');
}

struct Json;

impl Escape for Json {
    const SPECIAL: ByteSet = byte_set!(b'"' | b'\\' | b'<' | b'>' | b'&' | 0..=0x1f | 0x80..);

    fn write_character(character: char, out: &mut Vec<u8>) {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\0'..='\x7f' | '\u{2028}' | '\u{2029}' => {
                write_into(out, format_args!("\\u{:04x}", u32::from(character)));
            }
            _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }

    fn write_invalid(_byte: u8, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\\ufffd");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: impl AsRef<[u8]>) -> String {
        let mut out = Vec::new();
        write_string(text.as_ref(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn plain_text_is_only_quoted() {
        assert_eq!(shown(""), r#""""#);
        assert_eq!(shown("hello, world"), r#""hello, world""#);
        assert_eq!(shown("naïve 日本 😀 \x7f"), "\"naïve 日本 😀 \x7f\"");
    }

    #[test]
    fn control_characters_have_a_short_form_only_where_go_has_one() {
        assert_eq!(shown("\n\r\t\"\\"), r#""\n\r\t\"\\""#);
        assert_eq!(shown("\0\x08\x0c\x1f"), r#""\u0000\u0008\u000c\u001f""#);
    }

    #[test]
    fn html_and_javascript_line_ends_are_escaped() {
        assert_eq!(shown("<a href='x'>&</a>"), r#""\u003ca href='x'\u003e\u0026\u003c/a\u003e""#);
        assert_eq!(shown("\u{2028}\u{2029}\u{2027}"), "\"\\u2028\\u2029\u{2027}\"");
    }

    #[test]
    fn each_byte_of_invalid_utf_8_is_replaced() {
        assert_eq!(shown(b"a\xffb"), r#""a\ufffdb""#);
        assert_eq!(shown(b"\xe2\x82"), r#""\ufffd\ufffd""#);
    }

    proptest! {
        #[test]
        fn a_json_reader_gets_the_text_back(text in any::<String>()) {
            prop_assert_eq!(serde_json::from_str::<String>(&shown(&text)).unwrap(), text);
        }

        #[test]
        fn any_bytes_give_valid_json(bytes in any::<Vec<u8>>()) {
            prop_assert!(serde_json::from_str::<String>(&shown(&bytes)).is_ok());
        }
    }
}
