//! Log lines and answers while the program ends.

use super::*;
use crate::actors::machine::{LogLine, Severity};

/// The lines for the log among these actions.
fn lines(actions: &[Action]) -> Vec<&LogLine> {
    actions
        .iter()
        .filter_map(|action| if let Action::Log(line) = action { Some(line) } else { None })
        .collect()
}

fn shutting_down(jobs: &[&str]) -> Scene {
    let mut scene = Scene::new(whole(jobs.iter().map(|name| spec(name)).collect()));
    for name in jobs {
        scene.report(name, 0, Phase::Running);
    }
    scene.step(Input::Signal(Signal::TERM));
    scene.step(Input::ShutdownPublished(7));
    scene.step(Input::Delivered);
    scene.step(Input::DecisionDue);
    scene
}

fn summary(actions: &[Action]) -> LogLine {
    lines(actions).first().map(|line| (*line).clone()).unwrap()
}

#[test]
fn the_summary_names_the_job_that_took_longest() {
    let ends_after = |times: [(&str, u64); 3]| {
        let mut scene = shutting_down(&["a", "b", "c"]);
        let mut actions = vec![];
        for (name, wait) in times {
            scene.wait(wait);
            actions = scene.report(name, 0, Phase::Complete);
        }
        summary(&actions)
    };
    let told = |text: &str| LogLine::new(Severity::Info, text);
    assert_eq!(
        ends_after([("a", 100), ("b", 100), ("c", 100)]),
        told("shutdown took 0.300s, of which job c took 0.300s")
    );
    assert_eq!(
        ends_after([("b", 200), ("a", 0), ("c", 0)]),
        told("shutdown took 0.200s, of which job b took 0.200s"),
        "the first of those that took as long"
    );
}

fn says_so(scene: &Scene) -> bool {
    format!("{:?}", lines(&scene.actions)).contains("that of the first job that failed")
}

#[test]
fn a_program_whose_jobs_are_all_complete_says_so_only_if_one_failed() {
    let ends_with = |status: u8| {
        let mut scene = Scene::new(whole(vec![spec("app")]));
        let ended = JobChanged { last_status: Some(status), ..changed("app", 0, Phase::Complete) };
        scene.step(Input::Reported(ended.into()));
        for input in [Input::DecisionDue, Input::Delivered, Input::DecisionDue] {
            scene.step(input);
        }
        says_so(&scene)
    };
    assert!(ends_with(3));
    assert!(!ends_with(0));
    let mut stopped = shutting_down(&["app"]);
    let failed = JobChanged { last_status: Some(3), ..changed("app", 0, Phase::Complete) };
    stopped.step(Input::Reported(failed.into()));
    stopped.step(Input::DecisionDue);
    assert!(!says_so(&stopped));
}

#[test]
fn those_that_are_killed_at_last_are_named() {
    let mut scene = shutting_down(&["a", "b", "c"]);
    scene.report("b", 0, Phase::Complete);
    scene.wait(5000);
    let actions = scene.step(Input::Elapsed(Timer::StopBudget));
    let expected = LogLine::new(Severity::Warning, "the time to stop is over: killing what is left")
        .about("jobs", "a c");
    assert_eq!(lines(&actions), [&expected]);
}

#[test]
fn a_first_signal_that_comes_while_the_program_ends_by_itself_is_told_once() {
    let mut scene = Scene::new(whole(vec![JobSpec { essential: true, ..spec("app") }, spec("other")]));
    scene.report("other", 0, Phase::Running);
    scene.report("app", 0, Phase::Complete);
    assert!(scene.state.is_shutting_down());
    let actions = scene.step(Input::Signal(Signal::TERM));
    assert_eq!(lines(&actions), [&LogLine::new(Severity::Info, "SIGTERM received: shutting down already")]);
    assert_eq!(scene.step(Input::Signal(Signal::TERM)), [], "it comes with the first");
}

#[test]
fn orphans_are_killed_at_once_by_a_repeated_signal_only() {
    let mut scene = shutting_down(&["app"]);
    scene.report("app", 0, Phase::Complete);
    assert_eq!(scene.step(Input::Signal(Signal::TERM)), []);
    scene.wait(300);
    assert!(matches!(scene.step(Input::Signal(Signal::TERM)).as_slice(), [Action::EndOrphans { .. }]));
}

#[test]
fn late_in_the_shutdown_who_waits_for_an_end_is_not_told_and_others_that_wait_are() {
    let mut closer = spec("closer");
    closer.when.trigger = Trigger::Once(event("app", EventCode::Stopped));
    let mut scene = Scene::new(whole(vec![spec("app"), closer, needing_db("waits"), spec("db")]));
    for name in ["app", "db"] {
        scene.report(name, 0, Phase::Running);
    }
    scene.step(Input::Signal(Signal::TERM));
    scene.wait(4000);
    assert_eq!(stopped(&scene.step(Input::Elapsed(Timer::LastCall))), ["app", "waits", "db"]);
}

#[test]
fn a_configuration_that_was_loaded_for_a_reload_that_was_refused_is_not_prepared() {
    let mut scene = Scene::new(whole(vec![spec("app")]));
    scene.report("app", 0, Phase::Running);
    scene.step(Input::ReloadAsked(Some(1), RELOAD));
    scene.step(Input::Signal(Signal::TERM));
    assert_eq!(scene.step(Input::Loaded(Purpose::Reload, Ok(whole(vec![])))), []);
}

#[test]
fn of_several_reloads_one_that_restarts_everything_is_enough() {
    let mut scene = Scene::new(whole(vec![spec("app")]));
    scene.report("app", 0, Phase::Running);
    scene.step(Input::ReloadAsked(Some(1), RELOAD));
    scene.step(Input::ReloadAsked(Some(2), Reload { restart_all: true, ..RELOAD }));
    scene.step(Input::ReloadAsked(Some(3), RELOAD));
    let same = || whole(vec![spec("app")]);
    scene.step(Input::Loaded(Purpose::Reload, Ok(same())));
    assert_eq!(stopped(&scene.step(Input::Prepared(Ok(())))), [""; 0]);
    scene.step(Input::Loaded(Purpose::Reload, Ok(same())));
    assert_eq!(stopped(&scene.step(Input::Prepared(Ok(())))), ["app"]);
}
