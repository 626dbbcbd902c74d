//! The configuration as users write it: one `Raw…` type per object, one documented field per key. The
//! documentation of a field is its description in the JSON Schema, which is derived from these types.
//! Whether the values make sense together is decided in [`super::validate`].

mod field;
mod group;
mod job;
mod scalar;
mod section;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

pub use field::{Dictionary, Field, List, OneOrMany, Opt};
pub use group::RawGroup;
pub use job::{
    RawBackoff, RawCheck, RawCommand, RawCoprocess, RawHttp, RawHttpRequest, RawJob, RawJobConsul,
    RawJobOutput, RawOutput, RawReady, RawRestartRule, RawRestarts, RawRlimit, RawRlimitPair, RawTerm,
    RawVariable, RawVariableFile, RawWhen, RawWhenRule,
};
pub use scalar::{
    Ending, EventName, Flag, LimitValue, Mode, Port, Real, Restarts, Scalar, Size, StopTime, Time, Whole,
};
pub use section::{
    RawConsul, RawConsulSettings, RawControl, RawLevel, RawLogging, RawMetric, RawScheme, RawTelemetry,
    RawTls, RawWatch,
};

/// The configuration of containerpilot, a JSON5 file: jobs and when they run, how they are checked,
/// advertised and logged.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[cfg_attr(test, schemars(title = "containerpilot configuration"))]
pub struct RawConfig {
    /// How to reach Consul. Without it nothing is advertised or watched.
    pub consul: Opt<RawConsul>,
    /// Level, format and destination of the log.
    pub logging: Opt<RawLogging>,
    /// The processes to run, each with the rule for when it runs.
    pub jobs: Opt<List<RawJob>>,
    /// Long-running processes that are secondary to the jobs: they never keep the container alive.
    pub coprocesses: Opt<List<RawCoprocess>>,
    /// Jobs that are restarted together.
    pub groups: Opt<List<RawGroup>>,
    /// Services and keys to observe in Consul.
    pub watches: Opt<List<RawWatch>>,
    /// The control socket.
    pub control: Opt<RawControl>,
    /// Metrics and their HTTP endpoint.
    pub telemetry: Opt<RawTelemetry>,
    /// How long a shutdown may take before everything left is killed; -1 kills at once. Default 5s or, if longer, the
    /// longest `stopTimeout`, `drain` and `killTimeout` together that a job asks for.
    pub stop_timeout: Opt<StopTime>,
    /// Signals that shut down as SIGTERM does, beside SIGINT, SIGQUIT and SIGRTMIN+3: the STOPSIGNAL of an image,
    /// for example `["SIGWINCH"]` for httpd.
    pub shutdown_signals: Opt<OneOrMany<Scalar>>,
    /// Environment variables for every job; null unsets one, `{file: "/path"}` reads it from a file at each start.
    pub env: Opt<Dictionary<Option<RawVariable>>>,
    /// The schema with which an editor checks this file; it changes nothing.
    #[serde(rename = "$schema")]
    pub schema: Opt<String>,
}
