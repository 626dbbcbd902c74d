//! The children that we have, whoever started them: processes that left their job's group and lost their parent
//! become ours.

use std::fs;

use nix::sys::signal::kill;
use nix::unistd;

use crate::messages::process::Pid;
use crate::messages::signal::Signal;

/// Sends a signal to one child; one that is gone needs none.
pub fn signal(child: Pid, signal: Signal) {
    if let Ok(signal) = nix::sys::signal::Signal::try_from(signal.number()) {
        let _ = kill(unistd::Pid::from_raw(child.number()), signal);
    }
}

/// Our children, zombies aside. A kernel that does not list them leaves them to the end of the namespace.
pub fn children() -> Vec<Pid> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return vec![] };
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|children| {
            children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()
        })
        .filter(|pid| !is_zombie(*pid))
        .filter_map(Pid::new)
        .collect()
}

fn is_zombie(pid: i32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // The name, in parentheses, may hold anything; the state follows the last parenthesis.
    stat.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with('Z'))
}
