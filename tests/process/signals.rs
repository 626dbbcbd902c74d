//! Signals that are held, ignored or handled: in us, and in what we start.

use containerpilot::process::{accept_ordinary_signals, accept_signals, hold_signals};

use super::*;

/// The signals that have names, but for SIGKILL and SIGSTOP; nobody can block those.
const ORDINARY: u64 = ((1 << 31) - 1) & !bit(libc::SIGKILL) & !bit(libc::SIGSTOP);
/// The real-time signals; the C library keeps 32 and 33 for itself.
const REAL_TIME: u64 = !0 << 33;

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// A set of signals in the text of `/proc/PID/status`.
fn signals(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
}

fn ours(name: &str) -> u64 {
    signals(&fs::read_to_string("/proc/thread-self/status").unwrap(), name)
}

#[test]
fn signals_are_held_until_they_are_accepted_the_real_time_ones_last() {
    let blocked = || ours("SigBlk") & (ORDINARY | REAL_TIME);
    hold_signals().unwrap();
    assert_eq!(blocked(), ORDINARY | REAL_TIME);
    accept_ordinary_signals().unwrap();
    assert_eq!(blocked(), REAL_TIME);
    accept_signals().unwrap();
    assert_eq!(blocked(), 0);
}

#[test]
fn what_a_parent_ignored_is_undone_but_what_it_says_of_the_terminal_stays() {
    let _children = Children::alone();
    run_again(&["sh", "-c", "trap '' INT TSTP; exec \"$0\" \"$@\""], "signals::started_with_ignored_signals");
}

#[test]
#[ignore = "part of another test"]
fn started_with_ignored_signals() {
    let mut children = Children::alone();
    let (interrupt, stop, pipe) = (bit(libc::SIGINT), bit(libc::SIGTSTP), bit(libc::SIGPIPE));
    let handled = ours("SigCgt");
    assert_ne!(handled, 0, "Rust handles SIGSEGV");
    assert_eq!(ours("SigIgn") & (interrupt | stop | pipe), interrupt | stop | pipe);
    reset_signals().unwrap();
    assert_eq!(ours("SigIgn") & (interrupt | stop | pipe), stop | pipe);
    assert_eq!(ours("SigCgt"), handled, "handlers stay");
    for execution in [plain(), slow()] {
        let status = children.output(&execution, "cat /proc/self/status");
        assert_eq!(
            signals(&status, "SigIgn") & (interrupt | stop | pipe),
            stop,
            "as our parent would have started it"
        );
    }
}
