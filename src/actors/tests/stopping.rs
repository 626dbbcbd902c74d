//! How everything ends.

use super::*;
use crate::config::spec::{Limit, StopBudget};

#[test]
fn shutdown_stops_every_job_and_ends_as_soon_as_all_are_gone() {
    let (status, scene) = play(spec(vec![job("a"), job("b")]), &[], |scene| async move {
        scene.wait(1000).await;
        scene.signal(Signal::TERM);
    });
    assert_eq!(status, 0);
    assert!(scene.elapsed() < Duration::from_millis(1100), "{:?}", scene.elapsed());
    for name in ["a", "b"] {
        assert_eq!(scene.events_of(name), ["ready", "stopping", "exitFailed", "stopped"]);
        assert!(scene.at("global shutdown") < scene.at(&format!("{name} stopping")));
    }
}

#[test]
fn a_job_that_ignores_sigterm_is_killed_when_the_budget_is_over() {
    let (_, scene) = play(spec(vec![job("a")]), &[("a", Manner::Stubborn)], |scene| async move {
        scene.wait(100).await;
        scene.signal(Signal::TERM);
    });
    assert_eq!(scene.fake.signals_to("a"), [Signal::TERM, Signal::KILL]);
    let took = scene.elapsed();
    assert!(took >= Duration::from_millis(5100) && took < Duration::from_millis(5300), "{took:?}");
}

#[test]
fn a_kill_timeout_shortens_that() {
    let mut stubborn = job("a");
    stubborn.stop.kill_timeout = Some(Duration::from_millis(300));
    let (_, scene) = play(spec(vec![stubborn]), &[("a", Manner::Stubborn)], |scene| async move {
        scene.signal(Signal::TERM);
    });
    assert!(scene.elapsed() < Duration::from_millis(500), "{:?}", scene.elapsed());
}

#[test]
fn a_second_sigterm_kills_at_once() {
    let (_, scene) = play(spec(vec![job("a")]), &[("a", Manner::Stubborn)], |scene| async move {
        scene.wait(100).await;
        scene.signal(Signal::TERM);
        scene.wait(1).await;
        scene.signal(Signal::TERM);
        scene.wait(300).await;
        assert_eq!(scene.fake.signals_to("a"), [Signal::TERM], "twice at once is once");
        scene.signal(Signal::INT);
    });
    assert!(scene.elapsed() < Duration::from_millis(600), "{:?}", scene.elapsed());
}

#[test]
fn a_first_sigterm_does_not_kill_what_an_essential_job_has_begun_to_stop() {
    let mut main = job("main");
    main.essential = true;
    let manners = [("main", Manner::Ends(7, 50)), ("db", Manner::Slow(2000))];
    let (status, scene) = play(spec(vec![main, job("db")]), &manners, |scene| async move {
        scene.wait(500).await;
        scene.signal(Signal::TERM);
    });
    assert_eq!(status, 7);
    assert_eq!(scene.fake.signals_to("db"), [Signal::TERM]);
}

#[test]
fn an_immediate_budget_kills_at_once() {
    let mut spec = spec(vec![job("a")]);
    spec.stop_timeout = StopBudget::Immediate;
    let (_, scene) = play(spec, &[("a", Manner::Stubborn)], |scene| async move {
        scene.wait(100).await;
        scene.signal(Signal::TERM);
    });
    assert_eq!(scene.fake.signals_to("a"), [Signal::KILL]);
    assert_eq!(scene.events_of("a"), ["ready", "stopping", "exitFailed", "stopped"]);
}

#[test]
fn a_pre_stop_job_does_its_work_before_the_process_is_signalled() {
    let pre_stop = triggered("preStop", Trigger::Once(event("app", EventCode::Stopping)));
    let (_, scene) =
        play(spec(vec![job("app"), pre_stop]), &[("preStop", Manner::Ends(0, 700))], |scene| async move {
            scene.wait(100).await;
            scene.signal(Signal::TERM);
            scene.wait(650).await;
            assert!(scene.fake.runs_now("app") && scene.fake.signals_to("app").is_empty());
        });
    assert!(scene.at("preStop exitSuccess") < scene.at("app exitFailed"));
    assert!(scene.elapsed() < Duration::from_millis(900), "{:?}", scene.elapsed());
}

#[test]
fn a_stop_timeout_bounds_the_wait_for_pre_stop_jobs() {
    let mut app = job("app");
    app.stop.wait = Some(Duration::from_millis(200));
    let pre_stop = triggered("preStop", Trigger::Once(event("app", EventCode::Stopping)));
    let (_, scene) =
        play(spec(vec![app, pre_stop]), &[("preStop", Manner::Ends(0, 700))], |scene| async move {
            scene.wait(100).await;
            scene.signal(Signal::TERM);
            scene.wait(300).await;
            assert!(!scene.fake.runs_now("app") && scene.fake.runs_now("preStop"));
        });
    assert!(scene.at("app exitFailed") < scene.at("preStop exitSuccess"));
}

#[test]
fn a_post_stop_job_runs_when_the_process_is_gone() {
    let post_stop = triggered("postStop", Trigger::Once(event("app", EventCode::Stopped)));
    let (_, scene) = play(
        spec(vec![post_stop, job("app")]),
        &[("postStop", Manner::Ends(0, 50)), ("app", Manner::Slow(100))],
        |scene| async move {
            scene.wait(100).await;
            scene.signal(Signal::TERM);
        },
    );
    assert_eq!(scene.fake.runs("postStop"), 1);
    assert!(scene.at("app stopped") < scene.at("postStop exitSuccess"));
}

#[test]
fn what_a_job_needed_to_be_healthy_is_stopped_after_it() {
    let mut agent = job("agent");
    agent.health = vec![health::exec_check("check", 1000)];
    let app = triggered("app", Trigger::Once(event("agent", EventCode::Healthy)));
    let manners = [("check", Manner::Ends(0, 1)), ("app", Manner::Slow(500))];
    let (_, scene) = play(spec(vec![agent, app]), &manners, |scene| async move {
        scene.wait(500).await;
        scene.signal(Signal::TERM);
    });
    assert!(scene.at("app stopped") < scene.at("agent stopping"));
}

#[test]
fn at_four_fifths_of_the_budget_everything_left_is_told() {
    let mut agent = job("agent");
    agent.health = vec![health::exec_check("check", 1000)];
    let app = triggered("app", Trigger::Once(event("agent", EventCode::Healthy)));
    let manners = [("check", Manner::Ends(0, 1)), ("app", Manner::Stubborn), ("agent", Manner::Slow(100))];
    let (_, scene) = play(spec(vec![agent, app]), &manners, |scene| async move {
        scene.wait(500).await;
        scene.signal(Signal::TERM);
        scene.wait(3900).await;
        assert!(scene.fake.runs_now("agent"));
        scene.wait(300).await;
        assert!(!scene.fake.runs_now("agent"));
    });
    assert_eq!(scene.fake.signals_to("app"), [Signal::TERM, Signal::KILL]);
}

#[test]
fn an_essential_job_ends_everything_with_its_status() {
    let mut main = job("main");
    main.essential = true;
    let mut other = job("other");
    other.restarts = Limit::Unlimited;
    let (status, scene) = play(spec(vec![main, other]), &[("main", Manner::Ends(42, 50))], |_| async {});
    assert_eq!(status, 42);
    assert_eq!(scene.events_of("other").last().map(String::as_str), Some("stopped"));
}

#[test]
fn a_shutdown_during_a_restart_delay_does_not_wait_for_it() {
    let mut app = job("app");
    app.restarts = Limit::Unlimited;
    let (_, scene) = play(spec(vec![app]), &[("app", Manner::Ends(1, 0))], |scene| async move {
        scene.wait(30_000).await;
        scene.signal(Signal::TERM);
    });
    assert!(scene.elapsed() < Duration::from_millis(30_200), "{:?}", scene.elapsed());
}

#[test]
fn a_shutdown_at_the_very_beginning_leaves_nothing_running() {
    let (status, scene) = play(spec(vec![job("a"), job("b")]), &[], |scene| async move {
        scene.signal(Signal::TERM);
    });
    assert_eq!(status, 0);
    assert!(scene.elapsed() < Duration::from_millis(100), "{:?}", scene.elapsed());
}

#[test]
fn a_thousand_jobs_stop_at_once() {
    let jobs = (0..1000).map(|number| job(&format!("job{number}"))).collect();
    let (_, scene) = play(spec(jobs), &[], |scene| async move {
        scene.wait(1000).await;
        scene.signal(Signal::TERM);
    });
    assert!(scene.elapsed() < Duration::from_millis(1100), "{:?}", scene.elapsed());
    assert_eq!(scene.events().iter().filter(|event| event.ends_with(" stopped")).count(), 1000);
}

#[test]
fn a_running_job_started_by_an_end_long_before_is_stopped_like_any_other() {
    let fallback = triggered("fallback", Trigger::Once(event("app", EventCode::Stopped)));
    let (_, scene) =
        play(spec(vec![job("app"), fallback]), &[("app", Manner::Ends(1, 5))], |scene| async move {
            scene.wait(1000).await;
            assert!(scene.fake.runs_now("fallback"));
            scene.signal(Signal::TERM);
        });
    assert!(scene.elapsed() < Duration::from_millis(1100), "{:?}", scene.elapsed());
}

#[test]
fn a_post_stop_job_runs_even_if_its_app_needs_most_of_the_budget() {
    let post_stop = triggered("postStop", Trigger::Once(event("app", EventCode::Stopped)));
    let manners = [("app", Manner::Slow(4500)), ("postStop", Manner::Ends(0, 50))];
    let (_, scene) = play(spec(vec![job("app"), post_stop]), &manners, |scene| async move {
        scene.wait(100).await;
        scene.signal(Signal::TERM);
    });
    assert_eq!(scene.fake.runs("postStop"), 1);
}

#[test]
fn that_a_stopping_job_fails_its_checks_is_no_news() {
    let mut app = job("app");
    app.health = vec![health::exec_check("check", 100)];
    let manners = [("app", Manner::Slow(3000)), ("check", Manner::Ends(0, 1))];
    let (_, scene) = play(spec(vec![app]), &manners, |scene| async move {
        scene.wait(500).await;
        scene.signal(Signal::TERM);
        scene.settle().await;
        scene.fake.set("check", Manner::Ends(1, 1));
    });
    assert_eq!(scene.events_of("app"), ["healthy", "ready", "stopping", "exitSuccess", "stopped"]);
}
