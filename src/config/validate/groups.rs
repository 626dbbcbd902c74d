//! Groups of jobs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::context::{Context, key, value};
use super::jobs::{entries, label};
use super::restarts::MOST_WITH_PER;
use crate::config::diagnostic::Problem;
use crate::config::merge::Named;
use crate::config::raw::{Field, List, Opt, RawGroup};
use crate::config::source::Span;
use crate::config::spec::{GroupPlace, GroupSpec, JobKind, JobSpec, Limit, Trigger};
use crate::config::suggest;

/// The most restarts within [`DEFAULT_PER`], if nothing else is given.
const DEFAULT_LIMIT: Limit = Limit::Finite(3);
/// The time within which restarts are counted, if nothing else is given.
const DEFAULT_PER: Duration = Duration::from_secs(30);

/// Validates all groups, and notes in each job which group it belongs to.
pub(super) fn validate(
    context: &mut Context<'_>,
    field: &Opt<List<RawGroup>>,
    jobs: &mut [Arc<JobSpec>],
) -> Vec<Arc<GroupSpec>> {
    let mut groups = Vec::new();
    let mut members = Members { jobs, taken: HashMap::new() };
    for (entry, raw) in entries(field) {
        let path = label("groups", entry.index, raw.identity().as_deref());
        if let Some(group) = context.within(path, |context| group(context, entry, raw, &mut members)) {
            context.places.groups.push(key(&raw.jobs).unwrap_or(entry.span));
            groups.push(Arc::new(group));
        }
    }
    groups
}

/// The jobs, and which of them are in a group already.
struct Members<'a> {
    jobs: &'a mut [Arc<JobSpec>],
    taken: HashMap<Arc<str>, Span>,
}

fn group(
    context: &mut Context<'_>,
    entry: &Field<RawGroup>,
    raw: &RawGroup,
    members: &mut Members<'_>,
) -> Option<GroupSpec> {
    check_name(context, entry, raw);
    let per = context.at_least_1ms("per", &raw.per);
    let limit = limit(context, raw);
    let name: Arc<str> = Arc::from(raw.identity()?);
    let jobs = jobs(context, entry, raw, &name, members)?;
    Some(GroupSpec {
        name,
        jobs,
        strategy: value(&raw.strategy).copied().unwrap_or_default(),
        limit,
        per: per.unwrap_or(DEFAULT_PER),
        on_exhausted: value(&raw.on_exhausted).copied().unwrap_or_default(),
    })
}

fn check_name(context: &mut Context<'_>, entry: &Field<RawGroup>, raw: &RawGroup) {
    let Some(field) = &raw.name else {
        return context.error("missing-name", entry.span, ": expected a `name`");
    };
    let Some(name) = &field.value else { return };
    if name.contains(|letter: char| letter.is_control() || letter.is_whitespace()) {
        let message = format!(".name: expected a name without spaces, found {name:?}");
        context.error("bad-name", field.span, message);
    }
}

fn limit(context: &mut Context<'_>, raw: &RawGroup) -> Limit {
    let limit = value(&raw.limit).map_or(DEFAULT_LIMIT, |limit| limit.0);
    match (limit, &raw.limit) {
        (Limit::Finite(number), Some(field)) if number > MOST_WITH_PER => {
            let message =
                format!(".limit: expected at most {MOST_WITH_PER}, or \"unlimited\", found {number}");
            context.error("out-of-range", field.span, message);
        }
        (Limit::Unlimited, _) => {
            let unused = [("per", key(&raw.per)), ("onExhausted", key(&raw.on_exhausted))];
            context.no_effect(&unused, "without a `limit`");
        }
        (Limit::Finite(_), _) => {}
    }
    limit
}

/// The members, each of which is told its place.
fn jobs(
    context: &mut Context<'_>,
    entry: &Field<RawGroup>,
    raw: &RawGroup,
    group: &Arc<str>,
    members: &mut Members<'_>,
) -> Option<Vec<Arc<str>>> {
    let Some(field) = &raw.jobs else {
        return context.refuse("missing-jobs", entry.span, ": expected `jobs`, a list of names");
    };
    let list = &field.value.as_ref()?.0;
    if list.is_empty() {
        return context.refuse("missing-jobs", field.span, ".jobs: expected at least one job, found none");
    }
    let mut names: Vec<Arc<str>> = Vec::new();
    let mut here: HashSet<&str> = HashSet::new();
    let mut complete = true;
    for field in list {
        let found = field.value.as_deref().and_then(|text| {
            context.within(format_args!(".jobs[{}]", field.index), |context| {
                if !here.insert(text) {
                    return context.refuse(
                        "duplicate-job",
                        field.span,
                        format!(": {text:?} is listed twice"),
                    );
                }
                member(context, field.span, text, members)
            })
        });
        match found {
            Some(job) => {
                job.group = Some(GroupPlace { group: Arc::clone(group), after: names.clone() });
                names.push(job.name.clone());
            }
            None => complete = false,
        }
    }
    complete.then_some(names)
}

/// A job that may be in a group, and is in no other.
fn member<'a>(
    context: &mut Context<'_>,
    span: Span,
    name: &str,
    members: &'a mut Members<'_>,
) -> Option<&'a mut JobSpec> {
    let Some(job) = members.jobs.iter_mut().find(|job| *job.name == *name) else {
        if context.names.is_added(name) {
            let message = format!(": job {name:?} cannot be in a group: it is the command after `--`");
            return context.refuse("not-for-groups", span, message);
        }
        // One that has errors of its own, or may be in a file that could not be read, is not called unknown.
        if context.names.job(name).is_none() && !context.names.incomplete {
            let help = suggest::did_you_mean(name, context.names.jobs());
            let problem = Problem::error("unknown-job", span, format!(": there is no job {name:?}"));
            context.add(problem.maybe_help(help));
        }
        return None;
    };
    if let Some(reason) = why_not(job) {
        let message = format!(": job {name:?} cannot be in a group: {reason}");
        return context.refuse("not-for-groups", span, message);
    }
    if let Some(first) = members.taken.insert(job.name.clone(), span) {
        let problem = Problem::error("duplicate-job", span, format!(": job {name:?} is in another group"));
        return context.reject(problem.related(first, "it is in this one"));
    }
    Some(Arc::make_mut(job))
}

/// Why a job cannot be in a group: one that something else starts again and again has no restarts, and one that runs when others
/// stop would wait for its turn until those that wait for it have stopped.
fn why_not(job: &JobSpec) -> Option<&'static str> {
    if job.kind == JobKind::Coprocess {
        return Some("it is a coprocess");
    }
    if job.exec.is_none() {
        return Some("it executes nothing");
    }
    if job.when.may_follow_an_end() {
        return Some("it runs when others stop");
    }
    match job.when.trigger {
        Trigger::Interval(_) | Trigger::Cron(_) => Some("the clock starts it"),
        Trigger::Each(_) => Some("it runs at each event"),
        Trigger::Once(_) | Trigger::All(_) | Trigger::Any(_) => None,
    }
}
