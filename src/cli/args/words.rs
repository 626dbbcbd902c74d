//! Words that are neither a flag nor a command, and what is said of them.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::super::argv::Flag;
use super::super::request::Request;
use super::definition;
use crate::config::suggest::nearest;

/// The call of an image of ContainerPilot: its ENTRYPOINT names a configuration, directly or through the environment, and
/// Docker appends its CMD, which ContainerPilot ignores. `None` for any other call, and for a misspelt command.
pub(super) fn with_leftover(request: Request, rest: &[OsString], is_configured: bool) -> Option<Request> {
    let Request::Supervise { config, main, record, .. } = request else { return None };
    let leftover: Vec<String> = rest.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let is_misspelt = leftover.first().is_some_and(|word| nearest_command(&definition(), word).is_some());
    let is_image_call = !is_misspelt && (config.is_some() || is_configured);
    is_image_call.then_some(Request::Supervise { config, main, leftover, record })
}

pub(super) fn is_command(command: &clap::Command, word: &str) -> bool {
    command.find_subcommand(word).is_some() || word == "help"
}

/// The command whose name is this word, or is so similar that the word may be a typing error.
fn nearest_command(command: &clap::Command, word: &str) -> Option<String> {
    let names = command.get_subcommands().map(clap::Command::get_name).chain(["help"]);
    nearest(word, names).map(ToOwned::to_owned)
}

/// The kind of a flag of this command itself.
pub(super) fn flag(command: &clap::Command, name: &str) -> Option<Flag> {
    match command.get_arguments().find(|arg| arg.get_long() == Some(name)) {
        Some(arg)
            if arg.get_num_args().is_some_and(|number| number.min_values() == 0 && number.takes_values()) =>
        {
            Some(Flag::TakesWords)
        }
        Some(arg) if arg.get_action().takes_values() => Some(Flag::TakesValue),
        Some(_) => Some(Flag::Switch),
        None => are_letters(command, name).then_some(Flag::Letters),
    }
}

/// The kind of a flag that one of the commands has; `whole` is the whole definition.
pub(super) fn flag_of_commands(whole: &clap::Command, name: &str) -> Option<Flag> {
    whole.get_subcommands().find_map(|command| flag(command, name))
}

/// Whether these are flags of one letter, of which the last may have a number: `fn5`.
fn are_letters(command: &clap::Command, text: &str) -> bool {
    let takes_value = |letter: char| {
        let flag = command.get_arguments().find(|arg| arg.get_short() == Some(letter));
        flag.map(|arg| arg.get_action().takes_values())
    };
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match takes_value(letter) {
            Some(true) => return letters.all(|digit| digit.is_ascii_digit()),
            Some(false) => {}
            None => return false,
        }
    }
    true
}

/// Removes clap's advice that a misspelt flag could be a command after `--`, which would mislead.
pub(super) fn without_advice(mut error: clap::Error) -> clap::Error {
    if matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand) {
        error.remove(ContextKind::Suggested);
    }
    error
}

/// The error for a word that is neither a flag nor a command. ContainerPilot 2 took the main command without `--`.
pub(super) fn unexpected(command: &mut clap::Command, rest: &[OsString]) -> clap::Error {
    let word = rest.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let similar = nearest_command(command, &word).map(|name| format!("a similar command exists: '{name}'"));
    let dashes = format!("to run '{word}' as a job, put two dashes before it: '-- {word}'");
    let advice = similar.into_iter().chain([dashes]).map(Into::into).collect();
    let mut error = clap::Error::new(ErrorKind::UnknownArgument).with_cmd(command);
    error.insert(ContextKind::InvalidArg, ContextValue::String(word));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(advice));
    error.insert(ContextKind::Usage, ContextValue::StyledStr(command.render_usage()));
    error
}
