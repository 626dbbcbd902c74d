//! The functions that a template can call: Go's own and ContainerPilot's. What each does is in its family's file.

mod compare;
mod escape;
mod lists;
mod regex;
mod text;

use std::cmp::Ordering;
use std::rc::Rc;

use super::budget::{Budget, Depth, Draft, MAX_DEPTH};
use super::printf::{write_line, write_spaced};
use super::span::Span;
use super::value::{Environment, Value};
use super::{Result, TemplateError};
use regex::Regexes;

/// A function by its name in templates.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) fewest: usize,
    pub(super) most: Option<usize>,
    pub(super) body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    /// Called with all its arguments.
    Strict(fn(&mut Call<'_>) -> Outcome),
    /// Takes its arguments one by one up to the first that is as true as this.
    ShortCircuit(bool),
}

pub(super) type Outcome = Result<Value>;

const fn fixed(name: &'static str, count: usize, body: fn(&mut Call<'_>) -> Outcome) -> Function {
    Function { name, fewest: count, most: Some(count), body: Body::Strict(body) }
}

const fn variadic(name: &'static str, fewest: usize, body: fn(&mut Call<'_>) -> Outcome) -> Function {
    Function { name, fewest, most: None, body: Body::Strict(body) }
}

static FUNCTIONS: [Function; 26] = [
    Function { name: "and", fewest: 1, most: None, body: Body::ShortCircuit(false) },
    Function { name: "or", fewest: 1, most: None, body: Body::ShortCircuit(true) },
    fixed("not", 1, compare::not),
    variadic("eq", 2, compare::eq),
    fixed("ne", 2, compare::ne),
    fixed("lt", 2, |call| compare::order(call, Ordering::is_lt)),
    fixed("le", 2, |call| compare::order(call, Ordering::is_le)),
    fixed("gt", 2, |call| compare::order(call, Ordering::is_gt)),
    fixed("ge", 2, |call| compare::order(call, Ordering::is_ge)),
    fixed("len", 1, lists::len),
    variadic("index", 1, lists::index),
    variadic("slice", 1, lists::slice),
    fixed("split", 2, lists::split),
    fixed("join", 2, lists::join),
    Function { name: "loop", fewest: 1, most: Some(2), body: Body::Strict(lists::count) },
    variadic("print", 0, |call| text::write(call, write_spaced)),
    variadic("printf", 1, text::printf),
    variadic("println", 0, |call| text::write(call, write_line)),
    fixed("default", 2, text::default),
    fixed("env", 1, text::env),
    fixed("replaceAll", 3, text::replace_all),
    fixed("regexReplaceAll", 3, regex::replace_all),
    variadic("html", 0, escape::html),
    variadic("js", 0, escape::js),
    variadic("urlquery", 0, escape::urlquery),
    variadic("call", 1, text::call),
];

pub(super) fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

/// What to tell about a name that is no function.
pub(super) fn not_defined(name: &str) -> String {
    let nearest = FUNCTIONS
        .iter()
        // No name that is far longer is near: this also bounds the work.
        .filter(|function| function.name.len().abs_diff(name.chars().count()) <= 2)
        .map(|function| (strsim::levenshtein(name, function.name), function.name))
        .min()
        .filter(|(distance, candidate)| *distance <= 2 && *distance < candidate.len().min(name.len()));
    let hint = match nearest {
        Some((_, candidate)) => format!("; did you mean \"{candidate}\"?"),
        // The dot of a variable was forgotten.
        None if name.starts_with(char::is_uppercase) => format!("; did you mean \".{name}\"?"),
        None => String::new(),
    };
    format!("function \"{name}\" is not defined{hint}")
}

/// State that calls share during one rendering.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) budget: Budget,
    pub(super) depth: Depth,
    pub(super) environment: Rc<Environment>,
    regexes: Regexes,
}

impl Session {
    pub(super) fn new(environment: Rc<Environment>) -> Session {
        let (budget, depth) = (Budget::new(), Depth::at_most(MAX_DEPTH));
        Session { budget, depth, environment, regexes: Regexes::default() }
    }
}

/// An evaluated argument and its place in the source.
#[derive(Debug)]
pub(super) struct Argument {
    pub(super) value: Value,
    pub(super) span: Span,
}

/// One call of a function. The number of arguments has been checked.
pub(super) struct Call<'c> {
    pub(super) name: &'static str,
    pub(super) arguments: &'c [Argument],
    pub(super) span: Span,
    pub(super) session: &'c mut Session,
}

impl Call<'_> {
    fn fault(&self, message: impl std::fmt::Display) -> TemplateError {
        TemplateError::new(self.span, format!("{}: {message}", self.name))
    }

    /// The error of an argument that is not what it should be.
    fn argument_fault(&self, at: usize, message: impl std::fmt::Display) -> TemplateError {
        let span = self.arguments.get(at).map_or(self.span, |argument| argument.span);
        TemplateError::new(span, format!("{}: {message}", self.name))
    }

    fn value(&self, at: usize) -> Value {
        self.arguments.get(at).map_or(Value::Nil, |argument| argument.value.clone())
    }

    fn values(&self) -> Vec<Value> {
        self.arguments.iter().map(|argument| argument.value.clone()).collect()
    }

    /// An argument that must be a string.
    fn text(&self, at: usize) -> Result<Rc<str>> {
        if let Value::Text(text) = self.value(at) { Ok(text) } else { Err(self.wrong_type(at, "a string")) }
    }

    /// The error of an argument that is of another kind.
    fn wrong_type(&self, at: usize, expected: &str) -> TemplateError {
        self.argument_fault(at, format!("expected {expected}, found {}", self.value(at).described()))
    }

    /// Ends a text: its size is checked and paid for.
    fn finish(&mut self, draft: Draft) -> Outcome {
        draft.finish(&mut self.session.budget, self.span).map(Value::Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_found_by_its_name_and_only_once() {
        for function in &FUNCTIONS {
            assert!(std::ptr::eq(find(function.name).unwrap(), function), "{}", function.name);
        }
    }

    #[test]
    fn a_near_name_is_suggested() {
        assert_eq!(not_defined("spilt"), "function \"spilt\" is not defined; did you mean \"split\"?");
        assert_eq!(not_defined("regexReplace"), "function \"regexReplace\" is not defined");
        assert_eq!(
            not_defined("replaceall"),
            "function \"replaceall\" is not defined; did you mean \"replaceAll\"?"
        );
        assert_eq!(not_defined("nofunc"), "function \"nofunc\" is not defined");
        assert_eq!(not_defined("xy"), "function \"xy\" is not defined");
    }

    #[test]
    fn a_forgotten_dot_is_suggested() {
        assert_eq!(not_defined("NAME"), "function \"NAME\" is not defined; did you mean \".NAME\"?");
    }
}
