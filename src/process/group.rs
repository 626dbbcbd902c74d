//! Process groups: signalling one, and whether anything is left of it.
#![allow(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::{fs, io};

use nix::errno::Errno;

use super::Delivery;
use super::stat::Stat;
use crate::messages::process::Pid;
use crate::messages::signal::Signal;

pub(super) fn signal(group: Pid, signal: Signal) -> io::Result<Delivery> {
    kill_group(group, signal.number())
}

/// kill(2), where it does not matter whether the process is still there.
pub(super) fn send(target: i32, signal: Signal) {
    let _ = kill(target, signal.number());
}

/// The group that a process is in.
pub(super) fn of(process: Pid) -> Option<Pid> {
    let group = nix::unistd::getpgid(Some(nix::unistd::Pid::from_raw(process.number()))).ok()?;
    Pid::new(group.as_raw())
}

/// Whether a group has no process, not even a zombie.
pub(super) fn is_empty(group: Pid) -> bool {
    matches!(kill_group(group, 0), Ok(Delivery::NoSuchGroup))
}

/// Which of these groups have a process that runs.
///
/// The null signal cannot tell zombies from the living, and a zombie whose parent never waits for it would keep a
/// group for ever: so those that it finds are looked for in `/proc`, in one pass for all.
pub(super) fn living(groups: &[Pid]) -> HashSet<Pid> {
    let mut unclear: HashMap<i32, Members> = groups
        .iter()
        .filter(|group| !is_empty(**group))
        .map(|group| (group.number(), Members::NoneSeen))
        .collect();
    if unclear.is_empty() {
        return HashSet::new();
    }
    look_for_members(&mut unclear);
    let runs = |group: &&Pid| match unclear.get(&group.number()) {
        Some(Members::Running) => true,
        Some(Members::OnlyZombies) | None => false,
        // It ended meanwhile, or `/proc` is missing or does not show us everything.
        Some(Members::NoneSeen) => !is_empty(**group),
    };
    groups.iter().filter(runs).copied().collect()
}

fn kill_group(group: Pid, signal: libc::c_int) -> io::Result<Delivery> {
    if group.number() == 1 {
        // To kill(2), -1 is no group but everyone.
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "process group 1 cannot be signalled"));
    }
    match kill(-group.number(), signal) {
        Ok(()) => Ok(Delivery::Sent),
        Err(Errno::ESRCH) => Ok(Delivery::NoSuchGroup),
        Err(errno) => Err(errno.into()),
    }
}

/// kill(2). Not that of nix, which does not know real-time signals.
fn kill(target: i32, signal: libc::c_int) -> Result<(), Errno> {
    // SAFETY: takes and returns plain numbers.
    Errno::result(unsafe { libc::kill(target, signal) }).map(drop)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Members {
    NoneSeen,
    OnlyZombies,
    Running,
}

fn look_for_members(groups: &mut HashMap<i32, Members>) {
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Some(member) = Stat::read(pid) else { continue };
        let Some(seen) = groups.get_mut(&member.group) else { continue };
        if !member.is_over() {
            *seen = Members::Running;
        } else if *seen == Members::NoneSeen {
            *seen = Members::OnlyZombies;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(number: i32) -> Pid {
        Pid::new(number).unwrap()
    }

    #[test]
    fn our_own_group_runs_and_one_without_members_does_not() {
        let own = group(nix::unistd::getpgrp().as_raw());
        let nobody = group(i32::MAX);
        assert_eq!(living(&[own, nobody]), HashSet::from([own]));
        assert!(is_empty(nobody) && !is_empty(own));
    }

    #[test]
    fn everyone_is_no_group() {
        assert!(signal(group(1), Signal::HUP).is_err());
    }
}
