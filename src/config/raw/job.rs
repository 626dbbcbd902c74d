//! Jobs, coprocesses and health checks as users write them.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::field::{Dictionary, List, OneOrMany, Opt};
use super::scalar::{
    Ending, EventName, Flag, LimitValue, Mode, Port, Real, Restarts, Scalar, Size, Time, Whole,
};
use super::section::RawTls;
use crate::config::spec::{InitialStatus, OnUnhealthy, RestartOn};

/// A process, the rule for when it runs, how it is checked and how it is advertised.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RawJob {
    /// Its name in events, logs and Consul; by default the executable. Required with `port`, and then
    /// a lower-case letter followed by letters, digits and `-`.
    pub name: Opt<String>,
    /// What to execute: a string, split into words like a shell's but not expanded, or an array.
    pub exec: Opt<RawCommand>,
    /// When to run. By default once, at startup.
    pub when: Opt<RawWhen>,
    /// Jobs that must be ready before it runs; with `when.interval` or `when.cron`, before its clock starts. Short for
    /// `when: {all: [{source: "db", once: "ready"}]}`.
    pub after: Opt<OneOrMany<String>>,
    /// How its process tells that it can be used. Default: it is ready when it is first healthy or, without `health`, when
    /// its program was executed.
    pub ready: Opt<RawReady>,
    /// The longest silence of its process, at least 1ms: it must send `WATCHDOG=1` to `NOTIFY_SOCKET` more often, or it gets
    /// SIGABRT, then SIGKILL after `killTimeout`. Its execution has failed then.
    pub watchdog: Opt<Time>,
    /// How often to restart it when it ends, or a rule. Default "never"; with `when.interval` or `when.cron`, "unlimited".
    pub restarts: Opt<RawRestarts>,
    /// Exit statuses and signals that count as success. Default: 0.
    pub success: Opt<OneOrMany<Ending>>,
    /// The longest run of one execution, at least 1ms; then it is killed. Default: none; with `when.interval`, the interval.
    pub timeout: Opt<Time>,
    /// How long it waits, when told to stop, for the jobs that its `stopping` event started. Default 5s; in a shutdown, what is
    /// left of the top-level `stopTimeout`.
    pub stop_timeout: Opt<Time>,
    /// The signal that asks it to stop. Default SIGTERM.
    pub stop_signal: Opt<Scalar>,
    /// Signals to containerpilot that are passed on to its main process: any but SIGTERM, SIGINT, SIGCHLD, SIGKILL, SIGSTOP,
    /// SIGPIPE, SIGTTIN, SIGTTOU and those that tell of a fault. They then do nothing else, except starting the jobs that wait
    /// for the source "SIGHUP" or "SIGUSR2".
    pub forward: Opt<OneOrMany<Scalar>>,
    /// Gives it our terminal, as a shell would: its input and output, Ctrl-C, Ctrl-Z and the size. One job at most. Default
    /// false.
    pub tty: Opt<Flag>,
    /// How long it has after `stopSignal` before SIGKILL. Default 5s; in a shutdown, what is left of the top-level `stopTimeout`.
    pub kill_timeout: Opt<Time>,
    /// The pause between leaving Consul and `stopSignal`. Default 0.
    pub drain: Opt<Time>,
    /// Delays between restarts.
    pub backoff: Opt<RawBackoff>,
    /// Health checks, one or several; all must pass.
    pub health: Opt<OneOrMany<RawCheck>>,
    /// What to do when it becomes unhealthy. Default "nothing".
    pub on_unhealthy: Opt<OnUnhealthy>,
    /// The port it listens on. Advertises the job in Consul, unless it is 0, and needs `health` or `ready`.
    pub port: Opt<Port>,
    /// Tags in Consul.
    pub tags: Opt<OneOrMany<Scalar>>,
    /// Metadata in Consul, which takes at most 64 entries, keys of up to 128 letters, digits, `_` and `-`, and values of
    /// up to 512 bytes.
    pub meta: Opt<Dictionary<Scalar>>,
    /// Which address to advertise, first match wins: `eth0`, `eth0:inet6`, `eth0[1]`, a network such as
    /// `10.0.0.0/16`, `inet`, `inet6` or `static:192.0.2.1`. Default ["eth0:inet", "inet"].
    pub interfaces: Opt<OneOrMany<String>>,
    /// Registers with this status at once, instead of at the first passing check.
    #[serde(rename = "initial_status")]
    pub initial_status: Opt<InitialStatus>,
    /// Further settings of the registration in Consul.
    pub consul: Opt<RawJobConsul>,
    /// How its output is logged and kept.
    pub logging: Opt<RawJobOutput>,
    /// Ends the container, with this job's status, when the job completes. Default false.
    pub essential: Opt<Flag>,
    /// Whether `/readyz` of telemetry waits for it: it must run, or have succeeded, and pass its checks. Default true for an
    /// essential or advertised job and for one that is restarted without limit, else false.
    pub required: Opt<Flag>,
    /// Environment variables; null unsets one, `{file: "/path"}` reads it from a file at each start.
    pub env: Opt<Dictionary<Option<RawVariable>>>,
    /// Files with lines of `NAME=VALUE`, read at each start; `env` wins over them.
    pub env_file: Opt<OneOrMany<String>>,
    /// The working directory.
    pub cwd: Opt<String>,
    /// The user to run as, a name or number.
    pub user: Opt<Scalar>,
    /// The group to run as, a name or number.
    pub group: Opt<Scalar>,
    /// The file creation mask, in octal digits.
    pub umask: Opt<Mode>,
    /// The scheduling priority, -20 (first) to 19 (last).
    pub nice: Opt<Whole<-20, 19>>,
    /// Resource limits by name, as in setrlimit(2): `{nofile: 1024, core: {soft: 0, hard: "unlimited"}}`.
    pub rlimits: Opt<Dictionary<RawRlimit>>,
    /// How readily the kernel kills it when memory runs out, -1000 to 1000; 200 above ours by default.
    pub oom_score_adj: Opt<Whole<-1000, 1000>>,
    /// Whether it can never gain privileges, for example through setuid programs.
    pub no_new_privileges: Opt<Flag>,
}

/// A long-running process that is secondary to the jobs.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RawCoprocess {
    /// What to execute: a string or an array.
    pub command: Opt<RawCommand>,
    /// Its name in events and logs; by default the command.
    pub name: Opt<String>,
    /// How often to restart it when it ends, or a rule. Default "never".
    pub restarts: Opt<RawRestarts>,
}

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(expecting = "a command, as a string or an array of strings")]
#[cfg_attr(test, schemars(untagged))]
pub enum RawCommand {
    /// One string, split into words like a shell's; quotes and backslashes count, nothing is expanded.
    #[serde(rename = "string")]
    Line(String),
    /// The program and each of its arguments.
    #[serde(rename = "array")]
    Words(Vec<Scalar>),
}

/// How often a job is restarted, or a rule for it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(
    expecting = "a whole number ≥ 0, \"never\", \"unlimited\" or an object such as {limit: 5, on: \"failure\"}"
)]
#[cfg_attr(test, schemars(untagged))]
pub enum RawRestarts {
    /// So often.
    #[serde(rename = "number")]
    Number(Restarts),
    /// So often.
    #[serde(rename = "string")]
    Text(Restarts),
    /// A rule.
    #[serde(rename = "object")]
    Rule(Box<RawRestartRule>),
}

/// After which ends a job is restarted, and how often.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RawRestartRule {
    /// The number of restarts. Default "unlimited".
    pub limit: Opt<Restarts>,
    /// Which ends are followed by a restart. Default "always".
    pub on: Opt<RestartOn>,
    /// Exit statuses and signals that are not followed by a restart.
    pub except: Opt<OneOrMany<Ending>>,
    /// Counts only the restarts of this last time, at least 1ms, so that the limit is a rate. Default all since the event
    /// that started the job.
    pub per: Opt<Time>,
}

/// The value of an environment variable, or the file that has it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(expecting = "a string, number or boolean, null, or an object with `file`")]
#[cfg_attr(test, schemars(untagged))]
pub enum RawVariable {
    /// The value.
    #[serde(rename = "string")]
    Text(Scalar),
    /// The value.
    #[serde(rename = "number")]
    Number(Scalar),
    /// The value.
    #[serde(rename = "bool")]
    Flag(Scalar),
    /// The file that has the value.
    #[serde(rename = "object")]
    File(RawVariableFile),
}

/// The file that has the value of a variable.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RawVariableFile {
    /// The absolute path of the file, at most 128 KiB; one newline at its end is not part of the value.
    pub file: Opt<String>,
}

/// When a job runs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(expecting = "an object such as {source: \"db\", once: \"healthy\"}, or an array of them")]
#[cfg_attr(test, schemars(untagged))]
pub enum RawWhen {
    /// One rule.
    #[serde(rename = "object")]
    Rule(Box<RawWhenRule>),
    /// Once all of these events have happened.
    #[serde(rename = "array")]
    All(List<RawTerm>),
}

/// The event, events or schedule that starts a job: exactly one of `once`, `each`, `interval`, `cron`, `event`,
/// `all` and `any`; or only `source: "SIGHUP"` or `"SIGUSR2"`, which means each such signal.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RawWhenRule {
    /// Whose event: the name of a job or coprocess, `group.NAME`, `watch.NAME`, `check.NAME` (a job's health checks), "SIGHUP" or
    /// "SIGUSR2". Left out for events of the program, such as `startup`.
    pub source: Opt<String>,
    /// Runs the job at the first such event only.
    pub once: Opt<EventName>,
    /// Runs the job at every such event.
    pub each: Opt<EventName>,
    /// "startup": runs the job at startup, as if `when` were absent.
    pub event: Opt<EventName>,
    /// Runs the job at startup and then once per interval, at least 1ms.
    pub interval: Opt<Time>,
    /// With `interval`: whether it runs at startup too, and not first after one interval. Default true.
    pub startup: Opt<Flag>,
    /// Runs the job by a schedule: minute, hour, day of the month, month, day of the week, such as "30 3 * * 1-5". A sixth
    /// field in front is the second. Also @hourly, @daily, @weekly, @monthly and @yearly.
    pub cron: Opt<String>,
    /// With `cron`: the time zone, such as "Europe/Berlin"; "local" is this machine's. Default "UTC".
    pub timezone: Opt<String>,
    /// With `cron`: the longest random delay of each run. Default 0.
    pub jitter: Opt<Time>,
    /// With `cron`: whether one run makes up for those that a pause of the machine left out. Default false.
    pub catch_up: Opt<Flag>,
    /// Runs the job once all of these events have happened.
    pub all: Opt<OneOrMany<RawTerm>>,
    /// Runs the job at the first of these events.
    pub any: Opt<OneOrMany<RawTerm>>,
    /// Gives up if the event has not come within this time of startup.
    pub timeout: Opt<Time>,
}

/// One event to wait for.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RawTerm {
    /// Whose event: the name of a job or coprocess, `group.NAME`, `watch.NAME`, `check.NAME` (a job's health checks), "SIGHUP" or
    /// "SIGUSR2". Left out for events of the program, such as `startup`.
    pub source: Opt<String>,
    /// The event.
    pub once: Opt<EventName>,
}

/// How a process tells that it can be used: one of `notify`, `fd` and `log`, or none of them with `health`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RawReady {
    /// Ready when it, or another process of its group, has sent `READY=1` to `NOTIFY_SOCKET`, as for systemd.
    pub notify: Opt<Flag>,
    /// Ready when a newline was written to this descriptor, as for s6; `CONTAINERPILOT_READY_FD` has the number.
    pub fd: Opt<Whole<3, 255>>,
    /// Ready when a line that it printed matches this regular expression.
    pub log: Opt<String>,
    /// Kills an execution that is not ready in this time, at least 1ms; it has failed then. Default: it has all the time
    /// that it needs.
    pub timeout: Opt<Time>,
}

/// Delays between restarts: none before the first, 100ms before the second, then growing.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RawBackoff {
    /// The shortest delay. Default 0s.
    pub min: Opt<Time>,
    /// The longest delay; 0s turns delays off. Default 30s.
    pub max: Opt<Time>,
    /// Growth from one delay to the next, from 1 to 1000. Default 2.
    pub factor: Opt<Real>,
    /// The random share that is added or taken away, 0 to 1. Default 0.1.
    pub jitter: Opt<Real>,
    /// A run of at least this long starts over. Default 10s.
    pub reset_after: Opt<Time>,
}

/// A health check: one of `exec`, `http` and `tcp`, or none of them. Without any it passes while the job's process
/// runs.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RawCheck {
    /// Its name in logs and status; unique within the job.
    pub name: Opt<String>,
    /// Passes when this command exits with 0.
    pub exec: Opt<RawCommand>,
    /// Passes when this URL answers with a 2xx status.
    pub http: Opt<RawHttp>,
    /// Passes when this `host:port` accepts a connection.
    pub tcp: Opt<String>,
    /// Time between tries, at least 1ms. Default 5s.
    pub interval: Opt<Time>,
    /// How long Consul believes a heartbeat. Default three intervals.
    pub ttl: Opt<Time>,
    /// The longest try, at least 1ms. Default the interval.
    pub timeout: Opt<Time>,
    /// How often a healthy job tells Consul so. Default the interval.
    pub heartbeat: Opt<Time>,
    /// Failures in a row that make the job unhealthy. Default 1.
    pub failures: Opt<Whole<1, 1_000_000>>,
    /// How its output is logged.
    pub logging: Opt<RawOutput>,
}

/// An HTTP check.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(expecting = "a URL such as \"http://127.0.0.1:80/health\", or an object with `url`")]
#[cfg_attr(test, schemars(untagged))]
pub enum RawHttp {
    /// The URL to get.
    #[serde(rename = "string")]
    Url(String),
    /// The request and what its answer should be.
    #[serde(rename = "object")]
    Request(Box<RawHttpRequest>),
}

/// An HTTP request and what its answer should be.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RawHttpRequest {
    /// The URL, with `http://` or `https://`.
    pub url: Opt<String>,
    /// The request method. Default GET.
    pub method: Opt<String>,
    /// The only status that passes. Default any 2xx.
    pub status: Opt<Whole<100, 599>>,
    /// Request headers.
    pub headers: Opt<Dictionary<Scalar>>,
    /// Text that the body must contain. Not with HEAD, whose response has none.
    pub contains: Opt<String>,
    /// TLS settings, used with "https"; without them, what the system trusts is trusted.
    pub tls: Opt<RawTls>,
}

/// How the output of a job is logged and kept.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RawJobOutput {
    /// Whether the process inherits our stdout and stderr untouched; then nothing is kept. Default false.
    pub raw: Opt<Flag>,
    /// How much of its last output is kept in memory for `logs`; "0" keeps nothing. Default `logging.keep`.
    pub keep: Opt<Size>,
}

/// How the output of a process is logged.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RawOutput {
    /// Whether the process inherits our stdout and stderr untouched. Default false.
    pub raw: Opt<Flag>,
}

/// Further settings of a registration in Consul.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RawJobConsul {
    /// Lets other agents change the tags. Default false.
    pub enable_tag_override: Opt<Flag>,
    /// Makes Consul forget the service after it was critical for this long.
    pub deregister_critical_service_after: Opt<Time>,
}

/// A resource limit: a number or "unlimited" for both sides, or each of them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(expecting = "a whole number ≥ 0, \"unlimited\" or an object with `soft` and `hard`")]
#[cfg_attr(test, schemars(untagged))]
pub enum RawRlimit {
    /// Both sides.
    #[serde(rename = "number")]
    Number(LimitValue),
    /// Both sides.
    #[serde(rename = "string")]
    Text(LimitValue),
    /// Each side.
    #[serde(rename = "object")]
    Pair(RawRlimitPair),
}

/// Both sides of a resource limit.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RawRlimitPair {
    /// The limit in force. Default the hard limit.
    pub soft: Opt<LimitValue>,
    /// The highest value to which the process may raise the soft limit. Default the soft limit.
    pub hard: Opt<LimitValue>,
}
