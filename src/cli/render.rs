//! `-template`: the configuration as its template renders it, before it is parsed.

use std::path::Path;

use super::request::Destination;
use super::{CommandError, environment, output, print_report};
use crate::config;
use crate::reason::reason;

/// Prints or writes the rendered configuration; a template with an error leaves the destination untouched.
pub fn run(path: &Path, destination: &Destination) -> Result<(), CommandError> {
    let text = config::render(path, &environment()).map_err(|report| print_report(path, &report))?;
    deliver(&text, destination)
}

/// Prints a configuration, or writes it as a whole.
pub fn deliver(text: &str, destination: &Destination) -> Result<(), CommandError> {
    match destination {
        Destination::Stdout => output::print(text)?,
        Destination::File(file) => output::replace_file(file, text.as_bytes()).map_err(|error| {
            CommandError::new(format!("cannot write {}: {}", file.display(), reason(&error)))
        })?,
    }
    Ok(())
}
