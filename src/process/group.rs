//! Process groups: signalling one, and whether anything is left of it.
#![allow(unsafe_code)]

use std::{fs, io};

use super::Delivery;
use crate::messages::process::Pid;
use crate::messages::signal::Signal;

pub(super) fn signal(group: Pid, signal: Signal) -> io::Result<Delivery> {
    kill_group(group, signal.number())
}

/// The null signal cannot tell zombies from the living, and a zombie whose parent never waits for it would
/// keep a group for ever: so what it finds is looked at in `/proc`. Usually nothing is left and that costs one call.
pub(super) fn is_alive(group: Pid) -> bool {
    if is_gone(group) {
        return false;
    }
    match members(group) {
        Members::Running => true,
        Members::OnlyZombies => false,
        // It ended meanwhile, or `/proc` is missing or does not show us everything.
        Members::NoneSeen => !is_gone(group),
    }
}

fn is_gone(group: Pid) -> bool {
    matches!(kill_group(group, 0), Ok(Delivery::NoSuchGroup))
}

fn kill_group(group: Pid, signal: libc::c_int) -> io::Result<Delivery> {
    if group.number() == 1 {
        // To kill(2), -1 is no group but everyone.
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "process group 1 cannot be signalled"));
    }
    // SAFETY: takes and returns plain numbers.
    if unsafe { libc::kill(-group.number(), signal) } == 0 {
        return Ok(Delivery::Sent);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ESRCH) => Ok(Delivery::NoSuchGroup),
        Some(_) | None => Err(error),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Members {
    NoneSeen,
    OnlyZombies,
    Running,
}

fn members(group: Pid) -> Members {
    let mut seen = Members::NoneSeen;
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if !entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let stat = fs::read(entry.path().join("stat")).unwrap_or_default();
        match member(&String::from_utf8_lossy(&stat), group) {
            Some(Membership::Running) => return Members::Running,
            Some(Membership::Zombie) => seen = Members::OnlyZombies,
            None => {}
        }
    }
    seen
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Membership {
    Running,
    Zombie,
}

/// Whether the process of a `/proc/PID/stat` text is in a group. A process whose first thread has ended
/// looks like a zombie but runs on in its other threads.
fn member(stat: &str, group: Pid) -> Option<Membership> {
    // The name, the second field, can hold spaces and parentheses.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let process_group: i32 = fields.nth(1)?.parse().ok()?;
    let threads: u32 = fields.nth(14)?.parse().ok()?;
    if process_group != group.number() {
        return None;
    }
    match state {
        "Z" | "X" if threads <= 1 => Some(Membership::Zombie),
        _ => Some(Membership::Running),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(name: &str, state: &str, group: i32, threads: u32) -> String {
        format!("77 ({name}) {state} 1 {group} 5 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 {threads} 0 99 0 0")
    }

    fn group(number: i32) -> Pid {
        Pid::new(number).unwrap()
    }

    #[test]
    fn a_name_with_parentheses_does_not_hide_a_member() {
        assert_eq!(member(&stat("a) Z 1 (b", "S", 7, 1), group(7)), Some(Membership::Running));
    }

    #[test]
    fn a_process_of_another_group_is_no_member() {
        assert_eq!(member(&stat("sh", "S", 7, 1), group(8)), None);
    }

    #[test]
    fn a_zombie_with_threads_still_runs() {
        assert_eq!(member(&stat("sh", "Z", 7, 1), group(7)), Some(Membership::Zombie));
        assert_eq!(member(&stat("sh", "Z", 7, 2), group(7)), Some(Membership::Running));
    }

    #[test]
    fn a_process_that_vanished_is_no_member() {
        assert_eq!(member("", group(7)), None);
    }

    #[test]
    fn our_own_group_runs() {
        assert!(is_alive(group(nix::unistd::getpgrp().as_raw())));
    }

    #[test]
    fn everyone_is_no_group() {
        assert!(signal(group(1), Signal::HUP).is_err());
    }
}
