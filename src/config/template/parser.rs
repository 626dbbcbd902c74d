//! Builds the tree of a source: text, actions, blocks and definitions. Pipelines are read in `pipeline`.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use super::TemplateError;
use super::ast::{Arm, Conditional, Loop, Node, Pipeline, Templates};
use super::budget::MAX_NESTING;
use super::lexer::{Keyword, Kind, Lexer, Token};
use super::pipeline::Context;
use super::quote;
use super::span::Span;

/// Parses a source and all templates that it defines.
pub(super) fn parse(source: &str) -> Result<Templates<'_>, TemplateError> {
    let mut parser = Parser {
        lexer: Lexer::new(source),
        ahead: VecDeque::new(),
        templates: Templates::new(),
        scope: Scope::fresh(),
        loops: 0,
        nesting: 0,
    };
    let (nodes, stop) = parser.nodes(true)?;
    match stop.kind {
        StopKind::EndOfSource => {}
        StopKind::End | StopKind::Else => {
            let message =
                format!("unexpected {}: nothing is open here that it could belong to", stop.kind.name());
            return Err(TemplateError::new(stop.span, message));
        }
    }
    parser.define(Rc::from(""), nodes, Span { start: 0, end: 0 })?;
    Ok(parser.templates)
}

pub(super) struct Parser<'s> {
    lexer: Lexer<'s>,
    ahead: VecDeque<Token<'s>>,
    templates: Templates<'s>,
    pub(super) scope: Scope<'s>,
    /// How many `range` bodies we are in.
    loops: usize,
    nesting: usize,
}

/// The variables that are known at a place in the source.
#[derive(Default)]
pub(super) struct Scope<'s> {
    names: Vec<&'s str>,
    counts: HashMap<&'s str, usize>,
}

impl<'s> Scope<'s> {
    /// The scope at the start of a template: only `$` is known.
    fn fresh() -> Scope<'s> {
        let mut scope = Scope::default();
        scope.declare("$");
        scope
    }

    pub(super) fn declare(&mut self, name: &'s str) {
        self.names.push(name);
        *self.counts.entry(name).or_default() += 1;
    }

    pub(super) fn knows(&self, name: &str) -> bool {
        self.counts.get(name).is_some_and(|count| *count > 0)
    }

    fn forget_down_to(&mut self, length: usize) {
        for name in self.names.drain(length.min(self.names.len())..) {
            if let Some(count) = self.counts.get_mut(name) {
                *count = count.saturating_sub(1);
            }
        }
    }
}

/// What ended a list of nodes, and where. The rest of an `{{else …` is still to be read.
struct Stop {
    kind: StopKind,
    span: Span,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StopKind {
    EndOfSource,
    End,
    Else,
}

impl StopKind {
    fn name(self) -> &'static str {
        match self {
            StopKind::EndOfSource => "the end of the file",
            StopKind::End => "{{end}}",
            StopKind::Else => "{{else}}",
        }
    }
}

/// What one action turned out to be.
enum Action<'s> {
    Node(Node<'s>),
    Definition,
    Stop(Stop),
}

impl<'s> Parser<'s> {
    pub(super) fn next(&mut self) -> Result<Token<'s>, TemplateError> {
        match self.ahead.pop_front() {
            Some(token) => Ok(token),
            None => self.lexer.next(),
        }
    }

    pub(super) fn peek(&mut self) -> Result<Token<'s>, TemplateError> {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&mut self, distance: usize) -> Result<Token<'s>, TemplateError> {
        loop {
            if let Some(token) = self.ahead.get(distance) {
                return Ok(*token);
            }
            let token = self.lexer.next()?;
            self.ahead.push_back(token);
        }
    }

    /// Counts one more level of nesting; every successful call is paired with [`Parser::ascend`].
    pub(super) fn descend(&mut self, at: Span) -> Result<(), TemplateError> {
        if self.nesting >= MAX_NESTING {
            let message = format!("this is nested too deep: expected at most {MAX_NESTING} levels");
            return Err(TemplateError::new(at, message));
        }
        self.nesting += 1;
        Ok(())
    }

    pub(super) fn ascend(&mut self) {
        self.nesting = self.nesting.saturating_sub(1);
    }

    /// Reads text and actions up to an `{{end}}`, an `{{else`, or the end of the source.
    fn nodes(&mut self, top_level: bool) -> Result<(Vec<Node<'s>>, Stop), TemplateError> {
        let mut nodes = Vec::new();
        loop {
            let token = self.next()?;
            if token.kind == Kind::Text {
                nodes.push(Node::Text { text: token.text, start: token.span.start });
                continue;
            }
            if token.kind != Kind::Open {
                return Ok((nodes, Stop { kind: StopKind::EndOfSource, span: token.span }));
            }
            match self.action(token.span, top_level)? {
                Action::Node(node) => nodes.push(node),
                Action::Definition => {}
                Action::Stop(stop) => return Ok((nodes, stop)),
            }
        }
    }

    fn action(&mut self, open: Span, top_level: bool) -> Result<Action<'s>, TemplateError> {
        let first = self.peek()?;
        let Kind::Keyword(keyword) = first.kind else {
            return self.plain_action(open).map(Action::Node);
        };
        let head = open.to(first.span);
        let node = match keyword {
            // Not a command, but that is for the evaluation to say.
            Keyword::Nil => return self.plain_action(open).map(Action::Node),
            Keyword::Define => {
                self.next()?;
                return self.definition(head, top_level).map(|()| Action::Definition);
            }
            Keyword::End => {
                self.next()?;
                let close = self.close("end")?;
                return Ok(Action::Stop(Stop { kind: StopKind::End, span: open.to(close) }));
            }
            Keyword::Else => {
                self.next()?;
                return Ok(Action::Stop(Stop { kind: StopKind::Else, span: head }));
            }
            Keyword::Block => self.block(head),
            Keyword::Break => self.jump(head, "break", Node::Break),
            Keyword::Continue => self.jump(head, "continue", Node::Continue),
            Keyword::If | Keyword::With => self.conditional(head, keyword),
            Keyword::Range => self.range(head),
            Keyword::Template => self.template(head),
        }?;
        Ok(Action::Node(node))
    }

    fn plain_action(&mut self, open: Span) -> Result<Node<'s>, TemplateError> {
        let pipeline = self.pipeline(Context::Action, open)?;
        let close = self.close("action")?;
        Ok(Node::Action { pipeline, span: open.to(close) })
    }

    /// Reads the end of an action.
    fn close(&mut self, context: &str) -> Result<Span, TemplateError> {
        let token = self.next()?;
        if token.kind == Kind::Close { Ok(token.span) } else { Err(unexpected(&token, context)) }
    }

    fn jump(&mut self, head: Span, name: &str, node: Node<'s>) -> Result<Node<'s>, TemplateError> {
        self.next()?;
        let close = self.close(name)?;
        if self.loops == 0 {
            let message = format!("{{{{{name}}}}} must stand inside {{{{range}}}}");
            return Err(TemplateError::new(head.to(close), message));
        }
        Ok(node)
    }

    fn conditional(&mut self, head: Span, keyword: Keyword) -> Result<Node<'s>, TemplateError> {
        let context = if keyword == Keyword::With { Context::With } else { Context::If };
        let name = context.name();
        let known = self.scope.names.len();
        self.descend(head)?;
        let mut arms = Vec::new();
        let mut header = head;
        let otherwise = loop {
            self.next()?;
            let condition = self.pipeline(context, header)?;
            header = header.to(self.close(name)?);
            let (body, stop) = self.nodes(false)?;
            arms.push(Arm { condition, body });
            match stop.kind {
                StopKind::EndOfSource => return Err(never_closed(header, name)),
                StopKind::End => break Vec::new(),
                StopKind::Else if self.peek()?.kind == Kind::Keyword(keyword) => header = stop.span,
                StopKind::Else => break self.otherwise(header, name)?,
            }
        };
        self.ascend();
        self.scope.forget_down_to(known);
        let binds_dot = keyword == Keyword::With;
        Ok(Node::Conditional(Conditional { arms, otherwise, binds_dot, span: head }))
    }

    fn range(&mut self, head: Span) -> Result<Node<'s>, TemplateError> {
        let known = self.scope.names.len();
        self.descend(head)?;
        self.next()?;
        let over = self.pipeline(Context::Range, head)?;
        let header = head.to(self.close("range")?);
        self.loops += 1;
        let (body, stop) = self.nodes(false)?;
        self.loops -= 1;
        let otherwise = match stop.kind {
            StopKind::EndOfSource => return Err(never_closed(header, "range")),
            StopKind::End => Vec::new(),
            StopKind::Else => self.otherwise(header, "range")?,
        };
        self.ascend();
        self.scope.forget_down_to(known);
        Ok(Node::Loop(Loop { over, body, otherwise, span: header }))
    }

    /// Reads what follows a last `{{else`, its `}}` first.
    fn otherwise(&mut self, header: Span, name: &str) -> Result<Vec<Node<'s>>, TemplateError> {
        self.close("else")?;
        let (nodes, stop) = self.nodes(false)?;
        match stop.kind {
            StopKind::End => Ok(nodes),
            StopKind::EndOfSource => Err(never_closed(header, name)),
            StopKind::Else => Err(TemplateError::new(stop.span, "expected {{end}}, found another {{else}}")),
        }
    }

    fn template(&mut self, head: Span) -> Result<Node<'s>, TemplateError> {
        self.next()?;
        let (name, _) = self.template_name("template")?;
        let argument = if self.peek()?.kind == Kind::Close {
            None
        } else {
            Some(self.pipeline(Context::Template, head)?)
        };
        let close = self.close("template")?;
        Ok(Node::Template { name, argument, span: head.to(close) })
    }

    /// Reads a definition that is used where it stands.
    fn block(&mut self, head: Span) -> Result<Node<'s>, TemplateError> {
        self.next()?;
        let (name, name_span) = self.template_name("block")?;
        let argument: Pipeline<'s> = self.pipeline(Context::Block, head)?;
        let span = head.to(self.close("block")?);
        let body = self.template_body(span, "block")?;
        self.define(Rc::clone(&name), body, name_span)?;
        Ok(Node::Template { name, argument: Some(argument), span })
    }

    fn definition(&mut self, head: Span, top_level: bool) -> Result<(), TemplateError> {
        if !top_level {
            let message = "{{define}} must stand at the top level, not inside another block";
            return Err(TemplateError::new(head, message));
        }
        let (name, name_span) = self.template_name("define")?;
        let header = head.to(self.close("define")?);
        let body = self.template_body(header, "define")?;
        self.define(name, body, name_span)
    }

    fn template_name(&mut self, context: &str) -> Result<(Rc<str>, Span), TemplateError> {
        let token = self.next()?;
        if token.kind == Kind::Quoted || token.kind == Kind::Raw {
            return Ok((string(&token)?, token.span));
        }
        let message =
            format!("expected the quoted name of a template after \"{context}\", found {}", shown(&token));
        Err(TemplateError::new(token.span, message))
    }

    /// Reads the body of another template: it knows none of our variables and stands in none of our loops.
    fn template_body(&mut self, header: Span, name: &str) -> Result<Vec<Node<'s>>, TemplateError> {
        self.descend(header)?;
        let scope = std::mem::replace(&mut self.scope, Scope::fresh());
        let loops = std::mem::take(&mut self.loops);
        let (body, stop) = self.nodes(false)?;
        self.scope = scope;
        self.loops = loops;
        self.ascend();
        match stop.kind {
            StopKind::End => Ok(body),
            StopKind::EndOfSource => Err(never_closed(header, name)),
            StopKind::Else => {
                Err(TemplateError::new(stop.span, format!("{{{{{name}}}}} takes no {{{{else}}}}")))
            }
        }
    }

    /// Adds a template. As in Go, one that holds nothing but space never replaces another, and may be replaced.
    fn define(&mut self, name: Rc<str>, body: Vec<Node<'s>>, at: Span) -> Result<(), TemplateError> {
        match self.templates.get(&name) {
            Some(known) if !is_blank(known) => {
                if is_blank(&body) {
                    return Ok(());
                }
                Err(TemplateError::new(at, format!("template {name:?} is defined twice")))
            }
            Some(_) | None => {
                self.templates.insert(name, body);
                Ok(())
            }
        }
    }
}

fn is_blank(nodes: &[Node<'_>]) -> bool {
    nodes.iter().all(|node| matches!(node, Node::Text { text, .. } if text.trim().is_empty()))
}

fn never_closed(header: Span, name: &str) -> TemplateError {
    TemplateError::new(header, format!("this {{{{{name}}}}} is never closed: expected {{{{end}}}}"))
}

/// The value of a string literal.
pub(super) fn string(token: &Token<'_>) -> Result<Rc<str>, TemplateError> {
    let inside = token.text.get(1..token.text.len().saturating_sub(1)).unwrap_or_default();
    if token.kind == Kind::Raw {
        return Ok(quote::unquote_raw(inside));
    }
    quote::unquote(inside).map_err(|message| TemplateError::new(token.span, message))
}

pub(super) fn unexpected(token: &Token<'_>, context: &str) -> TemplateError {
    TemplateError::new(token.span, format!("unexpected {} in {context}", shown(token)))
}

/// A token in the words of an error message.
pub(super) fn shown(token: &Token<'_>) -> String {
    match token.kind {
        Kind::EndOfSource => "the end of the file".to_owned(),
        Kind::Close => "the end of the action".to_owned(),
        Kind::Quoted | Kind::Raw | Kind::Character => token.text.to_owned(),
        Kind::Text
        | Kind::Open
        | Kind::Declare
        | Kind::Assign
        | Kind::Comma
        | Kind::Pipe
        | Kind::LeftParenthesis
        | Kind::RightParenthesis
        | Kind::Dot
        | Kind::Field
        | Kind::Variable
        | Kind::Identifier
        | Kind::Keyword(_)
        | Kind::Boolean
        | Kind::Number
        | Kind::Stray => format!("\"{}\"", token.text),
    }
}
