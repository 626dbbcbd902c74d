//! Tests of the whole engine: what a template renders to, what it is refused for, and what it may cost.

mod bombs;
mod errors;
mod functions;
mod go_cases;
mod language;
mod places;
mod properties;

use std::collections::BTreeMap;

use super::{Rendered, TemplateError, render};

/// The environment of these tests.
fn env() -> BTreeMap<String, String> {
    let pairs = [("NAME", "Template"), ("USER", "pilot"), ("PARTS", "a:b:c"), ("COUNT", "3"), ("EMPTY", "")];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn try_render(source: &str) -> Result<Rendered, TemplateError> {
    render(source, &env())
}

/// What a template renders to.
fn text(source: &str) -> String {
    match try_render(source) {
        Ok(rendered) => rendered.text,
        Err(error) => panic!("{source}: {error} at {:?}", error.span),
    }
}

fn error(source: &str) -> TemplateError {
    match try_render(source) {
        Ok(rendered) => panic!("{source}: rendered to {:?}", rendered.text),
        Err(error) => error,
    }
}

/// Checks what each template renders to.
fn check(cases: &[(&str, &str)]) {
    for (source, expected) in cases {
        assert_eq!(text(source), *expected, "{source}");
    }
}

/// Checks that each template is refused with a message that has this part.
fn check_refused(cases: &[(&str, &str)]) {
    for (source, part) in cases {
        let message = error(source).message;
        assert!(message.contains(part), "{source}: {message}");
    }
}
