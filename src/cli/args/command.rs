//! The commands, each with its arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::value::{age, duration, signal};
use crate::cli::request::{ClientRequest, Color, Format};
use crate::graph;
use crate::messages::control::JobOrder;
use crate::messages::signal::Signal;

// `defer`: the flags of a command are made only if that command is given. All of them cost a start 0.9 million instructions, more than half of
// what it needs otherwise.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(super) enum Command {
    /// Report every problem of the configuration; exit 1 if there are errors
    Check {
        /// Exit 1 for warnings too
        #[arg(long)]
        strict: bool,
        /// For people, or for editors and CI
        #[arg(long, value_enum, default_value_t = Format::Human)]
        format: Format,
        /// Colour the report
        #[arg(long, value_enum, default_value_t = Color::Auto)]
        color: Color,
        /// The command that will run too, as the job `main`
        #[arg(last = true, value_name = "CMD")]
        main: Option<Vec<String>>,
    },
    /// Print a JSON Schema of the configuration, for editors
    Schema,
    /// Turn a configuration of ContainerPilot 2 into one of ours, commented where you must decide
    Migrate {
        /// The old configuration
        #[arg(value_name = "OLD")]
        old: PathBuf,
        /// Write to this file instead, in one step ("-" is stdout)
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// The main application, which version 2 took after its flags
        #[arg(last = true, value_name = "CMD")]
        main: Option<Vec<String>>,
    },
    /// Decide again what a record of -record tells, and compare; exit 1 if a decision differs
    Replay {
        /// The record
        #[arg(value_name = "FILE")]
        record: PathBuf,
    },
    /// Show the jobs and watches of a running containerpilot
    Status {
        /// Only these jobs
        #[arg(value_name = "JOB")]
        jobs: Vec<String>,
        /// Stay, and draw it again at every change
        #[arg(long, conflicts_with = "format")]
        watch: bool,
        /// For people or for programs
        #[arg(long, value_enum, default_value_t = Format::Human)]
        format: Format,
    },
    /// Tell why a job runs, waits, is delayed, unhealthy or over, and what to do
    Why {
        /// Name of the job
        #[arg(value_name = "JOB")]
        job: String,
        /// For people or for programs
        #[arg(long, value_enum, default_value_t = Format::Human)]
        format: Format,
    },
    /// Show when jobs are started next, by their schedule or after a delay
    When {
        /// Only these jobs
        #[arg(value_name = "JOB")]
        jobs: Vec<String>,
    },
    /// Show what waits for what; without a running containerpilot, from the configuration alone
    Graph {
        /// For people, for Graphviz, for Markdown, as a picture, or for programs
        #[arg(long, value_name = "GRAPH_FORMAT", value_enum, default_value_t = graph::Format::Text)]
        format: graph::Format,
        /// The command that will run too, as the job `main`; a running containerpilot knows its own
        #[arg(last = true, value_name = "CMD")]
        main: Option<Vec<String>>,
    },
    /// Print the latest events of a running containerpilot
    Events {
        /// Only those after this sequence number
        #[arg(long, value_name = "SEQUENCE")]
        since: Option<u64>,
        /// Stay, and print new ones as they happen
        #[arg(long, short)]
        follow: bool,
    },
    /// Print the last output of jobs, which a running containerpilot keeps in memory
    Logs {
        /// Only of these jobs; without any, of all
        #[arg(value_name = "JOB")]
        jobs: Vec<String>,
        /// Stay, and print new lines as they come
        #[arg(long, short)]
        follow: bool,
        /// The number of lines
        #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = 100)]
        lines: usize,
        /// Only lines of the last time, such as 5m
        #[arg(long, value_name = "DURATION", value_parser = age)]
        since: Option<String>,
    },
    /// Show the last failures of jobs; with a job, all that is known of each
    Crashes {
        /// Only of this job, in full
        #[arg(value_name = "JOB")]
        job: Option<String>,
        /// For people or for programs
        #[arg(long, value_enum, default_value_t = Format::Human)]
        format: Format,
    },
    /// Write all that helps to understand a problem into one archive; secrets of the configuration are masked
    Report {
        /// Write to this file ("-" is stdout); by default to one in the current directory, named after the time
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Start jobs by hand
    Start(OrderArguments),
    /// Stop jobs; they stay stopped until started again
    Stop(OrderArguments),
    /// Stop jobs and start them again
    Restart(OrderArguments),
    /// Send a signal to a job's processes
    Signal {
        /// Name of the job
        #[arg(value_name = "JOB")]
        job: String,
        /// Name or number: SIGHUP, hup, 1, SIGRTMIN+3
        #[arg(value_name = "SIGNAL", value_parser = signal)]
        signal: Signal,
    },
}

// Of `start`, `stop` and `restart`. A documentation comment would take the place of their descriptions.
#[derive(Debug, Args)]
pub(super) struct OrderArguments {
    /// Names of jobs, or group.NAME for all jobs of a group
    #[arg(value_name = "JOB", required = true)]
    jobs: Vec<String>,
    /// Do not wait until it is done
    #[arg(long, conflicts_with = "wait")]
    no_wait: bool,
    /// Wait at most this long; what was ordered goes on
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    wait: Duration,
}

impl OrderArguments {
    pub(super) fn request(self, order: JobOrder) -> ClientRequest {
        let wait = (!self.no_wait).then_some(self.wait);
        ClientRequest::Orders { names: self.jobs, order, wait }
    }
}
