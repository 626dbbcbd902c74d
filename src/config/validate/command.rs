//! Commands: a string that is split into words, or an array of them.

use super::context::Context;
use crate::config::diagnostic::Problem;
use crate::config::lint::shell;
use crate::config::raw::{Field, RawCommand};
use crate::config::spec::CommandLine;
use crate::config::words;

/// The program and its arguments; `None` after a problem was reported.
pub(super) fn validate(
    context: &mut Context<'_>,
    name: &str,
    field: &Field<RawCommand>,
) -> Option<CommandLine> {
    context.within(format_args!(".{name}"), |context| command(context, field))
}

fn command(context: &mut Context<'_>, field: &Field<RawCommand>) -> Option<CommandLine> {
    let all = match field.value.as_ref()? {
        RawCommand::Line(line) => split(context, field, line)?,
        RawCommand::Words(words) => words.iter().map(|word| word.0.clone()).collect(),
    };
    if let Some(script) = shell::lonely_script(&all) {
        let message = format!(": the shell runs only {script:?}; the words after it become its arguments");
        let help = format!("quote the whole script, as in [\"/bin/sh\", \"-c\", \"{script} …\"]");
        context.add(Problem::warning("lonely-script", field.span, message).help(help));
    }
    if !all.iter().all(|word| context.no_nul("", field.span, word)) {
        return None;
    }
    let mut all = all.into_iter();
    match all.next().filter(|program| !program.is_empty()) {
        Some(program) => Some(CommandLine { program, args: all.collect() }),
        None => context.refuse("empty-exec", field.span, ": expected a program to execute, found nothing"),
    }
}

fn split(context: &mut Context<'_>, field: &Field<RawCommand>, line: &str) -> Option<Vec<String>> {
    match words::split(line) {
        Ok(all) => {
            if let Some(operator) = shell::stray_operator(line, &all) {
                let message = format!(": no shell runs this command, so `{operator}` is passed on literally");
                let problem = Problem::warning("no-shell", field.span, message);
                context.add(problem.help("put a shell in front, as in [\"/bin/sh\", \"-c\", \"…\"]"));
            }
            Some(all)
        }
        Err(error) => {
            // Escapes of JSON5 may stand before it: the offset is one of the string, not of the file.
            let place = format!("the quote or backslash is at byte {} of the command", error.offset);
            let problem = Problem::error("bad-exec", field.span, format!(": {}", error.message)).note(place);
            context
                .add(problem.help("write a quote that is meant literally as \\\" or \\', or use an array"));
            None
        }
    }
}
