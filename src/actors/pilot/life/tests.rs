use super::*;
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::job::Missing;

fn event(job: &str, code: EventCode) -> EventKey {
    EventKey { code, source: Source::Job(Arc::from(job)) }
}

fn job(name: &str, phase: Phase) -> JobView {
    JobView {
        name: Arc::from(name),
        kind: JobKind::Job,
        has_process: true,
        essential: false,
        has_health: true,
        needs_healthy: vec![],
        closes: false,
        phase,
        missing: Missing::Nothing,
        last_status: None,
        last_end: 0,
    }
}

fn waits(name: &str, key: EventKey) -> JobView {
    let closes = matches!(key.code, EventCode::Shutdown | EventCode::Stopping | EventCode::Stopped);
    JobView { missing: Missing::AnyOf(vec![key]), closes, ..job(name, Phase::Waiting) }
}

fn shutdown() -> EventKey {
    EventKey { code: EventCode::Shutdown, source: Source::Global }
}

fn needing(name: &str, phase: Phase, needed: &str) -> JobView {
    JobView { needs_healthy: vec![Arc::from(needed)], ..job(name, phase) }
}

fn ended(name: &str, status: u8, order: u64) -> JobView {
    JobView { last_status: Some(status), last_end: order, ..job(name, Phase::Complete) }
}

/// Who is told to stop now, by name.
fn told(jobs: &[JobView], already: &[&str]) -> Vec<String> {
    let before: Vec<bool> = jobs.iter().map(|job| job.phase != Phase::Waiting).collect();
    let already: Vec<bool> = jobs.iter().map(|job| already.contains(&&*job.name)).collect();
    orders(jobs, &already, &before, &vec![true; jobs.len()])
        .stop
        .into_iter()
        .map(|index| jobs[index].name.to_string())
        .collect()
}

#[test]
fn a_running_job_keeps_the_program_alive() {
    assert_eq!(course(&[job("app", Phase::Running)], false), Course::default());
}

#[test]
fn when_every_job_is_complete_the_program_ends() {
    let jobs = [ended("a", 0, 1), ended("b", 0, 2)];
    assert_eq!(course(&jobs, false).shut_down, Some(Reason::Completed));
}

#[test]
fn nothing_ends_before_startup() {
    assert_eq!(course(&[], true), Course::default());
}

#[test]
fn a_job_whose_event_can_no_longer_come_is_given_up_before_the_program_ends() {
    let jobs = [ended("a", 1, 1), waits("b", event("a", EventCode::ExitSuccess))];
    assert_eq!(course(&jobs, false), Course { lost: vec![1], shut_down: None });
}

#[test]
fn a_job_that_waits_for_the_shutdown_does_not_keep_the_program_alive() {
    let jobs = [ended("a", 0, 1), waits("last", shutdown())];
    assert_eq!(course(&jobs, false), Course { lost: vec![], shut_down: Some(Reason::Completed) });
}

#[test]
fn only_coprocesses_left_means_the_end() {
    let coprocess = JobView { kind: JobKind::Coprocess, ..job("agent", Phase::Running) };
    let alarm = waits("alarm", event("agent", EventCode::ExitFailed));
    assert_eq!(course(&[coprocess, alarm, ended("a", 0, 1)], false).shut_down, Some(Reason::Completed));
}

#[test]
fn a_job_that_waits_for_a_signal_keeps_the_program_alive() {
    let key =
        EventKey { code: EventCode::Signal, source: Source::Signal(crate::messages::signal::Signal::HUP) };
    assert_eq!(course(&[ended("a", 0, 1), waits("hup", key)], false), Course::default());
}

#[test]
fn a_job_without_a_program_keeps_nothing_alive_unless_nothing_has_one() {
    let external = JobView { has_process: false, ..job("external", Phase::Running) };
    assert_eq!(course(std::slice::from_ref(&external), false).shut_down, None);
    assert_eq!(course(&[external, ended("a", 0, 1)], false).shut_down, Some(Reason::Completed));
}

#[test]
fn a_job_stopped_by_hand_keeps_the_program_alive() {
    assert_eq!(course(&[job("a", Phase::Halted)], false), Course::default());
}

#[test]
fn an_essential_job_that_completes_ends_the_program_with_its_status() {
    let jobs = [JobView { essential: true, ..ended("main", 7, 1) }, job("other", Phase::Running)];
    let reason = course(&jobs, false).shut_down.unwrap();
    assert_eq!(reason, Reason::Essential(Arc::from("main"), Some(7)));
    assert_eq!(exit_status(&jobs, &reason), 7);
}

#[test]
fn an_essential_job_that_never_ran_is_no_success() {
    let reason = Reason::Essential(Arc::from("main"), None);
    let main = JobView { essential: true, ..job("main", Phase::Complete) };
    assert_eq!(exit_status(&[ended("migrate", 3, 1), main.clone()], &reason), 3);
    assert_eq!(exit_status(&[main], &reason), 1);
}

#[test]
fn a_job_that_waits_for_the_end_of_a_lost_one_has_its_turn_when_that_is_given_up() {
    let lost = waits("b", event("a", EventCode::ExitSuccess));
    let cleanup = waits("cleanup", event("b", EventCode::Stopped));
    assert_eq!(course(&[ended("a", 1, 1), lost, cleanup], false).lost, [1]);
    let circle = [waits("a", event("b", EventCode::Stopped)), waits("b", event("a", EventCode::Stopped))];
    assert_eq!(course(&circle, false).lost, [0, 1]);
}

#[test]
fn without_dependencies_all_are_told_at_once() {
    assert_eq!(told(&[job("a", Phase::Running), job("b", Phase::Delayed)], &[]), ["a", "b"]);
}

#[test]
fn a_job_is_told_once_the_running_jobs_that_waited_for_its_health_are_gone() {
    let agent = job("agent", Phase::Running);
    assert_eq!(told(&[agent.clone(), needing("app", Phase::Running, "agent")], &[]), ["app"]);
    assert!(told(&[agent.clone(), needing("app", Phase::Terminating, "agent")], &["app"]).is_empty());
    assert_eq!(told(&[agent, needing("app", Phase::Complete, "agent")], &["app"]), ["agent"]);
}

#[test]
fn a_job_that_never_started_holds_nobody_up() {
    let jobs = [job("agent", Phase::Running), needing("app", Phase::Waiting, "agent")];
    assert_eq!(told(&jobs, &[]), ["agent", "app"]);
}

#[test]
fn jobs_that_need_each_other_are_told_together() {
    let jobs = [needing("a", Phase::Running, "b"), needing("b", Phase::Running, "a")];
    assert_eq!(told(&jobs, &[]), ["a", "b"]);
}

#[test]
fn a_job_that_waits_for_the_end_of_another_gets_to_run() {
    let post_stop = waits("postStop", event("app", EventCode::Stopped));
    assert_eq!(told(&[job("app", Phase::Running), post_stop.clone()], &[]), ["app"]);
    let running = JobView { phase: Phase::Running, ..post_stop };
    let jobs = [job("app", Phase::Complete), running];
    assert_eq!(orders(&jobs, &[true, false], &[true, false], &[true, true]), Orders::default());
}

#[test]
fn a_closing_job_whose_event_can_no_longer_come_is_given_up() {
    let jobs = [job("app", Phase::Complete), waits("postStop", event("app", EventCode::Stopped))];
    let orders = orders(&jobs, &[true, false], &[true, false], &[true, true]);
    assert_eq!(orders, Orders { stop: vec![], lost: vec![1] });
}

#[test]
fn what_a_closing_job_needs_is_kept_until_it_is_certain_that_it_will_not_run() {
    let closer = JobView {
        needs_healthy: vec![Arc::from("agent")],
        ..waits("postStop", event("app", EventCode::Stopped))
    };
    let jobs = [job("agent", Phase::Running), job("app", Phase::Complete), closer];
    let told = [false, true, false];
    let before = [true, true, false];
    assert_eq!(orders(&jobs, &told, &before, &[false; 3]), Orders { stop: vec![], lost: vec![2] });
    assert_eq!(orders(&jobs, &told, &before, &[true; 3]), Orders { stop: vec![0], lost: vec![2] });
}

#[test]
fn a_job_started_by_an_end_long_before_the_shutdown_is_like_any_other() {
    let fallback = JobView { phase: Phase::Running, ..waits("fallback", event("app", EventCode::Stopped)) };
    assert_eq!(told(&[job("app", Phase::Complete), fallback], &[]), ["fallback"]);
}

#[test]
fn what_a_closing_job_needs_outlives_it() {
    let closer = JobView {
        needs_healthy: vec![Arc::from("agent")],
        missing: Missing::AllOf(vec![event("app", EventCode::Stopped)]),
        ..waits("postStop", event("app", EventCode::Stopped))
    };
    let jobs = [job("agent", Phase::Running), job("app", Phase::Running), closer];
    assert_eq!(told(&jobs, &[]), ["app"]);
}

#[test]
fn the_status_is_that_of_the_first_job_to_fail_last() {
    let jobs = [ended("late", 5, 9), ended("fine", 0, 1), ended("early", 3, 4)];
    assert_eq!(exit_status(&jobs, &Reason::Completed), 3);
    assert_eq!(exit_status(&[ended("fine", 0, 1)], &Reason::Completed), 0);
    assert_eq!(exit_status(&jobs, &Reason::Signal), 0);
}

#[test]
fn a_coprocess_that_failed_does_not_count() {
    let jobs = [JobView { kind: JobKind::Coprocess, ..ended("agent", 2, 1) }, ended("app", 0, 2)];
    assert_eq!(exit_status(&jobs, &Reason::Completed), 0);
}
