//! Coprocesses: when they start, how often, and that they never keep the program alive.

use crate::support::{Exit, Pilot};

/// The jobs in the order in which their processes started.
fn started(pilot: &Pilot) -> Vec<String> {
    let records = pilot.log().records();
    records.iter().filter(|record| record.message == "started").map(|record| record.job.clone()).collect()
}

/// Runs a configuration until its processes start in this order. A start that takes long lets the next one begin beside it, so
/// that on a busy machine not every try is in order.
fn assert_started(config: &str, expected: &[&str]) -> Pilot {
    let mut orders = Vec::new();
    for _ in 0..20 {
        let (_, pilot) = Pilot::run(config);
        let order = started(&pilot);
        if order.starts_with(&expected.iter().map(ToString::to_string).collect::<Vec<_>>()) {
            return pilot;
        }
        orders.push(order);
    }
    panic!("never {expected:?}, but {orders:?}");
}

#[test]
fn coprocesses_start_before_jobs_without_when() {
    let pilot = assert_started(
        r#"{
            jobs: [{ name: "app", exec: "true" }, { name: "other", exec: "true" }],
            coprocesses: [{ name: "first", command: "sleep 1000" }, { name: "second", command: ["sleep", "1000"] }],
        }"#,
        &["first", "second", "app", "other"],
    );
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
}

#[test]
fn coprocesses_start_once_pre_start_has_exited() {
    for (program, outcome) in [("true", "exitSuccess"), ("false", "exitFailed")] {
        let config = format!(
            r#"{{
                jobs: [
                    {{ name: "app", exec: "true", health: {{ exec: "touch {{dir}}/checked", interval: "10ms", timeout: "10s" }} }},
                    {{ name: "preStart", exec: ["sh", "-c", "sleep 0.2; {program}"] }},
                ],
                coprocesses: [{{ name: "agent", command: "sleep 1000" }}],
            }}"#
        );
        let pilot = assert_started(&config, &["preStart", "agent", "app"]);
        pilot.assert_order(&[&format!("preStart {outcome}"), "app exitSuccess", "agent stopped"]);
    }
}

#[test]
fn a_coprocess_is_restarted_as_often_as_it_says() {
    let pilot = Pilot::start(
        r#"{
            jobs: [{ name: "app", exec: "sleep 1000" }],
            coprocesses: [{ name: "agent", command: "echo up", restarts: 2 }, { name: "never", command: "echo up" }],
        }"#,
    );
    pilot.wait_for_event("agent stopped");
    pilot.wait_for_event("never stopped");
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!((pilot.lines_of("agent").len(), pilot.lines_of("never").len()), (3, 1));
}

#[test]
fn a_coprocess_does_not_keep_the_program_alive_and_its_status_does_not_count() {
    let (exit, pilot) = Pilot::run(
        r#"{
            jobs: [{ name: "app", exec: ["sh", "-c", "sleep 0.2; exit 3"] }],
            coprocesses: [
                { name: "agent", command: "sleep 1000", restarts: "unlimited" },
                { name: "failed", command: ["sh", "-c", "exit 9"] },
            ],
        }"#,
    );
    assert_eq!(exit, Exit::Code(3));
    pilot.assert_order(&["app stopped", "global shutdown", "agent stopping", "agent stopped"]);
}

#[test]
fn the_events_of_a_coprocess_start_jobs() {
    let (exit, pilot) = Pilot::run(
        r#"{
            jobs: [
                { name: "app", exec: ["sh", "-c", "until test -e {dir}/done; do sleep 0.01; done"] },
                { name: "hook", exec: "touch {dir}/done", when: { source: "agent", once: "exitFailed" } },
                { name: "afterwards", exec: "echo after", when: { source: "agent", once: "stopped" } },
            ],
            coprocesses: [{ name: "agent", command: ["sh", "-c", "sleep 0.1; exit 1"] }],
        }"#,
    );
    assert_eq!(exit, Exit::Code(0));
    assert_eq!(pilot.lines_of("afterwards"), ["after"]);
    pilot.assert_order(&["agent exitFailed", "hook exitSuccess"]);
}

#[test]
fn a_coprocess_gets_none_of_our_signals_but_the_one_that_stops_it() {
    let pilot = Pilot::start(
        r#"{
            jobs: [{ name: "app", exec: "sleep 1000" }],
            coprocesses: [{ name: "agent",
                command: ["sh", "-c", "trap 'echo got a signal' HUP USR1 USR2; trap 'exit 0' TERM; echo >>{dir}/ready; while :; do sleep 0.02; done"] }],
        }"#,
    );
    // It may run before we know of it.
    let wait_for_start = |number| {
        pilot.wait_for_lines("ready", number);
        pilot.eventually("its start is known", || pilot.count("agent ready") == number);
    };
    wait_for_start(1);
    pilot.signal(nix::sys::signal::SIGHUP);
    // The reload stops it and starts it anew.
    pilot.wait_for_message("reloaded");
    wait_for_start(2);
    pilot.signal(nix::sys::signal::SIGUSR1);
    pilot.signal(nix::sys::signal::SIGUSR2);
    pilot.wait_for_event("SIGUSR2 signal");
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.lines_of("agent").iter().filter(|line| *line == "got a signal").count(), 0);
    assert_eq!(pilot.events_of("agent"), ["ready", "stopping", "exitSuccess", "stopped"].repeat(2));
}
