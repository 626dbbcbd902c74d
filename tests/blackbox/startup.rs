//! When jobs start: every kind of `when`, and what a job's process finds in its environment.

use std::fs;

use crate::support::{Exit, Pilot, Setup};
use nix::sys::signal::Signal;

/// A job that goes on once the test has made the file `go`.
const HELD: &str =
    r#"{ name: "held", exec: ["sh", "-c", "until test -e {dir}/go; do sleep 0.01; done"], timeout: "60s" }"#;

fn let_go(pilot: &Pilot) {
    fs::write(pilot.path("go"), "").unwrap();
}

#[test]
fn a_job_without_when_runs_at_startup() {
    let (exit, pilot) = Pilot::run(r#"{ jobs: [{ name: "app", exec: "echo hello" }] }"#);
    assert_eq!(exit, Exit::Code(0));
    assert_eq!(pilot.lines_of("app"), ["hello"]);
    assert_eq!(
        pilot.events(),
        ["global startup", "app ready", "app exitSuccess", "app stopping", "app stopped", "global shutdown"]
    );
}

#[test]
fn every_spelling_of_startup_means_the_same() {
    for when in
        [r#"{ once: "startup" }"#, r#"{ event: "startup" }"#, r#"{ source: "global", once: "startup" }"#]
    {
        let (exit, pilot) =
            Pilot::run(&format!(r#"{{ jobs: [{{ name: "app", exec: "echo hello", when: {when} }}] }}"#));
        assert_eq!((exit, pilot.lines_of("app").len()), (Exit::Code(0), 1), "{when}");
    }
}

#[test]
fn once_runs_at_the_first_event_only() {
    let (exit, pilot) = Pilot::run(
        r#"{ jobs: [
            { name: "first", exec: "true", restarts: 3, backoff: { max: "0s" } },
            { name: "second", exec: "echo hello", when: { source: "first", once: "exitSuccess" } },
        ] }"#,
    );
    assert_eq!(exit, Exit::Code(0));
    assert_eq!((pilot.count("first exitSuccess"), pilot.lines_of("second").len()), (4, 1));
}

#[test]
fn each_runs_at_every_event() {
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "first", exec: "true", when: { source: "SIGUSR2" } },
            { name: "second", exec: "echo hello", when: { source: "first", each: "exitSuccess" } },
        ] }"#,
    );
    pilot.wait_for_event("global startup");
    for round in 1..=5 {
        pilot.signal(Signal::SIGUSR2);
        pilot.wait_for_events("second exitSuccess", round);
    }
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.lines_of("second").len(), 5);
}

#[test]
fn all_and_a_bare_array_wait_for_each_event_in_any_order() {
    let events = r#"[{ source: "held", once: "exitSuccess" }, { source: "quick", once: "stopped" }]"#;
    for when in [events.to_owned(), format!("{{ all: {events} }}")] {
        let pilot = Pilot::start(&format!(
            r#"{{ jobs: [
                {{ name: "app", exec: ["sh", "-c", "test -e {{dir}}/go && echo in time"], when: {when} }},
                {{ name: "quick", exec: "true" }},
                {HELD},
            ] }}"#,
        ));
        pilot.wait_for_event("quick stopped");
        let_go(&pilot);
        assert_eq!(pilot.wait_exit(), Exit::Code(0));
        assert_eq!(pilot.lines_of("app"), ["in time"]);
    }
}

#[test]
fn any_starts_at_the_first_of_its_events_and_only_then() {
    let pilot = Pilot::start(&format!(
        r#"{{ jobs: [
            {{ name: "app", exec: ["sh", "-c", "test -e {{dir}}/go || echo early"],
              when: {{ any: [{{ source: "held", once: "exitSuccess" }}, {{ source: "quick", once: "stopped" }}] }} }},
            {{ name: "quick", exec: "true" }},
            {HELD},
        ] }}"#,
    ));
    pilot.wait_for_event("app stopped");
    let_go(&pilot);
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
    assert_eq!(pilot.lines_of("app"), ["early"]);
}

#[test]
fn a_job_can_wait_for_its_own_events() {
    let (exit, pilot) = Pilot::run(
        r#"{ jobs: [
            { name: "app", exec: "echo hello", when: { any: [{ once: "startup" }, { source: "app", once: "stopped" }] } },
            { name: "never", exec: "echo never", when: { source: "never", once: "exitSuccess" } },
        ] }"#,
    );
    assert_eq!(exit, Exit::Code(0));
    assert_eq!(pilot.lines_of("app"), ["hello"]);
    assert_eq!(pilot.events_of("never"), ["stopping", "stopped"]);
    pilot.wait_for_record("a warning about it", |record| {
        record.level == "warning" && record.message.contains("never")
    });
}

#[test]
fn a_job_whose_event_can_no_longer_come_does_not_keep_the_program_alive() {
    let (exit, pilot) = Pilot::run(
        r#"{ jobs: [
            { name: "first", exec: "true" },
            { name: "second", exec: "echo second", when: { source: "first", once: "exitFailed" } },
            { name: "third", exec: "echo third", when: { source: "second", once: "exitSuccess" } },
        ] }"#,
    );
    assert_eq!(exit, Exit::Code(0));
    for job in ["second", "third"] {
        assert_eq!(pilot.events_of(job), ["stopping", "stopped"]);
    }
}

#[test]
fn a_chain_starts_in_its_order_whatever_the_order_in_the_file() {
    let jobs = [
        r#"{ name: "jobA", exec: "echo a", when: { source: "jobB", once: "healthy" } }"#,
        r#"{ name: "jobB", exec: "sleep 1000", health: { exec: "true", interval: 1 }, when: { source: "jobC", once: "exitSuccess" } }"#,
        r#"{ name: "jobC", exec: "echo c" }"#,
    ];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let listed: Vec<&str> = order.iter().map(|index| jobs[*index]).collect();
        let pilot = Pilot::start(&format!("{{ jobs: [{}] }}", listed.join(", ")));
        pilot.wait_for_event("jobA stopped");
        assert_eq!(pilot.stop(), Exit::Code(0));
        pilot.assert_order(&["global startup", "jobC exitSuccess", "jobB healthy", "jobA exitSuccess"]);
        assert_eq!(pilot.events_of("jobA"), ["ready", "exitSuccess", "stopping", "stopped"]);
    }
}

#[test]
fn a_job_gives_up_when_its_event_does_not_come_in_time() {
    let pilot = Pilot::start(&format!(
        r#"{{ jobs: [
            {HELD},
            {{ name: "app", exec: "echo late", when: {{ source: "held", once: "exitSuccess", timeout: "100ms" }} }},
            {{ name: "next", exec: "echo next", when: {{ source: "app", once: "stopped" }} }},
        ] }}"#,
    ));
    pilot.wait_for_event("next stopped");
    let_go(&pilot);
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
    assert_eq!(pilot.events_of("app"), ["stopping", "stopped"]);
    assert_eq!(pilot.lines_of("next"), ["next"]);
}

#[test]
fn the_time_limit_of_when_ends_when_the_job_starts() {
    let (exit, pilot) = Pilot::run(
        r#"{ jobs: [
            { name: "first", exec: "true" },
            { name: "app", exec: ["sh", "-c", "sleep 1.5; echo done"],
              when: { source: "first", once: "exitSuccess", timeout: "1s" } },
        ] }"#,
    );
    assert_eq!(exit, Exit::Code(0));
    assert_eq!(pilot.lines_of("app"), ["done"]);
}

#[test]
fn a_process_knows_the_program_and_the_event_that_started_it() {
    let print =
        r#"["sh", "-c", "echo $CONTAINERPILOT_PID $CONTAINERPILOT_EVENT_SOURCE $CONTAINERPILOT_EVENT_CODE"]"#;
    let (_, pilot) = Pilot::run(&format!(
        r#"{{ jobs: [
            {{ name: "first", exec: {print} }},
            {{ name: "second", exec: {print}, when: {{ source: "first", once: "exitSuccess" }} }},
        ] }}"#,
    ));
    let pid = pilot.pid();
    assert_eq!(pilot.lines_of("first"), [format!("{pid} global startup")]);
    assert_eq!(pilot.lines_of("second"), [format!("{pid} first exitSuccess")]);
}

#[test]
fn a_process_knows_the_jobs_that_run_and_the_addresses_of_those_advertised() {
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "my-app", exec: ["sh", "-c", "echo $$ > {dir}/pid; exec sleep 1000"], port: 80, interfaces: "static:192.0.2.7",
              health: { exec: "test -s {dir}/pid", interval: 1 } },
            { name: "gone", exec: "true" },
            { name: "probe", when: [{ source: "my-app", once: "healthy" }, { source: "gone", once: "stopped" }],
              exec: ["sh", "-c", "echo $CONTAINERPILOT_MY_APP_PID $CONTAINERPILOT_MY_APP_IP ${CONTAINERPILOT_GONE_PID-unset}"] },
        ] }"#,
    );
    pilot.wait_for_event("probe stopped");
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.lines_of("probe"), [format!("{} 192.0.2.7 unset", pilot.text("pid").trim())]);
}

#[test]
fn the_environment_of_a_job_is_ours_then_the_configurations_then_its_own() {
    let print = r#"exec: ["sh", "-c", "echo ${KEPT-} ${FIRST-} ${SECOND-} ${THIRD-}"]"#;
    let config = format!(
        r#"{{
            env: {{ FIRST: "global", SECOND: "global", THIRD: null }},
            jobs: [
                {{ name: "plain", {print} }},
                {{ name: "own", {print}, env: {{ SECOND: "own", FIRST: null, THIRD: "a=b" }} }},
            ],
        }}"#
    );
    let pilot = Setup::new().config(&config).env("KEPT", "kept").env("THIRD", "inherited").start();
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
    assert_eq!(pilot.lines_of("plain"), ["kept global global"]);
    assert_eq!(pilot.lines_of("own"), ["kept own a=b"]);
}

#[test]
fn a_program_that_moves_to_the_background_is_warned_of_at_start_with_a_configuration_or_without() {
    let config = r#"{ jobs: [{ name: "web", exec: "{dir}/nginx" }] }"#;
    let script = "#!/bin/sh\n";
    for pilot in [
        Setup::new().file("nginx", script).config(config).start(),
        Setup::new().file("nginx", script).arguments(&["--", "{dir}/nginx"]).start(),
    ] {
        pilot.wait_for_message("add -g 'daemon off;'");
    }
}
