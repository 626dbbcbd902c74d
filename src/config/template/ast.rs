//! The parsed form of a template. Names borrow from the source; every node knows its place in it.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::functions::Function;
use super::span::Span;
use super::value::Value;

/// All templates of a source by name; the source itself is the one named `""`, as in Go.
pub(super) type Templates<'s> = BTreeMap<Rc<str>, Vec<Node<'s>>>;

#[derive(Debug)]
pub(super) enum Node<'s> {
    Text { text: &'s str, start: usize },
    Action { pipeline: Pipeline<'s>, span: Span },
    Conditional(Conditional<'s>),
    Loop(Loop<'s>),
    Template { name: Rc<str>, argument: Option<Pipeline<'s>>, span: Span },
    Break,
    Continue,
}

/// An `if` or a `with`, its `else if`s included.
#[derive(Debug)]
pub(super) struct Conditional<'s> {
    pub(super) arms: Vec<Arm<'s>>,
    pub(super) otherwise: Vec<Node<'s>>,
    /// A `with` makes the value it tests the data of its body.
    pub(super) binds_dot: bool,
    pub(super) span: Span,
}

#[derive(Debug)]
pub(super) struct Arm<'s> {
    pub(super) condition: Pipeline<'s>,
    pub(super) body: Vec<Node<'s>>,
}

/// A `range`.
#[derive(Debug)]
pub(super) struct Loop<'s> {
    pub(super) over: Pipeline<'s>,
    pub(super) body: Vec<Node<'s>>,
    pub(super) otherwise: Vec<Node<'s>>,
    pub(super) span: Span,
}

/// Commands, each of which passes its value to the next, and the variables that take the last value.
#[derive(Debug)]
pub(super) struct Pipeline<'s> {
    pub(super) variables: Vec<Name<'s>>,
    pub(super) binding: Binding,
    pub(super) commands: Vec<Command<'s>>,
    pub(super) span: Span,
}

/// Whether the variables of a pipeline are new (`:=`) or exist already (`=`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    Declare,
    Assign,
}

/// An operand and its arguments.
#[derive(Debug)]
pub(super) struct Command<'s> {
    pub(super) head: Operand<'s>,
    pub(super) arguments: Vec<Operand<'s>>,
    pub(super) span: Span,
}

/// A term and the fields that are taken of it: `(env "X").Y.Z`.
#[derive(Debug)]
pub(super) struct Operand<'s> {
    pub(super) term: Term<'s>,
    pub(super) fields: Vec<Name<'s>>,
    pub(super) span: Span,
}

#[derive(Debug)]
pub(super) enum Term<'s> {
    Dot,
    Nil,
    Literal(Value),
    Variable(&'s str),
    Function(&'static Function),
    Parenthesized(Box<Pipeline<'s>>),
}

/// The name of a field or variable at its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Name<'s> {
    pub(super) text: &'s str,
    pub(super) span: Span,
}
