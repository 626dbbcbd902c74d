//! Reads pipelines: `$x, $y := command | command`, where a command is an operand with arguments.

use super::ast::{Binding, Command, Name, Operand, Pipeline, Term};
use super::functions;
use super::lexer::{Kind, Token};
use super::number;
use super::parser::{Parser, shown, string, unexpected};
use super::quote;
use super::span::Span;
use super::value::Value;
use super::{Result, TemplateError};

/// What a pipeline between parentheses is called in error messages; others have the name of their keyword.
const PARENTHESES: &str = "parentheses";

fn missing_value(context: &str) -> String {
    match context {
        "action" => "expected a value between \"{{\" and \"}}\"".to_owned(),
        PARENTHESES => "expected a value between the parentheses".to_owned(),
        keyword => format!("expected a value after \"{keyword}\""),
    }
}

impl<'s> Parser<'s> {
    /// Reads a pipeline up to its end, which is left to the caller; `at` is to blame when there is none.
    pub(super) fn pipeline(&mut self, context: &str, at: Span) -> Result<Pipeline<'s>> {
        let (variables, binding) = self.bindings(context)?;
        let mut commands: Vec<Command<'s>> = Vec::new();
        loop {
            let token = self.peek()?;
            let is_end =
                if context == PARENTHESES { token.is_symbol(")") } else { token.kind == Kind::Close };
            if is_end {
                break;
            }
            if !starts_operand(&token) {
                return Err(unexpected(&token, context));
            }
            let command = self.command(context)?;
            if !commands.is_empty() && !is_executable(&command.head) {
                let message = "a value cannot receive another one through \"|\": expected a function";
                return Err(TemplateError::new(command.head.span, message));
            }
            commands.push(command);
        }
        let Some((first, last)) = commands.first().zip(commands.last()) else {
            return Err(TemplateError::new(at.to(self.peek()?.span), missing_value(context)));
        };
        let span = first.span.to(last.span);
        Ok(Pipeline { variables, binding, commands, span })
    }

    /// Reads `$x :=`, `$x =` or, in a range, `$x, $y :=`.
    fn bindings(&mut self, context: &str) -> Result<(Vec<Name<'s>>, Binding)> {
        let mut variables = Vec::new();
        loop {
            let variable = self.peek()?;
            if variable.kind != Kind::Variable {
                return Ok((variables, Binding::Declare));
            }
            let operator = self.peek_at(1)?;
            if operator.kind != Kind::Symbol || ![":=", "=", ","].contains(&operator.text) {
                return Ok((variables, Binding::Declare));
            }
            self.next()?;
            self.next()?;
            variables.push(Name { text: variable.text, span: variable.span });
            self.scope.declare(variable.text);
            match operator.text {
                ":=" => return Ok((variables, Binding::Declare)),
                "=" => return Ok((variables, Binding::Assign)),
                _ if context != "range" => {
                    return Err(TemplateError::new(
                        operator.span,
                        "only a range sets more than one variable",
                    ));
                }
                _ if variables.len() > 1 => {
                    let message = "a range sets at most two variables: the index and the element";
                    return Err(TemplateError::new(operator.span, message));
                }
                _ => {}
            }
            let next = self.peek()?;
            if next.kind != Kind::Variable {
                let message =
                    format!("expected a variable after \"{},\", found {}", variable.text, shown(&next));
                return Err(TemplateError::new(next.span, message));
            }
        }
    }

    /// Reads an operand and its arguments, and the `|` after them.
    fn command(&mut self, context: &str) -> Result<Command<'s>> {
        let head = self.operand()?;
        let mut span = head.span;
        let mut arguments = Vec::new();
        loop {
            let token = self.peek()?;
            if token.kind == Kind::Close || token.is_symbol(")") {
                break;
            }
            if token.is_symbol("|") {
                self.next()?;
                break;
            }
            if !starts_operand(&token) {
                return Err(unexpected(&token, context));
            }
            if !token.spaced {
                let message = format!("expected a space before {}", shown(&token));
                return Err(TemplateError::new(token.span, message));
            }
            let argument = self.operand()?;
            span = span.to(argument.span);
            arguments.push(argument);
        }
        Ok(Command { head, arguments, span })
    }

    /// Reads a term and the fields taken of it, which follow without a space.
    fn operand(&mut self) -> Result<Operand<'s>> {
        let token = self.next()?;
        let mut fields = Vec::new();
        let term = if token.kind == Kind::Field {
            fields.push(field(&token));
            Term::Dot
        } else {
            self.term(&token)?
        };
        let mut span = if let Term::Parenthesized(inside) = &term { inside.span } else { token.span };
        loop {
            let next = self.peek()?;
            if next.kind != Kind::Field || next.spaced {
                break;
            }
            if fields.is_empty() && matches!(term, Term::Dot | Term::Nil | Term::Literal(_)) {
                let message = format!("unexpected \"{}\": {} has no fields", next.text, shown(&token));
                return Err(TemplateError::new(next.span, message));
            }
            self.next()?;
            span = span.to(next.span);
            fields.push(field(&next));
        }
        Ok(Operand { term, fields, span })
    }

    fn term(&mut self, token: &Token<'s>) -> Result<Term<'s>> {
        let fault = |message: String| TemplateError::new(token.span, message);
        match token.kind {
            Kind::Dot => Ok(Term::Dot),
            Kind::Boolean => Ok(Term::Literal(Value::Bool(token.text == "true"))),
            Kind::Number => number::parse(token.text).map(Term::Literal).map_err(fault),
            Kind::Character => {
                let inside = token.text.get(1..token.text.len().saturating_sub(1)).unwrap_or_default();
                let code = quote::unquote_character(inside).map_err(fault)?;
                Ok(Term::Literal(Value::Int(code)))
            }
            Kind::Quoted | Kind::Raw => Ok(Term::Literal(Value::Text(string(token)?))),
            Kind::Variable if self.scope.knows(token.text) => Ok(Term::Variable(token.text)),
            Kind::Variable => Err(fault(format!("variable {} is not defined here", token.text))),
            Kind::Identifier => match functions::find(token.text) {
                Some(function) => Ok(Term::Function(function)),
                None => Err(fault(functions::not_defined(token.text))),
            },
            Kind::Keyword if token.text == "nil" => Ok(Term::Nil),
            Kind::Symbol if token.text == "(" => self.parenthesis(token.span),
            Kind::Text
            | Kind::Open
            | Kind::Close
            | Kind::Field
            | Kind::Keyword
            | Kind::Symbol
            | Kind::EndOfSource => Err(unexpected(token, "command")),
        }
    }

    fn parenthesis(&mut self, open: Span) -> Result<Term<'s>> {
        self.depth.descend(open)?;
        let pipeline = self.pipeline(PARENTHESES, open);
        let mut pipeline = pipeline.map_err(|error| self.blame_parenthesis(open, error))?;
        let close = self.next()?;
        pipeline.span = open.to(close.span);
        self.depth.ascend();
        Ok(Term::Parenthesized(Box::new(pipeline)))
    }

    /// When the action ended first, the place to look at is the parenthesis that is open.
    fn blame_parenthesis(&mut self, open: Span, error: TemplateError) -> TemplateError {
        match self.peek() {
            Ok(token) if token.kind == Kind::Close && error.span == (token.span.start..token.span.end) => {
                TemplateError::new(open, "this parenthesis is never closed: expected \")\"")
            }
            Ok(_) | Err(_) => error,
        }
    }
}

fn field<'s>(token: &Token<'s>) -> Name<'s> {
    Name { text: token.text.get(1..).unwrap_or_default(), span: token.span }
}

fn starts_operand(token: &Token<'_>) -> bool {
    use Kind::{Boolean, Character, Dot, Field, Identifier, Number, Quoted, Raw, Variable};
    matches!(token.kind, Boolean | Character | Dot | Field | Identifier | Number | Quoted | Raw | Variable)
        || token.is_keyword("nil")
        || token.is_symbol("(")
}

/// Whether a later command of a pipeline may start so: literals never take an argument.
fn is_executable(operand: &Operand<'_>) -> bool {
    !operand.fields.is_empty() || !matches!(operand.term, Term::Dot | Term::Nil | Term::Literal(_))
}
