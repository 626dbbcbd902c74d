//! What a log record looks like: the bytes that a child writes become records in one of three formats. Pure: no
//! descriptors, no clock.
//!
//! A package of its own because all output goes through it: what is shipped is compiled for size, and this for speed.

pub mod append;
pub mod escape;
pub mod format;
pub mod json;
pub mod lines;
pub mod logfmt;
pub mod time;

/// How important a record is; ordered from least to most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Every event and decision.
    Debug,
    /// What an operator likes to know.
    Info,
    /// What an operator should look at.
    Warn,
    /// What went wrong.
    Error,
    /// What ends the program.
    Fatal,
    /// As `Fatal`; kept for ContainerPilot's configurations.
    Panic,
}

/// How a log record looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogFormat {
    /// `TIME JOB PID MESSAGE`.
    Default,
    /// `time="…" level=info msg="…" job=app pid=7`.
    Text,
    /// One JSON object per line.
    Json,
}
