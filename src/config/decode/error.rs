//! Why a value does not fit, before and after its place is known.

use std::fmt;

use serde::de::{self, Expected, Unexpected};

use crate::config::diagnostic::{Place, Problem};
use crate::config::source::Span;
use crate::config::suggest;

/// A value that does not fit.
#[derive(Debug)]
pub struct DecodeError {
    /// Its place is `Nowhere` until [`Self::located`] adds it.
    problem: Box<Problem>,
    /// Whether what was found is added, too.
    wants_found: bool,
}

impl DecodeError {
    fn new(message: String, wants_found: bool) -> Self {
        Self { problem: Box::new(Problem::error("wrong-value", Place::Nowhere, message)), wants_found }
    }

    /// Something else was expected.
    pub(super) fn expected(what: &dyn Expected) -> Self {
        Self::new(format!("expected {what}"), true)
    }

    /// One of these words was expected.
    pub(super) fn not_a_word(words: &[&str], found: Option<&str>) -> Self {
        let mut error = Self::new(format!("expected {}", list(words)), true);
        error.problem.help = found.and_then(|text| suggest::did_you_mean(text, words.iter().copied()));
        error
    }

    /// Adds the place, unless a deeper value did.
    pub(super) fn located(mut self, span: Span, path: &str, found: impl FnOnce() -> String) -> Self {
        if self.problem.place == Place::Nowhere {
            let prefix = if path.is_empty() { String::new() } else { format!("{path}: ") };
            let found = if self.wants_found { format!(", found {}", found()) } else { String::new() };
            self.problem.message = format!("{prefix}{}{found}", self.problem.message);
            self.problem.place = span.into();
        }
        self
    }

    pub(super) fn into_problem(self) -> Problem {
        *self.problem
    }
}

/// `"a", "b" or "c"`.
fn list(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => format!("{only:?}"),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(|word| format!("{word:?}")).collect();
            format!("{} or {last:?}", first.join(", "))
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem.message)
    }
}

impl std::error::Error for DecodeError {}

impl de::Error for DecodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string(), false)
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::expected(expected)
    }

    /// What was found is described with its place; `Unexpected::Other` is taken for the reason.
    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let mut error = Self::expected(expected);
        if let Unexpected::Other(reason) = found {
            error.problem.notes.push(reason.to_owned());
        }
        error
    }
}
