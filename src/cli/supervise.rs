//! The ordinary call: load the configuration and run it until it ends.

use std::path::Path;
use std::process::ExitCode;

use super::CommandError;
use crate::config::spec::CommandLine;

/// Supervises the configuration's jobs, and `main` as one more. With `main` a configuration is optional.
pub fn run(config: Option<&Path>, main: Option<&CommandLine>) -> Result<ExitCode, CommandError> {
    let _configuration = match super::found(config) {
        Ok(path) => Some(path),
        Err(_) if main.is_some() => None,
        Err(error) => return Err(error),
    };
    Err(CommandError::new("this build cannot do that yet: supervision arrives with the actors"))
}
