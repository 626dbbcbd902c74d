//! Logging, control socket, telemetry and the budget of a shutdown.

use std::path::PathBuf;
use std::sync::Arc;

use super::advertise::{address, selectors, strings};
use super::context::{Context, value};
use super::{ControlPlaces, DEFAULT_STOP_BUDGET, Places};
use crate::config::diagnostic::Problem;
use crate::config::merge::Named;
use crate::config::raw::{
    Field, RawControl, RawLevel, RawLogFormat, RawLogging, RawMetric, RawMetricKind, RawTelemetry, StopTime,
};
use crate::config::spec::{
    ControlSpec, JobSpec, LogFormat, LogLevel, LogOutput, LoggingSpec, MetricKind, MetricSpec, StopBudget,
    TelemetrySpec,
};

/// Where the control socket is if nothing else is said.
pub(in crate::config) const DEFAULT_SOCKET: &str = "/var/run/containerpilot.socket";

/// Its permission bits if nothing else is said.
pub(in crate::config) const DEFAULT_MODE: u32 = 0o600;

/// The kernel's room for the path of a unix socket, its terminator not included.
const LONGEST_SOCKET_PATH: usize = 107;

const DEFAULT_TELEMETRY_PORT: u16 = 9090;

pub(super) fn logging(context: &mut Context<'_>, field: Option<&Field<RawLogging>>) -> LoggingSpec {
    let default = LoggingSpec::default();
    let Some(raw) = field.and_then(|field| field.value.as_ref()) else { return default };
    LoggingSpec {
        level: value(&raw.level).map_or(default.level, |level| match level {
            RawLevel::Debug => LogLevel::Debug,
            RawLevel::Info => LogLevel::Info,
            RawLevel::Warn | RawLevel::Warning => LogLevel::Warn,
            RawLevel::Error => LogLevel::Error,
            RawLevel::Fatal => LogLevel::Fatal,
            RawLevel::Panic => LogLevel::Panic,
        }),
        format: value(&raw.format).map_or(default.format, |format| match format {
            RawLogFormat::Default => LogFormat::Default,
            RawLogFormat::Text => LogFormat::Text,
            RawLogFormat::Json => LogFormat::Json,
        }),
        output: raw
            .output
            .as_ref()
            .and_then(|field| Some(log_output(context, field, field.value.as_deref()?)))
            .unwrap_or(default.output),
    }
}

fn log_output(context: &mut Context<'_>, field: &Field<String>, text: &str) -> LogOutput {
    // In any case, as ContainerPilot takes them.
    if text.eq_ignore_ascii_case("stdout") {
        return LogOutput::Stdout;
    } else if text.eq_ignore_ascii_case("stderr") {
        return LogOutput::Stderr;
    }
    let path = PathBuf::from(text);
    if context.no_nul(format_args!("logging.output"), field, text) {
        // The log is opened before any job runs that could make the directory.
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if path.is_dir() {
            let message = format!("logging.output: expected a file, found the directory {text:?}");
            context.error("wrong-value", field.span, message);
        } else if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
            let reason = if directory.exists() { "is not a directory" } else { "does not exist" };
            let message = format!("logging.output: {directory:?} {reason}");
            context.error("missing-directory", field.span, message);
        }
    }
    LogOutput::File(path)
}

pub(super) fn control(
    context: &mut Context<'_>,
    field: Option<&Field<RawControl>>,
    places: &mut Places,
) -> ControlSpec {
    let raw = field.and_then(|field| field.value.as_ref());
    let socket = raw.and_then(|raw| raw.socket.as_ref());
    let mode = raw.and_then(|raw| raw.mode.as_ref());
    places.control =
        ControlPlaces { socket: socket.map(|field| field.span), mode: mode.map(|field| field.span) };
    if let Some(field) = socket
        && let Some(path) = &field.value
        && path.len() > LONGEST_SOCKET_PATH
    {
        let message = format!(
            "control.socket: expected a path of at most {LONGEST_SOCKET_PATH} bytes, found {}",
            path.len()
        );
        context.error("out-of-range", field.span, message);
    }
    ControlSpec {
        socket: socket.and_then(|field| field.value.as_deref()).unwrap_or(DEFAULT_SOCKET).into(),
        mode: raw.and_then(|raw| value(&raw.mode)).map_or(DEFAULT_MODE, |mode| mode.0 & 0o777),
    }
}

/// The budget of a shutdown; unless one is given, every job has the time that it asks for.
pub(super) fn stop_budget(
    field: Option<&Field<StopTime>>,
    jobs: &[Arc<JobSpec>],
    places: &mut Places,
) -> StopBudget {
    match field.and_then(|field| Some((field.span, field.value?))) {
        Some((_, StopTime::Never)) => StopBudget::Immediate,
        // ContainerPilot cannot tell 0 from absent.
        Some((span, StopTime::Within(time))) if !time.is_zero() => {
            places.stop_timeout = Some(span);
            StopBudget::Within(time)
        }
        Some((_, StopTime::Within(_))) | None => {
            let longest = jobs.iter().map(|job| job.stop.asks_for()).max().unwrap_or_default();
            StopBudget::Within(longest.max(DEFAULT_STOP_BUDGET))
        }
    }
}

pub(super) fn telemetry(
    context: &mut Context<'_>,
    field: Option<&Field<RawTelemetry>>,
    places: &mut Places,
) -> Option<TelemetrySpec> {
    let field = field?;
    places.telemetry = Some(field.key);
    let raw = field.value.as_ref()?;
    let metrics = value(&raw.metrics)
        .into_iter()
        .flat_map(|list| &list.0)
        .filter_map(|entry| metric(context, entry))
        .collect();
    if let Some(port) = raw.port.as_ref().filter(|port| port.value.is_some_and(|port| port.0 == 0)) {
        let message = "telemetry.port: expected a port number from 1 to 65535, found 0";
        context.error("out-of-range", port.span, message.to_owned());
    }
    let place = raw.interfaces.as_ref().map_or(field.key, |interfaces| interfaces.span);
    let selectors = selectors(context, &"telemetry", raw.interfaces.as_deref());
    Some(TelemetrySpec {
        port: value(&raw.port).map_or(DEFAULT_TELEMETRY_PORT, |port| port.0),
        address: address(context, &"telemetry", place, &selectors?)?,
        tags: strings(&raw.tags),
        metrics,
    })
}

fn metric(context: &mut Context<'_>, entry: &Field<RawMetric>) -> Option<MetricSpec> {
    let raw = entry.value.as_ref()?;
    let path = format!("telemetry.metrics[{}]", entry.index);
    let unreadable =
        [&raw.namespace, &raw.subsystem, &raw.name].into_iter().flatten().any(|part| part.value.is_none());
    let full_name = raw.identity();
    match &full_name {
        Some(name) if !is_metric_name(name) => {
            let message = format!("{path}: {name:?} is not the name of a metric");
            context.add(
                Problem::error("bad-name", raw.name_span().unwrap_or(entry.span), message)
                    .help("names consist of letters, digits, `_` and `:`, and start with no digit"),
            );
        }
        None if !unreadable => {
            context.error("missing-name", entry.span, format!("{path}: expected a `name`"));
        }
        Some(_) | None => {}
    }
    if raw.kind.is_none() {
        let message =
            format!("{path}: expected `type` with \"counter\", \"gauge\", \"histogram\" or \"summary\"");
        context.error("missing-type", entry.span, message);
    }
    Some(MetricSpec {
        full_name: full_name?.into_owned(),
        help: value(&raw.help).cloned().unwrap_or_default(),
        kind: match value(&raw.kind)? {
            RawMetricKind::Counter => MetricKind::Counter,
            RawMetricKind::Gauge => MetricKind::Gauge,
            RawMetricKind::Histogram => MetricKind::Histogram,
            RawMetricKind::Summary => MetricKind::Summary,
        },
    })
}

fn is_metric_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || byte == b':';
    name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
        && !name.starts_with(|first: char| first.is_ascii_digit())
}
