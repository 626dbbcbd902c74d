//! Jobs that a reload ends, and that run when others stop.

use super::*;

/// A job that runs when another has stopped.
fn after_end_of(other: &str, name: &str) -> JobSpec {
    let mut job = spec(name);
    job.when.trigger = Trigger::Once(event(other, EventCode::Stopped));
    job
}

/// A reload that takes all jobs away, some of which run; what it does first.
fn reloading(jobs: Vec<JobSpec>, running: &[&str]) -> (Scene, Vec<Action>) {
    let mut scene = Scene::new(whole(jobs));
    for name in running {
        scene.report(name, 0, Phase::Running);
    }
    scene.step(Input::ReloadAsked(Some(1), RELOAD));
    scene.step(Input::Loaded(Purpose::Reload, Ok(whole(vec![spec("new")]))));
    let actions = scene.step(Input::Prepared(Ok(())));
    (scene, actions)
}

/// The numbers of the questions where a job is.
fn questions(actions: &[Action]) -> Vec<u64> {
    let number = |action: &Action| {
        if let Action::Tell(_, JobCommand::Answer(number)) = action { Some(*number) } else { None }
    };
    actions.iter().filter_map(number).collect()
}

fn is_over(actions: &[Action]) -> bool {
    actions.iter().any(|action| matches!(action, Action::Reply(1, Reply::Reload(Ok(_)))))
}

#[test]
fn a_job_that_runs_when_another_stops_runs_also_if_the_reload_ends_both() {
    let (mut scene, actions) = reloading(vec![spec("app"), after_end_of("app", "hook")], &["app"]);
    assert_eq!(stopped(&actions), ["app"]);
    let limit = Action::StartTimer(Timer::HooksOfReload(scene.state.members.news()), Duration::from_secs(4));
    assert!(actions.contains(&limit), "{actions:?}");
    let actions = scene.report("app", 0, Phase::Complete);
    assert_eq!(stopped(&actions), [] as [&str; 0]);
    let [question] = questions(&actions)[..] else { panic!("it may have been called: {actions:?}") };
    let answer = JobChanged { answers: Some(question), ..changed("hook", 0, Phase::Running) };
    scene.step(Input::Reported(answer.into()));
    assert_eq!(scene.step(Input::DecisionDue), [], "it works");
    assert!(is_over(&scene.report("hook", 0, Phase::Complete)));
}

#[test]
fn a_job_that_waits_still_when_the_others_have_stopped_is_told_to_stop() {
    let (mut scene, _) = reloading(vec![spec("app"), after_end_of("app", "hook")], &["app"]);
    let [question] = questions(&scene.report("app", 0, Phase::Complete))[..] else { panic!() };
    let answer = JobChanged { answers: Some(question), ..changed("hook", 0, Phase::Waiting) };
    scene.step(Input::Reported(answer.into()));
    assert_eq!(stopped(&scene.step(Input::DecisionDue)), ["hook"]);
    assert!(is_over(&scene.report("hook", 0, Phase::Complete)));
}

#[test]
fn a_job_that_runs_because_others_stop_does_not_hold_up_a_reload_for_longer_than_a_shutdown() {
    let (mut scene, _) = reloading(vec![spec("app"), after_end_of("app", "hook")], &["app"]);
    let since = scene.state.members.news();
    scene.report("app", 0, Phase::Complete);
    scene.report("hook", 0, Phase::Running);
    assert_eq!(scene.step(Input::Elapsed(Timer::HooksOfReload(since + 9))), [], "of another reload");
    assert_eq!(stopped(&scene.step(Input::Elapsed(Timer::HooksOfReload(since)))), ["hook"]);
    assert!(is_over(&scene.report("hook", 0, Phase::Complete)));
    assert_eq!(scene.step(Input::Elapsed(Timer::HooksOfReload(since))), [], "it is over");
}

#[test]
fn what_a_hook_needs_outlives_it_and_a_job_that_ran_before_is_no_hook() {
    let mut hook = after_end_of("app", "hook");
    hook.when.trigger =
        Trigger::All(vec![event("db", EventCode::Healthy), event("app", EventCode::Stopping)]);
    let (mut scene, actions) = reloading(vec![spec("db"), spec("app"), hook], &["db", "app"]);
    assert_eq!(stopped(&actions), ["app"]);
    assert_eq!(stopped(&scene.report("app", 0, Phase::Complete)), [] as [&str; 0]);
    scene.report("hook", 0, Phase::Running);
    assert_eq!(stopped(&scene.report("hook", 0, Phase::Complete)), ["db"]);

    let mut scene = Scene::new(whole(vec![spec("app"), after_end_of("app", "busy")]));
    scene.report("app", 0, Phase::Running);
    scene.report("busy", 0, Phase::Running);
    scene.step(Input::ReloadAsked(Some(1), RELOAD));
    scene.step(Input::Loaded(Purpose::Reload, Ok(whole(vec![]))));
    assert_eq!(stopped(&scene.step(Input::Prepared(Ok(())))), ["app", "busy"]);
}

#[test]
fn a_new_job_is_told_what_one_that_ended_well_had_reached_and_nothing_of_a_run_before_this_one() {
    let mut scene = Scene::new(whole(vec![spec("init"), spec("app"), spec("failed")]));
    let report = |name: &str, phase, ready, status| JobChanged {
        ready,
        last_status: status,
        ..changed(name, 0, phase)
    };
    for change in [
        report("init", Phase::Running, true, None),
        report("init", Phase::Complete, false, Some(0)),
        report("failed", Phase::Running, true, None),
        report("failed", Phase::Complete, false, Some(3)),
        report("app", Phase::Delayed, false, Some(1)),
        report("app", Phase::Running, true, Some(1)),
    ] {
        scene.step(Input::Reported(change.into()));
    }
    let waiting = |name: &str, keys: &[(&str, EventCode)]| {
        let mut job = spec(name);
        job.when.trigger = Trigger::Any(keys.iter().map(|(name, code)| event(name, *code)).collect());
        job
    };
    let new = waiting(
        "new",
        &[
            ("init", EventCode::Ready),
            ("failed", EventCode::Ready),
            ("failed", EventCode::ExitFailed),
            ("app", EventCode::ExitFailed),
        ],
    );
    scene.step(Input::ReloadAsked(Some(1), RELOAD));
    let jobs = whole(vec![spec("init"), spec("app"), spec("failed"), new]);
    scene.step(Input::Loaded(Purpose::Reload, Ok(jobs)));
    let actions = scene.step(Input::Prepared(Ok(())));
    let told: Vec<&EventKey> = actions
        .iter()
        .filter_map(|action| if let Action::TellJobEvent(_, key) = action { Some(key) } else { None })
        .filter(|key| key.source != Source::Global)
        .collect();
    assert_eq!(told, [&event("init", EventCode::Ready), &event("failed", EventCode::ExitFailed)]);
}
