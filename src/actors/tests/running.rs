//! When jobs run, and how often.

use std::ffi::OsStr;

use super::*;
use crate::config::spec::{BackoffSpec, JobKind, Limit};

#[test]
fn jobs_without_when_start_at_startup_and_the_program_ends_when_all_are_complete() {
    let (status, scene) = play(
        spec(vec![job("a"), job("b")]),
        &[("a", Manner::Ends(0, 5)), ("b", Manner::Ends(0, 9))],
        |_| async {},
    );
    assert_eq!(status, 0);
    assert_eq!(scene.events_of("a"), ["ready", "exitSuccess", "stopping", "stopped"]);
    assert_eq!(scene.events()[0], "global startup");
}

#[test]
fn the_seeds_chain_of_three_jobs_runs_in_order_whatever_the_order_in_the_file() {
    let mut b = triggered("jobB", Trigger::Once(event("jobC", EventCode::ExitSuccess)));
    b.health = vec![health::exec_check("checkB", 1000)];
    let a = triggered("jobA", Trigger::Once(event("jobB", EventCode::Healthy)));
    let manners =
        [("jobC", Manner::Ends(0, 10)), ("checkB", Manner::Ends(0, 1)), ("jobA", Manner::Ends(0, 10))];
    let (_, scene) = play(spec(vec![a, b, job("jobC")]), &manners, |scene| async move {
        scene.wait(500).await;
        scene.signal(Signal::TERM);
    });
    assert!(scene.at("jobC exitSuccess") < scene.at("jobB healthy"));
    assert!(scene.at("jobB healthy") < scene.at("jobA exitSuccess"));
    assert_eq!((scene.fake.runs("jobA"), scene.fake.runs("jobB"), scene.fake.runs("jobC")), (1, 1, 1));
}

#[test]
fn a_job_whose_event_can_no_longer_come_does_not_keep_the_program_alive() {
    let waiting = triggered("b", Trigger::Once(event("a", EventCode::ExitSuccess)));
    let (status, scene) = play(spec(vec![job("a"), waiting]), &[("a", Manner::Ends(4, 5))], |_| async {});
    assert_eq!(status, 4);
    assert_eq!(scene.fake.runs("b"), 0);
    assert_eq!(scene.events_of("b"), ["stopping", "stopped"]);
}

#[test]
fn a_job_that_outlives_the_source_of_its_each_events_does_not_keep_the_program_alive() {
    let hook = triggered("hook", Trigger::Each(event("app", EventCode::ExitSuccess)));
    let manners = [("app", Manner::Ends(0, 5)), ("hook", Manner::Ends(0, 300))];
    let (status, scene) = play(spec(vec![job("app"), hook]), &manners, |_| async {});
    assert_eq!((status, scene.fake.runs("hook")), (0, 1));
    assert!(scene.elapsed() < Duration::from_secs(1));
}

#[test]
fn a_job_that_waits_for_the_end_of_one_that_is_given_up_runs() {
    let b = triggered("b", Trigger::Once(event("a", EventCode::ExitSuccess)));
    let cleanup = triggered("cleanup", Trigger::Once(event("b", EventCode::Stopped)));
    let manners = [("a", Manner::Ends(1, 5)), ("cleanup", Manner::Ends(0, 5))];
    let (_, scene) = play(spec(vec![job("a"), b, cleanup]), &manners, |_| async {});
    assert_eq!((scene.fake.runs("b"), scene.fake.runs("cleanup")), (0, 1));
}

#[test]
fn a_job_started_by_the_last_event_of_the_last_job_still_runs() {
    let after = triggered("after", Trigger::Once(event("a", EventCode::Stopped)));
    let (status, scene) = play(
        spec(vec![job("a"), after]),
        &[("a", Manner::Ends(0, 5)), ("after", Manner::Ends(0, 5))],
        |_| async {},
    );
    assert_eq!((status, scene.fake.runs("after")), (0, 1));
}

#[test]
fn a_job_that_waits_for_the_shutdown_runs_when_everything_else_is_over() {
    let last = EventKey { code: EventCode::Shutdown, source: Source::Global };
    let jobs = vec![triggered("last", Trigger::Once(last)), job("a")];
    let (_, scene) =
        play(spec(jobs), &[("a", Manner::Ends(0, 5)), ("last", Manner::Ends(0, 5))], |_| async {});
    assert_eq!(scene.fake.runs("last"), 1);
}

#[test]
fn a_periodic_task_runs_once_more_than_its_restarts_at_exact_times() {
    let mut task = triggered("task", Trigger::Interval(Duration::from_millis(500)));
    task.restarts = Limit::Finite(5);
    task.timeout = Some(Duration::from_millis(500));
    let (_, scene) = play(spec(vec![task]), &[("task", Manner::Ends(0, 200))], |_| async {});
    let first = scene.fake.started("task")[0].at;
    let starts: Vec<u128> =
        scene.fake.started("task").iter().map(|run| (run.at - first).as_millis()).collect();
    assert_eq!(starts, [0, 500, 1000, 1500, 2000, 2500]);
}

#[test]
fn a_periodic_task_with_a_shorter_timeout_times_out_each_time() {
    let mut task = triggered("task", Trigger::Interval(Duration::from_millis(500)));
    task.restarts = Limit::Finite(5);
    task.timeout = Some(Duration::from_millis(100));
    let (status, scene) = play(spec(vec![task]), &[("task", Manner::Ends(0, 200))], |_| async {});
    assert_eq!(status, 137);
    assert_eq!(scene.events_of("task").iter().filter(|event| *event == "exitFailed").count(), 6);
}

#[test]
fn a_periodic_task_that_lasts_its_whole_interval_runs_in_every_one() {
    let mut task = triggered("task", Trigger::Interval(Duration::from_millis(500)));
    task.restarts = Limit::Finite(3);
    task.timeout = Some(Duration::from_millis(500));
    let (_, scene) = play(spec(vec![task]), &[("task", Manner::Serves)], |_| async {});
    let first = scene.fake.started("task")[0].at;
    let last = scene.fake.started("task").last().unwrap().at;
    assert_eq!(scene.fake.runs("task"), 4);
    assert!((last - first).as_millis() < 1600, "{:?}", last - first);
}

#[test]
fn a_crash_loop_is_slowed_down() {
    for manner in [Manner::Missing, Manner::Broken] {
        let mut app = job("app");
        app.restarts = Limit::Unlimited;
        let (_, scene) = play(spec(vec![app]), &[("app", manner)], |scene| async move {
            scene.wait(60_000).await;
            scene.signal(Signal::TERM);
        });
        let runs = scene.fake.runs("app");
        assert!((8..=14).contains(&runs), "{manner:?}: {runs} runs in a minute");
    }
}

#[test]
fn the_end_of_a_process_of_ours_is_seen_among_thousands_of_orphans() {
    let mut app = job("app");
    app.restarts = Limit::Unlimited;
    let (_, scene) = play(spec(vec![app]), &[], |scene| async move {
        scene.settle().await;
        for _ in 0..100 {
            scene.fake.orphans_die(100);
            tokio::task::yield_now().await; // so that every one of these signals is seen
        }
        scene.fake.kill("app");
        let dead = scene.fake.dead();
        assert!(dead > 4000, "others have their turn however many signals come: {dead} are left");
        scene.wait(1000).await;
        let reaped = dead - scene.fake.started("app")[1].dead;
        assert!(reaped <= 64, "it is started again after {reaped} of {dead} orphans");
        scene.signal(Signal::TERM);
    });
    assert_eq!(scene.fake.dead(), 0);
}

#[test]
fn a_loop_of_failed_spawns_without_backoff_leaves_others_their_turn() {
    for manner in [Manner::Missing, Manner::Broken] {
        let mut app = job("app");
        app.restarts = Limit::Unlimited;
        app.backoff = BackoffSpec { max: Duration::ZERO, ..BackoffSpec::default() };
        let (status, scene) = play(spec(vec![app]), &[("app", manner)], |scene| async move {
            scene.settle().await;
            scene.signal(Signal::TERM);
        });
        assert_eq!(status, 0, "{manner:?}");
        assert!(scene.fake.runs("app") > 10, "{manner:?}");
    }
}

#[test]
fn a_storm_of_each_events_never_runs_two_processes_and_loses_none() {
    let usr2 = EventKey { code: EventCode::Signal, source: Source::Signal(Signal::USR2) };
    let handler = triggered("handler", Trigger::Each(usr2));
    let (_, scene) = play(spec(vec![handler]), &[("handler", Manner::Ends(0, 10))], |scene| async move {
        for _ in 0..1000 {
            scene.signal(Signal::USR2);
        }
        scene.wait(100).await;
        assert_eq!(scene.fake.runs("handler"), 2, "one for the first, one for all that came meanwhile");
        scene.signal(Signal::USR2);
        scene.wait(100).await;
        scene.signal(Signal::TERM);
    });
    assert_eq!(scene.fake.runs("handler"), 3);
    assert_eq!(scene.fake.most_at_once(), 1);
}

#[test]
fn what_is_left_of_a_group_is_ended_before_the_next_run() {
    let mut app = job("app");
    app.restarts = Limit::Finite(1);
    let (_, scene) = play(spec(vec![app]), &[("app", Manner::Litters(300))], |_| async {});
    let runs = scene.fake.started("app");
    assert!(runs[1].at - runs[0].at >= Duration::from_millis(300));
}

#[test]
fn what_is_left_of_a_group_and_ignores_sigterm_is_killed_after_a_second() {
    let (_, scene) = play(spec(vec![job("app")]), &[("app", Manner::Litters(1_000_000))], |_| async {});
    assert!(scene.fake.signals_to("app").contains(&Signal::KILL));
    assert!(scene.elapsed() < Duration::from_millis(1500));
}

#[test]
fn what_is_left_of_a_group_is_killed_even_if_we_were_stopped_meanwhile() {
    let mut app = job("app");
    app.restarts = Limit::Finite(1);
    let (_, scene) = play(spec(vec![app]), &[("app", Manner::Litters(1_000_000))], |scene| async move {
        scene.wait(10).await;
        tokio::time::advance(Duration::from_secs(60)).await; // docker pause, or a machine that sleeps
        scene.wait(100).await;
        assert_eq!(scene.fake.signals_to("app")[..2], [Signal::TERM, Signal::KILL]);
    });
    assert_eq!((scene.fake.runs("app"), scene.fake.most_at_once()), (2, 1));
}

#[test]
fn a_job_whose_event_does_not_come_in_time_gives_up() {
    let mut waiting = triggered("b", Trigger::Once(event("a", EventCode::ExitSuccess)));
    waiting.when.timeout = Some(Duration::from_secs(60));
    let (_, scene) = play(spec(vec![job("a"), waiting]), &[], |scene| async move {
        scene.wait(59_900).await;
        assert!(scene.events_of("b").is_empty());
        scene.wait(200).await;
        assert_eq!(scene.events_of("b"), ["stopping", "stopped"]);
        scene.signal(Signal::TERM);
    });
    assert_eq!(scene.fake.runs("b"), 0);
}

#[test]
fn a_process_knows_the_event_that_started_it_and_who_else_runs() {
    let b = triggered("b", Trigger::Once(event("a", EventCode::ExitFailed)));
    let jobs = vec![job("a"), b, job("server")];
    let (_, scene) =
        play(spec(jobs), &[("a", Manner::Ends(1, 5)), ("b", Manner::Ends(0, 5))], |scene| async move {
            scene.wait(50).await;
            scene.signal(Signal::TERM);
        });
    let run = &scene.fake.started("b")[0];
    let get = |name: &str| {
        run.environment.get(&OsString::from(name)).map(|value| value.to_string_lossy().into_owned())
    };
    assert_eq!(get("CONTAINERPILOT_EVENT_CODE").as_deref(), Some("exitFailed"));
    assert_eq!(get("CONTAINERPILOT_EVENT_SOURCE").as_deref(), Some("a"));
    assert!(get("CONTAINERPILOT_SERVER_PID").is_some());
    assert!(get("CONTAINERPILOT_A_PID").is_none());
}

#[test]
fn only_coprocesses_left_ends_the_program() {
    let mut agent = job("agent");
    agent.kind = JobKind::Coprocess;
    agent.restarts = Limit::Unlimited;
    let (status, scene) = play(spec(vec![agent, job("app")]), &[("app", Manner::Ends(0, 50))], |_| async {});
    assert_eq!(status, 0);
    assert_eq!(scene.events_of("agent").last().map(String::as_str), Some("stopped"));
}

#[test]
fn all_waits_for_every_event_and_any_for_the_first() {
    let (first, second) = (event("a", EventCode::ExitSuccess), event("b", EventCode::ExitSuccess));
    let jobs = vec![
        job("a"),
        job("b"),
        triggered("all", Trigger::All(vec![second.clone(), first.clone()])),
        triggered("any", Trigger::Any(vec![second, first])),
    ];
    let manners = [
        ("a", Manner::Ends(0, 10)),
        ("b", Manner::Ends(0, 500)),
        ("all", Manner::Ends(0, 1)),
        ("any", Manner::Ends(0, 1)),
    ];
    let (_, scene) = play(spec(jobs), &manners, |_| async {});
    assert!(scene.at("any exitSuccess") < scene.at("b exitSuccess"));
    assert!(scene.at("b exitSuccess") < scene.at("all exitSuccess"));
    assert_eq!((scene.fake.runs("all"), scene.fake.runs("any")), (1, 1));
}

use std::ffi::OsString;

#[test]
fn a_job_that_the_kernel_killed_for_memory_says_so_and_one_that_another_killed_does_not() {
    let jobs = ["hungry", "killed", "app"].map(job).to_vec();
    play(spec(jobs), &[("hungry", Manner::Hungry(5))], |scene| async move {
        let told = |name: &str| scene.board.read().jobs[name].last_exit.clone();
        scene.wait(2000).await;
        assert_eq!(told("hungry"), Some((137, "killed for memory (SIGKILL)".to_owned())));
        scene.fake.kill("killed");
        scene.wait(100).await;
        assert_eq!(told("killed"), Some((137, "killed by SIGKILL".to_owned())));
        scene.signal(Signal::TERM);
    });
}

#[test]
fn a_start_that_hangs_holds_up_no_other_job() {
    let (status, scene) = play(
        spec(vec![job("hangs"), job("a"), job("b")]),
        &[("hangs", Manner::Hangs), ("a", Manner::Ends(0, 5)), ("b", Manner::Ends(0, 5))],
        |scene| async move {
            scene.wait(1000).await;
            assert_eq!((scene.fake.runs("a"), scene.fake.runs("b")), (1, 1));
            assert_eq!(scene.board.read().jobs["hangs"].state(), "starting");
            scene.signal(Signal::TERM);
        },
    );
    assert_eq!(status, 0);
    assert_eq!(scene.events_of("hangs"), ["stopping", "exitFailed", "stopped"]);
    assert!(
        scene.elapsed() < Duration::from_millis(1200),
        "it has no process to wait for: {:?}",
        scene.elapsed()
    );
}

#[test]
fn a_start_that_hangs_counts_against_the_timeout_and_its_next_try_takes_no_second_thread() {
    let mut hanging = job("hangs");
    hanging.timeout = Some(Duration::from_millis(300));
    hanging.restarts = Limit::Finite(2);
    hanging.backoff = BackoffSpec { max: Duration::ZERO, ..BackoffSpec::default() };
    let (_, scene) = play(spec(vec![hanging]), &[("hangs", Manner::Hangs)], |_| async {});
    assert_eq!(scene.fake.runs("hangs"), 1, "the others wait for the first, whose thread hangs on");
    assert_eq!(scene.events_of("hangs"), ["exitFailed", "exitFailed", "exitFailed", "stopping", "stopped"]);
    assert!(scene.elapsed() < Duration::from_millis(1100), "{:?}", scene.elapsed());
}

#[test]
fn each_process_is_told_those_that_were_started_before_it() {
    let (_, scene) = play(spec(vec![job("first"), job("second")]), &[], |scene| async move {
        scene.wait(10).await;
        scene.signal(Signal::TERM);
    });
    let variable = |name: &str| {
        scene.fake.started(name)[0].environment.get(OsStr::new("CONTAINERPILOT_FIRST_PID")).cloned()
    };
    assert_eq!(variable("first"), None);
    assert_eq!(variable("second"), Some("100".into()));
}
