//! What makes this process fit to supervise others; once, at the start, before any other thread.
#![allow(unsafe_code)]

use std::{io, mem, process, ptr};

use nix::sys::prctl;
use nix::sys::signal::SigSet;

/// Makes orphaned descendants our children, as they are of PID 1 anyway.
pub fn become_subreaper() -> io::Result<()> {
    Ok(prctl::set_child_subreaper(true)?)
}

/// Whether we are the init of our PID namespace.
pub fn is_pid_one() -> bool {
    process::id() == 1
}

/// Undoes what a parent may have left us with: blocked signals, which would make us and our children deaf,
/// and an ignored SIGCHLD, which would make the kernel throw exit statuses away.
pub fn reset_signals() -> io::Result<()> {
    SigSet::empty().thread_set_mask()?;
    if is_ignored(libc::SIGCHLD)? {
        // SAFETY: the default action runs no code of ours.
        let previous = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        if previous == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn is_ignored(signal: libc::c_int) -> io::Result<bool> {
    // SAFETY: all zeroes is a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: only asks; `action` is valid for writes for the whole call.
    if unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(action.sa_sigaction == libc::SIG_IGN)
}
