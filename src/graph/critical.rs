//! The critical path of the start: from the job that could be used last, back through the events that
//! started each, to the job that startup began.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::messages::event::{EventCode, Source};
use crate::messages::job::{Missing, Phase};
use crate::messages::status::{JobStatus, Overview};

/// One job on the critical path; times are since the program began.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// The job.
    pub job: String,
    /// When its program was executed.
    #[serde(serialize_with = "as_seconds")]
    pub started: Duration,
    /// The event that the next one waited for; `None` for the last.
    pub event: Option<&'static str>,
    /// When that came, or when the last one could be used.
    #[serde(serialize_with = "as_seconds")]
    pub done: Duration,
}

fn as_seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

/// The critical path, first step first; empty if nothing could be used yet.
pub fn path(overview: &Overview) -> Vec<Step> {
    let usable = |job: &JobStatus| job.account.first_run.up.filter(|_| begins_at_startup(overview, job));
    let last = overview.jobs.iter().filter_map(|(name, job)| Some((usable(job)?, name)));
    let Some((up, name)) = last.max() else { return vec![] };
    let mut steps = Vec::new();
    let mut next = overview.jobs.get_key_value(name).map(|(name, job)| (name, &**job, None, up));
    while let Some((name, job, event, done)) = next {
        let started = job.account.first_run.started.unwrap_or(done);
        steps.push(Step { job: name.to_string(), started, event, done });
        next = before(overview, job).filter(|_| steps.len() <= overview.jobs.len());
        // What was waited for came when this one could start, at the latest.
        if let Some((.., done)) = &mut next {
            *done = (*done).min(started);
        }
    }
    steps.reverse();
    steps
}

/// Whether a job has yet to come up, after others or by itself.
pub fn is_starting(job: &JobStatus) -> bool {
    let awaits_job = match &job.account.missing {
        Missing::Nothing => false,
        Missing::AnyOf(keys) | Missing::AllOf(keys) => keys.iter().any(|key| {
            let ends = [EventCode::Stopping, EventCode::Stopped, EventCode::ExitFailed, EventCode::Unhealthy];
            matches!(key.source, Source::Job(_) | Source::Watch(_) | Source::Group(_))
                && !ends.contains(&key.code)
        }),
    };
    match job.phase {
        Phase::Waiting => !job.has_run && awaits_job,
        Phase::Running => job.account.first_run.up.is_none(),
        Phase::Queued => !job.has_run,
        Phase::TimedOut
        | Phase::Sweeping
        | Phase::Delayed
        | Phase::Holding
        | Phase::Deregistering
        | Phase::Draining
        | Phase::Terminating
        | Phase::Killing
        | Phase::Ending
        | Phase::Halted
        | Phase::Complete => false,
    }
}

type Before<'a> = (&'a Arc<str>, &'a JobStatus, Option<&'static str>, Duration);

/// The job that the first run of another had to wait for last, and when what it waited for came.
fn before<'a>(overview: &'a Overview, job: &JobStatus) -> Option<Before<'a>> {
    member_before(overview, job).or_else(|| cause(overview, job))
}

/// The job whose event triggered the first run of another.
fn cause<'a>(overview: &'a Overview, job: &JobStatus) -> Option<Before<'a>> {
    let key = job.account.first_run.occasion.as_ref()?;
    let name = match &key.source {
        Source::Job(name) | Source::Check(name) => name,
        Source::Group(name) => last_member(overview, name, key.code)?,
        Source::Global | Source::Watch(_) | Source::Signal(_) => return None,
    };
    let (name, before) = overview.jobs.get_key_value(name)?;
    let done = event_time(before, key.code).or(job.account.first_run.started).unwrap_or_default();
    Some((name, before, Some(key.code.config_name()), done))
}

/// The member of its group that a job had to let start first, if it was ready later than the event came that triggered the job.
fn member_before<'a>(overview: &'a Overview, job: &JobStatus) -> Option<Before<'a>> {
    let group = overview.groups.iter().find(|group| Some(&group.name) == job.group.as_ref())?;
    let is_job = |name: &&Arc<str>| overview.jobs.get(*name).is_some_and(|other| std::ptr::eq(&**other, job));
    let earlier = group.jobs.iter().take_while(|name| !is_job(name));
    let started = job.account.first_run.started?;
    let ready = |name| {
        let (name, before) = overview.jobs.get_key_value(name)?;
        Some((event_time(before, EventCode::Ready).filter(|time| *time <= started)?, name, before))
    };
    let (done, name, before) = earlier.filter_map(ready).max_by_key(|(done, ..)| *done)?;
    let is_last = cause(overview, job).is_none_or(|(.., triggered)| triggered <= done);
    is_last.then(|| (name, &**before, Some(EventCode::Ready.config_name()), done))
}

/// The member of a group that was the last to bring an event of the group about.
fn last_member<'a>(overview: &'a Overview, group: &str, code: EventCode) -> Option<&'a Arc<str>> {
    let group = overview.groups.iter().find(|known| *known.name == *group)?;
    group.jobs.iter().max_by_key(|job| overview.jobs.get(*job).and_then(|job| event_time(job, code)))
}

/// When the first run of a job brought an event about.
fn event_time(job: &JobStatus, code: EventCode) -> Option<Duration> {
    let first = &job.account.first_run;
    match code {
        EventCode::ExitSuccess | EventCode::ExitFailed | EventCode::Stopping | EventCode::Stopped => {
            first.ended
        }
        EventCode::Ready
        | EventCode::Healthy
        | EventCode::Unhealthy
        | EventCode::Startup
        | EventCode::Shutdown
        | EventCode::Changed
        | EventCode::EnterMaintenance
        | EventCode::ExitMaintenance
        | EventCode::Signal => first.up,
    }
}

/// Whether the first run of a job follows from startup or the first instances of a watched service, through any chain, and not
/// from a user, a signal or a later change.
fn begins_at_startup(overview: &Overview, job: &JobStatus) -> bool {
    let (mut seen, mut job) = (BTreeSet::new(), job);
    loop {
        let Some(key) = &job.account.first_run.occasion else { return false };
        match (&key.source, key.code) {
            (Source::Global, EventCode::Startup) | (Source::Watch(_), EventCode::Healthy) => return true,
            (_, _) => {}
        }
        let Some((name, before, ..)) = before(overview, job) else { return false };
        if !seen.insert(name) {
            return false;
        }
        job = before;
    }
}
