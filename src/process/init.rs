//! Prepares this process to supervise others; once, at the start, before any other thread.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::{io, mem, process, ptr};

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, rlim_t, setrlimit};

use crate::config::spec::{self, ResourceLimit};

/// Makes orphaned descendants our children, as they are of PID 1 anyway.
pub fn become_subreaper() -> io::Result<()> {
    Ok(prctl::set_child_subreaper(true)?)
}

/// The limit on open files that we were started with, if we have raised it.
static FILES_BEFORE: OnceLock<ResourceLimit> = OnceLock::new();

/// Raises our soft limit on open files to the hard one: each job needs two, and 1,024 is a usual soft limit. Jobs get the one
/// that we were started with. If that cannot be, fewer jobs can run.
pub fn raise_limit_of_files() {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() {
        let limit = |value: rlim_t| (value != RLIM_INFINITY).then_some(value);
        let before = ResourceLimit { resource: spec::Resource::Nofile, soft: limit(soft), hard: limit(hard) };
        let _ = FILES_BEFORE.set(before);
    }
}

/// The limit on open files that processes get, if theirs is not ours.
pub(super) fn limit_of_files_for_processes() -> Option<ResourceLimit> {
    FILES_BEFORE.get().copied()
}

/// Whether we are the init of our PID namespace.
pub fn is_pid_one() -> bool {
    process::id() == 1
}

/// Signals that cannot be changed, that Rust itself ignores for us, or that our parent ignores because of the terminal.
const LEFT_ALONE: [libc::c_int; 6] =
    [libc::SIGKILL, libc::SIGSTOP, libc::SIGPIPE, libc::SIGTTIN, libc::SIGTTOU, libc::SIGTSTP];

/// Undoes what a parent may have left us with: ignored signals. A shell ignores SIGINT and SIGQUIT for what it runs in
/// the background, and jobs would inherit that; an ignored SIGCHLD would make the kernel throw exit statuses away.
pub fn reset_signals() -> io::Result<()> {
    for signal in (1..=libc::SIGRTMAX()).filter(|signal| !LEFT_ALONE.contains(signal)) {
        if is_ignored(signal)? {
            reset(signal)?;
        }
    }
    Ok(())
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

/// Gives a signal its default action. Safe after a fork: one system call.
pub(super) fn reset(signal: libc::c_int) -> Result<(), Errno> {
    // SAFETY: the default action runs no code of ours.
    match unsafe { libc::signal(signal, libc::SIG_DFL) } {
        libc::SIG_ERR => Err(Errno::last()),
        _ => Ok(()),
    }
}

/// Whether a signal is ignored. The C library tells nothing of those that it keeps for itself.
fn is_ignored(signal: libc::c_int) -> io::Result<bool> {
    // SAFETY: all zeroes is a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: only asks; `action` is valid for writes for the whole call.
    let asked = unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) };
    match Errno::result(asked) {
        Ok(_) => Ok(action.sa_sigaction == libc::SIG_IGN),
        Err(Errno::EINVAL) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}
