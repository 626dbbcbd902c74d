//! Commands: a string that is split into words, or an array of them.

use std::fmt;

use super::context::Context;
use crate::config::diagnostic::Problem;
use crate::config::lint::shell;
use crate::config::raw::{Field, RawCommand};
use crate::config::source::Span;
use crate::config::spec::CommandLine;
use crate::config::words;

/// The program and its arguments; `None` after a problem was reported.
pub(super) fn validate(
    context: &mut Context<'_>,
    path: fmt::Arguments<'_>,
    field: &Field<RawCommand>,
) -> Option<CommandLine> {
    let all = match field.value.as_ref()? {
        RawCommand::Line(line) => match words::split(line) {
            Ok(all) => {
                if let Some(operator) = shell::stray_operator(line, &all) {
                    context.add(stray_operator(path, field.span, operator));
                }
                all
            }
            Err(error) => {
                // Escapes of JSON5 may stand before it: the offset is one of the string, not of the file.
                let place = format!("the quote or backslash is at byte {} of the command", error.offset);
                context.add(
                    Problem::error("bad-exec", field.span, format!("{path}: {}", error.message))
                        .note(place)
                        .help("write a quote that is meant literally as \\\" or \\', or use an array"),
                );
                return None;
            }
        },
        RawCommand::Words(words) => words.iter().map(|word| word.0.clone()).collect(),
    };
    if let Some(script) = shell::lonely_script(&all) {
        let message =
            format!("{path}: the shell runs only {script:?}; the words after it become its arguments");
        let help = format!("quote the whole script, as in [\"/bin/sh\", \"-c\", \"{script} …\"]");
        context.add(Problem::warning("lonely-script", field.span, message).help(help));
    }
    if !all.iter().all(|word| context.no_nul(path, field, word)) {
        return None;
    }
    let mut all = all.into_iter();
    match all.next().filter(|program| !program.is_empty()) {
        Some(program) => Some(CommandLine { program, args: all.collect() }),
        None => {
            let message = format!("{path}: expected a program to execute, found nothing");
            context.error("empty-exec", field.span, message);
            None
        }
    }
}

fn stray_operator(path: fmt::Arguments<'_>, span: Span, operator: &str) -> Problem {
    let message = format!("{path}: no shell runs this command, so `{operator}` is passed on literally");
    Problem::warning("no-shell", span, message)
        .help("put a shell in front, as in [\"/bin/sh\", \"-c\", \"…\"]")
}
