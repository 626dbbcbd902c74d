//! Orders by hand while other jobs wait: nobody is given up whose event may still come.

use crate::support;
use crate::support::needs::can_be_pid_one;
use crate::support::{Exit, Pilot, Setup};

/// A job that becomes healthy at once, and takes a while to stop.
const DB: &str = r#"{
    name: "db",
    exec: ["sh", "-c", "trap 'sleep 0.3; exit 0' TERM; echo up; while :; do sleep 0.02; done"],
    restarts: "unlimited",
    backoff: { max: "0s" },
    health: { exec: "true", interval: "50ms", timeout: "10s" },
}"#;

/// A job that goes idle again and again while `db` stops.
const IDLE: &str = r#"{ name: "idle", exec: "true", when: { interval: "20ms" } }"#;

/// `app` waits for `db` to be healthy, and has not started yet.
fn waiting_app(when: &str) -> String {
    format!(
        r#"{{ name: "app", exec: ["sh", "-c", "echo here; exec sleep 1000"], essential: true, when: {when} }}"#
    )
}

#[test]
fn an_essential_job_that_waits_for_a_job_outlives_its_restart() {
    let forms = [
        r#"{ source: "db", once: "healthy" }"#,
        r#"{ source: "db", each: "healthy" }"#,
        r#"{ all: [{ source: "db", once: "healthy" }, { source: "gate", once: "exitSuccess" }] }"#,
        r#"{ any: [{ source: "db", once: "healthy" }] }"#,
    ];
    for form in forms {
        // The first process of `db` never becomes healthy: its check waits for the second.
        let pilot = Pilot::start(&format!(
            r#"{{ jobs: [
                {{
                    name: "db",
                    exec: ["sh", "-c", "echo >> {{dir}}/runs; trap 'sleep 0.3; exit 0' TERM; echo up; while :; do sleep 0.02; done"],
                    restarts: "unlimited",
                    backoff: {{ max: "0s" }},
                    health: {{ exec: ["sh", "-c", "test $(wc -l < {{dir}}/runs) -gt 1"], interval: "50ms", timeout: "10s" }},
                }},
                {},
                {{ name: "gate", exec: "true" }},
                {IDLE},
            ] }}"#,
            waiting_app(form)
        ));
        pilot.wait_for_line("db", "up");
        pilot.tell(&["restart", "db"]);
        pilot.wait_for_line("app", "here");
        assert_eq!(pilot.stop(), Exit::Code(0), "{form}");
        assert!(!pilot.log().text().contains("can no longer come"), "{form}");
    }
}

#[test]
fn a_job_that_waits_for_one_stopped_by_hand_starts_when_that_is_started_again() {
    for code in ["healthy", "unhealthy", "exitSuccess", "exitFailed", "stopping", "stopped"] {
        let when = format!(r#"{{ source: "db", each: "{code}" }}"#);
        let pilot = Pilot::start(&format!(
            r#"{{ jobs: [{DB}, {IDLE}, {{ name: "hook", exec: "echo hook", when: {when} }}] }}"#
        ));
        pilot.wait_for_line("db", "up");
        pilot.wait_for_event("db healthy");
        pilot.tell(&["stop", "db"]);
        pilot.wait_for_event("db stopped");
        // The job that goes idle makes the program look at the whole again and again.
        pilot.wait_for_events("idle exitSuccess", 3);
        pilot.tell(&["start", "db"]);
        pilot.wait_for_events("db healthy", 2);
        pilot.tell(&["restart", "db"]);
        pilot.wait_for_events("db healthy", 3);
        if code == "unhealthy" || code == "exitFailed" {
            assert!(!pilot.events().contains(&"hook stopped".to_owned()), "{code}");
        } else {
            let times = if code == "healthy" { 3 } else { 2 };
            pilot.wait_for_events("hook exitSuccess", times);
        }
        assert!(!pilot.log().text().contains("can no longer come"), "{code}");
        assert_eq!(pilot.stop(), Exit::Code(0), "{code}");
    }
}

#[test]
fn restarting_when_unhealthy_works_as_often_as_it_is_needed() {
    let program = support::program();
    let config = format!(
        r#"{{ jobs: [
            {{
                name: "app",
                exec: ["sh", "-c", "touch {{dir}}/fine; trap 'exit 0' TERM; while :; do sleep 0.02; done"],
                restarts: "unlimited",
                backoff: {{ max: "0s" }},
                essential: true,
                health: {{ exec: "test -e {{dir}}/fine", interval: "50ms", timeout: "10s" }},
            }},
            {{
                name: "healer",
                exec: ["{program}", "-socket", "{{dir}}/control.socket", "restart", "app"],
                when: {{ source: "app", each: "unhealthy" }},
            }},
            {IDLE},
        ] }}"#
    );
    let heal = |pilot: &Pilot| {
        for round in 1..=5 {
            pilot.wait_for_events("app healthy", round);
            std::fs::remove_file(pilot.path("fine")).unwrap();
            pilot.wait_for_events("healer exitSuccess", round);
        }
        pilot.wait_for_events("app healthy", 6);
        assert_eq!(pilot.stop(), Exit::Code(0));
    };
    heal(&Pilot::start(&config));
    if can_be_pid_one() {
        heal(&Setup::new().config(&config).as_pid_one().start());
    }
}

#[test]
fn a_job_that_waits_for_one_that_a_reload_replaces_is_not_given_up() {
    let pilot = Pilot::start(&format!(
        r#"{{ jobs: [
            {{ name: "db", exec: ["sh", "-c", "trap 'sleep 0.3; exit 0' TERM; echo 1; while :; do sleep 0.02; done"],
               health: {{ exec: "test -e {{dir}}/fine", interval: "50ms", timeout: "10s" }} }},
            {},
            {IDLE},
        ] }}"#,
        waiting_app(r#"{ source: "db", once: "healthy" }"#)
    ));
    pilot.wait_for_line("db", "1");
    pilot.edit("echo 1", "echo 2");
    pilot.tell(&["-reload"]);
    pilot.wait_for_line("db", "2");
    std::fs::write(pilot.path("fine"), "").unwrap();
    pilot.wait_for_line("app", "here");
    assert_eq!(pilot.stop(), Exit::Code(0));
}
