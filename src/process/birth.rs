//! The moment between clone(2) and execve(2): what the new process does, in our memory or a copy of it, before it becomes
//! the program.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_void};
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::sys::signal::SigSet;

use super::execution::Steps;
use super::image::Image;
use super::raw;

/// Signals that we, or Rust for us, handle or ignore; execve itself would keep what is ignored.
const OURS: [c_int; 9] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTERM,
    libc::SIGCHLD,
    libc::SIGPIPE,
    libc::SIGSEGV,
    libc::SIGBUS,
];
/// Signals that end a process with a dump of its memory. That memory is ours until execve, and an older kernel kills all
/// who share it: whom we do not wait for ends by itself instead, if somebody sends it one so early.
const DUMPING: [c_int; 10] = [
    libc::SIGQUIT,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGFPE,
    libc::SIGSYS,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGBUS,
    libc::SIGSEGV,
];
/// The size of a set of signals in the kernel's form.
const SET_SIZE: usize = 8;
/// Tells rt_sigaction(2) that there is a way back from the handler, without which x86-64 calls none.
const HAS_RESTORER: u64 = 0x0400_0000;

/// All that a new process does before it becomes the program.
#[derive(Default)]
pub(super) struct Birth {
    /// What it becomes.
    pub(super) image: Image,
    /// Where it goes first.
    pub(super) directory: Option<CString>,
    /// Its stdin, stdout and stderr; `None` where it keeps ours.
    pub(super) stdio: [Option<RawFd>; 3],
    /// From where on it leaves our descriptors behind; `None`: it takes a copy of all.
    pub(super) leave_from: Option<u32>,
    /// What it sets.
    pub(super) steps: Steps,
}

/// Why there is no new process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure {
    /// What it failed at.
    pub(super) stage: Stage,
    /// How.
    pub(super) errno: Errno,
}

/// What a new process does, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// To leave descriptors behind; nothing has happened then, and who waited can have it born with a copy of them.
    Descriptors,
    /// To come into being, with its group and streams.
    Creation,
    /// To enter its directory.
    Directory,
    /// The setting of that number.
    Step(usize),
    /// To become the program.
    Execution,
}

/// What the new process is given.
pub(super) struct Given {
    /// What it does.
    pub(super) birth: Birth,
    /// Which signals are blocked once it is the program.
    pub(super) mask: SigSet,
    /// Whether its number is known before it has become the program, so that it can be sent signals.
    pub(super) is_exposed: bool,
    /// Where it tells why it failed.
    pub(super) report: &'static AtomicU64,
}

impl Birth {
    /// Runs in the new process: system calls only, no allocation, no lock.
    fn become_program(&self, mask: &SigSet, is_exposed: bool) -> Failure {
        let prepare = || -> Result<(), Failure> {
            if let Some(first) = self.leave_from {
                leave_behind(first).map_err(|errno| Failure { stage: Stage::Descriptors, errno })?;
            }
            // SAFETY: takes numbers.
            unsafe { raw::call(libc::SYS_setpgid, [0; 4]) }.map_err(creation)?;
            for (target, source) in (0..).zip(self.stdio) {
                if let Some(source) = source {
                    // SAFETY: takes numbers; `source` is open and not among the first three.
                    unsafe { raw::call(libc::SYS_dup3, [number(source), target, 0, 0]) }.map_err(creation)?;
                }
            }
            if let Some(directory) = &self.directory {
                // SAFETY: a null-ended path.
                let entered =
                    unsafe { raw::call(libc::SYS_chdir, [directory.as_ptr().expose_provenance(), 0, 0, 0]) };
                entered.map_err(|errno| Failure { stage: Stage::Directory, errno })?;
            }
            self.steps.make().map_err(|(step, errno)| Failure { stage: Stage::Step(step), errno })?;
            // SAFETY: the default action runs no code of ours.
            OURS.into_iter()
                .try_for_each(|signal| unsafe { set_action(signal, [0; 4]) })
                .map_err(creation)?;
            if is_exposed {
                let end = end as extern "C" fn(c_int) -> ! as usize as u64;
                let action = [end, HAS_RESTORER, end, 0];
                // SAFETY: it only makes a system call, and there is no way back from it.
                DUMPING
                    .into_iter()
                    .try_for_each(|signal| unsafe { set_action(signal, action) })
                    .map_err(creation)?;
            }
            let given = [number(libc::SIG_SETMASK), ptr::from_ref(mask).expose_provenance(), 0, SET_SIZE];
            // SAFETY: a set of signals is at least as large as the kernel's, and begins with that.
            unsafe { raw::call(libc::SYS_rt_sigprocmask, given) }.map(drop).map_err(creation)
        };
        match prepare() {
            Err(failed) => failed,
            Ok(()) => Failure { stage: Stage::Execution, errno: self.image.execute() },
        }
    }
}

/// Where a new process begins; `given` is a [`Given`] that lives until it has left the memory that holds it.
pub(super) extern "C" fn enter(given: *mut c_void) -> c_int {
    // SAFETY: as above.
    let given = unsafe { &*given.cast_const().cast::<Given>() };
    let failed = given.birth.become_program(&given.mask, given.is_exposed);
    given.report.store(failed.written(), Ordering::SeqCst);
    exit(127)
}

/// Ends a process that got a signal before it was the program, as a shell would tell it.
extern "C" fn end(signal: c_int) -> ! {
    exit(128 + number(signal))
}

fn exit(status: usize) -> ! {
    loop {
        // SAFETY: ends this process without running anything of ours.
        let _ = unsafe { raw::call(libc::SYS_exit_group, [status, 0, 0, 0]) };
    }
}

/// Sets the action of a signal; the table of actions is not shared with us. execve puts a handler back to the default.
///
/// # Safety
/// The action must be one in the kernel's form, for x86-64 unless it is the default one, and fit for the new process.
unsafe fn set_action(signal: c_int, action: [u64; 4]) -> Result<(), Errno> {
    let given = [number(signal), ptr::from_ref(&action).expose_provenance(), 0, SET_SIZE];
    // SAFETY: as the caller promises.
    unsafe { raw::call(libc::SYS_rt_sigaction, given) }.map(drop)
}

impl Failure {
    /// As one number that is not zero.
    fn written(self) -> u64 {
        let stage = match self.stage {
            Stage::Creation => 1,
            Stage::Directory => 2,
            Stage::Execution => 3,
            Stage::Descriptors => 4,
            Stage::Step(step) => 5 + step as u64,
        };
        (stage << 32) | u64::from(self.errno as u32)
    }

    /// What was written, unless it is zero.
    pub(super) fn read(report: u64) -> Option<Self> {
        let stage = match report >> 32 {
            0 => return None,
            1 => Stage::Creation,
            2 => Stage::Directory,
            3 => Stage::Execution,
            4 => Stage::Descriptors,
            step => Stage::Step(usize::try_from(step - 5).unwrap_or_default()),
        };
        let errno = i32::try_from(report & 0xffff_ffff).unwrap_or_default();
        Some(Self { stage, errno: Errno::from_raw(errno) })
    }
}

/// Gives a process that shares our table of descriptors one of its own, with those below `first`.
fn leave_behind(first: u32) -> Result<(), Errno> {
    let unshare = libc::CLOSE_RANGE_UNSHARE as usize;
    // SAFETY: takes numbers.
    unsafe { raw::call(libc::SYS_close_range, [first as usize, u32::MAX as usize, unshare, 0]) }.map(drop)
}

pub(super) fn creation(errno: Errno) -> Failure {
    Failure { stage: Stage::Creation, errno }
}

fn number(number: c_int) -> usize {
    usize::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_survives_the_way_to_us() {
        assert_eq!(Failure::read(0), None);
        let steps = [Stage::Step(0), Stage::Step(30)];
        let stages = [Stage::Descriptors, Stage::Creation, Stage::Directory, Stage::Execution];
        for stage in stages.into_iter().chain(steps) {
            let failed = Failure { stage, errno: Errno::EPERM };
            assert_eq!(Failure::read(failed.written()), Some(failed));
        }
    }
}
