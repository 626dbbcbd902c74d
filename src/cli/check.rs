//! `check` and `schema`.

use std::path::Path;
use std::process::ExitCode;

use super::CommandError;
use super::request::CheckOptions;

/// Reports every problem of a configuration.
pub fn run(_config: &Path, _options: CheckOptions) -> Result<ExitCode, CommandError> {
    Err(CommandError::new("this build cannot do that yet: the loader is missing"))
}

/// Prints the JSON Schema of the configuration.
pub fn print_schema() -> Result<ExitCode, CommandError> {
    Err(CommandError::new("this build cannot do that yet: the loader is missing"))
}
