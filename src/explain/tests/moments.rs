//! What is said of a job depends on how long something lasts, how often it has been, and what the program does.

use super::*;
use crate::config::spec::BackoffSpec;

fn delayed(early_ends: u32) -> JobStatus {
    JobStatus { early_ends, settles_after: Duration::from_secs(10), ..ended(Phase::Delayed, 1) }
}

#[test]
fn restarts_are_said_to_wait_longer_only_while_they_do() {
    let seconds = Duration::from_secs;
    let growing = BackoffSpec { jitter: 0.0, ..BackoffSpec::default() };
    let constant = BackoffSpec { min: seconds(2), max: seconds(2), ..growing };
    let level = BackoffSpec { min: seconds(3), factor: 1.0, ..growing };
    for (backoff, early_ends, expected) in [
        (growing, 3, "so each restart waits longer."),
        (growing, 40, "so each restart waits 30 s."),
        (constant, 3, "so each restart waits 2 s."),
        (level, 3, "so each restart waits 3 s."),
    ] {
        let world = World::new().job("app", delayed(early_ends)).with(|spec| spec.backoff = backoff);
        assert!(world.summary("app").contains(expected), "{}", world.summary("app"));
    }
}

#[test]
fn a_job_that_has_run_for_an_event_waits_for_it_to_come_again() {
    let mut again = ended(Phase::Waiting, 0);
    again.account.missing = Missing::AnyOf(vec![event("keep", EventCode::Ready)]);
    again.account.occasion = Some(event("keep", EventCode::Ready));
    let world = World::new().job("app", again).job("keep", JobStatus { ready: true, ..job(Phase::Running) });
    let summary = world.summary("app");
    assert!(summary.starts_with("app waits for keep to be ready again. It ran once"), "{summary}");
    assert_eq!(world.reason("app"), "waits for keep ready again");
}

#[test]
fn execve_is_blamed_only_for_a_start_that_takes_long() {
    let starting = |since: u64| JobStatus {
        starting: true,
        since: in_seconds(0) - Duration::from_secs(since),
        ..job(Phase::Running)
    };
    let first = World::new().job("app", starting(4)).summary("app");
    assert_eq!(first, "app is being started since 02:13:03 UTC.");
    let later = World::new().job("app", starting(5)).summary("app");
    assert!(later.contains("execve(2) has not returned. What to do: see whether the file system"), "{later}");
}

#[test]
fn only_a_job_with_checks_is_not_checked_in_maintenance() {
    let unchecked = JobStatus { health: Health::Maintenance, ..job(Phase::Running) };
    let checked = JobStatus { checks: vec![("http".into(), Verdict::Unknown)], ..unchecked.clone() };
    let world = World::new().job("app", unchecked);
    assert_eq!(world.reason("app"), "");
    assert!(world.summary("app").contains("It has no health check."), "{}", world.summary("app"));
    let world = World::new().job("app", checked);
    assert_eq!(world.reason("app"), "is not checked in maintenance");
    assert!(world.summary("app").contains("so it is not checked"), "{}", world.summary("app"));
}

#[test]
fn no_start_is_advised_while_the_program_shuts_down() {
    let mut unborn = JobStatus { has_run: false, ..job(Phase::Complete) };
    unborn.account.stop_reason = Some("the program shuts down".to_owned());
    for status in [unborn.clone(), ended(Phase::Complete, 1), job(Phase::Halted)] {
        let mut world = World::new().job("app", status);
        assert!(world.summary("app").contains("containerpilot start app"), "{}", world.summary("app"));
        world.overview.shutting_down = true;
        assert!(!world.summary("app").contains("containerpilot start"), "{}", world.summary("app"));
    }
    let world = World::new().job("app", unborn);
    assert_eq!(world.why("app").state, "never ran");
    assert_eq!(world.reason("app"), "never ran: the program shuts down");
}
