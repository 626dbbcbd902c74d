//! Finds where every key and value of a JSON5 text is, in the order in which a parser meets them, and
//! refuses nesting that would exhaust a recursive parser's stack. It judges nothing else: whether the
//! text is JSON5 at all is the parser's business.
//!
//! The parser, the crate json5, tells no places of values, lets a key appear twice, and has no limit of depth.

use std::ops::Range;

use memchr::memchr2;

/// Deeper nesting than this is refused.
pub const MAX_DEPTH: usize = 64;

/// The brace or bracket that is nested too deep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooDeep {
    /// Its offset in bytes.
    pub offset: usize,
}

/// The ranges of all keys and values, in document order: a container before what it contains, a key
/// before its value.
pub fn locate(text: &str) -> Result<Vec<Range<usize>>, TooDeep> {
    let Scanner { mut found, open, .. } = scan(text)?;
    for index in open {
        if let Some(range) = found.get_mut(index) {
            range.end = text.len();
        }
    }
    Ok(found)
}

/// The innermost brace or bracket that is open at the end of the text, and its offset.
pub fn unclosed(text: &str) -> Option<(usize, char)> {
    let scanner = scan(text).ok()?;
    let start = scanner.found.get(*scanner.open.last()?)?.start;
    Some((start, text.get(start..)?.chars().next()?))
}

fn scan(text: &str) -> Result<Scanner<'_>, TooDeep> {
    let mut scanner = Scanner { text, offset: 0, found: Vec::new(), open: Vec::new() };
    while let Some(next) = scanner.rest().first() {
        scanner.step(*next)?;
    }
    Ok(scanner)
}

/// Looks at bytes: all that means something is ASCII, but for some spaces and ends of lines.
struct Scanner<'a> {
    text: &'a str,
    offset: usize,
    found: Vec<Range<usize>>,
    /// Indices of the containers that are not closed yet.
    open: Vec<usize>,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.offset..).unwrap_or_default()
    }

    fn step(&mut self, next: u8) -> Result<(), TooDeep> {
        let start = self.offset;
        match next {
            b'{' | b'[' => {
                if self.open.len() >= MAX_DEPTH {
                    return Err(TooDeep { offset: start });
                }
                self.open.push(self.found.len());
                self.offset += 1;
                self.found.push(start..self.offset);
            }
            b'}' | b']' => {
                self.offset += 1;
                if let Some(range) = self.open.pop().and_then(|index| self.found.get_mut(index)) {
                    range.end = self.offset;
                }
            }
            b'"' | b'\'' => {
                self.offset += self.string_length(next);
                self.found.push(start..self.offset);
            }
            b'/' => self.offset += self.comment_length(),
            b',' | b':' => self.offset += 1,
            _ => match self.space_length(start) {
                0 => {
                    self.offset += self.bare_length();
                    self.found.push(start..self.offset);
                }
                length => self.offset += length,
            },
        }
        Ok(())
    }

    /// With its quotes.
    fn string_length(&self, quote: u8) -> usize {
        let rest = self.rest();
        let mut offset = 1;
        while let Some(next) = rest.get(offset..).and_then(|rest| memchr2(quote, b'\\', rest)) {
            offset += next;
            if rest.get(offset) == Some(&quote) {
                return offset + 1;
            }
            offset += 2; // what is escaped, or the first byte of it
        }
        rest.len()
    }

    fn comment_length(&self) -> usize {
        let rest = self.text.get(self.offset..).unwrap_or_default();
        if rest.starts_with("/*") {
            let body = rest.get(2..).unwrap_or_default();
            body.find("*/").map_or(rest.len(), |end| end + 4)
        } else if rest.starts_with("//") {
            rest.find(json5::char::is_json5_line_terminator).unwrap_or(rest.len())
        } else {
            1
        }
    }

    /// The space that is there, if any.
    fn space_length(&self, offset: usize) -> usize {
        let Some(next) = self.text.as_bytes().get(offset) else { return 0 };
        if next.is_ascii() {
            return usize::from(matches!(next, b'\t'..=b'\r' | b' '));
        }
        let character = self.text.get(offset..).and_then(|rest| rest.chars().next());
        character.filter(|character| json5::char::is_json5_whitespace(*character)).map_or(0, char::len_utf8)
    }

    fn bare_length(&self) -> usize {
        let mark = |byte: &u8| {
            matches!(
                byte,
                b'{' | b'}' | b'[' | b']' | b',' | b':' | b'/' | b'"' | b'\'' | b'\t'..=b'\r' | b' '
            )
        };
        let rest = self.rest();
        // Within a character there is no space: that is told where it begins.
        let ends = |(index, byte): (usize, &u8)| {
            mark(byte) || (!byte.is_ascii() && self.space_length(self.offset + index) > 0)
        };
        rest.iter().enumerate().position(ends).unwrap_or(rest.len()).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(text: &str) -> Vec<&str> {
        locate(text).unwrap().into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn containers_come_before_their_contents_and_keys_before_values() {
        assert_eq!(
            located("{a: [1, 'x'], \"b\": null}"),
            ["{a: [1, 'x'], \"b\": null}", "a", "[1, 'x']", "1", "'x'", "\"b\"", "null"]
        );
    }

    #[test]
    fn comments_and_quoted_braces_are_not_values() {
        assert_eq!(
            located("// {\n{/* [ */ a: '}\\'{', // ]\n b: -.5e3}"),
            ["{/* [ */ a: '}\\'{', // ]\n b: -.5e3}", "a", "'}\\'{'", "b", "-.5e3"]
        );
    }

    #[test]
    fn nesting_is_limited_without_recursion() {
        let allowed = "[".repeat(MAX_DEPTH);
        assert!(locate(&allowed).is_ok());
        assert_eq!(locate(&"[".repeat(1_000_000)), Err(TooDeep { offset: MAX_DEPTH }));
    }

    #[test]
    fn spaces_and_escapes_beyond_ascii_are_what_the_parser_takes_them_for() {
        assert_eq!(
            located("{\u{a0}é\u{2003}:\u{feff}'ü\\é\\\\' ,ß:é\u{2028}}")[1..],
            ["é", "'ü\\é\\\\'", "ß", "é"]
        );
        assert_eq!(located("'a\\"), ["'a\\"]);
        assert_eq!(located("'a\\'"), ["'a\\'"]);
    }

    #[test]
    fn unfinished_text_still_yields_ranges() {
        assert_eq!(located("{a: 'b"), ["{a: 'b", "a", "'b"]);
        assert_eq!(located("{a: /"), ["{a: /", "a"]);
    }
}
