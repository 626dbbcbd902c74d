//! Signals that are held, ignored or handled: in us, and in what we start.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll;

use containerpilot::offload::start_thread;
use containerpilot::process::{Signals, hold_signals};
use nix::sys::signal::{self, raise};

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

/// Runs while no other test counts descriptors.
fn alone(test: impl Future<Output = ()>) {
    let _children = Children::alone();
    tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap().block_on(test);
}

#[test]
fn what_we_read_is_held_and_all_else_comes() {
    let _children = Children::alone();
    SigSet::all().thread_block().unwrap();
    hold_signals().unwrap();
    let read = Signal::all().filter(|signal| signal.is_for_us()).map(|signal| bit(signal.number()));
    let read = read.fold(bit(libc::SIGCHLD), |all, signal| all | signal);
    assert_eq!(ours("SigBlk") & (ORDINARY | REAL_TIME), read & (ORDINARY | REAL_TIME));
    assert_eq!(read & bit(libc::SIGTSTP), 0, "Ctrl-Z stops us");
}

#[test]
fn signals_that_came_before_they_were_read_are_not_lost() {
    alone(async {
        hold_signals().unwrap();
        // `raise` sends to this thread alone: others of this program do not hold them.
        raise(signal::SIGUSR1).unwrap();
        raise(signal::SIGHUP).unwrap();
        let mut signals = Signals::for_us().unwrap();
        for expected in [Signal::HUP, Signal::USR1] {
            assert_eq!(poll_fn(|context| signals.poll_next(context)).await.unwrap(), expected);
        }
        let mut next = pin!(poll_fn(|context| signals.poll_next(context)));
        assert!(
            poll_fn(|context| Poll::Ready(next.as_mut().poll(context).is_pending())).await,
            "there is no more"
        );
        raise(signal::SIGTERM).unwrap();
        assert_eq!(next.await.unwrap(), Signal::TERM, "it wakes whoever waits");
    });
}

#[test]
fn no_signal_comes_to_a_thread_that_we_start() {
    let _children = Children::alone();
    hold_signals().unwrap();
    let before = ours("SigBlk");
    let (sender, receiver) = mpsc::channel();
    start_thread("test", move || sender.send(ours("SigBlk")).unwrap()).unwrap();
    let blocked = receiver.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(blocked & (ORDINARY | REAL_TIME), ORDINARY | REAL_TIME);
    assert_eq!(ours("SigBlk"), before, "the one that started it is as before");
}

#[test]
fn a_signal_that_a_job_asks_for_is_read_from_then_on() {
    alone(async {
        hold_signals().unwrap();
        let mut signals = Signals::only(&[Signal::TSTP]).unwrap();
        assert_ne!(ours("SigBlk") & bit(libc::SIGTSTP), 0);
        raise(signal::SIGTSTP).unwrap();
        assert_eq!(poll_fn(|context| signals.poll_next(context)).await.unwrap(), Signal::TSTP);
    });
}

#[test]
fn what_a_parent_ignored_is_undone_but_what_it_says_of_the_terminal_stays() {
    let _children = Children::alone();
    run_again(
        &["sh", "-c", "trap '' INT TSTP 40; exec \"$0\" \"$@\""],
        "signals::started_with_ignored_signals",
    );
}

#[test]
#[ignore = "part of another test"]
fn started_with_ignored_signals() {
    let (interrupt, stop, pipe) = (bit(libc::SIGINT) | bit(40), bit(libc::SIGTSTP), bit(libc::SIGPIPE));
    let handled = ours("SigCgt");
    assert_ne!(handled, 0, "Rust handles SIGSEGV");
    assert_eq!(ours("SigIgn") & (interrupt | stop | pipe), interrupt | stop | pipe);
    reset_signals().unwrap();
    assert_eq!(ours("SigIgn") & (interrupt | stop | pipe), stop | pipe);
    assert_eq!(ours("SigCgt"), handled, "handlers stay");
    let mut children = Children::alone();
    for execution in [plain(), slow()] {
        let status = children.output(&execution, "cat /proc/self/status");
        assert_eq!(
            signals(&status, "SigIgn") & (interrupt | stop | pipe),
            stop,
            "as our parent would have started it"
        );
    }
}
