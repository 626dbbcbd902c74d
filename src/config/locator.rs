//! Finds where every key and value of a JSON5 text is, in the order in which a parser meets them, and
//! refuses nesting that would exhaust a recursive parser's stack. It judges nothing else: whether the
//! text is JSON5 at all is the parser's business.

use std::ops::Range;

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
    let mut scanner = Scanner { text, offset: 0, found: Vec::new(), open: Vec::new() };
    while let Some(next) = scanner.peek() {
        scanner.step(next)?;
    }
    let Scanner { mut found, open, .. } = scanner;
    for index in open {
        if let Some(range) = found.get_mut(index) {
            range.end = text.len();
        }
    }
    Ok(found)
}

struct Scanner<'a> {
    text: &'a str,
    offset: usize,
    found: Vec<Range<usize>>,
    /// Indices of the containers that are not closed yet.
    open: Vec<usize>,
}

impl Scanner<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.offset..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn step(&mut self, next: char) -> Result<(), TooDeep> {
        let start = self.offset;
        match next {
            '{' | '[' => {
                if self.open.len() >= MAX_DEPTH {
                    return Err(TooDeep { offset: start });
                }
                self.open.push(self.found.len());
                self.offset += 1;
                self.found.push(start..self.offset);
            }
            '}' | ']' => {
                self.offset += 1;
                if let Some(range) = self.open.pop().and_then(|index| self.found.get_mut(index)) {
                    range.end = self.offset;
                }
            }
            '"' | '\'' => {
                self.offset += self.string_length(next);
                self.found.push(start..self.offset);
            }
            '/' => self.offset += self.comment_length(),
            ',' | ':' => self.offset += 1,
            space if is_whitespace(space) => self.offset += space.len_utf8(),
            _ => {
                self.offset += self.bare_length();
                self.found.push(start..self.offset);
            }
        }
        Ok(())
    }

    fn string_length(&self, quote: char) -> usize {
        let mut escaped = false;
        for (index, character) in self.rest().char_indices().skip(1) {
            if escaped {
                escaped = false;
            } else if character == '\\' {
                escaped = true;
            } else if character == quote {
                return index + 1;
            }
        }
        self.rest().len()
    }

    fn comment_length(&self) -> usize {
        let rest = self.rest();
        if rest.starts_with("/*") {
            let body = rest.get(2..).unwrap_or_default();
            body.find("*/").map_or(rest.len(), |end| end + 4)
        } else if rest.starts_with("//") {
            rest.find(json5::char::is_json5_line_terminator).unwrap_or(rest.len())
        } else {
            1
        }
    }

    fn bare_length(&self) -> usize {
        let ends = |character: char| {
            matches!(character, '{' | '}' | '[' | ']' | ',' | ':' | '/' | '"' | '\'')
                || is_whitespace(character)
        };
        self.rest().find(ends).unwrap_or(self.rest().len()).max(1)
    }
}

/// The parser looks every character up in Unicode's tables; nearly all are ASCII.
fn is_whitespace(character: char) -> bool {
    if character.is_ascii() {
        matches!(character, '\t'..='\r' | ' ')
    } else {
        json5::char::is_json5_whitespace(character)
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
    fn unfinished_text_still_yields_ranges() {
        assert_eq!(located("{a: 'b"), ["{a: 'b", "a", "'b"]);
        assert_eq!(located("{a: /"), ["{a: /", "a"]);
    }
}
