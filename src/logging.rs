//! The log: our own records through slog, the output of children through a faster path, both in one of three
//! formats, into one bounded buffer that a thread of its own writes out.

mod append;
mod child;
mod drain;
mod escape;
mod format;
mod held;
mod json;
mod lines;
mod logfmt;
mod output;
mod repeat;
mod settings;
mod sink;
pub mod time;
mod writer;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

pub use child::{ChildOutput, ChildStream};
pub use lines::{Label, LineFormatter};
pub use settings::Settings;
pub use sink::{DEFAULT_BOUND, LogSink};
pub use time::TimeText;

use crate::config::spec::LoggingSpec;
use drain::LogDrain;
use output::Output;

/// The job that our own records name.
pub const OWN_NAME: &str = "containerpilot";

/// The log of the program: a slog logger and the sink behind it; clones share both.
///
/// A record's `job` and `pid` keys replace our own name and process id.
#[derive(Debug, Clone)]
pub struct Log {
    logger: slog::Logger,
    drain: Arc<LogDrain>,
}

/// The log of a new configuration, opened and not used yet.
#[derive(Debug)]
pub struct PreparedLog {
    /// The new output, if it is another one.
    output: Option<Output>,
    spec: LoggingSpec,
}

impl Log {
    /// Opens the log that a configuration asks for; an error names the file.
    pub fn open(spec: &LoggingSpec) -> io::Result<Self> {
        Ok(Self::over(LogSink::open(&spec.output, Settings::new(spec.level, spec.format))?))
    }

    /// A log that goes to a given descriptor, whatever `spec.output` says, with room for about `bound` bytes.
    pub fn to_descriptor(descriptor: OwnedFd, spec: &LoggingSpec, bound: usize) -> io::Result<Self> {
        let settings = Settings::new(spec.level, spec.format);
        Ok(Self::over(LogSink::to_descriptor(descriptor, settings, bound)?))
    }

    fn over(sink: LogSink) -> Self {
        let drain = Arc::new(LogDrain::new(sink));
        Self { logger: slog::Logger::root(Arc::clone(&drain), slog::o!()), drain }
    }

    /// The logger for our own records.
    pub fn logger(&self) -> &slog::Logger {
        &self.logger
    }

    /// The sink that everything is written through.
    pub fn sink(&self) -> &LogSink {
        self.drain.sink()
    }

    /// Opens what a new configuration logs to; nothing changes before [`adopt`](Self::adopt). An error names the file.
    pub fn prepare(&self, spec: &LoggingSpec) -> io::Result<PreparedLog> {
        Ok(PreparedLog { output: self.sink().prepare_output(&spec.output)?, spec: spec.clone() })
    }

    /// Takes over the settings of a new configuration.
    pub fn adopt(&self, prepared: PreparedLog) {
        let PreparedLog { output, spec } = prepared;
        if let Some(output) = output {
            self.sink().use_output(&spec.output, output);
        }
        self.sink().settings().apply(&spec);
    }

    /// Opens a log file again, after everything logged so far.
    pub fn reopen(&self) {
        self.sink().reopen();
    }

    /// Blocks until everything logged so far is written, unless the destination takes nothing for the time of
    /// `patience`, or is too slow; false if that failed.
    pub fn flush(&self, patience: Duration) -> bool {
        self.drain.write_summaries();
        self.sink().flush(patience)
    }
}
