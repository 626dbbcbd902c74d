//! The command line: from arguments to an exit status. Decisions are in the pure files `argv`, `args` and
//! `locate`; this file and the commands read the environment, print, and run what was asked for.

pub mod args;
mod argv;
mod check;
mod client;
mod locate;
mod migrate;
mod output;
mod render;
mod replay;
mod request;
mod supervise;
mod version;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use request::{Color, Request};

use crate::config;
use crate::config::diagnostic::Report;
use crate::reason::reason;

/// A command that could not be carried out: printed on stderr, exit status 1.
#[derive(Debug)]
pub struct CommandError(String);

impl CommandError {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        Self(format!("cannot write the output: {}", reason(&error)))
    }
}

/// Carries out what the arguments (the program's name first) ask for and gives the status to exit with.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let is_configured = std::env::var_os(locate::VARIABLE).is_some_and(|path| !path.is_empty());
    let request = match args::parse(arguments, is_configured) {
        Ok(request) => request,
        Err(error) => return print_help_or_error(&error),
    };
    match perform(request) {
        Ok(status) => status,
        Err(error) => {
            output::print_error(&format!("containerpilot: {error}\n"));
            ExitCode::FAILURE
        }
    }
}

fn perform(request: Request) -> Result<ExitCode, CommandError> {
    match request {
        Request::Supervise { config, main, leftover, record } => {
            return supervise::run(config.as_deref(), main, &leftover, record.as_deref());
        }
        Request::Check { config, options, main } => {
            return check::run(&config_path(config.as_deref())?, main, options);
        }
        Request::Render { config, destination } => {
            render::run(&config_path(config.as_deref())?, &destination)?;
        }
        Request::Schema => output::print(config::SCHEMA)?,
        Request::Client { config, socket, request } => client::run(config.as_deref(), socket, &request)?,
        Request::Migrate { old, destination, main } => migrate::run(&old, &destination, main.as_ref())?,
        Request::Replay { record } => replay::run(&record)?,
        Request::Version => output::print(&version::text())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// clap reports help that was asked for as an error, too. All others are usage errors: status 2.
fn print_help_or_error(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    if error.use_stderr() {
        output::print_error(&text);
        return ExitCode::from(2);
    }
    match output::print(&text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::print_error(&format!("containerpilot: {}\n", CommandError::from(error)));
            ExitCode::FAILURE
        }
    }
}

/// The path of the configuration: from the flag, this process's environment, or the default paths.
fn config_path(flag: Option<&Path>) -> Result<PathBuf, CommandError> {
    let variable = std::env::var_os(locate::VARIABLE);
    locate::locate(flag, variable.as_deref(), Path::exists)
        .ok_or_else(|| CommandError::new(format!("no configuration: {} (see --help)", locate::NOT_FOUND)))
}

/// This process's environment, for templates. Bytes that are not UTF-8 are replaced: JSON5 cannot hold them.
fn environment() -> BTreeMap<String, String> {
    let text = |value: OsString| value.to_string_lossy().into_owned();
    std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect()
}

/// Prints the report about a bad configuration. The returned error sums it up, and is printed last.
fn print_report(path: &Path, report: &Report) -> CommandError {
    let coloured = check::is_coloured(Color::Auto, &io::stderr());
    output::print_error(&format!("{}\n", report.render(coloured)));
    CommandError::new(format!("cannot use {}: {}", path.display(), report.summary()))
}
