//! Periodic tasks: one run per interval, never two at a time, no drift and no bursts.

use std::time::{Duration, Instant};

use crate::support::{Exit, Pilot};
use nix::sys::signal::Signal;

fn task(settings: &str, script: &str) -> String {
    format!(
        r#"{{ jobs: [{{ name: "task", {settings}, exec: ["sh", "-c", "date +%s%N >> {{dir}}/runs; {script}"] }}] }}"#
    )
}

#[test]
fn a_task_runs_at_startup_and_then_once_per_interval_until_its_restarts_are_used_up() {
    let (exit, pilot) =
        Pilot::run(&task(r#"when: { interval: "500ms" }, restarts: 5, timeout: "20s""#, "sleep 0.2"));
    assert_eq!(exit, Exit::Code(0));
    let times = pilot.times("runs");
    assert_eq!((times.len(), pilot.count("task exitSuccess")), (6, 6));
    assert!(times[5] - times[0] >= 2000, "no run comes before its tick: {times:?}");
}

#[test]
fn each_run_of_a_task_has_its_timeout() {
    // A run whose time is over before its program is executed ends with 126. On a busy machine a start takes more than 100 ms.
    let settings = r#"when: { interval: "600ms" }, restarts: 5, timeout: "400ms""#;
    let (exit, pilot) = Pilot::run(&task(settings, "sleep 20"));
    assert_eq!(exit, Exit::Code(128 + Signal::SIGKILL as i32));
    assert_eq!((pilot.count("task exitFailed"), pilot.count("task exitSuccess")), (6, 0));
}

#[test]
fn a_task_has_one_interval_unless_told_otherwise() {
    let (_, pilot) = Pilot::run(&task(r#"when: { interval: "300ms" }, restarts: 3"#, "sleep 1000"));
    assert_eq!((pilot.count("task exitFailed"), pilot.lines("runs").len()), (4, 4));
    let times = pilot.times("runs");
    assert!(times[3] - times[0] >= 500, "{times:?}");
}

#[test]
fn ticks_that_find_the_run_alive_are_skipped() {
    let settings = r#"when: { interval: "400ms" }, restarts: 2, timeout: "20s""#;
    let script = "mkdir {dir}/alone || echo overlap; sleep 0.5; rmdir {dir}/alone";
    let (exit, pilot) = Pilot::run(&task(settings, script));
    assert_eq!((exit, pilot.lines_of("task").len()), (Exit::Code(0), 0));
    let times = pilot.times("runs");
    assert_eq!(times.len(), 3);
    assert!(times[2] - times[0] >= 1200, "every second tick is skipped: {times:?}");
}

#[test]
fn a_failing_task_goes_on_and_its_restarts_are_unlimited_by_default() {
    let pilot = Pilot::start(&task(r#"when: { interval: "10ms" }"#, "exit 1"));
    pilot.wait_for_events("task exitFailed", 30);
    assert_eq!(pilot.stop(), Exit::Code(0));
}

#[test]
fn ticks_do_not_pile_up_while_the_program_is_stalled() {
    let pilot = Pilot::start(&task(r#"when: { interval: "200ms" }"#, ":"));
    pilot.wait_for_lines("runs", 2);
    pilot.signal(Signal::SIGSTOP);
    let stalled = Instant::now();
    pilot.eventually("ten ticks are missed", || stalled.elapsed() > Duration::from_secs(2));
    let before = pilot.lines("runs").len();
    pilot.signal(Signal::SIGCONT);
    pilot.wait_for_lines("runs", before + 5);
    let times = pilot.times("runs");
    assert!(times[before + 4] - times[before] >= 400, "{times:?}");
    assert_eq!(pilot.stop(), Exit::Code(0));
}
