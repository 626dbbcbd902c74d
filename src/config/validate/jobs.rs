//! Jobs and coprocesses.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::context::{Context, is_set, items, key, shown, span, time, value};
use super::names::Names;
use super::when::{self, after, startup};
use super::{
    JobSpans, advertise, after as after_jobs, command, execution, health, ready, restarts, signals, terminal,
};
use crate::config::diagnostic::Problem;
use crate::config::merge::Named;
use crate::config::raw::{Field, List, Opt, RawBackoff, RawConfig, RawCoprocess, RawGroup, RawJob, Real};
use crate::config::spec::{BackoffSpec, CommandLine, JobKind, JobSpec, Limit, StopSpec, Trigger, When};
use crate::messages::signal::Signal;

/// The job that coprocesses, and jobs without a `when` beside them, wait for.
pub(in crate::config) const PRE_START: &str = "preStart";

/// Validates all jobs; coprocesses come first.
pub(super) fn validate(context: &mut Context<'_>, config: &RawConfig) -> Vec<Arc<JobSpec>> {
    let mut specs = Vec::new();
    for (field, raw) in entries(&config.coprocesses) {
        let identity = raw.identity();
        let path = label("coprocesses", field.index, raw.name.as_ref().and(identity.as_deref()));
        specs.extend(context.within(path, |context| coprocess(context, field, raw)).map(Arc::new));
    }
    for (field, raw) in entries(&config.jobs) {
        let path = label("jobs", field.index, raw.identity().as_deref());
        specs.extend(context.within(path, |context| job(context, field, raw)).map(Arc::new));
    }
    specs
}

/// The name of an entry in messages: `jobs[2] ("app")`.
pub(super) fn label(list: &str, index: usize, name: Option<&str>) -> String {
    name.map_or_else(|| format!("{list}[{index}]"), |name| format!("{list}[{index}] ({name:?})"))
}

/// The event that jobs without a `when` wait for instead of startup, and the watches that wait for coprocesses.
pub(super) struct After {
    coprocess: Option<Trigger>,
    job: Option<Trigger>,
    has_coprocesses: bool,
    /// Jobs and watches that begin at startup regardless, because `preStart` waits for them.
    before: HashSet<String>,
}

impl After {
    pub(super) fn new(config: &RawConfig, names: &Names) -> Self {
        let has_pre_start =
            entries(&config.jobs).any(|(_, job)| job.identity().as_deref() == Some(PRE_START));
        let coprocess = if has_pre_start { names.job(PRE_START).map(|name| after(&name)) } else { None };
        let has_coprocesses = entries(&config.coprocesses).next().is_some();
        let job = coprocess.clone().filter(|_| has_coprocesses);
        let before = if job.is_some() { before_pre_start(config) } else { HashSet::new() };
        Self { coprocess, job, has_coprocesses, before }
    }

    fn job(&self, name: Option<&str>) -> Trigger {
        let is_before = name.is_some_and(|name| self.before.contains(name));
        self.job.clone().filter(|_| !is_before).unwrap_or_else(|| Trigger::Once(startup()))
    }

    pub(super) fn is_watch_after_coprocesses(&self, name: &str) -> bool {
        let is_before = self.before.contains(name) || self.before.contains(&format!("watch.{name}"));
        self.has_coprocesses && !is_before
    }
}

/// `preStart` and the jobs whose events it waits for, directly or through others.
fn before_pre_start(config: &RawConfig) -> HashSet<String> {
    let sources: HashMap<Cow<'_, str>, Vec<&str>> =
        entries(&config.jobs).filter_map(|(_, job)| Some((job.identity()?, sources(job)))).collect();
    let mut before = HashSet::from([PRE_START.to_owned()]);
    let mut open = vec![PRE_START];
    while let Some(name) = open.pop() {
        let of_jobs = sources.get(name).into_iter().flatten().copied();
        for source in of_jobs.chain(members(config, name)) {
            let source = source.strip_prefix("check.").unwrap_or(source);
            if before.insert(source.to_owned()) {
                open.push(source);
            }
        }
    }
    before
}

/// The jobs of a group, if that is what the source of an event names.
fn members<'c>(config: &'c RawConfig, source: &str) -> Vec<&'c str> {
    let Some(name) = source.strip_prefix("group.") else { return vec![] };
    let is_it =
        |(_, group): &(&Field<RawGroup>, &'c RawGroup)| value(&group.name).is_some_and(|known| known == name);
    let jobs = entries(&config.groups).find(is_it).map_or(&[][..], |(_, group)| items(&group.jobs));
    jobs.iter().filter_map(|job| job.value.as_deref()).collect()
}

/// Whose events a job waits for.
fn sources(job: &RawJob) -> Vec<&str> {
    let mut sources = value(&job.when).map_or_else(Vec::new, when::sources);
    sources.extend(after_jobs::names(job));
    sources
}

/// The entries of a list that could be read.
pub(super) fn entries<T>(field: &Opt<List<T>>) -> impl Iterator<Item = (&Field<T>, &T)> {
    value(field).into_iter().flatten().filter_map(|entry| Some((entry, entry.value.as_ref()?)))
}

fn coprocess(context: &mut Context<'_>, field: &Field<RawCoprocess>, raw: &RawCoprocess) -> Option<JobSpec> {
    let exec = match &raw.command {
        Some(exec) => command::validate(context, "command", exec),
        None => context.refuse("missing-exec", field.span, ": expected a `command`"),
    };
    let trigger = context.after.coprocess.clone().unwrap_or_else(|| Trigger::Once(startup()));
    let (restarts, restart_rule) = restarts::restarts(context, &raw.restarts, Limit::Finite(0));
    let spec = JobSpec {
        kind: JobKind::Coprocess,
        when: When::new(trigger),
        restarts,
        restart_rule,
        ..JobSpec::new(Arc::from(raw.identity()?), Some(exec?))
    };
    let name = raw.name_span().unwrap_or(field.span);
    let exec = span(&raw.command);
    context.places.jobs.push(JobSpans { name, when: name, exec, ..JobSpans::default() });
    Some(spec)
}

fn job(context: &mut Context<'_>, field: &Field<RawJob>, raw: &RawJob) -> Option<JobSpec> {
    let identity = raw.identity();
    let when = match &raw.when {
        Some(when) => when::validate(context, when),
        None => Some(When::new(context.after.job(identity.as_deref()))),
    };
    let when = after_jobs::validate(context, raw, when);
    check_name(context, field, raw);
    let exec = exec(context, field, raw);
    let health = health::validate(context, &raw.health);
    let ready = ready::validate(context, raw);
    let watchdog = ready::watchdog(context, raw);
    let advertise = advertise::validate(context, raw, &health);
    let execution = execution::validate(context, raw);
    let timeout = context.at_least_1ms("timeout", &raw.timeout);
    let stop = stop(context, raw);
    let backoff = backoff(context, &raw.backoff);
    let trigger = when.as_ref().map(|when| &when.trigger);
    let interval = if let Some(Trigger::Interval(interval)) = trigger { Some(*interval) } else { None };
    // A `when` that is wrong may be meant as a schedule.
    let is_periodic = trigger.is_none_or(Trigger::is_periodic);
    let default_restarts = if is_periodic { Limit::Unlimited } else { Limit::Finite(0) };
    let (restarts, restart_rule) = restarts::restarts(context, &raw.restarts, default_restarts);
    if let Some(trigger) = trigger {
        restarts::check_each(context, raw, trigger, restarts);
    }
    let on_unhealthy = restarts::on_unhealthy(context, raw, &health, restarts);
    let success = restarts::success(context, &raw.success);
    let tty = terminal::validate(context, raw);
    let forward = signals::forward(context, &raw.forward);
    let essential = is_set(&raw.essential);
    // Of a job that the clock starts, `restarts` is the number of its runs: it is not there to run all the time.
    let runs_always = restarts::runs_always(restarts, &restart_rule) && !is_periodic;
    let required = essential || advertise.is_some() || runs_always;
    let spec = JobSpec {
        name: Arc::from(identity?),
        kind: JobKind::Job,
        exec: exec?,
        when: when?,
        ready,
        watchdog,
        restarts,
        restart_rule,
        success,
        on_unhealthy,
        timeout: timeout.or(interval),
        stop,
        backoff,
        health: health.checks,
        advertise: advertise.map(Box::new),
        raw_output: value(&raw.logging).is_some_and(|logging| is_set(&logging.raw)),
        keep: value(&raw.logging).and_then(|logging| value(&logging.keep)).map(|size| size.0),
        tty,
        forward,
        essential,
        required: value(&raw.required).map_or(required, |required| required.0),
        execution,
        group: None,
    };
    let (cron, jitter) = when::schedule_spans(&raw.when);
    context.places.jobs.push(JobSpans {
        name: raw.name_span().or(span(&raw.exec)).unwrap_or(field.span),
        when: key(&raw.when).or(key(&raw.after)).unwrap_or(field.span),
        cron,
        jitter,
        exec: span(&raw.exec),
        port: key(&raw.port),
        ttl: health.ttl_span,
        checks: health.commands,
    });
    Some(spec)
}

fn check_name(context: &mut Context<'_>, field: &Field<RawJob>, raw: &RawJob) {
    let is_advertised = value(&raw.port).is_some_and(|port| port.0 != 0);
    match &raw.name {
        Some(name) if is_advertised => check_service_name(context, name),
        Some(name) if name.value.as_ref().is_some_and(|name| name.contains(char::is_control)) => {
            context.error("bad-name", name.span, ".name: a name cannot contain control characters");
        }
        None if is_advertised => {
            context.error("missing-name", field.span, ": an advertised job needs a `name`");
        }
        None if raw.exec.is_none() => {
            context.error("missing-name", field.span, ": expected a `name` and an `exec`");
        }
        Some(_) | None => {}
    }
}

/// Consul puts service names into DNS.
pub(super) fn check_service_name(context: &mut Context<'_>, field: &Field<String>) {
    let Some(name) = &field.value else { return };
    let is_valid = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !is_valid {
        let message = format!(
            ".name: expected a lower-case letter followed by letters, digits and `-`, found {name:?}"
        );
        context.error("bad-name", field.span, message);
    }
}

/// `Some(None)`: something else runs the process of this advertised job.
fn exec(context: &mut Context<'_>, field: &Field<RawJob>, raw: &RawJob) -> Option<Option<CommandLine>> {
    let is_advertised = raw.port.as_ref().is_some_and(|port| port.value.is_none_or(|port| port.0 != 0));
    match &raw.exec {
        Some(exec) => command::validate(context, "exec", exec).map(Some),
        None if is_advertised => Some(None),
        None if raw.name.is_none() => None,
        None => context.reject(
            Problem::error("missing-exec", field.span, ": expected an `exec`")
                .note("only a job with a `port` can do without, if something else runs its process"),
        ),
    }
}

fn stop(context: &mut Context<'_>, raw: &RawJob) -> StopSpec {
    let signal = raw.stop_signal.as_ref().and_then(|field| signals::stop(context, field));
    StopSpec {
        wait: time(&raw.stop_timeout),
        drain: time(&raw.drain).unwrap_or_default(),
        signal: signal.unwrap_or(Signal::TERM),
        kill_timeout: time(&raw.kill_timeout),
    }
}

fn backoff(context: &mut Context<'_>, field: &Opt<RawBackoff>) -> BackoffSpec {
    let default = BackoffSpec::default();
    let Some((field, raw)) = field.as_ref().zip(value(field)) else { return default };
    let mut number = |name: &str, field: &Opt<Real>, low: f64, high: f64| {
        let field = field.as_ref()?;
        let number = field.value?.0;
        if (low..=high).contains(&number) {
            return Some(number);
        }
        let message = format!(".backoff.{name}: expected a number from {low} to {high}, found {number}");
        context.refuse("out-of-range", field.span, message)
    };
    let factor = number("factor", &raw.factor, 1.0, 1000.0).unwrap_or(default.factor);
    let jitter = number("jitter", &raw.jitter, 0.0, 1.0).unwrap_or(default.jitter);
    let min = time(&raw.min).unwrap_or(default.min);
    let max = time(&raw.max).unwrap_or(default.max);
    if min > max && max > Duration::ZERO {
        let message = format!(".backoff: min {} is above max {}", shown(min), shown(max));
        context.error("out-of-range", span(&raw.min).unwrap_or(field.span), message);
    }
    let reset_after = time(&raw.reset_after).unwrap_or(default.reset_after);
    BackoffSpec { min, max, factor, jitter, reset_after }
}
