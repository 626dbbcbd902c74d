//! Cuts a source into literal text and the tokens of its actions. Comments and trimmed space end here.

use super::span::Span;
use super::{Result, TemplateError};

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

/// A piece of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'s> {
    pub(super) kind: Kind,
    /// The source at `span`.
    pub(super) text: &'s str,
    pub(super) span: Span,
    /// Whether white space stands before it, within its action.
    pub(super) spaced: bool,
}

impl Token<'_> {
    pub(super) fn is_symbol(&self, symbol: &str) -> bool {
        self.kind == Kind::Symbol && self.text == symbol
    }

    pub(super) fn is_keyword(&self, keyword: &str) -> bool {
        self.kind == Kind::Keyword && self.text == keyword
    }
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Open,
    Close,
    Dot,
    Field,
    Variable,
    Identifier,
    Keyword,
    Boolean,
    Number,
    Character,
    Quoted,
    Raw,
    /// An operator, a parenthesis, or a character that means nothing in a template.
    Symbol,
    EndOfSource,
}

const KEYWORDS: [&str; 11] =
    ["block", "break", "continue", "define", "else", "end", "if", "nil", "range", "template", "with"];

/// Yields the tokens of a source one by one.
#[derive(Debug)]
pub(super) struct Lexer<'s> {
    source: &'s str,
    position: usize,
    /// Where the action that we are in was opened.
    action: Option<usize>,
}

impl<'s> Lexer<'s> {
    pub(super) fn new(source: &'s str) -> Lexer<'s> {
        Lexer { source, position: 0, action: None }
    }

    /// The next token; [`Kind::EndOfSource`] again and again at the end.
    pub(super) fn next(&mut self) -> Result<Token<'s>> {
        match self.action {
            Some(open) => self.in_action(open),
            None => self.in_text(),
        }
    }

    fn rest(&self) -> &'s str {
        self.from(self.position)
    }

    fn from(&self, position: usize) -> &'s str {
        self.source.get(position..).unwrap_or_default()
    }

    fn token(&self, kind: Kind, start: usize, spaced: bool) -> Token<'s> {
        let text = self.source.get(start..self.position).unwrap_or_default();
        Token { kind, text, span: Span { start, end: self.position }, spaced }
    }

    fn in_text(&mut self) -> Result<Token<'s>> {
        loop {
            let start = self.position;
            match self.rest().find(OPEN) {
                Some(0) => {
                    if let Some(token) = self.open()? {
                        return Ok(token);
                    }
                }
                Some(length) => {
                    let text = self.rest().get(..length).unwrap_or_default();
                    self.position += length;
                    let kept = if trims_left(self.from(self.position + OPEN.len())) {
                        text.trim_end_matches(is_space)
                    } else {
                        text
                    };
                    if !kept.is_empty() {
                        let span = Span { start, end: start + kept.len() };
                        return Ok(Token { kind: Kind::Text, text: kept, span, spaced: false });
                    }
                }
                None => {
                    self.position = self.source.len();
                    let kind = if start < self.position { Kind::Text } else { Kind::EndOfSource };
                    return Ok(self.token(kind, start, false));
                }
            }
        }
    }

    /// Opens an action, or skips a comment.
    fn open(&mut self) -> Result<Option<Token<'s>>> {
        let start = self.position;
        let after = start + OPEN.len();
        let inside = if trims_left(self.from(after)) { after + 2 } else { after };
        if self.from(inside).starts_with("/*") {
            self.skip_comment(start, inside + 2)?;
            return Ok(None);
        }
        self.action = Some(start);
        self.position = after;
        let token = self.token(Kind::Open, start, false);
        self.position = inside;
        Ok(Some(token))
    }

    fn skip_comment(&mut self, open: usize, inside: usize) -> Result<()> {
        let Some(length) = self.from(inside).find("*/") else {
            let message = "this comment is never closed: expected \"*/}}\"";
            return Err(TemplateError::new(Span { start: open, end: inside }, message));
        };
        self.position = inside + length + 2;
        if !self.close_at(self.position) {
            let message = "a comment must fill its action: expected \"}}\" right after \"*/\"";
            return Err(TemplateError::new(Span { start: open, end: self.position }, message));
        }
        self.close();
        Ok(())
    }

    /// Whether the action ends at this position, with or without a trim marker.
    fn close_at(&self, position: usize) -> bool {
        let rest = self.from(position);
        rest.starts_with(CLOSE) || trims_right(rest)
    }

    /// Goes past the end of an action and the space that its trim marker takes away; yields the end proper.
    fn close(&mut self) -> usize {
        if trims_right(self.rest()) {
            let end = self.position + 2 + CLOSE.len();
            let text = self.from(end);
            self.position = end + (text.len() - text.trim_start_matches(is_space).len());
            end
        } else {
            self.position += CLOSE.len();
            self.position
        }
    }

    fn in_action(&mut self, open: usize) -> Result<Token<'s>> {
        let space_from = self.position;
        while !self.close_at(self.position) && self.rest().starts_with(is_space) {
            self.position += 1;
        }
        let spaced = self.position > space_from;
        let start = self.position;
        if self.close_at(start) {
            self.action = None;
            let end = self.close();
            let text = self.source.get(start..end).unwrap_or_default();
            return Ok(Token { kind: Kind::Close, text, span: Span { start, end }, spaced });
        }
        let Some(first) = self.rest().chars().next() else {
            let message = "this action is never closed: expected \"}}\"";
            return Err(TemplateError::new(Span { start: open, end: open + OPEN.len() }, message));
        };
        let kind = self.scan(first)?;
        Ok(self.token(kind, start, spaced))
    }

    /// Goes past the token that starts with this character.
    fn scan(&mut self, first: char) -> Result<Kind> {
        let start = self.position;
        self.position += first.len_utf8();
        let next = self.rest().chars().next().unwrap_or_default();
        match first {
            ':' if next == '=' => {
                self.position += 1;
                Ok(Kind::Symbol)
            }
            '"' => self.quoted(start, '"', "string").map(|()| Kind::Quoted),
            '\'' => self.quoted(start, '\'', "character constant").map(|()| Kind::Character),
            '`' => self.raw(start).map(|()| Kind::Raw),
            '$' => self.word(start).map(|_| Kind::Variable),
            '.' if !next.is_ascii_digit() => {
                self.word(start).map(|word| if word == "." { Kind::Dot } else { Kind::Field })
            }
            '.' | '+' | '-' | '0'..='9' => self.number(start).map(|()| Kind::Number),
            _ if is_word(first) => self.word(start).map(|word| match word {
                "true" | "false" => Kind::Boolean,
                _ if KEYWORDS.contains(&word) => Kind::Keyword,
                _ => Kind::Identifier,
            }),
            _ => Ok(Kind::Symbol),
        }
    }

    /// Goes past the letters and digits of a name, after which something else must follow.
    fn word(&mut self, start: usize) -> Result<&'s str> {
        let rest = self.rest();
        self.position += rest.len() - rest.trim_start_matches(is_word).len();
        let word = self.source.get(start..self.position).unwrap_or_default();
        let rest = self.rest();
        let Some(next) = rest.chars().next() else { return Ok(word) };
        if is_space(next) || ".,|:()".contains(next) || rest.starts_with(CLOSE) {
            return Ok(word);
        }
        let span = Span { start: self.position, end: self.position + next.len_utf8() };
        Err(TemplateError::new(span, format!("unexpected character {next:?} after \"{word}\"")))
    }

    fn quoted(&mut self, start: usize, quote: char, what: &str) -> Result<()> {
        let mut escaped = false;
        for (at, character) in self.rest().char_indices() {
            match character {
                '\n' => break,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                _ if character == quote => {
                    self.position += at + quote.len_utf8();
                    return Ok(());
                }
                _ => {}
            }
        }
        let span = Span { start, end: self.position };
        Err(TemplateError::new(
            span,
            format!("this {what} is never closed: expected {quote} on the same line"),
        ))
    }

    fn raw(&mut self, start: usize) -> Result<()> {
        let Some(length) = self.rest().find('`') else {
            let span = Span { start, end: self.position };
            return Err(TemplateError::new(span, "this raw string is never closed: expected `"));
        };
        self.position += length + 1;
        Ok(())
    }

    /// Goes past all that could belong to a number, so that an error can name it whole.
    fn number(&mut self, start: usize) -> Result<()> {
        self.position = start;
        let mut previous = '\0';
        let mut exponent = ['e', 'E'];
        for (at, character) in self.rest().char_indices() {
            let signs = at == 0 || exponent.contains(&previous);
            if !(is_word(character) || character == '.' || (signs && matches!(character, '+' | '-'))) {
                break;
            }
            if matches!(character, 'x' | 'X') {
                exponent = ['p', 'P'];
            }
            previous = character;
            self.position = start + at + character.len_utf8();
        }
        self.imaginary_part();
        let literal = self.source.get(start..self.position).unwrap_or_default();
        super::number::parse(literal)
            .map(drop)
            .map_err(|message| TemplateError::new(Span { start, end: self.position }, message))
    }

    /// Goes past the `+2i` of `1+2i`: it is not supported, and said to be so.
    fn imaginary_part(&mut self) {
        let rest = self.rest();
        if rest.starts_with(['+', '-']) {
            let after = rest.get(1..).unwrap_or_default();
            let part = after.trim_start_matches(|c: char| is_word(c) || c == '.');
            self.position += rest.len() - part.len();
        }
    }
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

fn is_word(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}

/// Whether the text after `{{` asks to trim the space before it: a dash, then space.
fn trims_left(after: &str) -> bool {
    after.strip_prefix('-').is_some_and(|rest| rest.starts_with(is_space))
}

/// Whether this is the end of an action that asks to trim the space after it: space, a dash, `}}`.
fn trims_right(rest: &str) -> bool {
    rest.strip_prefix(is_space)
        .and_then(|rest| rest.strip_prefix('-'))
        .is_some_and(|rest| rest.starts_with(CLOSE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lex(source: &str) -> Result<Vec<Token<'_>>> {
        let mut lexer = Lexer::new(source);
        let mut tokens = Vec::new();
        loop {
            let token = lexer.next()?;
            if token.kind == Kind::EndOfSource {
                return Ok(tokens);
            }
            tokens.push(token);
        }
    }

    fn texts(source: &str) -> Vec<&str> {
        lex(source).unwrap().iter().map(|token| token.text).collect()
    }

    fn kinds(source: &str) -> Vec<Kind> {
        lex(source).unwrap().iter().map(|token| token.kind).collect()
    }

    fn error(source: &str) -> TemplateError {
        lex(source).unwrap_err()
    }

    #[test]
    fn text_and_actions_alternate() {
        assert_eq!(texts("a{{.X}}b"), ["a", "{{", ".X", "}}", "b"]);
        assert_eq!(texts("é{{ $x.Y | f (1) }}"), ["é", "{{", "$x", ".Y", "|", "f", "(", "1", ")", "}}"]);
    }

    #[test]
    fn every_kind_of_token_is_told_apart() {
        use Kind::{Boolean, Character, Close, Dot, Field, Identifier, Keyword, Number, Open, Quoted};
        use Kind::{Raw, Symbol, Variable};
        assert_eq!(kinds("{{$x := 1}}"), [Open, Variable, Symbol, Number, Close]);
        assert_eq!(texts("{{$x := 1}}"), ["{{", "$x", ":=", "1", "}}"]);
        assert_eq!(kinds("{{$ = .}}"), [Open, Variable, Symbol, Dot, Close]);
        assert_eq!(texts("{{$ = .}}"), ["{{", "$", "=", ".", "}}"]);
        assert_eq!(kinds("{{.5 .x , true 'a'}}"), [Open, Number, Field, Symbol, Boolean, Character, Close]);
        assert_eq!(kinds("{{\"a}}\" `}}` x ! }}"), [Open, Quoted, Raw, Identifier, Symbol, Close]);
        assert_eq!(kinds("{{if nil}}"), [Open, Keyword, Keyword, Close]);
    }

    #[test]
    fn the_span_of_a_token_holds_its_text() {
        let source = "a \n{{- $x := \"é\" -}}\n b {{/* c */}} c{{ .X }} d";
        for token in lex(source).unwrap() {
            assert_eq!(&source[token.span.start..token.span.end], token.text);
        }
    }

    #[test]
    fn trim_markers_need_space_on_their_inner_side() {
        assert_eq!(texts("a \n{{- 3 -}}\n b"), ["a", "{{", "3", " -}}", "b"]);
        assert_eq!(texts("a {{-3}} b"), ["a ", "{{", "-3", "}}", " b"]);
        assert_eq!(texts(" {{-\n3\t-}} "), ["{{", "3", "\t-}}"]);
        assert_eq!(texts("a\u{a0}{{- 3}}"), ["a\u{a0}", "{{", "3", "}}"]);
    }

    #[test]
    fn comments_vanish_and_trim() {
        assert_eq!(texts("a {{/* }} */}} b"), ["a ", " b"]);
        assert_eq!(texts("a {{- /* x\ny */ -}} b"), ["a", "b"]);
        assert_eq!(texts("{{-\n/* x */\n-}}"), [""; 0]);
    }

    #[test]
    fn comments_must_fill_their_action() {
        assert_eq!(error("ab{{/* x").span, 2..6);
        assert!(error("ab{{/* x").message.contains("never closed"));
        assert_eq!(error("{{/* x */ 1}}").span, 0..9);
        assert!(lex("{{ /* x */ }}").unwrap().iter().any(|token| token.is_symbol("/")));
    }

    #[test]
    fn an_unclosed_action_points_at_where_it_was_opened() {
        for source in ["ab{{", "ab{{ .X", "ab{{- 1", "ab{{ 1 \n", "ab{{ ) "] {
            assert_eq!(error(source).span, 2..4, "{source}");
        }
    }

    #[test]
    fn strings_end_on_their_line() {
        assert_eq!(error("{{ \"ab\n\" }}").span, 3..4);
        assert_eq!(error("{{ 'a }}").span, 3..4);
        assert_eq!(error("{{ `a }}").span, 3..4);
        assert_eq!(error("{{ \"a\\").span, 3..4);
        assert_eq!(error("{{ \"a\\\n\" }}").span, 3..4);
        assert_eq!(texts("{{ \"a\\\"b\" }}"), ["{{", "\"a\\\"b\"", "}}"]);
        assert_eq!(texts("{{ `a\nb` }}"), ["{{", "`a\nb`", "}}"]);
    }

    #[test]
    fn a_name_must_be_followed_by_space_or_punctuation() {
        for source in ["{{$x!2}}", "{{.X}", "{{$x=2}}", "{{.$}}", "{{a\"b\"}}"] {
            assert!(lex(source).is_err(), "{source}");
        }
        assert_eq!(texts("{{$x:=1}}"), ["{{", "$x", ":=", "1", "}}"]);
    }

    #[test]
    fn numbers_are_read_whole() {
        assert_eq!(texts("{{1e+3 0x1p-2 -1 1_0}}"), ["{{", "1e+3", "0x1p-2", "-1", "1_0", "}}"]);
        assert_eq!(error("{{ 1+2i }}").span, 3..7);
        for source in ["{{3-}}", "{{1.2.3}}", "{{12ab}}", "{{-}}", "{{- -}}", "{{1.E}}"] {
            assert!(lex(source).is_err(), "{source}");
        }
    }
}
