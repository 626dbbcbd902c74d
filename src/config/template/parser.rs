//! Builds the tree of a source: text, actions, blocks and definitions. Pipelines are read in `pipeline`.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use super::ast::{Arm, Conditional, Loop, Node, Templates};
use super::budget::{Depth, MAX_NESTING};
use super::lexer::{Kind, Lexer, Token};
use super::quote;
use super::span::Span;
use super::{Result, TemplateError};

/// Parses a source and all templates that it defines.
pub(super) fn parse(source: &str) -> Result<Templates<'_>> {
    let mut parser = Parser {
        lexer: Lexer::new(source),
        ahead: VecDeque::new(),
        templates: Templates::new(),
        scope: Scope::fresh(),
        loops: 0,
        depth: Depth::at_most(MAX_NESTING),
    };
    let (nodes, stop) = parser.nodes(true)?;
    let stray = match stop {
        Stop::EndOfSource => None,
        Stop::End(span) => Some(("{{end}}", span)),
        Stop::Else(span) => Some(("{{else}}", span)),
    };
    if let Some((name, span)) = stray {
        let message = format!("unexpected {name}: nothing is open here that it could belong to");
        return Err(TemplateError::new(span, message));
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
    pub(super) depth: Depth,
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
enum Stop {
    EndOfSource,
    End(Span),
    Else(Span),
}

impl<'s> Parser<'s> {
    pub(super) fn next(&mut self) -> Result<Token<'s>> {
        match self.ahead.pop_front() {
            Some(token) => Ok(token),
            None => self.lexer.next(),
        }
    }

    pub(super) fn peek(&mut self) -> Result<Token<'s>> {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&mut self, distance: usize) -> Result<Token<'s>> {
        loop {
            if let Some(token) = self.ahead.get(distance) {
                return Ok(*token);
            }
            let token = self.lexer.next()?;
            self.ahead.push_back(token);
        }
    }

    /// Reads text and actions up to an `{{end}}`, an `{{else`, or the end of the source.
    fn nodes(&mut self, top_level: bool) -> Result<(Vec<Node<'s>>, Stop)> {
        let mut nodes = Vec::new();
        loop {
            let token = self.next()?;
            if token.kind == Kind::Text {
                nodes.push(Node::Text { text: token.text, start: token.span.start });
                continue;
            }
            if token.kind != Kind::Open {
                return Ok((nodes, Stop::EndOfSource));
            }
            let (open, first) = (token.span, self.peek()?);
            // `nil` is not a command, but that is for the evaluation to say.
            if first.kind != Kind::Keyword || first.text == "nil" {
                let pipeline = self.pipeline("action", open)?;
                nodes.push(Node::Action { pipeline, span: open.to(self.close("action")?) });
                continue;
            }
            self.next()?;
            let head = open.to(first.span);
            match first.text {
                "end" => return Ok((nodes, Stop::End(open.to(self.close("end")?)))),
                "else" => return Ok((nodes, Stop::Else(head))),
                "define" => self.definition(head, top_level)?,
                "block" => nodes.push(self.block(head)?),
                "range" => nodes.push(self.range(head)?),
                "template" => nodes.push(self.template(head)?),
                "break" => nodes.push(self.jump(head, "break", Node::Break)?),
                "continue" => nodes.push(self.jump(head, "continue", Node::Continue)?),
                keyword => nodes.push(self.conditional(head, keyword)?),
            }
        }
    }

    /// Reads the body of a block, up to its `{{end}}` or an `{{else`, whose place is given.
    fn body(&mut self, header: Span, name: &str) -> Result<(Vec<Node<'s>>, Option<Span>)> {
        match self.nodes(false)? {
            (nodes, Stop::End(_)) => Ok((nodes, None)),
            (nodes, Stop::Else(span)) => Ok((nodes, Some(span))),
            (_, Stop::EndOfSource) => {
                let message = format!("this {{{{{name}}}}} is never closed: expected {{{{end}}}}");
                Err(TemplateError::new(header, message))
            }
        }
    }

    /// Reads the end of an action.
    fn close(&mut self, context: &str) -> Result<Span> {
        let token = self.next()?;
        if token.kind == Kind::Close { Ok(token.span) } else { Err(unexpected(&token, context)) }
    }

    fn jump(&mut self, head: Span, name: &str, node: Node<'s>) -> Result<Node<'s>> {
        let close = self.close(name)?;
        if self.loops == 0 {
            let message = format!("{{{{{name}}}}} must stand inside {{{{range}}}}");
            return Err(TemplateError::new(head.to(close), message));
        }
        Ok(node)
    }

    /// Reads an `if` or a `with`.
    fn conditional(&mut self, head: Span, name: &'s str) -> Result<Node<'s>> {
        let known = self.scope.names.len();
        self.depth.descend(head)?;
        let mut arms = Vec::new();
        let mut header = head;
        let otherwise = loop {
            let condition = self.pipeline(name, header)?;
            header = header.to(self.close(name)?);
            let (body, other) = self.body(header, name)?;
            arms.push(Arm { condition, body });
            let Some(other) = other else { break Vec::new() };
            if !self.peek()?.is_keyword(name) {
                break self.otherwise(header, name)?;
            }
            self.next()?;
            header = other;
        };
        self.depth.ascend();
        self.scope.forget_down_to(known);
        Ok(Node::Conditional(Conditional { arms, otherwise, binds_dot: name == "with", span: head }))
    }

    fn range(&mut self, head: Span) -> Result<Node<'s>> {
        let known = self.scope.names.len();
        self.depth.descend(head)?;
        let over = self.pipeline("range", head)?;
        let header = head.to(self.close("range")?);
        self.loops += 1;
        let (body, other) = self.body(header, "range")?;
        self.loops -= 1;
        let otherwise = if other.is_some() { self.otherwise(header, "range")? } else { Vec::new() };
        self.depth.ascend();
        self.scope.forget_down_to(known);
        Ok(Node::Loop(Loop { over, body, otherwise, span: header }))
    }

    /// Reads what follows a last `{{else`, its `}}` first.
    fn otherwise(&mut self, header: Span, name: &str) -> Result<Vec<Node<'s>>> {
        self.close("else")?;
        match self.body(header, name)? {
            (nodes, None) => Ok(nodes),
            (_, Some(span)) => Err(TemplateError::new(span, "expected {{end}}, found another {{else}}")),
        }
    }

    fn template(&mut self, head: Span) -> Result<Node<'s>> {
        let (name, _) = self.template_name("template")?;
        let has_argument = self.peek()?.kind != Kind::Close;
        let argument = if has_argument { Some(self.pipeline("template", head)?) } else { None };
        Ok(Node::Template { name, argument, span: head.to(self.close("template")?) })
    }

    /// Reads a definition that is used where it stands.
    fn block(&mut self, head: Span) -> Result<Node<'s>> {
        let (name, name_span) = self.template_name("block")?;
        let argument = Some(self.pipeline("block", head)?);
        let span = head.to(self.close("block")?);
        let body = self.template_body(span, "block")?;
        self.define(Rc::clone(&name), body, name_span)?;
        Ok(Node::Template { name, argument, span })
    }

    fn definition(&mut self, head: Span, top_level: bool) -> Result<()> {
        if !top_level {
            let message = "{{define}} must stand at the top level, not inside another block";
            return Err(TemplateError::new(head, message));
        }
        let (name, name_span) = self.template_name("define")?;
        let header = head.to(self.close("define")?);
        let body = self.template_body(header, "define")?;
        self.define(name, body, name_span)
    }

    fn template_name(&mut self, context: &str) -> Result<(Rc<str>, Span)> {
        let token = self.next()?;
        if token.kind == Kind::Quoted || token.kind == Kind::Raw {
            return Ok((string(&token)?, token.span));
        }
        let message =
            format!("expected the quoted name of a template after \"{context}\", found {}", shown(&token));
        Err(TemplateError::new(token.span, message))
    }

    /// Reads the body of another template: it knows none of our variables and stands in none of our loops.
    fn template_body(&mut self, header: Span, name: &str) -> Result<Vec<Node<'s>>> {
        self.depth.descend(header)?;
        let scope = std::mem::replace(&mut self.scope, Scope::fresh());
        let loops = std::mem::take(&mut self.loops);
        let (body, other) = self.body(header, name)?;
        self.scope = scope;
        self.loops = loops;
        self.depth.ascend();
        match other {
            None => Ok(body),
            Some(span) => Err(TemplateError::new(span, format!("{{{{{name}}}}} takes no {{{{else}}}}"))),
        }
    }

    /// Adds a template. As in Go, one that holds nothing but space never replaces another, and may be replaced.
    fn define(&mut self, name: Rc<str>, body: Vec<Node<'s>>, at: Span) -> Result<()> {
        let is_known = self.templates.get(&name).is_some_and(|known| !is_blank(known));
        if is_known && !is_blank(&body) {
            return Err(TemplateError::new(at, format!("template {name:?} is defined twice")));
        }
        if !is_known {
            self.templates.insert(name, body);
        }
        Ok(())
    }
}

fn is_blank(nodes: &[Node<'_>]) -> bool {
    nodes.iter().all(|node| matches!(node, Node::Text { text, .. } if text.trim().is_empty()))
}

pub(super) fn string(token: &Token<'_>) -> Result<Rc<str>> {
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
    if token.kind == Kind::EndOfSource {
        "the end of the file".to_owned()
    } else if token.kind == Kind::Close {
        "the end of the action".to_owned()
    } else if matches!(token.kind, Kind::Quoted | Kind::Raw | Kind::Character) {
        token.text.to_owned()
    } else {
        format!("\"{}\"", token.text)
    }
}
