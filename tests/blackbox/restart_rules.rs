//! Restart rules: which ends are a success, after which ends a job runs again, and what ill health leads to.

use std::fs;

use crate::support::{Exit, Pilot};

/// A job that writes a line and ends as told, without delays between its restarts.
fn job(settings: &str, script: &str) -> String {
    format!(
        r#"{{ jobs: [{{ name: "app", backoff: {{ max: "0s" }}, {settings},
              exec: ["sh", "-c", "echo run >> {{dir}}/runs; {script}"] }}] }}"#
    )
}

#[test]
fn statuses_and_signals_that_count_as_success_are_one() {
    for (script, event, exit) in [
        ("exit 3", "app exitSuccess", Exit::Code(0)),
        ("kill -TERM $$", "app exitSuccess", Exit::Code(0)),
        ("exit 0", "app exitFailed", Exit::Code(1)),
        ("exit 143", "app exitFailed", Exit::Code(143)),
        ("kill -KILL $$", "app exitFailed", Exit::Code(137)),
    ] {
        let (ended, pilot) = Pilot::run(&job(r#"success: [3, "SIGTERM"]"#, script));
        assert_eq!((ended, pilot.count(event)), (exit, 1), "{script}");
    }
}

#[test]
fn a_success_is_one_for_the_readiness_of_the_container() {
    for (success, is_ready) in [("[0, 3]", true), ("[0]", false)] {
        let pilot = Pilot::start(&format!(
            r#"{{ jobs: [{{ name: "task", exec: ["sh", "-c", "exit 3"], success: {success}, required: true }},
                         {{ name: "app", exec: "sleep 1000" }}] }}"#
        ));
        pilot.wait_for_event("task stopped");
        pilot.eventually("the container is ready or not", || {
            pilot.client(&["-ready"]).status.success() == is_ready
        });
        assert_eq!(pilot.status_of("task")["lastExit"]["success"], is_ready);
        assert_eq!(pilot.stop(), Exit::Code(0));
    }
}

#[test]
fn a_rule_decides_by_the_end_whether_a_job_runs_again() {
    for (rule, script, runs) in [
        (r#"{ limit: 3, on: "failure" }"#, "exit 0", 1),
        (r#"{ limit: 3, on: "failure" }"#, "exit 1", 4),
        (r#"{ limit: 3, on: "success" }"#, "exit 0", 4),
        (r#"{ limit: 3, on: "success" }"#, "exit 1", 1),
        (r#"{ limit: 3, except: [78, "SIGINT"] }"#, "exit 77", 4),
        (r#"{ limit: 3, except: [78, "SIGINT"] }"#, "exit 78", 1),
        (r#"{ limit: 3, except: [78, "SIGINT"] }"#, "kill -INT $$", 1),
        (r#"{ on: "failure" }"#, "test $(wc -l < {dir}/runs) = 20", 20),
    ] {
        let (_, pilot) = Pilot::run(&job(&format!("restarts: {rule}"), script));
        assert_eq!(pilot.lines("runs").len(), runs, "{rule} {script}");
        assert_eq!(pilot.count("app stopped"), 1);
    }
}

#[test]
fn a_missing_program_ends_with_a_status_that_can_be_excepted() {
    let (exit, pilot) =
        Pilot::run(r#"{ jobs: [{ name: "app", exec: "/no/such/program", restarts: { except: 127 } }] }"#);
    assert_eq!((exit, pilot.count("app exitFailed")), (Exit::Code(127), 1));
    pilot.wait_for_message("is not restarted: `restarts.except` has this end");
}

#[test]
fn a_limit_per_time_lets_slow_restarts_go_on_and_stops_fast_ones() {
    // Three runs take longer than the window is, so that a restart is forgotten before the next two.
    let slow = "sleep 0.3; test $(wc -l < {dir}/runs) -lt 9 || exit 78";
    let (exit, pilot) = Pilot::run(&job(r#"restarts: { limit: 2, per: "500ms", except: 78 }"#, slow));
    assert_eq!((exit, pilot.lines("runs").len()), (Exit::Code(78), 9));
    let (_, pilot) = Pilot::run(&job(r#"restarts: { limit: 2, per: "1h" }"#, "exit 1"));
    assert_eq!(pilot.lines("runs").len(), 3);
    pilot.wait_for_message("it was restarted 2 times within 1h0m0s");
}

#[test]
fn an_unhealthy_job_is_restarted_and_becomes_healthy_again() {
    let pilot = Pilot::start(
        r#"{ jobs: [
              { name: "app", exec: ["sh", "-c", "echo $$ >> {dir}/runs; rm -f {dir}/ill; exec sleep 1000"], restarts: 3,
                health: { exec: "test ! -e {dir}/ill", interval: "50ms", timeout: "10s" }, onUnhealthy: "restart" },
              { name: "hook", when: { source: "app", each: "stopping" }, exec: "test -e {dir}/ill" },
          ] }"#,
    );
    for round in 1..=3 {
        pilot.wait_for_events("app healthy", round);
        fs::write(pilot.path("ill"), "").unwrap();
        pilot.wait_for_lines("runs", round + 1);
    }
    pilot.assert_order(&[
        "app healthy",
        "app unhealthy",
        "app stopping",
        "hook exitSuccess",
        "app exitFailed",
        "app stopped",
        "app healthy",
    ]);
    pilot.wait_for_events("app healthy", 4);
    fs::write(pilot.path("ill"), "").unwrap();
    pilot.wait_for_message("is stopped because it is unhealthy, and has no restart left");
    assert_eq!(pilot.wait_exit(), Exit::Code(128 + 15), "its restarts are used up");
    assert_eq!(pilot.lines("runs").len(), 4);
}

#[test]
fn an_unhealthy_job_can_shut_the_program_down() {
    let pilot = Pilot::start(
        r#"{ jobs: [
              { name: "app", exec: "sleep 1000", health: { exec: "test ! -e {dir}/ill", interval: "50ms", timeout: "10s" }, onUnhealthy: "shutdown" },
              { name: "other", exec: "sleep 1000", restarts: "unlimited" },
          ] }"#,
    );
    pilot.wait_for_event("app healthy");
    fs::write(pilot.path("ill"), "").unwrap();
    assert_eq!(pilot.wait_exit(), Exit::Code(1));
    pilot.assert_order(&["app unhealthy", "global shutdown", "other stopped"]);
    pilot.wait_for_message("shutting down: the job app is unhealthy");
}
