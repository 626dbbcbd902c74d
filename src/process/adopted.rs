//! Processes that left their job's group, lost their parent and became our children: when every job is over,
//! whatever child we still have is one of them.

use std::fs;

use nix::sys::signal::kill;
use nix::unistd;

use crate::messages::signal::Signal;

/// Whether we have any child left that still runs.
pub fn has_adopted() -> bool {
    !adopted().is_empty()
}

/// Sends a signal to every child that we still have.
pub fn signal_adopted(signal: Signal) {
    let Ok(signal) = nix::sys::signal::Signal::try_from(signal.number()) else { return };
    for pid in adopted() {
        let _ = kill(unistd::Pid::from_raw(pid), signal);
    }
}

/// Our children, zombies aside. A kernel that does not list them leaves them to the end of the namespace.
fn adopted() -> Vec<i32> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return vec![] };
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|children| {
            children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()
        })
        .filter(|pid| !is_zombie(*pid))
        .collect()
}

fn is_zombie(pid: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // The name, in parentheses, may hold anything; the state follows the last parenthesis.
    stat.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with('Z'))
}
