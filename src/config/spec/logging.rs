//! The log in the validated configuration.

use std::path::PathBuf;

pub use containerpilot_record::{LogFormat, LogLevel};

/// Level, format and destination of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggingSpec {
    /// Records below it are not written.
    pub level: LogLevel,
    /// How a record looks.
    pub format: LogFormat,
    /// Where records go.
    pub output: LogOutput,
}

impl Default for LoggingSpec {
    fn default() -> Self {
        Self { level: LogLevel::Info, format: LogFormat::Default, output: LogOutput::Stdout }
    }
}

/// Where log records go.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LogOutput {
    /// Our standard output.
    Stdout,
    /// Our standard error.
    Stderr,
    /// A file, reopened on SIGUSR1.
    File(PathBuf),
}
