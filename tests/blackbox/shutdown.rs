//! The end of the program: jobs stop in order, each with its time, and nothing is left.

use std::time::{Duration, Instant};

use crate::support::needs::can_be_pid_one;
use crate::support::{Exit, Pilot, Setup, state};
use nix::sys::signal::Signal;

/// A script that says `ready`, and at SIGTERM does as told.
fn server(at_term: &str) -> String {
    format!(
        r#"exec: ["sh", "-c", "trap '{at_term}' TERM; echo $$ > {{dir}}/pid; echo ready; while :; do sleep 0.02; done"]"#
    )
}

/// A job that does not react to SIGTERM.
const DEAF: &str =
    r#"name: "app", exec: ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.02; done"]"#;

/// Starts a configuration and waits until `app` is ready.
fn ready(config: &str) -> Pilot {
    let pilot = Pilot::start(config);
    pilot.wait_for_line("app", "ready");
    pilot
}

/// Stops the program and returns how long that took.
fn timed_stop(pilot: &Pilot) -> Duration {
    let began = Instant::now();
    assert_eq!(pilot.stop(), Exit::Code(0));
    began.elapsed()
}

#[test]
fn jobs_around_a_stop_run_while_the_job_serves_and_after_it_is_gone() {
    let pilot = ready(&format!(
        r#"{{ stopTimeout: "60s", jobs: [
            {{ name: "app", {} }},
            {{ name: "preStop", when: {{ source: "app", once: "stopping" }},
              exec: ["sh", "-c", "sleep 0.3; kill -0 $(cat {{dir}}/pid) && echo serving >> {{dir}}/order"] }},
            {{ name: "postStop", when: {{ source: "app", once: "stopped" }},
              exec: ["sh", "-c", "kill -0 $(cat {{dir}}/pid) || echo gone >> {{dir}}/order"] }},
        ] }}"#,
        server("echo told >> {dir}/order; exit 0")
    ));
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.lines("order"), ["serving", "told", "gone"]);
    pilot.assert_order(&[
        "global shutdown",
        "app stopping",
        "preStop exitSuccess",
        "app exitSuccess",
        "app stopped",
        "postStop exitSuccess",
    ]);
}

#[test]
fn a_job_can_wait_for_the_shutdown_itself() {
    let pilot = ready(&format!(
        r#"{{ jobs: [
            {{ name: "app", {} }},
            {{ name: "farewell", exec: "echo bye", when: {{ once: "shutdown" }} }},
        ] }}"#,
        server("exit 0")
    ));
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.lines_of("farewell"), ["bye"]);
}

#[test]
fn a_job_stops_after_those_that_waited_for_its_health() {
    let pilot = Pilot::start(
        r#"{ stopTimeout: "60s", jobs: [
            { name: "agent", exec: "sleep 1000", health: { exec: "true", interval: 1 } },
            { name: "database", exec: "sleep 1000", health: { exec: "true", interval: 1 },
              when: { source: "agent", once: "healthy" } },
            { name: "app", when: { source: "database", once: "healthy" },
              exec: ["sh", "-c", "trap 'sleep 0.3; exit 0' TERM; echo ready; while :; do sleep 0.02; done"] },
        ] }"#,
    );
    pilot.wait_for_line("app", "ready");
    assert_eq!(pilot.stop(), Exit::Code(0));
    pilot.assert_order(&[
        "app stopped",
        "database stopping",
        "database stopped",
        "agent stopping",
        "agent stopped",
    ]);
}

#[test]
fn the_program_ends_as_soon_as_its_jobs_have() {
    let pilot = ready(&format!(
        r#"{{ stopTimeout: "1h", jobs: [{{ name: "app", stopTimeout: "1h", killTimeout: "1h", {} }}] }}"#,
        server("exit 0")
    ));
    assert_eq!(pilot.stop(), Exit::Code(0));
    let summary = pilot.wait_for_message("shutdown took");
    assert!(summary.message.contains("of which job app took"), "{}", summary.message);
}

#[test]
fn the_summary_names_the_job_that_took_longest() {
    let pilot = ready(&format!(
        r#"{{ jobs: [{{ name: "quick", exec: "sleep 1000" }}, {{ name: "app", {} }}] }}"#,
        server("sleep 0.5; exit 0")
    ));
    assert_eq!(pilot.stop(), Exit::Code(0));
    let summary = pilot.wait_for_message("shutdown took");
    assert_eq!(summary.level, "info");
    assert!(summary.message.contains("job app took"), "{}", summary.message);
}

#[test]
fn a_job_that_ignores_its_signal_is_killed_at_the_end_of_the_budget() {
    let pilot = ready(&format!(r#"{{ stopTimeout: "700ms", jobs: [{{ {DEAF} }}] }}"#));
    assert!(timed_stop(&pilot) >= Duration::from_millis(600));
    assert_eq!(pilot.events_of("app"), ["ready", "stopping", "exitFailed", "stopped"]);
    pilot.wait_for_message("killing what is left");
}

#[test]
fn a_budget_of_minus_1_kills_at_once() {
    for budget in ["-1", r#""-1""#] {
        let pilot = ready(&format!(
            r#"{{ stopTimeout: {budget}, jobs: [{{ name: "app", drain: "1h", {} }}] }}"#,
            server("touch {dir}/told; exit 0")
        ));
        assert_eq!(pilot.stop(), Exit::Code(0));
        assert_eq!(pilot.events_of("app"), ["ready", "stopping", "exitFailed", "stopped"]);
        assert!(!pilot.path("told").exists());
    }
}

#[test]
fn a_job_is_stopped_by_the_signal_it_asks_for() {
    for (name, number) in [("SIGUSR1", "USR1"), ("INT", "INT"), ("SIGWINCH", "WINCH")] {
        let pilot = ready(&format!(
            r#"{{ stopTimeout: "60s", jobs: [{{ name: "app", stopSignal: "{name}",
                exec: ["sh", "-c", "trap '' TERM; trap 'exit 0' {number}; echo ready; while :; do sleep 0.02; done"] }}] }}"#
        ));
        assert_eq!(pilot.stop(), Exit::Code(0));
        assert_eq!(pilot.events_of("app"), ["ready", "stopping", "exitSuccess", "stopped"]);
    }
}

#[test]
fn a_job_that_ignores_its_signal_is_killed_after_its_own_time() {
    let pilot = ready(&format!(r#"{{ stopTimeout: "1h", jobs: [{{ killTimeout: "400ms", {DEAF} }}] }}"#));
    assert!(timed_stop(&pilot) >= Duration::from_millis(350));
    assert_eq!(pilot.events_of("app"), ["ready", "stopping", "exitFailed", "stopped"]);
}

#[test]
fn a_drained_job_serves_for_a_while_after_it_is_told_to_stop() {
    let pilot = ready(&format!(
        r#"{{ stopTimeout: "60s", jobs: [{{ name: "app", drain: "500ms", {} }}] }}"#,
        server("exit 0")
    ));
    assert!(timed_stop(&pilot) >= Duration::from_millis(450));
    assert_eq!(pilot.events_of("app"), ["ready", "stopping", "exitSuccess", "stopped"]);
}

#[test]
fn a_job_waits_for_those_that_its_stop_started_only_as_long_as_its_own_limit() {
    let pilot = ready(&format!(
        r#"{{ stopTimeout: "4s", jobs: [
            {{ name: "app", stopTimeout: "1s", {} }},
            {{ name: "preStop", when: {{ source: "app", once: "stopping" }},
              exec: ["sh", "-c", "echo $$ > {{dir}}/preStop; exec sleep 1000"] }},
        ] }}"#,
        server("kill -0 $(cat {dir}/preStop) && echo still at work; exit 0")
    ));
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.lines_of("app").last().map(String::as_str), Some("still at work"));
    pilot.assert_order(&["app stopped", "preStop stopped"]);
}

#[test]
fn a_second_signal_kills_everything_at_once() {
    for (first, second) in [(Signal::SIGTERM, Signal::SIGTERM), (Signal::SIGINT, Signal::SIGTERM)] {
        let pilot = ready(&format!(r#"{{ stopTimeout: "1h", jobs: [{{ {DEAF} }}] }}"#));
        pilot.signal(first);
        pilot.wait_for_message("sends SIGTERM");
        // One that comes within a moment of the first may be the same one, sent twice.
        pilot.eventually("killing everything", || {
            pilot.signal(second);
            pilot.log().text().contains("killing everything") || pilot.log().exit().is_some()
        });
        assert_eq!(pilot.wait_exit(), Exit::Code(0));
    }
}

#[test]
fn a_shutdown_during_the_startup_chain_starts_nothing_more() {
    let pilot = ready(
        r#"{ stopTimeout: "60s", jobs: [
            { name: "third", exec: "echo third", when: { source: "second", once: "exitSuccess" } },
            { name: "second", exec: "echo second", when: { source: "app", once: "exitSuccess" } },
            { name: "app", exec: ["sh", "-c", "echo ready; exec sleep 1000"] },
        ] }"#,
    );
    assert_eq!(pilot.stop(), Exit::Code(0));
    for job in ["second", "third"] {
        assert_eq!(pilot.events_of(job), ["stopping", "stopped"]);
    }
}

#[test]
fn a_shutdown_does_not_wait_for_a_delayed_restart() {
    let pilot = Pilot::start(
        r#"{ stopTimeout: "1h", jobs: [{ name: "app", exec: "false", restarts: "unlimited", backoff: { min: "1h", max: "1h" } }] }"#,
    );
    pilot.wait_for_message("restarts in");
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.events_of("app"), ["ready", "exitFailed", "stopping", "stopped"]);
}

#[test]
fn a_shutdown_does_not_wait_for_the_time_limit_of_a_wait() {
    let pilot = ready(
        r#"{ stopTimeout: "1h", jobs: [
            { name: "app", exec: "sh -c 'echo ready; exec sleep 1000'" },
            { name: "one", exec: "true", when: { source: "three", once: "stopped" } },
            { name: "two", exec: "true", when: { source: "one", once: "stopped", timeout: "1h" } },
            { name: "three", exec: "true", when: { source: "two", once: "stopped" } },
        ] }"#,
    );
    assert_eq!(pilot.stop(), Exit::Code(0));
    for job in ["one", "two", "three"] {
        assert_eq!(pilot.events_of(job), ["stopping", "stopped"]);
    }
}

#[test]
fn a_shutdown_does_not_wait_for_a_program_that_cannot_be_executed() {
    for failures in [1, 2, 10, 50] {
        let pilot = Pilot::start(
            r#"{ stopTimeout: "1h", jobs: [{ name: "app", exec: "/no/such/program", restarts: "unlimited", backoff: { max: "0s" } }] }"#,
        );
        pilot.wait_for_events("app exitFailed", failures);
        assert_eq!(pilot.stop(), Exit::Code(0));
        assert_eq!(pilot.events().last().map(String::as_str), Some("app stopped"));
    }
}

#[test]
fn a_shutdown_in_a_storm_of_restarts_leaves_nothing_behind() {
    let jobs: Vec<String> = (0..10)
        .map(|number| {
            format!(
                r#"{{ name: "job{number}", exec: "true", restarts: "unlimited", backoff: {{ max: "0s" }} }}"#
            )
        })
        .collect();
    let config = format!(r#"{{ stopTimeout: "60s", jobs: [{}] }}"#, jobs.join(", "));
    for exits in [1, 3, 7, 20, 50] {
        let pilot = Pilot::start(&config);
        pilot.wait_for_events("job9 exitSuccess", exits);
        assert_eq!(pilot.stop(), Exit::Code(0));
        for number in 0..10 {
            let events = pilot.events_of(&format!("job{number}"));
            assert_eq!(events.iter().filter(|code| *code == "stopping").count(), 1, "{events:?}");
            assert_eq!(events.last().map(String::as_str), Some("stopped"));
        }
    }
}

#[test]
fn a_shutdown_right_after_startup_misses_no_job() {
    for _ in 0..10 {
        let pilot = Pilot::start(
            r#"{ stopTimeout: "60s", jobs: [{ name: "app", exec: "sleep 1000" }, { name: "other", exec: "sleep 1000" }] }"#,
        );
        pilot.wait_for_event("global startup");
        assert_eq!(pilot.stop(), Exit::Code(0));
        for job in ["app", "other"] {
            pilot.assert_order(&[&format!("{job} stopping"), &format!("{job} stopped")]);
        }
    }
}

#[test]
fn a_suspended_process_ends_with_the_stop_signal_and_not_with_the_budget() {
    let pilot = ready(
        r#"{ stopTimeout: "60s", jobs: [
            { name: "app", exec: ["sh", "-c", "echo ready; kill -STOP $$"] },
            { name: "other", exec: "sleep 1000" },
        ] }"#,
    );
    let suspended = i32::try_from(pilot.pid_of("app")).unwrap();
    pilot.eventually("the process is suspended", || state(suspended) == Some('T'));
    assert_eq!(pilot.stop(), Exit::Code(0));
    // SIGCONT follows the stop signal; without it, the process would be killed by SIGKILL when the budget is used up.
    pilot.wait_for_record("app ends by the stop signal", |record| {
        record.job == "app" && record.message.starts_with("killed by SIGTERM")
    });
}

/// A job that leaves a daemon behind, written as a script; `afterwards` is what it does then.
fn daemon(script: &str, afterwards: &str) -> Pilot {
    let wait = "until test -e {dir}/up; do sleep 0.01; done; echo ready";
    Setup::new()
        .file("daemon", script)
        .file("job", &format!("setsid sh {{dir}}/daemon &\n{wait}\n{afterwards}\n"))
        .config(r#"{ jobs: [{ name: "app", exec: "sh {dir}/job" }] }"#)
        .start()
}

#[test]
fn a_daemon_that_left_its_job_is_gone_when_the_program_is() {
    let script = "touch {dir}/up; exec sleep 1000";
    assert_eq!(daemon(script, "exit 0").wait_exit(), Exit::Code(0));
    let pilot = daemon(script, "exec sleep 1000");
    pilot.wait_for_line("app", "ready");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_family_of_daemons_that_ignores_signals_is_gone_too() {
    // Each is the child of the one before, so that killing one hands us the next.
    let script = r#"trap '' TERM; sh -c 'sh -c "touch {dir}/up; sleep 1000 & wait" & wait' & wait"#;
    assert_eq!(daemon(script, "exit 0").wait_exit(), Exit::Code(0));
}

#[test]
fn the_end_of_process_1_is_in_order_too() {
    if !can_be_pid_one() {
        return;
    }
    let config = format!(
        r#"{{ stopTimeout: "60s", jobs: [
            {{ name: "app", {} }},
            {{ name: "preStop", exec: "echo before", when: {{ source: "app", once: "stopping" }} }},
            {{ name: "daemon", exec: ["sh", "-c", "setsid sleep 1000 &"] }},
        ] }}"#,
        server("exit 0")
    );
    let pilot = Setup::new().config(&config).as_pid_one().start();
    pilot.wait_for_line("app", "ready");
    assert_eq!(pilot.stop(), Exit::Code(0));
    pilot.assert_order(&["app stopping", "preStop exitSuccess", "app exitSuccess", "app stopped"]);
}

#[test]
fn a_job_has_the_time_to_stop_that_it_asks_for() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", killTimeout: "60s", exec: ["sh", "-c",
            "trap 'echo asked; sleep 6; echo done; exit 0' TERM; echo up; while :; do sleep 0.05; done"] }] }"#,
    );
    pilot.wait_for_line("app", "up");
    assert_eq!(pilot.stop(), Exit::Code(0));
    // The default budget is over after 5 s.
    assert_eq!(pilot.lines_of("app").last().map(String::as_str), Some("done"));
}
