//! The ordinary call: load the configuration and run it until it ends.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::{CommandError, environment, found, refused};
use crate::actors::assembly;
use crate::config::diagnostic::Report;
use crate::config::spec::{CommandLine, Spec};
use crate::config::{self, Loaded, System};
use crate::logging::Log;
use crate::process::{Environ, Linux, become_subreaper, is_pid_one, reset_signals};

/// How long we wait for a log that takes none of its last records.
const FLUSH_PATIENCE: Duration = Duration::from_secs(1);

/// Supervises the configuration's jobs, and `main` as one more.
pub fn run(path: Option<&Path>, main: Option<CommandLine>) -> Result<ExitCode, CommandError> {
    prepare()?;
    let Loaded { spec, warnings } = configuration(path, main)?;
    let log = Log::open(&spec.logging)
        .map_err(|error| CommandError::new(format!("cannot open the log: {error}")))?;
    for (_, line) in warnings.lines() {
        slog::warn!(log.logger(), "{line}");
    }
    let environ = Environ::new(std::env::vars_os());
    let outcome = assembly::run(spec, &log, Box::new(Linux), environ);
    if let Err(error) = &outcome {
        slog::crit!(log.logger(), "cannot supervise: {error}");
    }
    log.flush(FLUSH_PATIENCE);
    Ok(ExitCode::from(outcome.unwrap_or(1)))
}

/// What must be so before any other thread or process exists.
fn prepare() -> Result<(), CommandError> {
    reset_signals().map_err(|error| CommandError::new(format!("cannot reset signals: {error}")))?;
    if !is_pid_one() {
        become_subreaper().map_err(|error| CommandError::new(format!("cannot adopt orphans: {error}")))?;
    }
    Ok(())
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
