//! `-template`.

use std::path::Path;
use std::process::ExitCode;

use super::CommandError;
use super::request::Destination;

/// Prints or writes the rendered configuration.
pub fn run(_config: &Path, _destination: &Destination) -> Result<ExitCode, CommandError> {
    Err(CommandError::new("this build cannot do that yet: the loader is missing"))
}
