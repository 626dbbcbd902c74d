//! Which jobs must outlive which, told from the configuration alone.

use std::sync::Arc;

use crate::config::spec::JobSpec;
use crate::messages::event::{EventCode, Source};

/// The events by which a job ends.
const ENDS: [EventCode; 4] =
    [EventCode::Stopping, EventCode::Stopped, EventCode::ExitSuccess, EventCode::ExitFailed];

/// The jobs whose event of that code a job waits for.
fn awaited(job: &JobSpec, code: EventCode) -> impl Iterator<Item = &str> {
    job.when.keys().iter().filter_map(move |key| match &key.source {
        Source::Job(name) if key.code == code && *name != job.name => Some(&**name),
        Source::Job(_)
        | Source::Global
        | Source::Watch(_)
        | Source::Check(_)
        | Source::Group(_)
        | Source::Signal(_) => None,
    })
}

/// The members of the groups that a job waits for to be ready or healthy.
fn of_groups<'a>(jobs: &'a [Arc<JobSpec>], job: &'a JobSpec) -> impl Iterator<Item = &'a str> {
    let is_awaited = move |group: &str| {
        job.when.keys().iter().any(|key| match &key.source {
            Source::Group(name) => {
                **name == *group && matches!(key.code, EventCode::Ready | EventCode::Healthy)
            }
            Source::Job(_) | Source::Global | Source::Watch(_) | Source::Check(_) | Source::Signal(_) => {
                false
            }
        })
    };
    let is_in = move |other: &&Arc<JobSpec>| {
        other.name != job.name && other.group.as_ref().is_some_and(|place| is_awaited(&place.group))
    };
    jobs.iter().filter(is_in).map(|other| &*other.name)
}

/// The jobs that a job uses: it waits for them or their group to be ready or healthy, or they are before it in its group; and
/// it does not wait for their end.
fn used<'a>(jobs: &'a [Arc<JobSpec>], job: &'a JobSpec) -> impl Iterator<Item = &'a str> {
    let awaits_end =
        move |name: &&str| ENDS.iter().any(|code| awaited(job, *code).any(|other| other == *name));
    let before = job.group.iter().flat_map(|place| &place.after).map(|name| &**name);
    let used = awaited(job, EventCode::Ready).chain(awaited(job, EventCode::Healthy)).chain(before);
    used.chain(of_groups(jobs, job)).filter(move |name| !awaits_end(name))
}

/// The jobs before a job: it waits for their readiness, health or success.
fn before<'a>(jobs: &'a [Arc<JobSpec>], job: &'a JobSpec) -> Vec<&'a JobSpec> {
    let names = used(jobs, job).chain(awaited(job, EventCode::ExitSuccess));
    names.filter_map(|name| jobs.iter().find(|job| *job.name == *name)).map(|job| &**job).collect()
}

/// All jobs before a job, through any chain; it is among them if it is part of a circle.
fn chain<'a>(jobs: &'a [Arc<JobSpec>], job: &'a JobSpec) -> Vec<&'a JobSpec> {
    let mut found: Vec<&JobSpec> = before(jobs, job);
    let mut next = 0;
    while let Some(job) = found.get(next).copied() {
        next += 1;
        for other in before(jobs, job) {
            if !found.iter().any(|known| known.name == other.name) {
                found.push(other);
            }
        }
    }
    found
}

/// Whether a job needs the other: it, or a job before it, waits for the other's readiness or health.
pub(super) fn needs(jobs: &[Arc<JobSpec>], job: &JobSpec, other: &str) -> bool {
    let mut all = chain(jobs, job);
    all.push(job);
    all.iter().any(|job| used(jobs, job).any(|name| name == other))
}

/// The jobs that have to do with a job, through any chain of events and groups.
pub(super) fn connected(jobs: &[Arc<JobSpec>], job: &JobSpec) -> Vec<Arc<JobSpec>> {
    let names = |job: &JobSpec| -> Vec<Source> {
        let group = job.group.iter().map(|place| Source::Group(Arc::clone(&place.group)));
        let others = job.when.keys().iter().filter_map(|key| match &key.source {
            Source::Job(name) | Source::Check(name) => Some(Source::Job(Arc::clone(name))),
            Source::Group(name) => Some(Source::Group(Arc::clone(name))),
            Source::Global | Source::Watch(_) | Source::Signal(_) => None,
        });
        group.chain(others).chain([Source::Job(Arc::clone(&job.name))]).collect()
    };
    let mut reached = names(job);
    loop {
        let known = reached.len();
        for other in jobs {
            let all = names(other);
            if all.iter().any(|source| reached.contains(source)) {
                let new: Vec<Source> = all.into_iter().filter(|source| !reached.contains(source)).collect();
                reached.extend(new);
            }
        }
        if reached.len() == known {
            break;
        }
    }
    let is_reached = |job: &&Arc<JobSpec>| reached.contains(&Source::Job(Arc::clone(&job.name)));
    jobs.iter().filter(is_reached).cloned().collect()
}

/// Whether some job is before itself, or starts at the end of one that is to outlive it, or one that is to outlive others in its
/// group starts when one of them ends: then no order of stops satisfies all.
pub(super) fn has_circle(jobs: &[Arc<JobSpec>]) -> bool {
    let is_after_others =
        |job: &Arc<JobSpec>| job.group.as_ref().is_some_and(|place| !place.after.is_empty());
    let awaits_end = |job: &Arc<JobSpec>| ENDS.iter().any(|code| awaited(job, *code).next().is_some());
    let starts_too_late = |job: &Arc<JobSpec>| {
        let mut ends = ENDS.iter().filter(|code| **code != EventCode::ExitSuccess);
        let outlive = chain(jobs, job);
        ends.any(|code| awaited(job, *code).any(|name| outlive.iter().any(|other| *other.name == *name)))
    };
    jobs.iter().any(|job| is_after_others(job) && awaits_end(job))
        || jobs.iter().any(starts_too_late)
        || jobs.iter().any(|job| chain(jobs, job).iter().any(|before| before.name == job.name))
}
