//! Logging, control socket, telemetry and the budget of a shutdown.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::advertise::{address, selectors, strings};
use super::context::{Context, span, value};
use super::{ControlSpans, DEFAULT_STOP_BUDGET};
use crate::config::diagnostic::Problem;
use crate::config::merge::Named;
use crate::config::raw::{Field, Opt, RawControl, RawLevel, RawLogging, RawMetric, RawTelemetry, StopTime};
use crate::config::series;
use crate::config::source::Span;
use crate::config::spec::{
    ControlSpec, JobSpec, LogLevel, LogOutput, LoggingSpec, MetricSpec, PageSpec, StopBudget, TelemetrySpec,
};

/// Where the control socket is if nothing else is said.
pub(in crate::config) const DEFAULT_SOCKET: &str = "/var/run/containerpilot.socket";

/// Its permission bits if nothing else is said.
pub(in crate::config) const DEFAULT_MODE: u32 = 0o600;

/// The kernel's room for the path of a unix socket, its terminator not included.
const LONGEST_SOCKET_PATH: usize = 107;

const DEFAULT_TELEMETRY_PORT: u16 = 9090;

pub(super) fn logging(context: &mut Context<'_>, field: &Opt<RawLogging>) -> LoggingSpec {
    let default = LoggingSpec::default();
    let Some(raw) = value(field) else { return default };
    LoggingSpec {
        level: value(&raw.level).map_or(default.level, |level| match level {
            RawLevel::Debug => LogLevel::Debug,
            RawLevel::Info => LogLevel::Info,
            RawLevel::Warn | RawLevel::Warning => LogLevel::Warn,
            RawLevel::Error => LogLevel::Error,
            RawLevel::Fatal => LogLevel::Fatal,
            RawLevel::Panic => LogLevel::Panic,
        }),
        format: value(&raw.format).copied().unwrap_or(default.format),
        output: raw.output.as_ref().and_then(|field| log_output(context, field)).unwrap_or(default.output),
        keep: value(&raw.keep).map_or(default.keep, |size| size.0),
    }
}

fn log_output(context: &mut Context<'_>, field: &Field<String>) -> Option<LogOutput> {
    let text = field.value.as_ref()?;
    // In any case, as ContainerPilot takes them.
    if text.eq_ignore_ascii_case("stdout") {
        return Some(LogOutput::Stdout);
    } else if text.eq_ignore_ascii_case("stderr") {
        return Some(LogOutput::Stderr);
    }
    let path = Path::new(text);
    if context.no_nul("logging.output", field.span, text) {
        if path.is_dir() {
            let message = format!("logging.output: expected a file, found the directory {text:?}");
            context.error("wrong-value", field.span, message);
        } else {
            refuse_missing_directory(context, "logging.output", field.span, path);
        }
    }
    Some(LogOutput::File(PathBuf::from(text)))
}

/// Refuses a file in a directory that does not exist. The log and the control socket are opened before any job runs that
/// could make the directory.
fn refuse_missing_directory(context: &mut Context<'_>, name: &str, span: Span, file: &Path) {
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
        let reason = if directory.exists() { "is not a directory" } else { "does not exist" };
        context.error("missing-directory", span, format!("{name}: {directory:?} {reason}"));
    }
}

pub(super) fn control(context: &mut Context<'_>, field: &Opt<RawControl>) -> ControlSpec {
    let raw = value(field).cloned().unwrap_or_default();
    context.places.control = ControlSpans { socket: span(&raw.socket), mode: span(&raw.mode) };
    let socket = value(&raw.socket).map_or(DEFAULT_SOCKET, String::as_str);
    if let (Some(place), Some(socket)) = (span(&raw.socket), value(&raw.socket)) {
        control_socket(context, place, socket);
    }
    ControlSpec { socket: socket.into(), mode: value(&raw.mode).map_or(DEFAULT_MODE, |mode| mode.0 & 0o777) }
}

/// Refuses a path where the program could not make its control socket.
fn control_socket(context: &mut Context<'_>, span: Span, socket: &str) {
    if socket.len() > LONGEST_SOCKET_PATH {
        let message = format!(
            "control.socket: expected a path of at most {LONGEST_SOCKET_PATH} bytes, found {}",
            socket.len()
        );
        return context.error("out-of-range", span, message);
    }
    if !context.no_nul("control.socket", span, socket) {
        return;
    }
    // As when it is made: a socket or a symbolic link is replaced, anything else is left alone.
    match fs::symlink_metadata(socket) {
        Ok(found) if !found.file_type().is_socket() && !found.is_symlink() => {
            let what = if found.is_dir() { "directory" } else { "file" };
            let message =
                format!("control.socket: expected the path of a socket, found the {what} {socket:?}");
            context.error("wrong-value", span, message);
        }
        Ok(_) => {}
        Err(_) => refuse_missing_directory(context, "control.socket", span, Path::new(socket)),
    }
}

/// The budget of a shutdown; unless one is given, every job has the time that it asks for.
pub(super) fn stop_budget(
    context: &mut Context<'_>,
    field: &Opt<StopTime>,
    jobs: &[Arc<JobSpec>],
) -> StopBudget {
    match value(field).map(|time| time.0) {
        Some(StopBudget::Immediate) => StopBudget::Immediate,
        // ContainerPilot cannot tell 0 from absent.
        Some(StopBudget::Within(time)) if !time.is_zero() => {
            context.places.stop_timeout = span(field);
            StopBudget::Within(time)
        }
        Some(StopBudget::Within(_)) | None => {
            let longest = jobs.iter().map(|job| job.stop.asks_for()).max().unwrap_or_default();
            StopBudget::Within(longest.max(DEFAULT_STOP_BUDGET))
        }
    }
}

pub(super) fn telemetry(context: &mut Context<'_>, field: &Opt<RawTelemetry>) -> Option<TelemetrySpec> {
    let field = field.as_ref()?;
    let raw = field.value.as_ref()?;
    context.within("telemetry", |context| {
        let metrics = value(&raw.metrics).into_iter().flatten();
        let metrics = metrics.filter_map(|entry| Some((entry, metric(context, entry)?)));
        let metrics: Vec<_> = metrics.collect();
        let metrics = apart(context, metrics);
        if let Some(port) = raw.port.as_ref().filter(|port| port.value.is_some_and(|port| port.0 == 0)) {
            let message = ".port: expected a port number from 1 to 65535, found 0";
            context.error("out-of-range", port.span, message);
        }
        let selectors = selectors(context, &raw.interfaces);
        Some(TelemetrySpec {
            port: value(&raw.port).map_or(DEFAULT_TELEMETRY_PORT, |port| port.0),
            address: address(context, span(&raw.interfaces).unwrap_or(field.key), &selectors?)?,
            tags: strings(&raw.tags),
            metrics,
            page: value(&raw.page).map_or(PageSpec::Off, |page| page.0),
        })
    })
}

fn metric(context: &mut Context<'_>, entry: &Field<RawMetric>) -> Option<MetricSpec> {
    let raw = entry.value.as_ref()?;
    let full_name = raw.identity();
    context.within(format_args!(".metrics[{}]", entry.index), |context| {
        let unreadable = [&raw.namespace, &raw.subsystem, &raw.name]
            .into_iter()
            .flatten()
            .any(|part| part.value.is_none());
        match &full_name {
            Some(name) if !is_metric_name(name) => {
                let message = format!(": {name:?} is not the name of a metric");
                context.add(
                    Problem::error("bad-name", raw.name_span().unwrap_or(entry.span), message)
                        .help("names consist of letters, digits, `_` and `:`, and start with no digit"),
                );
            }
            None if !unreadable => context.error("missing-name", entry.span, ": expected a `name`"),
            Some(_) | None => {}
        }
        if raw.kind.is_none() {
            let message = ": expected `type` with \"counter\", \"gauge\", \"histogram\" or \"summary\"";
            context.error("missing-type", entry.span, message);
        }
    });
    Some(MetricSpec {
        full_name: full_name?.into_owned(),
        help: value(&raw.help).cloned().unwrap_or_default(),
        kind: *value(&raw.kind)?,
    })
}

/// The metrics. Reports those that would write series of the same name, which no reader of `/metrics` accepts.
fn apart(context: &mut Context<'_>, metrics: Vec<(&Field<RawMetric>, MetricSpec)>) -> Vec<MetricSpec> {
    let mut takers: HashMap<String, (String, Span)> = HashMap::new();
    let mut apart = Vec::new();
    for (entry, spec) in metrics {
        let place = entry.value.as_ref().and_then(Named::name_span).unwrap_or(entry.span);
        for series in series::names(&spec.full_name, spec.kind) {
            let (other, its_place) =
                takers.entry(series.clone()).or_insert_with(|| (spec.full_name.clone(), place));
            // Two of the same name are reported for each file, before files are merged.
            if *other == spec.full_name {
                continue;
            }
            let message = format!(
                ".metrics[{}]: {:?} and {other:?} would both be exposed as {series:?}",
                entry.index, spec.full_name
            );
            let problem = Problem::error("duplicate-name", place, message);
            context.add(problem.related(*its_place, "the other metric"));
            break;
        }
        context.places.metrics.push(place);
        apart.push(spec);
    }
    apart
}

fn is_metric_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || byte == b':';
    name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
        && !name.starts_with(|first: char| first.is_ascii_digit())
}
