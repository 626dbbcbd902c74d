//! Health as the actors together see it.

use super::*;
use crate::config::spec::{CheckSpec, Limit, Probe};
use crate::messages::control::{ControlJob, JobOrder, SetMaintenance};

/// A check that executes a program.
pub fn exec_check(program: &str, interval_ms: u64) -> CheckSpec {
    CheckSpec {
        name: Arc::from(program),
        probe: Probe::Exec(Arc::new(CommandLine { program: program.into(), args: vec![] })),
        interval: Duration::from_millis(interval_ms),
        timeout: Duration::from_millis(interval_ms),
        failures: 1,
        raw_output: false,
    }
}

fn checked(name: &str, checks: Vec<CheckSpec>) -> JobSpec {
    let mut job = job(name);
    job.health = checks;
    job
}

#[test]
fn a_job_is_healthy_as_soon_as_it_can_be() {
    let (_, scene) = play(
        spec(vec![checked("app", vec![exec_check("check", 10_000)])]),
        &[("check", Manner::Ends(0, 1))],
        |scene| async move {
            scene.wait(60).await;
            assert_eq!(scene.events_of("app"), ["healthy", "ready"]);
            scene.signal(Signal::TERM);
        },
    );
    assert_eq!(scene.fake.runs("check"), 1);
}

#[test]
fn a_job_that_never_passes_is_unhealthy_when_the_first_window_ends_and_not_before() {
    play(
        spec(vec![checked("app", vec![exec_check("check", 1000)])]),
        &[("check", Manner::Ends(1, 1))],
        |scene| async move {
            scene.wait(990).await;
            assert!(scene.events_of("app").is_empty());
            scene.wait(20).await;
            assert_eq!(scene.events_of("app"), ["unhealthy"]);
            scene.signal(Signal::TERM);
        },
    );
}

#[test]
fn health_is_told_only_when_it_changes_and_needs_every_check() {
    let checks = vec![exec_check("one", 100), exec_check("two", 100)];
    play(
        spec(vec![checked("app", checks)]),
        &[("one", Manner::Ends(0, 1)), ("two", Manner::Ends(0, 1))],
        |scene| async move {
            scene.wait(1000).await;
            assert_eq!(scene.events_of("app"), ["healthy", "ready"]);
            scene.fake.set("two", Manner::Ends(1, 1));
            scene.wait(1000).await;
            assert_eq!(scene.events_of("app"), ["healthy", "ready", "unhealthy"]);
            scene.fake.set("two", Manner::Ends(0, 1));
            scene.wait(1000).await;
            assert_eq!(scene.events_of("app"), ["healthy", "ready", "unhealthy", "healthy"]);
            scene.signal(Signal::TERM);
        },
    );
}

#[test]
fn a_check_that_hangs_is_killed_at_its_timeout_and_never_runs_twice_at_a_time() {
    let mut check = exec_check("check", 1000);
    check.timeout = Duration::from_millis(3500);
    let (_, scene) =
        play(spec(vec![checked("app", vec![check])]), &[("check", Manner::Stubborn)], |scene| async move {
            scene.wait(20_000).await;
            scene.signal(Signal::TERM);
        });
    assert_eq!(scene.fake.most_at_once(), 2, "the job and one probe");
    assert!((4..=6).contains(&scene.fake.runs("check")), "{}", scene.fake.runs("check"));
    assert_eq!(scene.events_of("app")[0], "unhealthy");
}

#[test]
fn every_start_of_the_process_returns_its_health_to_unknown() {
    let mut app = checked("app", vec![exec_check("check", 200)]);
    app.restarts = Limit::Unlimited;
    let manners = [("app", Manner::Ends(1, 1000)), ("check", Manner::Ends(0, 1))];
    play(spec(vec![app]), &manners, |scene| async move {
        scene.wait(2900).await;
        let events = scene.events_of("app");
        let healthy = events.iter().filter(|event| *event == "healthy").count();
        assert_eq!(healthy, 3, "{events:?}");
        scene.signal(Signal::TERM);
    });
}

#[test]
fn nothing_is_checked_while_the_process_does_not_run() {
    let app = checked("app", vec![exec_check("check", 100)]);
    let manners = [("app", Manner::Ends(0, 20)), ("check", Manner::Ends(0, 1))];
    let (_, scene) = play(spec(vec![app]), &manners, |_| async {});
    assert_eq!(scene.fake.runs("check"), 0);
}

#[test]
fn a_check_whose_timeout_exceeds_its_interval_freezes_nothing() {
    let mut check = exec_check("check", 10);
    check.timeout = Duration::from_secs(1);
    let mut app = checked("app", vec![check]);
    app.restarts = Limit::Unlimited;
    let mut other = triggered("other", Trigger::Interval(Duration::from_secs(1)));
    other.restarts = Limit::Unlimited;
    let (_, scene) = play(
        spec(vec![app, other]),
        &[("check", Manner::Stubborn), ("other", Manner::Ends(0, 1))],
        |scene| async move {
            scene.wait(3_600_000).await;
            scene.signal(Signal::TERM);
        },
    );
    assert!(scene.fake.runs("other") >= 3600);
}

#[test]
fn maintenance_is_told_also_to_jobs_that_are_over_since_they_may_be_started_by_hand() {
    let manners = [("app", Manner::Ends(0, 100)), ("check", Manner::Ends(0, 1))];
    let app = checked("app", vec![exec_check("check", 200)]);
    let (_, scene) = play(spec(vec![app, job("other")]), &manners, |scene| async move {
        let maintain = |on| scene.pilot.send(SetMaintenance(on));
        let start = || scene.pilot.send(ControlJob { name: "app".into(), order: JobOrder::Start });
        scene.wait(10).await;
        maintain(true).await.unwrap();
        scene.wait(200).await;
        scene.fake.set("app", Manner::Serves);
        maintain(false).await.unwrap();
        start().await.unwrap().unwrap();
        scene.wait(500).await;
        assert!(scene.events_of("app").ends_with(&["healthy".into(), "ready".into()]));
        scene.signal(Signal::TERM);
    });
    assert!(scene.fake.runs("check") > 1);
}
