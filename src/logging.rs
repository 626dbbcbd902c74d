//! The log. Our own records come through slog (`drain`), the output of children through epoll and one formatter per
//! stream (`child`, `lines`). Both are written in one of three formats (`format`) into a bounded buffer (`sink`)
//! that a thread writes out (`writer`). The end of the output of each job is also kept in memory (`kept`).
//!
//! slog's own drains were weighed and measured with lines of children: slog-term 39 MB/s, slog-async 52 MB/s (and it
//! drops records), slog with a locked line writer 100 MB/s; this path about 1,000 MB/s.

mod child;
mod drain;
mod escape;
mod format;
mod held;
mod json;
mod kept;
mod line_watch;
mod lines;
mod logfmt;
mod output;
mod repeat;
mod settings;
mod sink;
mod time;
mod writer;

use std::io;
use std::sync::Arc;
use std::time::Duration;

pub use child::{ChildOutput, ChildStream};
pub use kept::{Cursor, Keep, KeptOutput, Wanted};
pub use line_watch::LineWatch;
pub use lines::{Label, LineFormatter, OutputStream};
pub use settings::Settings;
#[cfg(test)]
pub use sink::simulated::SimulatedWriter;
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

/// The log of a new configuration: its output is open, but not in use yet.
#[derive(Debug)]
pub struct PreparedLog {
    /// The new output; `None` if the output stays the same.
    output: Option<Output>,
    spec: LoggingSpec,
}

impl Log {
    /// Opens the log that a configuration asks for; an error names the file.
    pub fn open(spec: &LoggingSpec) -> io::Result<Self> {
        Ok(Self::over(LogSink::open(&spec.output, Settings::new(spec.level, spec.format))?))
    }

    /// A log whose writer is a test. Our own records are not written: how often one repeats depends on the real time.
    #[cfg(test)]
    pub fn simulated(bound: usize, margin: usize) -> (Self, SimulatedWriter) {
        let spec = LoggingSpec::default();
        let settings = Settings::new(spec.level, spec.format);
        let (sink, writer) = sink::simulated::sink(spec.output, settings, bound, margin);
        let log = Self { logger: slog::Logger::root(slog::Discard, slog::o!()), ..Self::over(sink) };
        (log, writer)
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

    /// Opens the output of a new configuration; nothing changes before [`adopt`](Self::adopt). An error names the file.
    pub fn prepare(&self, spec: &LoggingSpec) -> io::Result<PreparedLog> {
        Ok(PreparedLog { output: self.sink().prepare_output(&spec.output)?, spec: spec.clone() })
    }

    /// Takes over the settings of a new configuration.
    pub fn adopt(&self, prepared: PreparedLog) {
        let PreparedLog { output, spec } = prepared;
        if let Some(output) = output {
            self.sink().use_output(output);
        }
        self.sink().settings().apply(&spec);
    }

    /// Opens a log file again, after everything logged so far.
    pub fn reopen(&self) {
        self.sink().reopen();
    }

    /// Blocks until everything logged so far is written. Gives up, and returns false, if the output accepts nothing for
    /// `patience`, or is not done after ten times that.
    pub fn flush(&self, patience: Duration) -> bool {
        self.drain.write_summaries();
        self.sink().flush(patience)
    }
}
