//! The validated configuration: what the rest of the program uses. Every value here is in range, every
//! reference resolved, every default filled in. Plain data: no I/O, no parsing.

pub mod backoff;
mod consul;
mod execution;
mod group;
mod logging;
mod readiness;
mod restart;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::schedule::CronSpec;
use crate::masking;
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::job::Missing;
use crate::messages::signal::Signal;
pub use backoff::BackoffSpec;
pub use consul::{
    AdvertiseSpec, ConsulAddress, ConsulSpec, InitialStatus, Secret, TlsSpec, WatchSpec, WatchTarget,
};
pub use execution::{ExecutionSpec, Resource, ResourceLimit, UserSpec, VariableFile};
pub use group::{GroupPlace, GroupSpec, OnExhausted, Strategy};
pub use logging::{LogFormat, LogLevel, LogOutput, LoggingSpec, MOST_KEPT};
pub use readiness::{ReadyBy, ReadySpec};
pub use restart::{EndOfRun, OnUnhealthy, RestartOn, RestartRule};

/// The job that a command after `--` becomes.
pub const MAIN: &str = "main";

/// A whole configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// How to reach Consul; `None`: run without discovery.
    pub consul: Option<ConsulSpec>,
    /// Level, format and destination of the log.
    pub logging: LoggingSpec,
    /// Every job, coprocesses first, else in file order.
    pub jobs: Vec<Arc<JobSpec>>,
    /// Jobs that are restarted together.
    pub groups: Vec<Arc<GroupSpec>>,
    /// Services and keys to observe in Consul.
    pub watches: Vec<WatchSpec>,
    /// The control socket.
    pub control: ControlSpec,
    /// Metrics and their endpoint, if asked for.
    pub telemetry: Option<TelemetrySpec>,
    /// How long the whole shutdown may take.
    pub stop_timeout: StopBudget,
    /// Signals that begin a shutdown, beside those that always do.
    pub shutdown_signals: Vec<Signal>,
    /// Environment changes for every job.
    #[serde(serialize_with = "masking::variables")]
    pub env: Environment,
    /// Variables for every job whose values are in files.
    pub variable_files: Vec<VariableFile>,
}

impl Spec {
    /// The jobs whose checks some job waits for.
    pub fn awaited_checks(&self) -> BTreeSet<Arc<str>> {
        let keys = self.jobs.iter().flat_map(|job| job.when.keys());
        let checked = |key: &EventKey| match &key.source {
            Source::Check(name) => Some(Arc::clone(name)),
            Source::Global | Source::Job(_) | Source::Watch(_) | Source::Group(_) | Source::Signal(_) => None,
        };
        keys.filter_map(checked).collect()
    }
}

/// Changes to an inherited environment, in order: set, or unset where `None`.
pub type Environment = Vec<(String, Option<String>)>;

/// How many times something may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Limit {
    /// At most this many times.
    Finite(u32),
    /// As often as needed.
    Unlimited,
}

/// The time that a shutdown may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopBudget {
    /// Kill everything at once (`-1`).
    Immediate,
    /// Stop politely, then kill what is left after this time.
    Within(Duration),
}

/// One job or coprocess.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Unique among jobs.
    pub name: Arc<str>,
    /// An ordinary job or a coprocess.
    pub kind: JobKind,
    /// What to execute; `None` for an advertised job that something else runs.
    pub exec: Option<CommandLine>,
    /// When to execute it.
    pub when: When,
    /// When an execution of it can be used.
    pub ready: ReadySpec,
    /// The longest silence of its process.
    pub watchdog: Option<Duration>,
    /// Restarts after the first run.
    pub restarts: Limit,
    /// After which ends it is restarted, and how restarts are counted.
    pub restart_rule: RestartRule,
    /// The ends that are a success; never empty.
    pub success: Vec<EndOfRun>,
    /// What follows when it becomes unhealthy.
    pub on_unhealthy: OnUnhealthy,
    /// Longest run of one execution.
    pub timeout: Option<Duration>,
    /// How it is told to stop.
    pub stop: StopSpec,
    /// Delay between restarts.
    pub backoff: BackoffSpec,
    /// Health checks; all must pass.
    pub health: Vec<CheckSpec>,
    /// How it appears in Consul, if it does.
    pub advertise: Option<Box<AdvertiseSpec>>,
    /// The child inherits our stdout and stderr untouched.
    pub raw_output: bool,
    /// How many bytes of its last output are kept in memory; `None`: as many as of every job.
    pub keep: Option<u32>,
    /// The child gets our terminal, if we have one.
    pub tty: bool,
    /// Signals to us that are passed on to its main process.
    pub forward: Vec<Signal>,
    /// When it completes, the program ends with its status.
    pub essential: bool,
    /// It must run and be healthy for the container to be ready.
    pub required: bool,
    /// How its process is executed.
    pub execution: ExecutionSpec,
    /// Its place in a group, if it belongs to one.
    pub group: Option<GroupPlace>,
}

/// What makes a coprocess different from a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobKind {
    /// Keeps the program alive; gets signals and events.
    Job,
    /// Secondary: never keeps the program alive, always restarted by a reload.
    Coprocess,
}

/// A program and its arguments; the program is never empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLine {
    /// A path, or a name looked up in `PATH`.
    pub program: String,
    /// Arguments, the program's own name not included.
    #[serde(serialize_with = "masking::texts")]
    pub args: Vec<String>,
}

/// The rule for when a job runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct When {
    /// What starts it.
    pub trigger: Trigger,
    /// Give up if it has not started within this time of startup.
    pub timeout: Option<Duration>,
    /// The first run of an interval is one interval after startup.
    pub skips_startup: bool,
    /// The clock of an interval or schedule starts once all of these events have happened; if there are none, at startup.
    pub after: Vec<EventKey>,
}

impl When {
    /// The rule of a job that this starts, and nothing else.
    pub const fn new(trigger: Trigger) -> Self {
        Self { trigger, timeout: None, skips_startup: false, after: Vec::new() }
    }

    /// Whether only the clock starts the job: not even startup does.
    pub const fn waits_for_clock(&self) -> bool {
        self.skips_startup || matches!(self.trigger, Trigger::Cron(_))
    }

    /// The events that it names.
    pub fn keys(&self) -> &[EventKey] {
        if self.after.is_empty() { self.trigger.keys() } else { &self.after }
    }

    /// Whether it names an event of others that stop, or of the end of the program.
    pub fn may_follow_an_end(&self) -> bool {
        let is_end =
            |code: EventCode| matches!(code, EventCode::Stopping | EventCode::Stopped | EventCode::Shutdown);
        self.keys().iter().any(|key| is_end(key.code))
    }

    /// The events that begin it. For a job that a timer starts, they start the timer.
    pub fn beginning(&self) -> Trigger {
        if self.after.is_empty() { self.trigger.clone() } else { Trigger::All(self.after.clone()) }
    }
}

/// What starts a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trigger {
    /// The first such event.
    Once(EventKey),
    /// Every such event.
    Each(EventKey),
    /// Once all have happened, in any order.
    All(Vec<EventKey>),
    /// The first of them.
    Any(Vec<EventKey>),
    /// At startup, then every interval.
    Interval(Duration),
    /// Whenever the schedule is due.
    Cron(Arc<CronSpec>),
}

impl Trigger {
    /// Whether it starts its job again and again by the clock.
    pub const fn is_periodic(&self) -> bool {
        matches!(self, Self::Interval(_) | Self::Cron(_))
    }

    /// The events that it names; none for what the clock starts, which startup begins.
    pub fn keys(&self) -> &[EventKey] {
        match self {
            Self::Once(key) | Self::Each(key) => std::slice::from_ref(key),
            Self::All(keys) | Self::Any(keys) => keys,
            Self::Interval(_) | Self::Cron(_) => &[],
        }
    }

    /// The events that are missing at first.
    pub fn first_missing(&self) -> Missing {
        match self {
            Self::Once(key) | Self::Each(key) => Missing::AnyOf(vec![key.clone()]),
            Self::Any(keys) => Missing::AnyOf(keys.clone()),
            Self::All(keys) => Missing::AllOf(keys.clone()),
            Self::Interval(_) | Self::Cron(_) => {
                Missing::AnyOf(vec![EventKey { code: EventCode::Startup, source: Source::Global }])
            }
        }
    }
}

/// How a job is told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopSpec {
    /// Longest wait for the jobs that its `stopping` event started.
    pub wait: Option<Duration>,
    /// Pause between deregistering and the signal.
    pub drain: Duration,
    /// Asks it to stop.
    pub signal: Signal,
    /// How long it then has before SIGKILL; `None`: what is left of the shutdown, else 5 s.
    pub kill_timeout: Option<Duration>,
}

impl StopSpec {
    /// The time that a job asks for to stop: all that it sets for the steps of its end.
    pub fn asks_for(&self) -> Duration {
        let steps = [self.wait.unwrap_or_default(), self.drain, self.kill_timeout.unwrap_or_default()];
        steps.into_iter().fold(Duration::ZERO, Duration::saturating_add)
    }
}

/// One health check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckSpec {
    /// Unique within its job.
    pub name: Arc<str>,
    /// What is tried.
    pub probe: Probe,
    /// Time between tries.
    pub interval: Duration,
    /// Longest try.
    pub timeout: Duration,
    /// Failures in a row that make the job unhealthy, at least 1.
    pub failures: u32,
    /// A probe's process inherits our stdout and stderr untouched.
    pub raw_output: bool,
}

/// How a health check tries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Probe {
    /// Passes when the process exits with 0.
    Exec(Arc<CommandLine>),
    /// Passes when the answer is as expected.
    Http(Arc<HttpProbe>),
    /// Passes when `host:port` accepts a connection.
    Tcp(Arc<str>),
    /// Passes while the job's process runs; for a job that something else runs, always.
    Running,
}

/// An HTTP request and the answer it should get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpProbe {
    /// Absolute `http://` or `https://` URL.
    #[serde(serialize_with = "masking::text")]
    pub url: String,
    /// Request method, upper case.
    pub method: String,
    /// The only status that passes; `None`: any 2xx.
    pub status: Option<u16>,
    /// Request headers.
    #[serde(serialize_with = "masking::values")]
    pub headers: Vec<(String, String)>,
    /// Text that the body must contain.
    pub contains: Option<String>,
    /// TLS settings; used with `https`.
    pub tls: TlsSpec,
}

/// The control socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlSpec {
    /// Path of the unix socket.
    pub socket: PathBuf,
    /// Its permission bits.
    pub mode: u32,
}

/// Metrics and their endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TelemetrySpec {
    /// TCP port of `/metrics` and `/status`.
    pub port: u16,
    /// Address to bind and advertise.
    pub address: IpAddr,
    /// Consul tags of the `containerpilot` service.
    pub tags: Vec<String>,
    /// Metrics that users define.
    pub metrics: Vec<MetricSpec>,
    /// The page for people.
    pub page: PageSpec,
}

/// How much the page for people shows, from nothing to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum PageSpec {
    /// There is none.
    #[default]
    Off,
    /// Jobs, graph, timeline, events and watches.
    Overview,
    /// Also what jobs print, and their crashes.
    Full,
}

/// A metric that users define and set through the control socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricSpec {
    /// Non-empty parts of namespace, subsystem and name, joined with `_`.
    pub full_name: String,
    /// Its explanation for readers.
    pub help: String,
    /// What it counts or measures.
    pub kind: MetricKind,
}

/// The types of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum MetricKind {
    /// Only grows; values are added.
    Counter,
    /// Goes up and down; values are set.
    Gauge,
    /// Values are counted into buckets.
    Histogram,
    /// Values are summed up as quantiles.
    Summary,
}
