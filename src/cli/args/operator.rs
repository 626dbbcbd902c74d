//! The arguments of the commands that ask about jobs or control them.

use std::time::Duration;

use clap::Args;

use super::value::duration;
use crate::cli::request::{ClientRequest, Format};
use crate::graph;
use crate::messages::control::JobOrder;

// None has a documentation comment: it would take the place of the command's description.

#[derive(Debug, Args)]
pub(super) struct StatusArguments {
    /// Only these jobs
    #[arg(value_name = "JOB")]
    jobs: Vec<String>,
    /// Stay, and draw it again at every change
    #[arg(long, conflicts_with = "format")]
    watch: bool,
    /// For people or for programs
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
}

impl StatusArguments {
    pub(super) fn request(self) -> ClientRequest {
        let Self { jobs, watch, format } = self;
        ClientRequest::Status { jobs, format, watch }
    }
}

// `start`, `stop` and `restart`.
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

#[derive(Debug, Args)]
pub(super) struct WhenArguments {
    /// Only these jobs
    #[arg(value_name = "JOB")]
    pub(super) jobs: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct WhyArguments {
    /// Name of the job
    #[arg(value_name = "JOB")]
    pub(super) job: String,
    /// For people or for programs
    #[arg(long, value_enum, default_value_t = Format::Human)]
    pub(super) format: Format,
}

#[derive(Debug, Args)]
pub(super) struct GraphArguments {
    /// For people, for Graphviz, for Markdown, as a picture, or for programs
    #[arg(long = "format", value_enum, default_value_t = graph::Format::Text)]
    pub(super) graph_format: graph::Format,
    /// The command that will run too, as the job `main`; a running containerpilot knows its own
    #[arg(last = true, value_name = "CMD")]
    pub(super) main: Option<Vec<String>>,
}
