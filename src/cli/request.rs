//! The request that a command line makes. Types only.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use crate::config::spec::CommandLine;
use crate::graph;
use crate::messages::control::{ControlJob, JobOrder, Reload};

/// What the program was called to do. `config` is the flag's value; where it is absent, the
/// environment and the default paths decide ([`super::locate`]).
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// Run the configuration's jobs, and `main` as one more.
    Supervise {
        config: Option<PathBuf>,
        /// The command after `--`.
        main: Option<CommandLine>,
        /// Arguments that are ignored: the CMD of an image of ContainerPilot.
        leftover: Vec<String>,
        record: Option<PathBuf>,
    },
    /// Print or write the rendered configuration.
    Render { config: Option<PathBuf>, destination: Destination },
    /// Report everything that is wrong with the configuration.
    Check {
        config: Option<PathBuf>,
        options: CheckOptions,
        /// The command after `--`, which is one more job.
        main: Option<CommandLine>,
    },
    /// Print the JSON Schema of the configuration.
    Schema,
    /// Ask a running containerpilot through its control socket.
    Client {
        /// Value of `-config`; it says where the socket is.
        config: Option<PathBuf>,
        /// Value of `-socket`, if it is elsewhere.
        socket: Option<PathBuf>,
        request: ClientRequest,
    },
    /// Turn a configuration of ContainerPilot 2 into one of ours.
    Migrate {
        old: PathBuf,
        /// Where the new one goes.
        destination: Destination,
        /// The main application, which version 2 took after its flags.
        main: Option<CommandLine>,
    },
    /// Run the machines of a record again.
    Replay { record: PathBuf },
    /// Print version and git hash.
    Version,
}

/// Where a configuration goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// Our standard output.
    Stdout,
    /// A file, replaced in one step.
    File(PathBuf),
}

/// How `check` judges and prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckOptions {
    /// Warnings count as errors.
    pub strict: bool,
    pub format: Format,
    /// Whether to colour what people read.
    pub color: Color,
}

/// Who reads the output of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for people.
    Human,
    /// JSON for editors, CI and scripts.
    Json,
}

/// Whether to colour text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// One request to a running containerpilot.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientRequest {
    /// Load the configuration again.
    Reload(Reload),
    /// Is it alive?
    Ping,
    /// Enter or leave maintenance.
    Maintenance(Maintenance),
    /// Set variables for jobs started later; `None` unsets.
    PutEnvironment(Vec<(String, Option<String>)>),
    /// Record values of metrics.
    PutMetrics(Vec<(String, f64)>),
    /// Is the container ready, or are these jobs?
    Ready {
        /// The jobs; the whole container if there are none.
        jobs: Vec<String>,
        /// How long to wait for it.
        wait: Option<Duration>,
    },
    /// The state of every job and watch.
    Status {
        /// Only these jobs, if there are any.
        jobs: Vec<String>,
        format: Format,
        /// Stay and draw it again at every change.
        watch: bool,
    },
    /// Why a job is where it is.
    Why { job: String, format: Format },
    /// When jobs are started next.
    When {
        /// Only these jobs, if there are any.
        jobs: Vec<String>,
    },
    /// Shows the graph of dependencies.
    Graph {
        /// As text or as a picture.
        format: graph::Format,
        /// The command after `--`, one more job of the configuration if nothing runs.
        main: Option<CommandLine>,
    },
    /// The stream of events.
    Events {
        /// Replay those after this sequence number first.
        since: Option<u64>,
        /// Stay and print new ones.
        follow: bool,
    },
    /// The last output of jobs.
    Logs {
        /// These jobs; all if there are none.
        jobs: Vec<String>,
        /// Stay and print new lines.
        follow: bool,
        /// At most so many lines.
        lines: usize,
        /// Nothing older than this duration.
        since: Option<String>,
    },
    /// Shows the last failures.
    Crashes {
        /// Of this job; of all if there is none.
        job: Option<String>,
        format: Format,
    },
    /// Everything that helps to understand a problem.
    Report {
        /// The file; `-` is stdout.
        out: Option<PathBuf>,
    },
    /// Act on one job by hand.
    Job(ControlJob),
    /// Start, stop or restart jobs by hand.
    Orders {
        names: Vec<String>,
        order: JobOrder,
        /// How long to wait until it is done; `None` does not wait.
        wait: Option<Duration>,
    },
}

/// The two directions of maintenance mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Maintenance {
    /// Health checks stop and services are deregistered.
    Enable,
    /// Back to normal.
    Disable,
}
