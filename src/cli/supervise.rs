//! The ordinary call: load the configuration and run it until it ends.

use std::path::Path;
use std::process::ExitCode;

use super::{CommandError, environment, found, refused};
use crate::config::diagnostic::Report;
use crate::config::spec::{CommandLine, Spec};
use crate::config::{self, Loaded, System};

/// Supervises the configuration's jobs, and `main` as one more.
pub fn run(path: Option<&Path>, main: Option<CommandLine>) -> Result<ExitCode, CommandError> {
    let Loaded { spec: _, warnings: _ } = configuration(path, main)?;
    Err(CommandError::new("this build cannot do that yet: supervision arrives with the actors"))
}

/// The whole configuration, `main` included; with `main`, it is no error if there is none but that.
fn configuration(path: Option<&Path>, main: Option<CommandLine>) -> Result<Loaded, CommandError> {
    let loaded = match found(path) {
        Ok(path) => config::load(&path, &environment(), &System::current())
            .map_err(|report| refused(&path, &report))?,
        Err(_) if main.is_some() => Loaded { spec: Spec::default(), warnings: Report::default() },
        Err(error) => return Err(error),
    };
    let Some(main) = main else { return Ok(loaded) };
    let spec = loaded.spec.with_main(main).map_err(|error| CommandError::new(error.to_string()))?;
    Ok(Loaded { spec, warnings: loaded.warnings })
}
