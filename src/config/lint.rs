//! Warnings about settings that are allowed but likely not meant. Lints judge a valid [`Spec`]; those that look at
//! this machine's files are for `check` only, because files may still be made by the time a job starts.

mod daemon;
mod groups;
mod machine;
mod names;
pub(super) mod shell;
mod start;
mod terminal;

use std::time::Duration;

use super::diagnostic::{Place, Problem, Problems};
use super::merge::Shadowed;
use super::series;
use super::source::FileId;
use super::spec::{JobKind, JobSpec, Spec, StopBudget, Trigger};
use super::validate::{JobSpans, SpecSpans, shown};
use crate::messages::moment::WallTime;
pub use machine::lint as lint_machine;

/// When schedules are looked at, the same for all who check a configuration: 2026-01-01 UTC.
const SOME_TIME: i64 = 1_767_225_600;

/// Lints that need nothing but the configuration.
pub fn lint(spec: &Spec, places: &SpecSpans, problems: &mut Problems) {
    nothing_to_run(spec, problems);
    start::lint(spec, places, problems);
    names::lint(spec, places, problems);
    missing_consul(spec, places, problems);
    daemon::lint(spec, places, problems);
    groups::lint(spec, places, problems);
    short_budget(spec, places, problems);
    for (job, place) in spec.jobs.iter().zip(&places.jobs) {
        time_to_live(job, place, problems);
        advertised_interval(job, place, problems);
        schedule(job, place, problems);
        terminal::lint(job, place, problems);
    }
}

/// A job cannot have the time that it asks for if the whole shutdown has less.
fn short_budget(spec: &Spec, places: &SpecSpans, problems: &mut Problems) {
    let (Some(span), StopBudget::Within(budget)) = (places.stop_timeout, spec.stop_timeout) else { return };
    let jobs = spec.jobs.iter().zip(&places.jobs);
    let Some((job, place)) = jobs.rev().max_by_key(|(job, _)| job.stop.asks_for()) else { return };
    let asked = job.stop.asks_for();
    if asked <= budget {
        return;
    }
    let message = format!(
        "stopTimeout: a shutdown has {}, but job {:?} asks for {} to stop",
        shown(budget),
        job.name,
        shown(asked)
    );
    problems.add(
        Problem::warning("short-stop-timeout", span, message)
            .related(place.name, "its `stopTimeout`, `drain` and `killTimeout` together")
            .help(format!("set `stopTimeout` to {:?} or more, or leave it out", shown(asked))),
    );
}

/// A service is registered while its job's process runs: a periodic job would come and go.
fn advertised_interval(job: &JobSpec, place: &JobSpans, problems: &mut Problems) {
    let (Some(_), Some(port)) = (&job.advertise, place.port) else { return };
    let (key, when) = match &job.when.trigger {
        Trigger::Interval(interval) => ("interval", format!("every {}", shown(*interval))),
        Trigger::Cron(cron) => ("cron", format!("at {:?}", cron.text)),
        Trigger::Once(_) | Trigger::Each(_) | Trigger::All(_) | Trigger::Any(_) => return,
    };
    let message = format!("job {:?} runs {when} and is advertised only while it runs", job.name);
    let help = format!("leave `port` out, or `when.{key}` if the job is a server");
    problems.add(Problem::warning("advertised-interval", port, message).help(help));
}

/// A schedule that never comes, or comes again before its random delay is over.
fn schedule(job: &JobSpec, place: &JobSpans, problems: &mut Problems) {
    let Trigger::Cron(cron) = &job.when.trigger else { return };
    let some_time = WallTime::from_seconds(SOME_TIME);
    let runs: Vec<WallTime> =
        std::iter::successors(cron.next(some_time), |run| cron.next(*run)).take(100).collect();
    if runs.is_empty() {
        let message = format!("job {:?} can never start: no day is ever {:?}", job.name, cron.text);
        let span = place.cron.unwrap_or(place.when);
        problems.add(Problem::refused_by_check("never-starts", span, message));
    }
    let gaps = runs.iter().zip(runs.iter().skip(1)).map(|(run, next)| next.since(*run).unsigned_abs());
    let shortest = gaps.min().map(Duration::from_millis);
    if let (Some(span), Some(shortest)) = (place.jitter, shortest.filter(|shortest| cron.jitter >= *shortest))
    {
        let message = format!(
            "job {:?}: a delay of up to {} is not shorter than the {} from one run to the next",
            job.name,
            shown(cron.jitter),
            shown(shortest)
        );
        problems.add(
            Problem::warning("long-jitter", span, message)
                .note("a run that is delayed past the next one replaces it"),
        );
    }
}

/// Lints of a command that is all there is.
pub fn lint_command(spec: &Spec, problems: &mut Problems) {
    daemon::lint(spec, &SpecSpans::default(), problems);
}

fn nothing_to_run(spec: &Spec, problems: &mut Problems) {
    if spec.jobs.iter().any(|job| job.kind == JobKind::Job) {
        return;
    }
    let why = if spec.jobs.is_empty() {
        "the configuration has no jobs"
    } else {
        "there are coprocesses but no jobs, and coprocesses alone keep nothing going"
    };
    let message = format!("there is nothing to run: {why}");
    problems.add(Problem::warning("nothing-to-run", Place::File(FileId::default()), message));
}

/// Metrics that telemetry leaves out, since their names are those of ours. Only for `check`: the program says it itself, at
/// each start and reload.
pub fn lint_metrics(spec: &Spec, places: &SpecSpans, problems: &mut Problems) {
    let metrics = spec.telemetry.iter().flat_map(|telemetry| &telemetry.metrics);
    for (metric, span) in metrics.zip(&places.metrics) {
        if let Some(own) = series::own_taker(&metric.full_name, metric.kind) {
            let message = format!(
                "telemetry.metrics: {} collides with our own metric {own}; yours is left out",
                metric.full_name
            );
            problems.add(Problem::warning("own-metric", *span, message));
        }
    }
}

/// Entries that a later file replaced.
pub fn lint_shadowed(shadowed: &[Shadowed], problems: &mut Problems) {
    for Shadowed { span, what } in shadowed {
        let message = format!("{what} has no effect: a later file replaces it");
        problems.add(Problem::warning("shadowed", *span, message));
    }
}

fn missing_consul(spec: &Spec, places: &SpecSpans, problems: &mut Problems) {
    if spec.consul.is_some() {
        return;
    }
    let help = "add `consul`, such as `consul: \"localhost:8500\"`, or set CONSUL_HTTP_ADDR";
    for (job, place) in spec.jobs.iter().zip(&places.jobs) {
        if let (Some(_), Some(port)) = (&job.advertise, place.port) {
            let message =
                format!("job {:?} has a port but there is no `consul` to advertise it in", job.name);
            problems.add(Problem::warning("missing-consul", port, message).help(help));
        }
    }
    for (watch, span) in spec.watches.iter().zip(&places.watches) {
        let message = format!("watch {:?} sees nothing: there is no `consul` to ask", watch.name);
        problems.add(Problem::warning("missing-consul", *span, message).help(help));
    }
}

fn time_to_live(job: &JobSpec, place: &JobSpans, problems: &mut Problems) {
    let Some(advertise) = &job.advertise else { return };
    let Some(span) = place.ttl else { return };
    if advertise.ttl <= advertise.heartbeat {
        let message = format!(
            "job {:?}: its ttl of {} is not above its heartbeat of {}",
            job.name,
            shown(advertise.ttl),
            shown(advertise.heartbeat)
        );
        problems.add(
            Problem::warning("short-ttl", span, message)
                .help("a ttl of two to three heartbeats keeps the service from being marked critical"),
        );
    }
}
