//! The log in the validated configuration.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How important a record is; ordered from least to most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LogLevel {
    /// Every event and decision.
    Debug,
    /// Progress that an operator wants to see.
    Info,
    /// A problem that an operator should look at.
    Warn,
    /// A failure.
    Error,
    /// A failure that ends the program.
    Fatal,
    /// As `Fatal`; kept for ContainerPilot's configurations.
    Panic,
}

/// Formats of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum LogFormat {
    /// `TIME JOB PID MESSAGE`.
    Default,
    /// `time="…" level=info msg="…"`.
    Text,
    /// One JSON object per line.
    Json,
}

/// Level, format and destination of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggingSpec {
    /// Records below it are not written.
    pub level: LogLevel,
    /// How a record looks.
    pub format: LogFormat,
    /// Where records go.
    pub output: LogOutput,
    /// How many bytes of the last output of each job are kept in memory, unless the job says otherwise.
    pub keep: u32,
}

/// The most that all jobs together keep of their output, in bytes.
pub const MOST_KEPT: u32 = 8 << 20;
/// How much of its output each job keeps by default, in bytes.
const DEFAULT_KEPT: u32 = 64 << 10;

impl Default for LoggingSpec {
    fn default() -> Self {
        Self {
            level: LogLevel::Info,
            format: LogFormat::Default,
            output: LogOutput::Stdout,
            keep: DEFAULT_KEPT,
        }
    }
}

/// Where log records go.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LogOutput {
    /// Our standard output.
    Stdout,
    /// Our standard error.
    Stderr,
    /// A file, reopened on SIGUSR1.
    File(PathBuf),
}
