//! The column REASON of `status`: why a job is where it is, in a few words. A job that does what it should needs none.

use std::time::{Duration, SystemTime};

use super::words::{clock, short, until};
use crate::messages::event::{EventKey, Source};
use crate::messages::health::{Health, Verdict};
use crate::messages::job::{Missing, Phase};
use crate::messages::status::{JobStatus, NEVER_RAN, Overview};

/// A run that is due within this time is told by how long it takes, not by its time.
const SOON: Duration = Duration::from_secs(60);

/// Why the job is where it is; `None` if its state says it all.
pub fn reason(overview: &Overview, name: &str, now: SystemTime) -> Option<String> {
    let job = overview.jobs.get(name)?;
    if let Some(exceeded) = job.account.exceeded {
        return Some(exceeded.text().to_owned());
    }
    match job.phase {
        Phase::Waiting => waiting(job, now),
        Phase::Running => running(overview, name, job),
        Phase::TimedOut => Some("is being killed".to_owned()),
        Phase::Sweeping => Some("its last processes are being ended".to_owned()),
        Phase::Queued => Some("waits for its turn in its group".to_owned()),
        Phase::Delayed => Some(match job.account.until {
            Some(time) => format!("restarts in {}", until(time, now)),
            None => "restarts soon".to_owned(),
        }),
        Phase::Holding
        | Phase::Deregistering
        | Phase::Draining
        | Phase::Terminating
        | Phase::Killing
        | Phase::Ending => stopping(job, now),
        Phase::Halted => Some("stopped by hand".to_owned()),
        Phase::Complete => complete(overview, job),
    }
}

fn waiting(job: &JobStatus, now: SystemTime) -> Option<String> {
    match &job.account.missing {
        Missing::Nothing => job.next_run.map(|time| next(time, now)),
        Missing::AnyOf(keys) if job.account.has_had_event() => {
            Some(format!("waits for {} again", all(keys, " or ")))
        }
        Missing::AnyOf(keys) => Some(format!("waits for {}", all(keys, " or "))),
        Missing::AllOf(keys) => Some(format!("waits for {}", all(keys, ", "))),
    }
}

fn all(keys: &[EventKey], separator: &str) -> String {
    keys.iter().map(short).collect::<Vec<_>>().join(separator)
}

fn next(time: SystemTime, now: SystemTime) -> String {
    if time.duration_since(now).unwrap_or_default() < SOON {
        return format!("next in {}", until(time, now));
    }
    let clock = clock(time, now);
    let minute = clock.trim_end_matches(" UTC");
    format!("next {}", minute.strip_suffix(":00").unwrap_or(minute))
}

fn running(overview: &Overview, name: &str, job: &JobStatus) -> Option<String> {
    if job.account.awaits_log {
        return Some("waits for room in the log".to_owned());
    }
    match job.health {
        Health::Unhealthy => Some(failing(overview, name, job)),
        Health::Unknown if job.is_unready_yet() && job.pid.is_some() => {
            Some(job.status_text.clone().unwrap_or_else(|| "is not ready yet".to_owned()))
        }
        Health::Unknown if job.is_unready_yet() => None,
        Health::Unknown if !job.checks.is_empty() => Some("no check has passed yet".to_owned()),
        Health::Maintenance if !job.checks.is_empty() => Some("is not checked in maintenance".to_owned()),
        Health::Maintenance | Health::Unknown | Health::Healthy => job.status_text.clone(),
    }
}

fn failing(overview: &Overview, name: &str, job: &JobStatus) -> String {
    let failing = job.checks.iter().filter(|(_, verdict)| *verdict == Verdict::Failing);
    let reasons = failing.map(|(check, _)| {
        let known = overview.failing.get(&(name.into(), check.clone()));
        known.map_or_else(|| format!("{check} fails"), |known| format!("{check}: {}", known.reason))
    });
    let reasons = reasons.collect::<Vec<_>>().join("; ");
    if reasons.is_empty() { "its health check fails".to_owned() } else { reasons }
}

fn stopping(job: &JobStatus, now: SystemTime) -> Option<String> {
    let why = job.account.stop_reason.clone();
    let limit = match (job.phase, job.account.until) {
        (Phase::Terminating, Some(time)) => {
            Some(format!("killed in {} if it does not end", until(time, now)))
        }
        (_, _) => None,
    };
    let words: Vec<String> = why.into_iter().chain(limit).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

fn complete(overview: &Overview, job: &JobStatus) -> Option<String> {
    if !job.has_run {
        let culprit = culprit(overview, &job.account.missing);
        let why = culprit.or_else(|| job.never_ran.clone()).or_else(|| job.account.stop_reason.clone());
        return Some(why.map_or_else(|| NEVER_RAN.to_owned(), |why| format!("{NEVER_RAN}: {why}")));
    }
    if let Some(reason) = &job.account.stop_reason {
        return Some(reason.clone());
    }
    match (&job.account.no_restart, job.account.failed) {
        (Some(reason), true) => Some(format!("not restarted: {reason}")),
        (None, true) => Some("failed, and has no restart left".to_owned()),
        (_, false) => None,
    }
}

/// The job whose end is the reason why the awaited event cannot come, if there is one.
fn culprit(overview: &Overview, missing: &Missing) -> Option<String> {
    let keys = match missing {
        Missing::Nothing => return None,
        Missing::AnyOf(keys) | Missing::AllOf(keys) => keys,
    };
    keys.iter().find_map(|key| {
        let (Source::Job(name) | Source::Check(name)) = &key.source else { return None };
        let job = overview.jobs.get(name).filter(|job| job.phase == Phase::Complete)?;
        Some(match (job.has_run, job.account.failed) {
            (false, _) => format!("{name} never ran"),
            (true, true) => format!("{name} failed"),
            (true, false) => format!("{name} ended without {}", key.code.config_name()),
        })
    })
}
