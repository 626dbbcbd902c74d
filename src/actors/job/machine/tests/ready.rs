//! When an execution is ready, and what waits for that.

use super::*;
use crate::messages::job::Missing;

/// How often `ready` was published.
fn times_ready(actions: &[Action]) -> usize {
    published(actions).iter().filter(|(code, _)| *code == EventCode::Ready).count()
}

/// What the Pilot was told last of the readiness.
fn reported(actions: &[Action]) -> Option<bool> {
    let report =
        |action: &Action| if let Action::Report(changed) = action { Some(changed.ready) } else { None };
    actions.iter().rev().find_map(report)
}

fn db_ready() -> EventKey {
    EventKey { code: EventCode::Ready, source: Source::Job("db".into()) }
}

#[test]
fn without_checks_a_job_is_ready_when_its_program_was_executed() {
    let mut job = Job::of(restarting());
    assert_eq!(times_ready(&job.happens(startup())), 0);
    let actions = job.starts();
    assert_eq!(published(&actions), [(EventCode::Ready, Detail { pid: Some(7), ..Detail::default() })]);
    assert_eq!(reported(&actions), Some(true));
    assert!(job.state.status().ready);
    assert_eq!(reported(&job.ends(1)), Some(false));
    assert_eq!(times_ready(&job.starts()), 1, "each execution is ready once");
}

#[test]
fn with_checks_a_job_is_ready_when_it_is_first_healthy() {
    let mut job = Job::running(checked());
    assert!(!job.state.ready);
    let codes: Vec<_> = published(&job.is_checked(Verdict::Passing)).iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, [EventCode::Healthy, EventCode::Ready]);
    job.is_checked(Verdict::Failing);
    assert!(job.state.ready, "a job that is unhealthy is ready all the same");
    assert_eq!(times_ready(&job.is_checked(Verdict::Passing)), 0);
}

#[test]
fn a_job_that_something_else_executes_is_ready_when_it_is_first_healthy_since_it_runs() {
    let mut job = Job::of(JobSpec { exec: None, ..advertised() });
    job.happens(startup());
    assert_eq!(times_ready(&job.is_checked(Verdict::Passing)), 1);
    job.told(JobCommand::Restart);
    job.on(Input::HoldReleased(1));
    job.on(Input::Withdrawn);
    assert_eq!((job.state.life.phase, job.state.ready), (Phase::Running, false));
    assert_eq!(times_ready(&job.is_checked(Verdict::Passing)), 1);
}

#[test]
fn a_job_that_stops_does_not_become_ready() {
    let mut job = Job::of(spec());
    job.happens(startup());
    job.told(STOP);
    assert_eq!(times_ready(&job.starts()), 0);
    let mut checked = Job::running(checked());
    checked.told(STOP);
    assert_eq!(times_ready(&checked.is_checked(Verdict::Passing)), 0);
}

#[test]
fn a_job_that_was_killed_while_it_started_is_never_ready() {
    let mut job = Job::of(JobSpec { timeout: Some(ms(100)), ..spec() });
    job.happens(startup());
    job.on(Input::TimerElapsed);
    assert_eq!(job.state.life.phase, Phase::TimedOut);
    assert_eq!(times_ready(&job.starts()), 0);
}

#[test]
fn the_clock_of_an_interval_starts_when_the_jobs_in_after_are_ready() {
    let mut spec = with_trigger(Trigger::Interval(ms(1000)));
    spec.when.after = vec![db_ready()];
    assert_eq!(trigger::interests(&spec), [db_ready()]);
    let mut job = Job::of(spec);
    assert_eq!(job.state.changed(None).missing, Missing::AllOf(vec![db_ready()]));
    assert!(!is_launched(&job.happens(startup())), "startup alone starts nothing");
    job.after(400);
    let actions = job.happens(db_ready());
    assert!(is_launched(&actions));
    assert!(actions.contains(&Action::StartSchedule(ms(1000))), "{actions:?}");
    assert!(!is_launched(&job.happens(db_ready())), "the clock starts once");
}

#[test]
fn the_clock_of_a_schedule_starts_when_the_jobs_in_after_are_ready() {
    let mut spec = scheduled::cron("0 * * * *");
    spec.when.after = vec![db_ready()];
    let mut job = Job::of(spec);
    assert!(!job.happens(startup()).contains(&Action::ReadClock));
    assert!(job.happens(db_ready()).contains(&Action::ReadClock));
    assert!(job.state.calendar.is_some());
}
