//! Why a job is not ready: it does not run, or is not healthy. Pure: from the status of a job to the reason. For `/readyz`, only
//! those of required jobs count.

use std::time::SystemTime;

use crate::messages::health::{Health, Verdict};
use crate::messages::job::Phase;
use crate::messages::status::JobStatus;

/// From this number of early ends in a row on, a job is in a crash loop; one may be an accident.
const EARLY_ENDS_OF_A_LOOP: u32 = 2;

/// Why a job is not ready at that time; `None` if it is.
pub fn reason_not_ready(job: &JobStatus, now: SystemTime) -> Option<String> {
    match job.phase {
        Phase::Running => reason_while_running(job, now),
        Phase::Waiting if job.has_run => reason_after_runs(job),
        Phase::Waiting => Some("has not been started yet".to_owned()),
        Phase::Queued if job.has_run => Some(format!("waits for its turn in its group: {}", last_exit(job))),
        Phase::Queued => Some("waits for its turn in its group".to_owned()),
        Phase::TimedOut => Some("took too long and is killed".to_owned()),
        Phase::Sweeping | Phase::Delayed => Some(format!("is about to be restarted: {}", last_exit(job))),
        Phase::Holding
        | Phase::Deregistering
        | Phase::Draining
        | Phase::Terminating
        | Phase::Killing
        | Phase::Ending => Some("is being stopped".to_owned()),
        Phase::Halted => Some("was stopped by hand".to_owned()),
        Phase::Complete if job.has_run => reason_after_runs(job),
        Phase::Complete => {
            Some(job.never_ran.clone().map_or("never ran".to_owned(), |why| format!("never ran: {why}")))
        }
    }
}

fn reason_while_running(job: &JobStatus, now: SystemTime) -> Option<String> {
    match job.health {
        Health::Unknown if job.is_unready_yet() => {
            crash_loop(job, now).or(Some("is being started".to_owned()))
        }
        Health::Maintenance => Some("is in maintenance".to_owned()),
        Health::Unhealthy => Some(format!("is unhealthy{}", failing_checks(job))),
        Health::Unknown if !job.checks.is_empty() => Some("has not passed its checks yet".to_owned()),
        // It was ready: it has said that it stops, or its watchdog ends it.
        Health::Healthy | Health::Unknown if !job.ready => Some("is about to end".to_owned()),
        Health::Healthy => None,
        Health::Unknown => crash_loop(job, now),
    }
}

/// A job without checks that keeps ending early is not ready in the moments in which it runs.
fn crash_loop(job: &JobStatus, now: SystemTime) -> Option<String> {
    // After the clock was set back nobody can tell; then it counts as running for long enough.
    let lasts = now.duration_since(job.since).unwrap_or(job.settles_after);
    if job.early_ends < EARLY_ENDS_OF_A_LOOP || lasts >= job.settles_after {
        return None;
    }
    let (ends, settled) = (job.early_ends, job.settles_after.as_secs_f64());
    Some(format!(
        "ended early {ends} times in a row and has not run for {settled}s since: {}",
        last_exit(job)
    ))
}

/// A job that ran and does not run now is ready if its last run succeeded.
fn reason_after_runs(job: &JobStatus) -> Option<String> {
    match &job.last_exit {
        Some(_) if job.succeeded => None,
        Some(_) => Some(format!("does not run: {}", last_exit(job))),
        None => Some("does not run".to_owned()),
    }
}

fn last_exit(job: &JobStatus) -> String {
    let words = job.last_exit.as_ref().map(|(_, words)| words.as_str());
    words.unwrap_or("its process ended").to_owned()
}

fn failing_checks(job: &JobStatus) -> String {
    let failing = job.checks.iter().filter(|(_, verdict)| *verdict == Verdict::Failing);
    let names: Vec<&str> = failing.map(|(name, _)| &**name).collect();
    if names.is_empty() { String::new() } else { format!(": check {} fails", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn job(phase: Phase) -> JobStatus {
        JobStatus { has_run: true, ready: phase == Phase::Running, ..JobStatus::new(phase) }
    }

    /// The reason nine seconds after the job came where it is.
    fn reason(job: &JobStatus) -> String {
        let now = job.since + Duration::from_secs(9);
        reason_not_ready(job, now).unwrap_or_else(|| "ready".to_owned())
    }

    #[test]
    fn a_job_is_ready_that_runs_and_is_healthy_or_has_succeeded() {
        let checked = |health, verdict| JobStatus {
            health,
            checks: vec![("http".into(), verdict)],
            early_ends: 5,
            ..job(Phase::Running)
        };
        let ended = |phase, status: u8| JobStatus {
            last_exit: Some((status, format!("exited with status {status}"))),
            succeeded: status == 0,
            ..job(phase)
        };
        let unborn = |phase, never_ran: Option<&str>| JobStatus {
            has_run: false,
            never_ran: never_ran.map(str::to_owned),
            ..job(phase)
        };
        for (job, expected) in [
            (job(Phase::Running), "ready"),
            (JobStatus { succeeded: true, ..ended(Phase::Complete, 3) }, "ready"),
            (
                JobStatus { succeeded: false, ..ended(Phase::Complete, 0) },
                "does not run: exited with status 0",
            ),
            (checked(Health::Healthy, Verdict::Passing), "ready"),
            (checked(Health::Unknown, Verdict::Unknown), "has not passed its checks yet"),
            (checked(Health::Unhealthy, Verdict::Failing), "is unhealthy: check http fails"),
            (checked(Health::Maintenance, Verdict::Unknown), "is in maintenance"),
            (unborn(Phase::Waiting, None), "has not been started yet"),
            (
                unborn(Phase::Complete, Some("\"db healthy\" can no longer come")),
                "never ran: \"db healthy\" can no longer come",
            ),
            (unborn(Phase::Complete, None), "never ran"),
            (ended(Phase::Waiting, 0), "ready"),
            (ended(Phase::Waiting, 3), "does not run: exited with status 3"),
            (ended(Phase::Complete, 0), "ready"),
            (ended(Phase::Complete, 3), "does not run: exited with status 3"),
            (ended(Phase::Delayed, 3), "is about to be restarted: exited with status 3"),
            (ended(Phase::Sweeping, 3), "is about to be restarted: exited with status 3"),
            (JobStatus { ready: false, starting: true, ..job(Phase::Running) }, "is being started"),
            (JobStatus { ready: false, ..job(Phase::Running) }, "is about to end"),
            (JobStatus { ready: false, ..checked(Health::Healthy, Verdict::Passing) }, "is about to end"),
            (job(Phase::TimedOut), "took too long and is killed"),
            (job(Phase::Holding), "is being stopped"),
            (job(Phase::Killing), "is being stopped"),
            (job(Phase::Halted), "was stopped by hand"),
        ] {
            assert_eq!(reason(&job), expected, "{job:?}");
        }
    }

    #[test]
    fn a_job_in_a_crash_loop_is_not_ready_while_it_happens_to_run() {
        let looping = |early_ends, settles_after| JobStatus {
            early_ends,
            settles_after: Duration::from_secs(settles_after),
            last_exit: Some((1, "exited with status 1".to_owned())),
            ..job(Phase::Running)
        };
        assert_eq!(reason(&looping(1, 10)), "ready", "one end is an accident");
        assert_eq!(
            reason(&looping(2, 10)),
            "ended early 2 times in a row and has not run for 10s since: exited with status 1"
        );
        assert_eq!(reason(&looping(7, 9)), "ready", "it has run for long enough");
        let since = SystemTime::UNIX_EPOCH + Duration::from_secs(3600);
        let set_back = JobStatus { since, ..looping(2, 10) };
        assert_eq!(reason_not_ready(&set_back, SystemTime::UNIX_EPOCH), None, "the clock was set back");
        let successful = JobStatus {
            last_exit: Some((3, "exited with status 3".to_owned())),
            succeeded: true,
            ..looping(7, 10)
        };
        assert_eq!(
            reason(&successful),
            "ended early 7 times in a row and has not run for 10s since: exited with status 3",
            "whatever counts as success"
        );
    }
}
