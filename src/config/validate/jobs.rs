//! Jobs and coprocesses.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use super::context::{Context, shown, time, value};
use super::names::Names;
use super::when::{Resolver, after, sources, startup};
use super::{JobPlaces, Places, advertise, command, execution, health, signals};
use crate::config::diagnostic::Problem;
use crate::config::merge::Named;
use crate::config::raw::{Field, Flag, Opt, RawBackoff, RawConfig, RawCoprocess, RawJob, Real, Restarts};
use crate::config::spec::{BackoffSpec, JobKind, JobSpec, Limit, StopSpec, Trigger, When};
use crate::messages::signal::Signal;

/// The job that coprocesses, and jobs without a `when` beside them, wait for.
pub(in crate::config) const PRE_START: &str = "preStart";

/// Validates all jobs; coprocesses come first.
pub(super) fn validate(
    context: &mut Context<'_>,
    config: &RawConfig,
    names: &Names<'_>,
    at_start: &After,
    incomplete: bool,
    places: &mut Places,
) -> Vec<Arc<JobSpec>> {
    let coprocesses = entries(config.coprocesses.as_deref());
    let jobs = entries(config.jobs.as_deref());
    let mut specs = Vec::new();
    for (field, raw) in coprocesses {
        if let Some((spec, place)) = coprocess(context, field, raw, at_start) {
            specs.push(Arc::new(spec));
            places.jobs.push(place);
        }
    }
    for (field, raw) in jobs {
        let mut resolver = Resolver { context, names, incomplete };
        if let Some((spec, place)) = job(&mut resolver, field, raw, at_start, places) {
            specs.push(Arc::new(spec));
            places.jobs.push(place);
        }
    }
    specs
}

/// What things without a `when` wait for instead of startup.
pub(super) struct After {
    coprocess: Option<Trigger>,
    /// Jobs and watches.
    other: Option<Trigger>,
    /// Jobs and watches that begin at startup regardless, because `preStart` waits for them.
    before: HashSet<String>,
}

impl After {
    pub(super) fn new(config: &RawConfig, names: &Names<'_>) -> Self {
        let has_coprocesses = !entries(config.coprocesses.as_deref()).is_empty();
        let jobs = entries(config.jobs.as_deref());
        let has_pre_start = jobs.iter().any(|(_, job)| job.identity().as_deref() == Some(PRE_START));
        let coprocess = if has_pre_start { names.job(PRE_START).map(|name| after(&name)) } else { None };
        let other = coprocess.clone().filter(|_| has_coprocesses);
        let before = if other.is_some() { before_pre_start(&jobs) } else { HashSet::new() };
        Self { coprocess, other, before }
    }

    fn job(&self, name: Option<&str>) -> Trigger {
        let is_before = name.is_some_and(|name| self.before.contains(name));
        self.other.clone().filter(|_| !is_before).unwrap_or_else(|| Trigger::Once(startup()))
    }

    /// What a watch begins at.
    pub(super) fn watch(&self, name: &str) -> Trigger {
        let qualified = format!("watch.{name}");
        self.job(Some(if self.before.contains(&qualified) { &qualified } else { name }))
    }
}

/// `preStart` and the jobs whose events it waits for, directly or through others.
fn before_pre_start(jobs: &[(&Field<RawJob>, &RawJob)]) -> HashSet<String> {
    let sources: HashMap<Cow<'_, str>, Vec<&str>> = jobs
        .iter()
        .filter_map(|(_, job)| Some((job.identity()?, value(&job.when).map_or_else(Vec::new, sources))))
        .collect();
    let mut before = HashSet::from([PRE_START.to_owned()]);
    let mut open = vec![PRE_START];
    while let Some(name) = open.pop() {
        for source in sources.get(name).into_iter().flatten() {
            let source = source.strip_prefix("check.").unwrap_or(source);
            if before.insert(source.to_owned()) {
                open.push(source);
            }
        }
    }
    before
}

fn entries<T>(field: Option<&Field<crate::config::raw::List<T>>>) -> Vec<(&Field<T>, &T)> {
    let list = field.and_then(|field| field.value.as_ref());
    list.into_iter()
        .flat_map(|list| &list.0)
        .filter_map(|entry| Some((entry, entry.value.as_ref()?)))
        .collect()
}

fn coprocess(
    context: &mut Context<'_>,
    field: &Field<RawCoprocess>,
    raw: &RawCoprocess,
    at_start: &After,
) -> Option<(JobSpec, JobPlaces)> {
    let identity = raw.identity();
    let name = raw.name.as_ref().and(identity.as_deref());
    let path = Label { list: "coprocesses", index: field.index, name };
    let exec = match &raw.command {
        Some(exec) => command::validate(context, format_args!("{path}.command"), exec),
        None => {
            context.error("missing-exec", field.span, format!("{path}: expected a `command`"));
            None
        }
    };
    let trigger = at_start.coprocess.clone().unwrap_or_else(|| Trigger::Once(startup()));
    let spec = JobSpec {
        kind: JobKind::Coprocess,
        when: When { trigger, timeout: None },
        restarts: restarts(value(&raw.restarts).copied(), Limit::Finite(0)),
        ..JobSpec::new(Arc::from(identity?), Some(exec?))
    };
    let name = raw.name_span().unwrap_or(field.span);
    let exec = raw.command.as_ref().map(|exec| exec.span);
    Some((spec, JobPlaces { name, when: name, exec, ..JobPlaces::default() }))
}

fn job(
    resolver: &mut Resolver<'_, '_>,
    field: &Field<RawJob>,
    raw: &RawJob,
    at_start: &After,
    all_places: &mut Places,
) -> Option<(JobSpec, JobPlaces)> {
    let identity = raw.identity();
    let path = Label { list: "jobs", index: field.index, name: identity.as_deref() };
    let when = match &raw.when {
        Some(when) => resolver.when(&path, when),
        None => Some(When { trigger: at_start.job(identity.as_deref()), timeout: None }),
    };
    let context = &mut *resolver.context;
    check_name(context, &path, field, raw);
    let exec = exec(context, &path, field, raw);
    let health = match &raw.health {
        Some(field) => health::validate(context, &path, field, all_places),
        None => health::Health::default(),
    };
    let advertise = advertise::validate(context, &path, raw, &health);
    let execution = execution::validate(context, &path, raw);
    let timeout = context.at_least_1ms(format_args!("{path}.timeout"), raw.timeout.as_deref());
    let stop = stop(context, &path, raw);
    let backoff = raw.backoff.as_ref().map_or_else(Default::default, |field| backoff(context, &path, field));
    let when = when?;
    let interval = if let Trigger::Interval(interval) = when.trigger { Some(interval) } else { None };
    let restarts = job_restarts(context, &path, raw, &when);
    let essential = matches!(value(&raw.essential), Some(Flag(true)));
    // Of a job with an interval, `restarts` is the number of its runs: it is not there to run all the time.
    let runs_always = restarts == Limit::Unlimited && interval.is_none();
    let required = match value(&raw.required) {
        Some(Flag(required)) => *required,
        None => essential || advertise.is_some() || runs_always,
    };
    let places = JobPlaces {
        name: raw.name_span().or(raw.exec.as_ref().map(|exec| exec.span)).unwrap_or(field.span),
        when: raw.when.as_ref().map_or(field.span, |when| when.key),
        exec: raw.exec.as_ref().map(|exec| exec.span),
        port: raw.port.as_ref().map(|port| port.key),
        ttl: health.ttl_span,
        checks: health.commands,
    };
    let spec = JobSpec {
        name: Arc::from(identity?),
        kind: JobKind::Job,
        exec: exec?,
        when,
        restarts,
        timeout: timeout.or(interval),
        stop,
        backoff,
        health: health.checks,
        advertise,
        raw_output: health::raw_output(raw.logging.as_deref()),
        essential,
        required,
        execution,
    };
    Some((spec, places))
}

/// What messages call an entry: `jobs[2] ("app")`.
struct Label<'a> {
    list: &'static str,
    index: usize,
    name: Option<&'a str>,
}

impl Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.list, self.index)?;
        self.name.map_or(Ok(()), |name| write!(f, " ({name:?})"))
    }
}

fn check_name(context: &mut Context<'_>, path: &dyn Display, field: &Field<RawJob>, raw: &RawJob) {
    let is_advertised = value(&raw.port).is_some_and(|port| port.0 != 0);
    match &raw.name {
        Some(name) if is_advertised => check_service_name(context, path, name),
        Some(name) if name.value.as_ref().is_some_and(|name| name.contains(char::is_control)) => {
            let message = format!("{path}.name: a name cannot contain control characters");
            context.error("bad-name", name.span, message);
        }
        None if is_advertised => {
            let message = format!("{path}: an advertised job needs a `name`");
            context.error("missing-name", field.span, message);
        }
        None if raw.exec.is_none() => {
            let message = format!("{path}: expected a `name` and an `exec`");
            context.error("missing-name", field.span, message);
        }
        Some(_) | None => {}
    }
}

/// Consul puts service names into DNS.
pub(super) fn check_service_name(context: &mut Context<'_>, path: &dyn Display, field: &Field<String>) {
    let Some(name) = &field.value else { return };
    let is_valid = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !is_valid {
        let message = format!(
            "{path}.name: expected a lower-case letter followed by letters, digits and `-`, found {name:?}"
        );
        context.error("bad-name", field.span, message);
    }
}

/// `Some(None)`: something else runs the process of this advertised job.
fn exec(
    context: &mut Context<'_>,
    path: &dyn Display,
    field: &Field<RawJob>,
    raw: &RawJob,
) -> Option<Option<crate::config::spec::CommandLine>> {
    let is_advertised = raw.port.as_ref().is_some_and(|port| port.value.is_none_or(|port| port.0 != 0));
    match &raw.exec {
        Some(exec) => command::validate(context, format_args!("{path}.exec"), exec).map(Some),
        None if is_advertised => Some(None),
        None => {
            if raw.name.is_some() {
                let message = format!("{path}: expected an `exec`");
                context.add(
                    Problem::error("missing-exec", field.span, message)
                        .note("only a job with a `port` can do without, if something else runs its process"),
                );
            }
            None
        }
    }
}

fn restarts(raw: Option<Restarts>, default: Limit) -> Limit {
    match raw {
        None => default,
        Some(Restarts::Never) => Limit::Finite(0),
        Some(Restarts::Unlimited) => Limit::Unlimited,
        Some(Restarts::Times(times)) => Limit::Finite(times),
    }
}

fn job_restarts(context: &mut Context<'_>, path: &dyn Display, raw: &RawJob, when: &When) -> Limit {
    if let (Trigger::Each(_), Some(field)) = (&when.trigger, &raw.restarts)
        && field.value == Some(Restarts::Unlimited)
    {
        let message = format!("{path}.restarts: \"unlimited\" cannot be combined with `when.each`");
        context.add(
            Problem::error("unlimited-each", field.span, message)
                .help("`each` runs the job at every event already; remove `restarts`, or use `once`"),
        );
    }
    let default = match when.trigger {
        Trigger::Interval(_) => Limit::Unlimited,
        Trigger::Once(_) | Trigger::Each(_) | Trigger::All(_) | Trigger::Any(_) => Limit::Finite(0),
    };
    restarts(value(&raw.restarts).copied(), default)
}

fn stop(context: &mut Context<'_>, path: &dyn Display, raw: &RawJob) -> StopSpec {
    let signal = raw
        .stop_signal
        .as_ref()
        .and_then(|field| signals::stop(context, &format!("{path}.stopSignal"), field));
    StopSpec {
        wait: time(&raw.stop_timeout),
        drain: time(&raw.drain).unwrap_or_default(),
        signal: signal.unwrap_or(Signal::TERM),
        kill_timeout: time(&raw.kill_timeout),
    }
}

fn backoff(context: &mut Context<'_>, path: &dyn Display, field: &Field<RawBackoff>) -> BackoffSpec {
    let default = BackoffSpec::default();
    let Some(raw) = &field.value else { return default };
    let mut number = |name: &str, field: &Opt<Real>, range: (f64, f64)| {
        let field = field.as_ref()?;
        let number = field.value?.0;
        let (low, high) = range;
        if (low..=high).contains(&number) {
            return Some(number);
        }
        let message =
            format!("{path}.backoff.{name}: expected a number from {low} to {high}, found {number}");
        context.error("out-of-range", field.span, message);
        None
    };
    let factor = number("factor", &raw.factor, (1.0, 1000.0)).unwrap_or(default.factor);
    let jitter = number("jitter", &raw.jitter, (0.0, 1.0)).unwrap_or(default.jitter);
    let min = time(&raw.min).unwrap_or(default.min);
    let max = time(&raw.max).unwrap_or(default.max);
    if min > max && max > Duration::ZERO {
        let place = raw.min.as_ref().map_or(field.span, |min| min.span);
        let message = format!("{path}.backoff: min {} is above max {}", shown(min), shown(max));
        context.error("out-of-range", place, message);
    }
    let reset_after = time(&raw.reset_after).unwrap_or(default.reset_after);
    BackoffSpec { min, max, factor, jitter, reset_after }
}
