//! Hides the template of a file from the JSON5 parser: every action is replaced by as many bytes that the parser
//! takes for a part of a string, for a string, or for blanks, so that places stay what they are and the text as
//! it was written can be copied by them.

use std::ops::Range;

/// A file whose template is hidden.
#[derive(Debug, Default)]
pub struct Masked {
    /// As long as the original, byte for byte.
    pub text: String,
    /// Blocks that stand between values, outermost last.
    pub blocks: Vec<Block>,
    /// Other actions between values, which nothing can be made of.
    pub strays: Vec<Range<usize>>,
    /// Whether there were comments.
    pub has_comments: bool,
}

/// `{{ if … }} … {{ else }} … {{ end }}` and its like, around values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The actions that open its branches.
    pub headers: Vec<Range<usize>>,
    /// The action that closes it.
    pub end: Range<usize>,
}

/// Why a template cannot be hidden, and where.
#[derive(Debug, PartialEq, Eq)]
pub struct MaskError {
    pub range: Range<usize>,
    pub message: &'static str,
}

/// What an action does to the text around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Open,
    Else,
    End,
    /// Prints something.
    Value,
    /// Prints nothing and opens nothing.
    Silent,
    /// Defines or includes templates, or sets variables.
    Stray,
}

/// Hides every action of a text.
pub fn mask(text: &str) -> Result<Masked, MaskError> {
    let mut scanner = Scanner { text, offset: 0, masked: Masked::default(), last: None, open: Vec::new() };
    while let Some(next) = scanner.rest().chars().next() {
        scanner.step(next)?;
    }
    match scanner.open.pop() {
        None => Ok(scanner.masked),
        Some(block) => {
            let range = block.headers.first().cloned().unwrap_or_default();
            Err(MaskError { range, message: "this has no `end`" })
        }
    }
}

struct Scanner<'a> {
    text: &'a str,
    offset: usize,
    masked: Masked,
    /// The last character that is neither blank nor comment nor hidden.
    last: Option<char>,
    open: Vec<Block>,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.offset..).unwrap_or_default()
    }

    fn step(&mut self, next: char) -> Result<(), MaskError> {
        if self.rest().starts_with("{{") {
            return self.action();
        }
        match next {
            '"' | '\'' => return self.string(next),
            '/' if self.rest().starts_with("//") => {
                self.comment(self.rest().find('\n').unwrap_or(self.rest().len()));
            }
            '/' if self.rest().starts_with("/*") => {
                self.comment(self.rest().find("*/").map_or(self.rest().len(), |at| at + 2));
            }
            // `{{ if $i }},{{ end }}`: a separator that is printed from the second entry on.
            ',' if !self.open.is_empty() && matches!(self.last, Some(',' | '[' | '{')) => {
                self.hide(1, "", ' ', "");
            }
            _ => {
                if !next.is_whitespace() {
                    self.last = Some(next);
                }
                self.copy(next.len_utf8());
            }
        }
        Ok(())
    }

    fn copy(&mut self, length: usize) {
        self.masked.text.push_str(self.rest().get(..length).unwrap_or_default());
        self.offset += length;
    }

    fn comment(&mut self, length: usize) {
        self.masked.has_comments = true;
        self.copy(length);
    }

    fn string(&mut self, quote: char) -> Result<(), MaskError> {
        self.last = Some(quote);
        self.copy(1);
        while let Some(next) = self.rest().chars().next() {
            if self.rest().starts_with("{{") {
                let range = self.action_range()?;
                self.hide(range.len(), "", 'x', "");
                continue;
            }
            let length = match next {
                '\\' => 1 + self.rest().chars().nth(1).map_or(0, char::len_utf8),
                _ => next.len_utf8(),
            };
            self.copy(length);
            if next == quote {
                break;
            }
        }
        Ok(())
    }

    /// Stands in for `length` bytes.
    fn hide(&mut self, length: usize, before: &str, filling: char, after: &str) {
        self.masked.text.push_str(before);
        let rest = length.saturating_sub(before.len() + after.len());
        self.masked.text.extend(std::iter::repeat_n(filling, rest));
        self.masked.text.push_str(after);
        self.offset += length;
    }

    /// An action outside of strings.
    fn action(&mut self) -> Result<(), MaskError> {
        let range = self.action_range()?;
        let role = role(self.text.get(range.clone()).unwrap_or_default());
        let is_value = match self.last {
            Some(':') => matches!(role, Role::Open | Role::Value),
            Some('[' | ',') => role == Role::Value,
            Some(_) | None => false,
        };
        if is_value {
            let length = self.value_length()?;
            self.hide(length, "\"", 'x', "\"");
            self.last = Some('"');
            return Ok(());
        }
        let length = range.len();
        match role {
            Role::Open => self.open.push(Block { headers: vec![range], end: 0..0 }),
            Role::Else => {
                let Some(block) = self.open.last_mut() else { return Err(unopened(range)) };
                block.headers.push(range);
                // The branches exclude each other; for the parser they follow each other.
                let separator = if matches!(self.last, Some(',' | '[' | '{')) { "" } else { "," };
                self.hide(length, separator, ' ', "");
                self.last = Some(',');
                return Ok(());
            }
            Role::End => {
                let Some(mut block) = self.open.pop() else { return Err(unopened(range)) };
                block.end = range;
                self.masked.blocks.push(block);
            }
            Role::Silent => {}
            Role::Value | Role::Stray => self.masked.strays.push(range),
        }
        self.hide(length, "", ' ', "");
        Ok(())
    }

    /// How long the value is that begins with an action: up to its `end`, and what touches that.
    fn value_length(&mut self) -> Result<usize, MaskError> {
        let start = self.offset;
        let mut depth = 0_usize;
        while let Some(next) = self.rest().chars().next() {
            if self.rest().starts_with("{{") {
                let range = self.action_range()?;
                match role(self.text.get(range.clone()).unwrap_or_default()) {
                    Role::Open => depth += 1,
                    // Closes a block around the value.
                    Role::End if depth == 0 => break,
                    Role::End => depth -= 1,
                    Role::Else if depth == 0 => break,
                    Role::Else | Role::Value | Role::Silent | Role::Stray => {}
                }
                self.offset += range.len();
            } else if depth == 0 && (next.is_whitespace() || matches!(next, ',' | '}' | ']' | '/')) {
                break;
            } else {
                self.offset += next.len_utf8();
            }
        }
        let length = self.offset - start;
        self.offset = start;
        Ok(length)
    }

    /// Where the action ends that begins here.
    fn action_range(&self) -> Result<Range<usize>, MaskError> {
        let start = self.offset;
        let inner = self.rest().get(2..).unwrap_or_default();
        let unclosed = MaskError { range: start..start + 2, message: "this is never closed by `}}`" };
        if inner.strip_prefix('-').unwrap_or(inner).trim_start().starts_with("/*") {
            let end = inner.find("*/").and_then(|comment| {
                let close = inner.get(comment + 2..)?.find("}}")?;
                Some(comment + 2 + close)
            });
            return end.map(|end| start..start + 2 + end + 2).ok_or(unclosed);
        }
        let mut quote: Option<char> = None;
        let mut escaped = false;
        for (at, next) in inner.char_indices() {
            match quote {
                Some(_) if escaped => escaped = false,
                Some(open) if next == open => quote = None,
                Some(open) => escaped = next == '\\' && open != '`',
                None if matches!(next, '"' | '\'' | '`') => quote = Some(next),
                None if inner.get(at..).is_some_and(|tail| tail.starts_with("}}")) => {
                    return Ok(start..start + 2 + at + 2);
                }
                None => {}
            }
        }
        Err(unclosed)
    }
}

fn unopened(range: Range<usize>) -> MaskError {
    MaskError { range, message: "this belongs to no `if`, `range` or `with`" }
}

fn role(action: &str) -> Role {
    let inner = action.trim_start_matches("{{").trim_end_matches("}}");
    let inner = inner.strip_prefix('-').unwrap_or(inner).trim();
    let word: &str = inner.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    match word {
        "if" | "range" | "with" => Role::Open,
        "else" => Role::Else,
        "end" => Role::End,
        "define" | "block" | "template" => Role::Stray,
        _ if inner.starts_with("/*") => Role::Silent,
        _ if inner.starts_with('$') && (inner.contains(":=") || inner.contains(" = ")) => Role::Stray,
        _ => Role::Value,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn masked(text: &str) -> String {
        let masked = mask(text).unwrap().text;
        assert_eq!(masked.len(), text.len(), "{text}");
        masked
    }

    #[test]
    fn an_action_in_a_string_becomes_part_of_the_string() {
        assert_eq!(masked(r#"{a: "{{ .X | default "y" }}z"}"#), r#"{a: "xxxxxxxxxxxxxxxxxxxxxxz"}"#);
        assert_eq!(masked(r#"{a: "\"{{ .X }}"}"#), r#"{a: "\"xxxxxxxx"}"#);
    }

    #[test]
    fn an_action_that_stands_for_a_value_becomes_a_string() {
        assert_eq!(masked("{a: {{ .X }}, b: 1}"), r#"{a: "xxxxxx", b: 1}"#);
        assert_eq!(masked("[1, {{ .X }}]"), r#"[1, "xxxxxx"]"#);
        assert_eq!(
            masked("{a: {{ if .X }}1{{ else }}2{{ end }}}"),
            r#"{a: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}"#
        );
        assert_eq!(masked("{a: {{ .X }}00}"), r#"{a: "xxxxxxxx"}"#);
    }

    #[test]
    fn a_block_around_values_becomes_blanks_and_is_remembered() {
        let found = mask("[{{ if .X }}1,{{ end }} 2]").unwrap();
        assert_eq!(found.text, "[           1,          2]");
        assert_eq!((&found.blocks[0].headers[0], &found.blocks[0].end), (&(1..12), &(14..23)));
        let found = mask("[{{ if .X }}1{{ else }}2{{ end }}]").unwrap();
        assert_eq!(found.text, "[           1,         2         ]");
        assert_eq!(found.blocks[0].headers.len(), 2);
    }

    #[test]
    fn a_value_within_a_block_ends_where_the_block_does() {
        let found = mask("{a: [{{ range .X }}{{ . }},{{ end }}]}").unwrap();
        assert_eq!(found.blocks.len(), 1);
        assert_eq!(found.strays.len(), 0);
        assert!(found.text.contains(r#""xxxxx","#), "{}", found.text);
        assert_eq!(masked("[{{ range .X }}{{ . }}{{ end }}]"), r#"[              "xxxxx"         ]"#);
        assert_eq!(
            masked("[{{ if .X }}{{ .A }}{{ else }}{{ .B }}{{ end }}]"),
            r#"[           "xxxxxx",         "xxxxxx"         ]"#
        );
    }

    #[test]
    fn braces_in_the_strings_of_an_action_do_not_end_it() {
        for action in [r#"{{ "a}}" }}"#, r#"{{ "\"}}" }}"#, r"{{ `\` }}", "{{ `a}}` }}", r#"{{ '"' }}"#] {
            let expected = format!("[\"{}\"]", "x".repeat(action.len() - 2));
            assert_eq!(masked(&format!("[{action}]")), expected, "{action}");
        }
    }

    #[test]
    fn a_comment_of_the_template_becomes_blanks() {
        for comment in ["{{/* }} ' */}}", "{{- /* }} ' */ -}}"] {
            let found = mask(&format!("[1, {comment} 2]")).unwrap();
            assert_eq!(found.text, format!("[1, {} 2]", " ".repeat(comment.len())));
            assert!(found.strays.is_empty(), "{comment}");
        }
    }

    #[test]
    fn comments_are_left_alone_and_noticed() {
        let found = mask("{ // it's\n a: 1 /* \" */ }{{/* }} ' */}}").unwrap();
        assert!(found.has_comments);
        assert!(found.text.starts_with("{ // it's\n a: 1 /* \" */ }   "), "{}", found.text);
        for text in ["{a: '//'}", "{a: 1/2}"] {
            assert!(!mask(text).unwrap().has_comments, "{text}");
        }
    }

    #[test]
    fn definitions_and_variables_between_values_are_strays() {
        for action in ["{{ define \"a\" }}", "{{ template \"a\" }}", "{{ $x := 1 }}", "{{ $x = 1 }}"] {
            for text in [format!("{action}{{a: 1}}"), format!("[1, {action} 2]")] {
                assert_eq!(mask(&text).unwrap().strays.len(), 1, "{text}");
            }
        }
        assert_eq!(masked("[{{ $x }}]"), r#"["xxxxxx"]"#, "a variable that is printed");
    }

    #[test]
    fn what_does_not_close_is_refused_with_its_place() {
        for (text, range) in
            [("{a: \"{{ .X\"}", 5..7), ("{{ if .X }}", 0..11), ("{{ end }}", 0..9), ("{{/* x", 0..2)]
        {
            assert_eq!(mask(text).unwrap_err().range, range, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_mask_is_as_long_as_its_text(text in "[a-z {}\\[\\]:,\"'/*.\n\u{e9}-]{0,40}|(\\{\\{ (if|else|end|\\.X) \\}\\}|[\\[\\]{}:,1 ]){0,12}") {
            if let Ok(masked) = mask(&text) {
                prop_assert_eq!(masked.text.len(), text.len());
            }
        }
    }
}
