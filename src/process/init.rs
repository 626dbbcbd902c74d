//! Prepares this process to supervise others; once, at the start, before any other thread.
#![allow(unsafe_code)]

use std::{io, mem, process, ptr};

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};

/// Makes orphaned descendants our children, as they are of PID 1 anyway.
pub fn become_subreaper() -> io::Result<()> {
    Ok(prctl::set_child_subreaper(true)?)
}

/// Whether we are the init of our PID namespace.
pub fn is_pid_one() -> bool {
    process::id() == 1
}

/// Signals whose being ignored says something about the terminal, or that Rust itself ignores for us.
const LEFT_ALONE: [libc::c_int; 6] =
    [libc::SIGKILL, libc::SIGSTOP, libc::SIGPIPE, libc::SIGTTIN, libc::SIGTTOU, libc::SIGTSTP];

/// Undoes what a parent may have left us with: ignored signals. A shell ignores SIGINT and SIGQUIT for what it runs in
/// the background, and jobs would inherit that; an ignored SIGCHLD would make the kernel throw exit statuses away.
pub fn reset_signals() -> io::Result<()> {
    for signal in (1..=libc::SIGSYS).filter(|signal| !LEFT_ALONE.contains(signal)) {
        if is_ignored(signal)? {
            set_action(signal, SignalAction::Default)?;
        }
    }
    Ok(())
}

/// Keeps all signals pending until somebody handles them: the kernel throws away what PID 1 neither handles nor blocks.
pub fn hold_signals() -> io::Result<()> {
    Ok(SigSet::all().thread_block()?)
}

/// Lets signals come, except real-time ones, which are still kept pending.
pub fn accept_ordinary_signals() -> io::Result<()> {
    let mut held = SigSet::all();
    Signal::iterator().for_each(|signal| held.remove(signal));
    Ok(held.thread_set_mask()?)
}

/// Lets all signals come, those that were held first, and those that a parent had blocked.
pub fn accept_signals() -> io::Result<()> {
    Ok(SigSet::empty().thread_set_mask()?)
}

/// Makes the terminal at our stdin our controlling one. Only the leader of a session that has none can do that, and only if
/// the terminal belongs to no other session.
pub(super) fn acquire_terminal() -> io::Result<()> {
    // SAFETY: takes numbers.
    if unsafe { libc::ioctl(libc::STDIN_FILENO, libc::TIOCSCTTY, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The action of a signal that has no handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalAction {
    Default,
    Ignore,
}

/// Sets the action of a signal; whether it was ignored before. Safe after a fork: one system call.
pub(super) fn set_action(signal: libc::c_int, action: SignalAction) -> Result<bool, Errno> {
    let action = match action {
        SignalAction::Default => libc::SIG_DFL,
        SignalAction::Ignore => libc::SIG_IGN,
    };
    // SAFETY: neither action runs code of ours.
    match unsafe { libc::signal(signal, action) } {
        libc::SIG_ERR => Err(Errno::last()),
        previous => Ok(previous == libc::SIG_IGN),
    }
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
