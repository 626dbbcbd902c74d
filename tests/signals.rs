//! Signals to the program: which are events, and what the others do.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod support;

use nix::sys::signal::Signal;
use support::{Exit, Pilot, Setup, can_be_pid_one};

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
