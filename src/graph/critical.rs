//! The critical path of the start: from the job that could be used last, back through the events that
//! started each, to the job that startup began.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::job::{Missing, Phase};
use crate::messages::status::{JobStatus, Overview};

/// One job on the critical path; times are since the program began.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The job.
    pub job: String,
    /// When its program was executed.
    pub started: Duration,
    /// The event that the next one waited for; `None` for the last.
    pub event: Option<&'static str>,
    /// When that came, or when the last one could be used.
    pub done: Duration,
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
            matches!(key.source, Source::Job(_) | Source::Watch(_)) && !ends.contains(&key.code)
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

type Before<'a> = (&'a std::sync::Arc<str>, &'a JobStatus, Option<&'static str>, Duration);

/// The job whose event started the first run of another, and when that event came.
fn before<'a>(overview: &'a Overview, job: &JobStatus) -> Option<Before<'a>> {
    let key = job.account.first_run.occasion.as_ref()?;
    let (Source::Job(name) | Source::Check(name)) = &key.source else { return None };
    let (name, before) = overview.jobs.get_key_value(name)?;
    let first = &before.account.first_run;
    let done = match key.code {
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
    };
    let done = done.or(job.account.first_run.started).unwrap_or_default();
    Some((name, before, Some(key.code.config_name()), done))
}

/// Whether the first run of a job follows from startup, through any chain, and not from a user or a signal.
fn begins_at_startup(overview: &Overview, job: &JobStatus) -> bool {
    let startup = EventKey { code: EventCode::Startup, source: Source::Global };
    let (mut seen, mut job) = (BTreeSet::new(), job);
    loop {
        let Some(key) = &job.account.first_run.occasion else { return false };
        if *key == startup {
            return true;
        }
        let Some((name, before, ..)) = before(overview, job) else { return false };
        if !seen.insert(name) {
            return false;
        }
        job = before;
    }
}
