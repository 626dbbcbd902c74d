//! Why a value does not fit, before and after its place is known.

use std::fmt;

use serde::de::{self, Expected, Unexpected};

use crate::config::diagnostic::Problem;
use crate::config::source::Span;
use crate::config::suggest;

/// A value that does not fit.
#[derive(Debug)]
pub enum DecodeError {
    /// Something else was expected; what was found is added with the place.
    Expected {
        /// What was expected.
        what: String,
        /// Why that which was found is not it.
        reason: Option<String>,
    },
    /// One of these words was expected.
    Word {
        /// The words.
        words: &'static [&'static str],
        /// The text found instead, if it was a text.
        found: Option<String>,
    },
    /// Any other complaint.
    Message(String),
    /// The finished problem.
    Located(Box<Problem>),
}

impl DecodeError {
    /// Adds the place, unless a deeper value did.
    pub(super) fn located(self, span: Span, path: &str, found: impl FnOnce() -> String) -> Self {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}: ") };
        let problem = match self {
            Self::Located(_) => return self,
            Self::Expected { what, reason } => {
                let message = format!("{prefix}expected {what}, found {}", found());
                reason.into_iter().fold(Problem::error("wrong-value", span, message), Problem::note)
            }
            Self::Word { words, found: text } => {
                let listed = list(words);
                let nearest = text.and_then(|text| suggest::nearest(&text, words.iter().copied()));
                Problem::error("wrong-value", span, format!("{prefix}expected {listed}, found {}", found()))
                    .maybe_help(nearest.map(|word| format!("did you mean {word:?}?")))
            }
            Self::Message(message) => Problem::error("wrong-value", span, format!("{prefix}{message}")),
        };
        Self::Located(Box::new(problem))
    }

    pub(super) fn into_problem(self) -> Option<Problem> {
        match self {
            Self::Located(problem) => Some(*problem),
            Self::Expected { .. } | Self::Word { .. } | Self::Message(_) => None,
        }
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
        match self {
            Self::Expected { what, .. } => write!(f, "expected {what}"),
            Self::Word { words, .. } => write!(f, "expected {}", list(words)),
            Self::Message(message) => f.write_str(message),
            Self::Located(problem) => f.write_str(&problem.message),
        }
    }
}

impl std::error::Error for DecodeError {}

impl de::Error for DecodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Message(message.to_string())
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::Expected { what: expected.to_string(), reason: None }
    }

    /// What was found is described with its place; `Unexpected::Other` is taken for the reason.
    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let reason = if let Unexpected::Other(reason) = found { Some(reason.to_owned()) } else { None };
        Self::Expected { what: expected.to_string(), reason }
    }
}
