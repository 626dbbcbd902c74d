//! The ordinary call: load the configuration and run it until it ends.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use super::{CommandError, config_path, environment, locate, output, print_report};
use crate::actors::assembly::{self, Setup};
use crate::actors::pilot::Load;
use crate::actors::pilot::machine::BadConfiguration;
use crate::config::diagnostic::Report;
use crate::config::spec::{CommandLine, LogOutput};
use crate::config::{self, Loaded, System};
use crate::logging::Log;
use crate::process::{
    Environ, Linux, become_subreaper, beyond_signals, hold_signals, is_pid_one, raise_limit_of_files,
    reset_signals,
};
use crate::reason::reason;
use crate::recording::Recording;

/// How long we wait for a log whose destination takes none of the last records, and for the record of `-record`.
const FLUSH_PATIENCE: Duration = Duration::from_secs(1);

/// Supervises the configuration's jobs, and `main` as one more. A warning says that `leftover` is ignored. What happens is
/// written into `record`.
pub fn run(
    path: Option<&Path>,
    main: Option<CommandLine>,
    leftover: &[String],
    record: Option<&Path>,
) -> Result<ExitCode, CommandError> {
    let adoption = prepare()?;
    let Loaded { spec, warnings } =
        configuration(path, main.clone(), &environment()).map_err(Failure::print)?;
    let log = Log::open(&spec.logging).map_err(|error| CommandError::new(error.to_string()))?;
    for (_, line) in warnings.lines() {
        slog::warn!(log.logger(), "{line}");
    }
    if let Err(error) = adoption {
        slog::warn!(
            log.logger(),
            "cannot adopt orphans: {error}; processes that outlive their parent are not ended with their job here, unless \
             containerpilot is process 1"
        );
    }
    if !leftover.is_empty() {
        slog::warn!(
            log.logger(),
            "arguments are ignored: {leftover:?}; put `--` before a command to run it as the job \"main\""
        );
    }
    let others = beyond_signals(&spec);
    if !others.is_empty() {
        slog::warn!(
            log.logger(),
            "cannot stop jobs of other users, nor kill them at their time limits: the container lacks CAP_KILL";
            "jobs" => others.join(" ")
        );
    }
    let recording = record.map(|path| recording(path, &log)).transpose()?;
    let is_logged_apart = is_logged_apart(&spec.logging.output);
    let setup = Setup {
        spec,
        load: loader(path, main),
        log: log.clone(),
        kernel: Box::new(Linux::default()),
        environ: Environ::new(std::env::vars_os()),
        recording: recording.clone(),
    };
    let outcome = assembly::run(setup, config_path(path).is_ok());
    if let Err(error) = &outcome {
        slog::crit!(log.logger(), "cannot supervise: {error}");
        if is_logged_apart {
            output::print_error(&format!("containerpilot: cannot supervise: {error}\n"));
        }
    }
    if let Some(recording) = recording {
        recording.close(FLUSH_PATIENCE);
    }
    log.flush(FLUSH_PATIENCE);
    Ok(ExitCode::from(outcome.unwrap_or(1)))
}

/// Whether the log is out of sight of those who read our standard output and error: in a file that is no device such as
/// /dev/stdout.
fn is_logged_apart(output: &LogOutput) -> bool {
    match output {
        LogOutput::Stdout | LogOutput::Stderr => false,
        LogOutput::File(path) => !path.starts_with("/dev"),
    }
}

/// Begins the record that `-record` asks for.
fn recording(path: &Path, log: &Log) -> Result<Recording, CommandError> {
    Recording::create(path, log.logger()).map_err(|error| {
        CommandError::new(format!("cannot record into {}: {}", path.display(), reason(&error)))
    })
}

/// Prepares for signals, orphans and many jobs before any other thread or process exists. The inner error says why the kernel gives
/// us no orphans: an emulator such as qemu-user does not know PR_SET_CHILD_SUBREAPER, and jobs can run without it.
fn prepare() -> Result<io::Result<()>, CommandError> {
    hold_signals()
        .and_then(|()| reset_signals())
        .map_err(|error| CommandError::new(format!("cannot prepare for signals: {error}")))?;
    raise_limit_of_files();
    Ok(if is_pid_one() { Ok(()) } else { become_subreaper() })
}

/// Loads the configuration again, from the path where it is by then. No configuration is an error, even if the program was
/// started with a command alone: a reload that changes nothing must not look like a success.
fn loader(path: Option<&Path>, main: Option<CommandLine>) -> Arc<Load> {
    let path = path.map(Path::to_path_buf);
    Arc::new(move |environment| {
        if main.is_some() && config_path(path.as_deref()).is_err() {
            return Err(nothing_to_reload().into());
        }
        let loaded = configuration(path.as_deref(), main.clone(), environment);
        loaded.map(|loaded| loaded.spec).map_err(Failure::tell)
    })
}

fn nothing_to_reload() -> String {
    let why = locate::NOT_FOUND;
    format!("there is no configuration to reload: {why}; `containerpilot restart main` restarts the command")
}

/// Why there is no configuration.
enum Failure {
    /// It is wrong.
    Refused(PathBuf, Report),
    /// There is none.
    Other(CommandError),
}

impl Failure {
    /// Prints the report, if there is one.
    fn print(self) -> CommandError {
        match self {
            Self::Refused(path, report) => print_report(&path, &report),
            Self::Other(error) => error,
        }
    }

    fn tell(self) -> BadConfiguration {
        match self {
            Self::Refused(_, report) => BadConfiguration {
                report: report.render(false),
                lines: report.lines().map(|(_, line)| line).collect(),
            },
            Self::Other(error) => error.to_string().into(),
        }
    }
}

/// The whole configuration, with `main` as one more job. If there is `main`, there need not be a file.
fn configuration(
    path: Option<&Path>,
    main: Option<CommandLine>,
    environment: &BTreeMap<String, String>,
) -> Result<Loaded, Failure> {
    match (config_path(path), main) {
        (Ok(path), main) => config::load_beside(main, &path, environment, &System::current())
            .map_err(|report| Failure::Refused(path, report)),
        (Err(_), Some(main)) => Ok(config::load_command(main)),
        (Err(error), None) => Err(Failure::Other(error)),
    }
}
