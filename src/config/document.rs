//! JSON5 text → a tree whose every key and value knows its place. The json5 crate parses; the places
//! come from [`super::locator`], which meets keys and values in the same order.

use std::collections::HashMap;
use std::fmt;

use json5::ErrorCode;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::diagnostic::{Problem, Problems};
use super::locator;
use super::source::{FileId, Span};

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where it is.
    pub span: Span,
    /// What it is.
    pub kind: Kind,
}

/// What a value is.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number ≥ 0.
    Unsigned(u64),
    /// A whole number < 0.
    Signed(i64),
    /// Any other number, including those too large to be whole.
    Float(f64),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Node>),
    /// An object without duplicate keys, in the order written.
    Object(Vec<(Key, Node)>),
}

/// A key of an object and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The key itself.
    pub name: String,
    /// Where it is.
    pub span: Span,
}

impl Node {
    /// The value of a key, if this is an object that has it.
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.as_object()?.iter().find(|(key, _)| key.name == name).map(|(_, value)| value)
    }

    /// The same, whatever the case of the key's letters.
    pub fn get_in_any_case(&self, name: &str) -> Option<&Node> {
        let found = self.as_object()?.iter().find(|(key, _)| key.name.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }

    /// The entries, if this is an object.
    pub fn as_object(&self) -> Option<&[(Key, Node)]> {
        if let Kind::Object(entries) = &self.kind { Some(entries) } else { None }
    }

    /// The items, if this is an array.
    pub fn as_array(&self) -> Option<&[Node]> {
        if let Kind::Array(items) = &self.kind { Some(items) } else { None }
    }

    /// The text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        if let Kind::String(text) = &self.kind { Some(text) } else { None }
    }
}

/// Parses a file's rendered text; `None` if it cannot be read at all. Problems go to the collector.
/// `last_hole` says where, before or at an offset, the template last printed nothing.
pub fn parse(
    file: FileId,
    text: &str,
    last_hole: impl Fn(usize) -> Option<usize>,
    problems: &mut Problems,
) -> Option<Node> {
    if text.chars().all(|character| character.is_whitespace() || character == '\u{feff}') {
        problems.add(
            Problem::error("empty-file", Span::new(file, 0..0), "the configuration is empty")
                .help("the smallest configuration is `{}`; jobs go into `{ jobs: [ … ] }`"),
        );
        return None;
    }
    let ranges = match locator::locate(text) {
        Ok(ranges) => ranges,
        Err(locator::TooDeep { offset }) => {
            let message = format!("nested deeper than {} levels", locator::MAX_DEPTH);
            problems.add(Problem::error("too-deep", Span::new(file, offset..offset + 1), message));
            return None;
        }
    };
    match json5::from_str::<Node>(text) {
        Ok(mut node) => {
            let mut spans = ranges.into_iter().map(|range| Span::new(file, range));
            node.place(&mut spans);
            remove_duplicates(&mut node, problems);
            Some(node)
        }
        Err(error) => {
            problems.add(syntax_problem(file, text, &error, last_hole));
            None
        }
    }
}

impl Node {
    /// Gives every key and value its span, which come in document order.
    fn place(&mut self, spans: &mut impl Iterator<Item = Span>) {
        self.span = spans.next().unwrap_or_default();
        if let Kind::Array(items) = &mut self.kind {
            items.iter_mut().for_each(|item| item.place(spans));
        } else if let Kind::Object(entries) = &mut self.kind {
            for (key, value) in entries {
                key.span = spans.next().unwrap_or_default();
                value.place(spans);
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let kind = deserializer.deserialize_any(KindVisitor)?;
        Ok(Self { span: Span::default(), kind })
    }
}

struct KindVisitor;

impl<'de> Visitor<'de> for KindVisitor {
    type Value = Kind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON5 value")
    }

    fn visit_unit<E>(self) -> Result<Kind, E> {
        Ok(Kind::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Kind, E> {
        Ok(Kind::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Kind, E> {
        Ok(Kind::Unsigned(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Kind, E> {
        Ok(u64::try_from(value).map_or(Kind::Signed(value), Kind::Unsigned))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Kind, E> {
        Ok(Kind::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Kind, E> {
        Ok(Kind::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Kind, E> {
        Ok(Kind::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Kind, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = items.next_element()? {
            nodes.push(node);
        }
        Ok(Kind::Array(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Kind, A::Error> {
        let mut entries = Vec::new();
        while let Some((name, value)) = map.next_entry()? {
            entries.push((Key { name, span: Span::default() }, value));
        }
        Ok(Kind::Object(entries))
    }
}

/// JSON5 parsers silently keep the last of two equal keys; nobody means that.
fn remove_duplicates(node: &mut Node, problems: &mut Problems) {
    if let Kind::Array(items) = &mut node.kind {
        items.iter_mut().for_each(|item| remove_duplicates(item, problems));
    }
    let Kind::Object(entries) = &mut node.kind else { return };
    entries.iter_mut().for_each(|(_, value)| remove_duplicates(value, problems));
    let mut first: HashMap<String, Span> = HashMap::new();
    entries.retain(|(key, _)| {
        let Some(earlier) = first.get(&key.name) else {
            first.insert(key.name.clone(), key.span);
            return true;
        };
        let message = format!("duplicate key `{}`", key.name);
        problems.add(
            Problem::error("duplicate-key", key.span, message)
                .label("given again here")
                .related(*earlier, "first given here"),
        );
        false
    });
}

fn syntax_problem(
    file: FileId,
    text: &str,
    error: &json5::Error,
    last_hole: impl Fn(usize) -> Option<usize>,
) -> Problem {
    let offset = error.position().map_or(text.len(), |position| offset_of(text, position));
    let found = text.get(offset..).and_then(|rest| rest.chars().next());
    let end = offset + found.map_or(0, char::len_utf8);
    let place = Span::new(file, offset..end);
    if let Some(code) = error.code().filter(|code| is_about_something_missing(*code))
        && let Some(hole) = last_hole(offset)
        && text.get(hole..offset).is_some_and(|between| between.trim().is_empty())
    {
        let message = format!("syntax error: {}, found nothing", expected(code));
        return Problem::error("syntax", Span::new(file, hole..hole), message);
    }
    if let Some(problem) = no_object(file, text, error) {
        return problem;
    }
    let before = text.get(..offset).unwrap_or_default();
    let message = match (error.code(), found) {
        (Some(code), _) if ends_early(code) => return unfinished(file, text, code),
        (Some(ErrorCode::ExpectedComma), Some(found @ ('}' | ']'))) => {
            return unclosed_before(file, before, place, found);
        }
        (Some(code), Some(found)) => format!("syntax error: {}, found {found:?}", expected(code)),
        (Some(code), None) => format!("syntax error: {}", expected(code)),
        // Its text ends with a place in the rendered text, which nobody sees.
        (None, _) => format!("syntax error: {}", without_position(error)),
    };
    let help = match error.code() {
        Some(ErrorCode::ExpectedComma) if found.is_some_and(|found| goes_on(before, found)) => {
            Some("put the value in quotes")
        }
        Some(ErrorCode::LeadingZero) => Some("put the value in quotes"),
        Some(
            ErrorCode::ExpectedComma | ErrorCode::ExpectedClosingBrace | ErrorCode::ExpectedClosingBracket,
        ) => Some("is a comma missing before this?"),
        Some(ErrorCode::ExpectedValue) if found.is_some_and(char::is_alphabetic) => {
            Some("strings need quotes, only keys go without")
        }
        Some(ErrorCode::ExpectedIdentifier) => {
            Some("keys with characters other than letters, digits, `_` and `$` need quotes")
        }
        None => Some("put the value in quotes if it is no number"),
        Some(_) => None,
    };
    Problem::error("syntax", place, message).maybe_help(help)
}

/// A text that does not begin as an object does: another format, or no configuration at all.
fn no_object(file: FileId, text: &str, error: &json5::Error) -> Option<Problem> {
    let start = locator::locate(text).ok()?.first()?.start;
    let first = text.get(start..)?.chars().next()?;
    // An array that is only not closed is told as such.
    let is_array = first == '[' && error.code().is_some_and(ends_early);
    if first == '{' || is_array {
        return None;
    }
    let place = Span::new(file, start..start + first.len_utf8());
    let problem = Problem::error("syntax", place, format!("syntax error: expected `{{`, found {first:?}"));
    Some(problem.help("a configuration is a JSON5 object that begins with `{`, such as `{ jobs: [ … ] }`"))
}

/// A bracket that closes another one than the last that was opened.
fn unclosed_before(file: FileId, before: &str, place: Span, found: char) -> Problem {
    let Some((opened, bracket)) = locator::unclosed(before) else {
        return Problem::error("syntax", place, format!("syntax error: expected `,`, found {found:?}"));
    };
    let close = if bracket == '[' { ']' } else { '}' };
    let message = format!("syntax error: expected `,` or `{close}`, found {found:?}");
    let at = Span::new(file, opened..opened + 1);
    Problem::error("syntax", place, message).related(at, format!("this `{bracket}` is not closed"))
}

/// Whether a value without quotes goes on where the parser took it for complete: `10s`, `1.2.3`.
fn goes_on(before: &str, found: char) -> bool {
    let ends_in_value = before.ends_with(|last: char| last.is_alphanumeric() || last == '.');
    ends_in_value && (found.is_alphanumeric() || ".:-_/%".contains(found))
}

fn without_position(error: &json5::Error) -> String {
    let text = error.to_string();
    let position = error.position().map(|position| format!(" at {position}"));
    position.and_then(|position| text.strip_suffix(&position).map(str::to_owned)).unwrap_or(text)
}

/// The text ended too early: the place to look at is what was never closed.
fn unfinished(file: FileId, text: &str, code: ErrorCode) -> Problem {
    let end = text.trim_end().len();
    let last = text.get(..end).and_then(|text| text.chars().next_back()).map_or(0, char::len_utf8);
    let place = Span::new(file, end - last..end);
    let problem = Problem::error("syntax", place, format!("syntax error: the file ends {}", expected(code)));
    match locator::unclosed(text) {
        Some((opened, bracket)) => {
            let at = Span::new(file, opened..opened + 1);
            problem.label("the file ends here").related(at, format!("this `{bracket}` is never closed"))
        }
        None => problem.label("the file ends here"),
    }
}

fn is_about_something_missing(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::ExpectedValue | ErrorCode::ExpectedIdentifier | ErrorCode::InvalidKey)
}

fn ends_early(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::EofParsingArray
            | ErrorCode::EofParsingBool
            | ErrorCode::EofParsingComment
            | ErrorCode::EofParsingEscapeSequence
            | ErrorCode::EofParsingIdentifier
            | ErrorCode::EofParsingNull
            | ErrorCode::EofParsingNumber
            | ErrorCode::EofParsingObject
            | ErrorCode::EofParsingString
            | ErrorCode::EofParsingValue
    )
}

/// What the parser wanted, in words that follow "syntax error: " or "the file ends ".
fn expected(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::EofParsingArray => "inside an array",
        ErrorCode::EofParsingComment => "inside a comment",
        ErrorCode::EofParsingEscapeSequence | ErrorCode::EofParsingString => "inside a string",
        ErrorCode::EofParsingIdentifier | ErrorCode::EofParsingObject => "inside an object",
        ErrorCode::EofParsingBool
        | ErrorCode::EofParsingNull
        | ErrorCode::EofParsingNumber
        | ErrorCode::EofParsingValue => "where a value should be",
        ErrorCode::ExpectedBool
        | ErrorCode::ExpectedNull
        | ErrorCode::ExpectedNumber
        | ErrorCode::ExpectedString
        | ErrorCode::ExpectedStringOrObject
        | ErrorCode::ExpectedValue
        | ErrorCode::ExpectedOpeningBrace
        | ErrorCode::ExpectedOpeningBracket => "expected a value",
        ErrorCode::ExpectedClosingBrace => "expected `,` or `}`",
        ErrorCode::ExpectedClosingBracket => "expected `,` or `]`",
        ErrorCode::ExpectedColon => "expected `:` after the key",
        ErrorCode::ExpectedComma => "expected `,`",
        ErrorCode::ExpectedComment => "expected `//` or `/*`",
        ErrorCode::ExpectedIdentifier | ErrorCode::InvalidKey => "expected a key",
        ErrorCode::InvalidBytes => "expected hexadecimal digits",
        ErrorCode::InvalidEscapeSequence => "expected an escape sequence such as `\\n` or `\\u00e9`",
        ErrorCode::LeadingZero => "a number cannot start with 0 and a digit",
        ErrorCode::LineTerminatorInString => "a string cannot go over the end of a line",
        ErrorCode::OverflowParsingNumber => "this number is too large",
        ErrorCode::TrailingCharacters => "expected the end of the file",
    }
}

/// The byte at a 0-based line and column of the parser, which counts every line terminator of JSON5.
fn offset_of(text: &str, position: json5::Position) -> usize {
    let (mut line, mut column) = (0, 0);
    let mut characters = text.char_indices().peekable();
    while let Some((offset, character)) = characters.next() {
        if (line, column) == (position.line, position.column) {
            return offset;
        }
        if json5::char::is_json5_line_terminator(character) {
            if character == '\r' && characters.peek().is_some_and(|(_, next)| *next == '\n') {
                characters.next();
            }
            (line, column) = (line + 1, 0);
        } else {
            column += 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (Option<Node>, Problems) {
        let mut problems = Problems::default();
        (parse(FileId::default(), text, |_| None, &mut problems), problems)
    }

    fn problem(text: &str) -> Problem {
        let (node, problems) = parsed(text);
        assert_eq!(node, None);
        problems.found()[0].clone()
    }

    fn message(text: &str) -> String {
        problem(text).message
    }

    #[test]
    fn every_value_knows_its_place() {
        let text = "// c\n{a: 1, 'b': [true, {c: \"x\"}]}";
        let node = parsed(text).0.unwrap();
        let c = node.get("b").unwrap().as_array().unwrap()[1].get("c").unwrap().clone();
        assert_eq!(&text[c.span.range()], "\"x\"");
        assert_eq!(&text[node.get("a").unwrap().span.range()], "1");
    }

    #[test]
    fn a_duplicate_key_is_an_error_that_shows_both() {
        let (node, problems) = parsed("{a: 1,\n a: 2}");
        assert_eq!(node.unwrap().get("a").unwrap().kind, Kind::Unsigned(1));
        assert_eq!(problems.found()[0].message, "duplicate key `a`");
        assert_eq!(problems.found()[0].related[0].0.range(), 1..2);
    }

    #[test]
    fn a_duplicate_is_found_among_few_keys_and_among_many() {
        for count in [2, 100] {
            let keys: Vec<String> = (0..count).map(|number| format!("k{number}: 1")).collect();
            let keys = keys.join(", ");
            assert_eq!(parsed(&format!("{{{keys}}}")).1.found(), [], "{count}");
            let (_, problems) = parsed(&format!("{{{keys}, k1: 2}}"));
            let messages: Vec<&str> =
                problems.found().iter().map(|problem| problem.message.as_str()).collect();
            assert_eq!(messages, ["duplicate key `k1`"], "{count}");
        }
    }

    #[test]
    fn syntax_errors_say_what_was_expected_and_found() {
        assert_eq!(message("{a: 1 b: 2}"), "syntax error: expected `,`, found 'b'");
        assert_eq!(message("{a: b}"), "syntax error: expected a value, found 'b'");
        assert_eq!(message("{a: 1}}"), "syntax error: expected the end of the file, found '}'");
        assert_eq!(message("{a: [1"), "syntax error: the file ends inside an array");
        assert_eq!(message(" \n"), "the configuration is empty");
        assert_eq!(message(&"[".repeat(100)), "nested deeper than 64 levels");
    }

    #[test]
    fn a_bracket_that_closes_another_one_shows_the_one_that_is_not_closed() {
        for (text, wanted, opened) in [
            ("{jobs: [{}, {exec: 'x'}}", "expected `,` or `]`, found '}'", 7),
            ("{jobs: [{exec: 'x']}", "expected `,` or `}`, found ']'", 8),
        ] {
            let problem = problem(text);
            assert_eq!(problem.message, format!("syntax error: {wanted}"));
            assert_eq!(problem.related[0].0.range(), opened..opened + 1, "{text}");
            assert_eq!(problem.help, None, "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_object_is_told_so() {
        for (text, first) in [
            ("jobs:\n  - name: a\n", 'j'),
            ("# comment\njobs: []", '#'),
            ("---\njobs: []", '-'),
            ("[jobs]\nname = x", '['),
            ("// ours\njobs: []", 'j'),
        ] {
            let problem = problem(text);
            assert_eq!(problem.message, format!("syntax error: expected `{{`, found {first:?}"), "{text}");
            assert!(problem.help.unwrap().contains("begins with `{`"), "{text}");
        }
    }

    #[test]
    fn a_message_of_the_parser_has_no_place_of_its_own() {
        assert_eq!(message("{\n\n tag: 1.2.3}"), "syntax error: invalid float literal");
    }

    #[test]
    fn syntax_errors_mark_the_character_that_is_wrong_however_lines_end() {
        let place = |text: &str| Span::new(FileId::default(), text.find(['b', 'é']).unwrap()..text.len() - 1);
        for lines in ["", "\n", "\n\n", "\r\n", "\r\n\r\n", "\r\r", "\u{2028}\n"] {
            for value in ["b", "é"] {
                let text = format!("{{{lines} a: {value}}}");
                assert_eq!(problem(&text).place, place(&text).into(), "{text:?}");
            }
        }
        assert_eq!(problem(&"[".repeat(100)).place, Span::new(FileId::default(), 64..65).into());
    }

    #[test]
    fn the_innermost_bracket_that_is_open_at_the_end_is_shown() {
        for (text, opened, bracket) in [
            ("{", 0, '{'),
            ("{a: [1", 4, '['),
            ("{a: [1]", 0, '{'),
            ("[[2], {a: 1}", 0, '['),
            ("{a: [{b: 1}\n", 4, '['),
            ("{a: {b: 1}\n", 0, '{'),
            ("{a: {b: 1}", 0, '{'),
            ("[[1], [2]", 0, '['),
            ("{a: '}", 0, '{'),
            ("{a: 1 // }", 0, '{'),
        ] {
            let at = Span::new(FileId::default(), opened..opened + 1);
            assert_eq!(problem(text).related, [(at, format!("this `{bracket}` is never closed"))], "{text}");
        }
    }

    #[test]
    fn a_text_without_its_quotes_is_explained() {
        for (text, help) in [
            ("{a: b}", "strings need quotes, only keys go without"),
            ("{timeout: 10s}", "put the value in quotes"),
            ("{a: 1.2.3}", "put the value in quotes if it is no number"),
            ("{umask: 022}", "put the value in quotes"),
            ("{a: 1 b: 2}", "is a comma missing before this?"),
            ("{a: 'x'b: 2}", "is a comma missing before this?"),
            ("{-a: 1}", "keys with characters other than letters, digits, `_` and `$` need quotes"),
        ] {
            assert_eq!(problem(text).help.as_deref(), Some(help), "{text}");
        }
    }

    #[test]
    fn nothing_is_found_only_where_the_template_printed_nothing_for_a_key_or_value() {
        for (text, hole, message) in [
            ("{a: }", 4, "syntax error: expected a value, found nothing"),
            ("{a: }", 3, "syntax error: expected a value, found nothing"),
            ("{a: }", 1, "syntax error: expected a value, found '}'"),
            ("{a: 1  b: 2}", 6, "syntax error: expected `,`, found 'b'"),
        ] {
            let mut problems = Problems::default();
            assert_eq!(parse(FileId::default(), text, |_| Some(hole), &mut problems), None);
            assert_eq!(problems.found()[0].message, message, "{text} {hole}");
        }
    }

    #[test]
    fn huge_numbers_are_kept_as_floats() {
        let node = parsed("[1e999, 99999999999999999999, -1, -0]").0.unwrap();
        let kinds: Vec<&Kind> = node.as_array().unwrap().iter().map(|item| &item.kind).collect();
        let expected = [Kind::Float(f64::INFINITY), Kind::Float(1e20), Kind::Signed(-1), Kind::Unsigned(0)];
        assert_eq!(kinds, expected.iter().collect::<Vec<_>>());
    }
}
