//! Signals to the program: which are events, and what the others do.

use std::fs;

use crate::support;
use crate::support::needs::can_be_pid_one;
use crate::support::{Exit, Pilot, Setup};
use nix::sys::signal::Signal;

const SERVER: &str = r#"{ name: "app", exec: "sleep 1000" }"#;

#[test]
fn sigterm_and_sigint_end_the_program_with_status_0() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let pilot = Pilot::start(&format!("{{ jobs: [{SERVER}] }}"));
        pilot.wait_for_message("started");
        pilot.signal(signal);
        assert_eq!(pilot.wait_exit(), Exit::Code(0));
        pilot.assert_order(&[
            "global startup",
            "global shutdown",
            "app stopping",
            "app exitFailed",
            "app stopped",
        ]);
    }
}

#[test]
fn sigterm_ends_the_program_as_process_1_too() {
    if !can_be_pid_one() {
        return;
    }
    let pilot = Setup::new().config(&format!("{{ jobs: [{SERVER}] }}")).as_pid_one().start();
    pilot.wait_for_message("started");
    assert_eq!(pilot.stop(), Exit::Code(0));
    pilot.assert_order(&["app stopping", "app exitFailed", "app stopped"]);
}

/// The numbers that `app` printed, in one log file.
fn numbers(log: &str) -> Vec<u32> {
    let message = |line: &str| {
        let record: serde_json::Value = serde_json::from_str(line).ok()?;
        record["msg"].as_str()?.strip_prefix("line ")?.parse().ok()
    };
    log.lines().filter_map(message).collect()
}

#[test]
fn a_job_runs_at_every_sighup_and_sigusr2_that_it_waits_for() {
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "hangup", exec: "echo hangup", when: { source: "SIGHUP" } },
            { name: "user", exec: "echo user", when: { source: "SIGUSR2", each: "signal" } },
            { name: "first", exec: "echo first", when: { source: "SIGUSR2", once: "signal" } },
        ] }"#,
    );
    pilot.wait_for_event("global startup");
    for round in 1..=3 {
        pilot.signal(Signal::SIGHUP);
        pilot.wait_for_events("hangup exitSuccess", round);
        pilot.signal(Signal::SIGUSR2);
        pilot.wait_for_events("user exitSuccess", round);
    }
    pilot.wait_for_event("first exitSuccess");
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.count("SIGHUP signal"), 3);
    let lines = ["hangup", "user", "first"].map(|job| pilot.lines_of(job).len());
    assert_eq!(lines, [3, 3, 1]);
}

#[test]
fn a_job_that_waits_for_a_signal_keeps_the_program_alive() {
    let pilot = Pilot::start(
        r#"{ jobs: [
            { name: "task", exec: "true" },
            { name: "hangup", exec: "echo hangup", when: { source: "SIGHUP", once: "signal" } },
        ] }"#,
    );
    pilot.wait_for_event("task stopped");
    pilot.signal(Signal::SIGHUP);
    assert_eq!(pilot.wait_exit(), Exit::Code(0));
    assert_eq!(pilot.lines_of("hangup"), ["hangup"]);
}

#[test]
fn signals_that_nobody_waits_for_end_nothing() {
    let pilot = Pilot::start(&format!("{{ jobs: [{SERVER}] }}"));
    pilot.wait_for_message("started");
    pilot.signal(Signal::SIGHUP);
    pilot.signal(Signal::SIGUSR1);
    pilot.signal(Signal::SIGUSR2);
    pilot.wait_for_event("SIGUSR2 signal");
    assert_eq!(pilot.stop(), Exit::Code(0));
    assert_eq!(pilot.events_of("app"), ["ready", "stopping", "exitFailed", "stopped"]);
}

#[test]
fn a_process_knows_the_signal_that_started_it() {
    let pilot = Pilot::start(
        r#"{ jobs: [{ name: "app", when: { source: "SIGUSR2" },
              exec: ["sh", "-c", "echo $CONTAINERPILOT_EVENT_SOURCE $CONTAINERPILOT_EVENT_CODE"] }] }"#,
    );
    pilot.wait_for_event("global startup");
    pilot.signal(Signal::SIGUSR2);
    pilot.wait_for_line("app", "SIGUSR2 signal");
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn sigusr1_reopens_the_log_file_and_nothing_is_lost() {
    let pilot = Pilot::start(
        r#"{ logging: { output: "{dir}/log", format: "json", level: "DEBUG" },
            jobs: [{ name: "app", exec: ["sh", "-c", "i=0; while :; do i=$((i+1)); echo line $i; test $((i % 100)) != 0 || sleep 0.01; done"] }] }"#,
    );
    for round in 0..3 {
        pilot.eventually("the log file fills", || numbers(&pilot.text("log")).len() > 500);
        fs::rename(pilot.path("log"), pilot.path(&format!("log.{round}"))).unwrap();
        pilot.signal(Signal::SIGUSR1);
        pilot.wait_for_file("log");
    }
    assert_eq!(pilot.stop(), Exit::Code(0));
    let whole: String = ["log.0", "log.1", "log.2", "log"].map(|name| pilot.text(name)).concat();
    let numbers = numbers(&whole);
    let expected: Vec<u32> = (1..=u32::try_from(numbers.len()).unwrap()).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn jobs_do_not_inherit_that_our_caller_ignores_signals() {
    // As a shell does for what it runs in the background.
    let script = format!("trap '' INT QUIT; exec {} -- grep SigIgn /proc/self/status", support::program());
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mask = text.split("SigIgn:").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    let ignored = u64::from_str_radix(mask, 16).unwrap();
    assert_eq!(ignored & 0b110, 0, "SIGINT is bit 1, SIGQUIT bit 2 of {mask}");
}
