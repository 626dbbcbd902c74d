//! Health checks that execute a command: when a job becomes healthy and unhealthy, and what a slow check may do.

use std::fs;

use crate::support::{Exit, Pilot, Setup};

#[test]
fn a_job_is_healthy_as_soon_as_it_can_be() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", exec: "sleep 1000", health: { exec: "true", interval: "1h", ttl: "3h" } }] }"#,
    );
    pilot.wait_for_event("app healthy");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_job_that_is_not_ready_yet_is_not_called_unhealthy() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", exec: ["sh", "-c", "sleep 0.5; touch {dir}/up; exec sleep 1000"],
              health: { exec: "test -e {dir}/up", interval: "20s" } }] }"#,
    );
    pilot.wait_for_event("app healthy");
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.count("app unhealthy"), 0);
}

#[test]
fn health_follows_the_check_and_only_changes_are_events() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", exec: "sleep 1000",
              health: { exec: ["sh", "-c", "echo x >> {dir}/checks; test -e {dir}/up"], interval: "50ms", timeout: "10s" } }] }"#,
    );
    let several_checks = || {
        let before = pilot.lines("checks").len();
        pilot.wait_for_lines("checks", before + 3);
    };
    pilot.wait_for_event("app unhealthy");
    several_checks();
    fs::write(pilot.path("up"), "").unwrap();
    pilot.wait_for_event("app healthy");
    several_checks();
    fs::remove_file(pilot.path("up")).unwrap();
    pilot.wait_for_events("app unhealthy", 2);
    several_checks();
    assert_eq!(pilot.stop(), Exit::Code(0));
    let codes = pilot.events_of("app");
    assert_eq!(codes[..4], ["unhealthy", "healthy", "ready", "unhealthy"]);
    assert_eq!(codes[4], "stopping");
}

#[test]
fn as_many_failures_in_a_row_as_configured_make_a_job_unhealthy() {
    let config = r#"{ jobs: [{ name: "app", exec: "sleep 1000",
        health: { exec: ["sh", "-c", "test -e {dir}/up || { echo x >> {dir}/failures; exit 1; }"], interval: "100ms", timeout: "10s", failures: 4 } }] }"#;
    let pilot = Setup::new().file("up", "").config(config).start();
    pilot.wait_for_event("app healthy");
    let before = pilot.lines("failures").len();
    fs::remove_file(pilot.path("up")).unwrap();
    pilot.wait_for_event("app unhealthy");
    assert!(pilot.lines("failures").len() >= before + 4);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_job_is_healthy_only_when_all_its_checks_pass() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", exec: "sleep 1000", health: [
              { name: "first", exec: "true", interval: "50ms" },
              { name: "second", exec: "test -e {dir}/up", interval: "50ms" },
          ] }] }"#,
    );
    pilot.wait_for_event("app unhealthy");
    fs::write(pilot.path("up"), "").unwrap();
    pilot.wait_for_event("app healthy");
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.events_of("app")[..2], ["unhealthy", "healthy"]);
}

#[test]
fn a_check_that_takes_too_long_is_killed_with_its_children_and_has_failed() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", exec: "sleep 1000",
              health: { exec: ["sh", "-c", "trap '' TERM; echo $$ >> {dir}/checks; sleep 1000 & sleep 1000"], interval: "200ms", timeout: "100ms" } }] }"#,
    );
    pilot.wait_for_event("app unhealthy");
    pilot.wait_for_lines("checks", 4);
    let first = &pilot.lines("checks")[0];
    let process = std::path::Path::new("/proc").join(first);
    pilot.eventually("the first check is gone", || !process.exists());
    assert!(pilot.processes().len() <= 6, "one check at a time: {:?}", pilot.processes());
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn every_start_of_the_process_returns_a_job_to_unknown() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", restarts: "unlimited", backoff: { max: "0s" },
              exec: ["sh", "-c", "echo $$ > {dir}/pid; exec sleep 1000"], health: { exec: "true", interval: "20s" } }] }"#,
    );
    for round in 1..=3 {
        pilot.wait_for_events("app healthy", round);
        let pid = pilot.text("pid").trim().parse().unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGKILL).unwrap();
        pilot.wait_for_events("app exitFailed", round);
    }
    pilot.wait_for_events("app healthy", 4);
    assert_eq!(pilot.stop(), Exit::Code(0));
    let codes = pilot.events_of("app");
    assert_eq!(codes[..4], ["healthy", "ready", "exitFailed", "healthy"]);
}

#[test]
fn nothing_is_checked_while_the_process_does_not_run() {
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "gate", exec: ["sh", "-c", "until test -e {dir}/go; do sleep 0.01; done"] },
            { name: "app", exec: ["sh", "-c", "sleep 0.3"], when: { source: "gate", once: "exitSuccess" },
              health: { exec: ["sh", "-c", "test -e {dir}/go || touch {dir}/early"], interval: "10ms", timeout: "10s" } },
            { name: "ticks", exec: "true", when: { interval: "20ms" }, timeout: "10s", restarts: 10 },
        ] }"#,
    );
    pilot.wait_for_event("ticks stopped");
    fs::write(pilot.path("go"), "").unwrap();
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
    assert!(!pilot.path("early").exists());
    pilot.assert_order(&["gate exitSuccess", "app healthy", "app exitSuccess", "app stopped"]);
}

#[test]
fn a_check_whose_program_is_missing_has_failed() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", exec: "sleep 1000", health: { exec: "/no/such/check", interval: "50ms", timeout: "10s" } }] }"#,
    );
    pilot.wait_for_event("app unhealthy");
    pilot.wait_for_message("/no/such/check");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

/// ContainerPilot's issue 548: a check that may take longer than its interval froze everything after a while.
#[test]
fn a_check_with_a_timeout_beyond_its_interval_freezes_nothing() {
    let checks: Vec<String> = (0..4)
        .map(|number| {
            format!(
                r#"{{ name: "app{number}", exec: "sleep 1000",
                     health: {{ exec: "sleep 0.05", interval: "5ms", timeout: "500ms" }} }}"#
            )
        })
        .collect();
    let pilot = Pilot::start(&format!(
        r#"{{ jobs: [{}, {{ name: "task", exec: "true", when: {{ interval: "20ms" }}, timeout: "10s" }}] }}"#,
        checks.join(", ")
    ));
    pilot.wait_for_events("task exitSuccess", 100);
    for number in 0..4 {
        pilot.wait_for_event(&format!("app{number} healthy"));
    }
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn a_check_that_prints_much_passes_while_nobody_reads_the_log() {
    let pilot = Setup::new()
        .config(
            r#"{ jobs: [{ name: "writer", exec: "yes" }, { name: "app", exec: "sleep 1000", health: {
                exec: ["sh", "-c", "head -c 100000 /dev/zero && echo >> {dir}/passed"], interval: "50ms", timeout: "20s" } }] }"#,
        )
        .with_unread_output()
        .start();
    pilot.eventually("the log is full", || pilot.tell(&["why", "writer"]).contains("does not keep up"));
    // The first of these may have begun before.
    pilot.wait_for_lines("passed", pilot.lines("passed").len() + 3);
    assert_eq!(pilot.ask("GET", "/v3/status", "").json()["jobs"][1]["health"], "healthy");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

/// A check that says something each time, on both streams. It has much time, so that a busy machine does not fail it.
const TALKATIVE: &str = r#"{ logging: { format: "json", level: "LEVEL" }, jobs: [
    { name: "app", exec: "sleep 1000", health: { exec: ["sh", "-c",
        "echo x >> {dir}/checks; test -e {dir}/up && { echo fine; exit; }; echo tried; echo refused >&2; exit 1"],
        interval: "50ms", timeout: "20s", logging: { raw: RAW } } }] }"#;

fn talkative(level: &str, raw: bool) -> Pilot {
    let config = TALKATIVE.replace("LEVEL", level).replace("RAW", &raw.to_string());
    Setup::new().file("up", "").config(&config).start()
}

#[test]
fn the_output_of_a_check_is_logged_at_info_only_when_it_fails() {
    let pilot = talkative("INFO", false);
    pilot.wait_for_lines("checks", 5);
    assert!(!pilot.log().text().contains("fine"), "{}", pilot.log().text());
    fs::remove_file(pilot.path("up")).unwrap();
    for line in ["tried", "refused"] {
        pilot.wait_for_line("check.app", line);
    }
    let record = pilot.wait_for_message("exited with status 1");
    let records = pilot.log().records();
    let place = |message: &str| records.iter().position(|record| record.message.contains(message)).unwrap();
    assert!(place("refused") < place(&record.message), "why it failed is logged before that it failed");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn the_output_of_a_check_that_passes_is_logged_at_debug() {
    let pilot = talkative("DEBUG", false);
    let record = pilot.wait_for_message("fine");
    assert_eq!((record.job.as_str(), record.level.as_str()), ("check.app", "debug"));
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn raw_output_of_a_check_is_as_it_was_whether_it_passes_or_not() {
    let pilot = talkative("INFO", true);
    pilot.wait_for_record("raw output", |record| record.line == "fine");
    fs::remove_file(pilot.path("up")).unwrap();
    pilot.wait_for_record("raw output", |record| record.line == "refused");
    assert_eq!(pilot.stop(), Exit::Code(0));
}
