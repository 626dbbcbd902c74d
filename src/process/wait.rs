//! Waiting for children, without blocking. `waitid` directly: safe wrappers cannot tell that a child was
//! killed by a real-time signal.
#![allow(unsafe_code)]

use std::time::Duration;
use std::{io, mem};

use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, waitid};

use super::Exited;
use crate::messages::crashes::Usage;
use crate::messages::process::{ExitStatus, Pid};
use crate::messages::signal::Signal;

pub(super) fn peek_exited() -> io::Result<Option<Exited>> {
    peek(libc::P_ALL, 0)
}

pub(super) fn peek_at(child: Pid) -> io::Result<Option<Exited>> {
    peek(libc::P_PID, child.number().unsigned_abs())
}

fn peek(kind: libc::idtype_t, id: libc::id_t) -> io::Result<Option<Exited>> {
    match wait(kind, id, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT)? {
        None => Ok(None),
        Some(Ended { pid, code, status }) => {
            let status = exit_status(code, status)
                .ok_or_else(|| io::Error::other(format!("waitid told {code}/{status} of process {pid}")))?;
            Ok(Some(Exited { pid, status }))
        }
    }
}

/// Reaps a child that has ended, with wait4(2): waitid(3) does not tell what it has used.
pub(super) fn reap(pid: Pid) -> io::Result<Option<Usage>> {
    // SAFETY: all zeroes is a valid `rusage`, a C struct of integers.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    let mut status = 0;
    // SAFETY: `status` and `usage` are valid for writes for the whole call.
    let reaped = unsafe { libc::wait4(pid.number(), &raw mut status, libc::WNOHANG, &raw mut usage) };
    if reaped == pid.number() {
        return Ok(Some(used(&usage)));
    }
    Err(io::Error::other(format!("process {pid} is no child of ours that has ended")))
}

fn used(usage: &libc::rusage) -> Usage {
    let number = |value: libc::c_long| u64::try_from(value).unwrap_or_default();
    let time = |value: libc::timeval| {
        let micros = u64::try_from(value.tv_usec).unwrap_or_default();
        Duration::from_secs(u64::try_from(value.tv_sec).unwrap_or_default()) + Duration::from_micros(micros)
    };
    Usage {
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
        max_resident: number(usage.ru_maxrss),
        major_faults: number(usage.ru_majflt),
        blocks_in: number(usage.ru_inblock),
        blocks_out: number(usage.ru_oublock),
    }
}

/// The signal that has stopped a child since this was last asked.
pub(super) fn stopped_by(child: Pid) -> Option<Signal> {
    let stopped = wait(libc::P_PID, child.number().unsigned_abs(), libc::WSTOPPED | libc::WNOHANG).ok()??;
    Signal::from_number(stopped.status).filter(|_| stopped.code == libc::CLD_STOPPED)
}

pub(super) fn has_children() -> bool {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::All, look) != Err(Errno::ECHILD)
}

/// What `waitid` tells about a child.
struct Ended {
    pid: Pid,
    code: i32,
    status: i32,
}

/// One `waitid`; `None` if there is no such child or none that has ended.
fn wait(kind: libc::idtype_t, id: libc::id_t, options: libc::c_int) -> io::Result<Option<Ended>> {
    // SAFETY: all zeroes is a valid `siginfo_t`, a C struct of integers; and no answer leaves the pid zero.
    let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
    // SAFETY: `info` is valid for writes for the whole call.
    while unsafe { libc::waitid(kind, id, &raw mut info, options) } != 0 {
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::ECHILD) => return Ok(None),
            Some(_) | None => return Err(error),
        }
    }
    // SAFETY: `waitid` succeeded, so the fields of a SIGCHLD are filled in, or zero.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    Ok(Pid::new(pid).map(|pid| Ended { pid, code: info.si_code, status }))
}

fn exit_status(code: i32, status: i32) -> Option<ExitStatus> {
    match code {
        libc::CLD_EXITED => u8::try_from(status).ok().map(ExitStatus::Code),
        libc::CLD_KILLED | libc::CLD_DUMPED => Signal::from_number(status)
            .map(|signal| ExitStatus::Signal { signal, core_dumped: code == libc::CLD_DUMPED }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_tells_becomes_a_status() {
        assert_eq!(exit_status(libc::CLD_EXITED, 255), Some(ExitStatus::Code(255)));
        let killed = |signal, core_dumped| Some(ExitStatus::Signal { signal, core_dumped });
        assert_eq!(exit_status(libc::CLD_KILLED, 9), killed(Signal::KILL, false));
        assert_eq!(exit_status(libc::CLD_DUMPED, 1), killed(Signal::HUP, true));
    }

    #[test]
    fn a_stopped_child_has_not_ended() {
        assert_eq!(exit_status(libc::CLD_STOPPED, libc::SIGSTOP), None);
    }
}
