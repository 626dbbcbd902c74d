//! The moment between clone(2) and execve(2), vfork(2)'s way: the new process borrows our memory and we are suspended
//! until it has become the program or failed, so its cost does not grow with our size. posix_spawn(3) does the
//! same, with some 130 system calls more. A process that changes its user gets a copy of our memory instead: the
//! kernel marks memory that changed hands as not to be looked into, and ours should not be marked.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CString, c_int, c_void};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, ptr};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow};

use super::execution::Steps;
use super::image::Image;
use crate::messages::process::Pid;

/// Enough for a few system calls; only what is used becomes memory.
const STACK_SIZE: usize = 64 * 1024;
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

/// All that a new process does before it becomes the program.
pub(super) struct Birth<'a> {
    /// What it becomes.
    pub(super) image: Image<'a>,
    /// Where it goes first.
    pub(super) directory: Option<CString>,
    /// Its stdin, stdout and stderr; `None` where it keeps ours.
    pub(super) stdio: [Option<RawFd>; 3],
    /// From where on it leaves our descriptors behind; `None`: it takes a copy of all.
    pub(super) leave_from: Option<u32>,
    /// What it sets.
    pub(super) steps: &'a Steps,
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
    /// To leave descriptors behind; nothing has happened then, and it can be born with a copy of them.
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

/// What every birth needs, made once.
struct Nursery {
    stack: Vec<u8>,
    /// Seen by both processes even if memory is copied.
    report: *const AtomicU64,
}

thread_local! {
    static NURSERY: RefCell<Option<Nursery>> = const { RefCell::new(None) };
}

/// What the new process is given.
struct Given<'a> {
    birth: &'a Birth<'a>,
    mask: SigSet,
    report: &'a AtomicU64,
}

impl Birth<'_> {
    /// Starts the process.
    pub(super) fn begin(&self) -> Result<Pid, Failure> {
        NURSERY.with_borrow_mut(|nursery| {
            let nursery = match nursery {
                Some(nursery) => nursery,
                None => nursery.insert(Nursery::new().map_err(creation)?),
            };
            self.begin_in(nursery)
        })
    }

    fn begin_in(&self, nursery: &mut Nursery) -> Result<Pid, Failure> {
        // SAFETY: the page was mapped for this thread and is never unmapped.
        let report = unsafe { &*nursery.report };
        report.store(0, Ordering::SeqCst);
        let memory = if self.steps.change_user() { 0 } else { libc::CLONE_VM };
        let descriptors = if self.leave_from.is_some() { libc::CLONE_FILES } else { 0 };
        // No handler of ours may run in the new process: it would run in our memory.
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK).map_err(creation)?;
        let given = Given { birth: self, mask, report };
        let top = nursery.stack.as_mut_ptr().wrapping_add(STACK_SIZE);
        // SAFETY: the stack is ours until this call returns, as is all that `given` refers to: the new process has
        // then left our memory. `enter` only makes system calls.
        let pid = unsafe {
            libc::clone(
                enter,
                top.cast(),
                memory | descriptors | libc::CLONE_VFORK | libc::SIGCHLD,
                (&raw const given).cast_mut().cast(),
            )
        };
        let created = Errno::result(pid);
        mask.thread_set_mask().map_err(creation)?;
        let pid = created.map_err(creation)?;
        match Failure::read(report.load(Ordering::SeqCst)) {
            None => Pid::new(pid).ok_or_else(|| creation(Errno::ESRCH)),
            Some(failed) => {
                collect(pid);
                Err(failed)
            }
        }
    }

    /// Runs in the new process: system calls only, no allocation, no lock.
    fn become_program(&self, mask: &SigSet) -> Failure {
        let prepare = || -> Result<(), Failure> {
            if let Some(first) = self.leave_from {
                leave_behind(first).map_err(|errno| Failure { stage: Stage::Descriptors, errno })?;
            }
            // SAFETY: takes and returns plain numbers.
            Errno::result(unsafe { libc::setpgid(0, 0) }).map_err(creation)?;
            for (target, source) in (0..).zip(self.stdio) {
                if let Some(source) = source {
                    // SAFETY: both are numbers; `source` is open and not among the first three.
                    Errno::result(unsafe { libc::dup2(source, target) }).map_err(creation)?;
                }
            }
            if let Some(directory) = &self.directory {
                // SAFETY: a null-ended path.
                let entered = Errno::result(unsafe { libc::chdir(directory.as_ptr()) });
                entered.map_err(|errno| Failure { stage: Stage::Directory, errno })?;
            }
            self.steps.make().map_err(|(step, errno)| Failure { stage: Stage::Step(step), errno })?;
            for signal in OURS {
                // SAFETY: the default action runs no code of ours; the table of actions is not shared.
                unsafe { libc::signal(signal, libc::SIG_DFL) };
            }
            mask.thread_set_mask().map_err(creation)
        };
        match prepare() {
            Err(failed) => failed,
            Ok(()) => Failure { stage: Stage::Execution, errno: self.image.execute() },
        }
    }
}

extern "C" fn enter(given: *mut c_void) -> c_int {
    // SAFETY: `begin_in` passes a `Given` that lives until we are gone from its memory.
    let given = unsafe { &*given.cast_const().cast::<Given<'_>>() };
    let failed = given.birth.become_program(&given.mask);
    given.report.store(failed.written(), Ordering::SeqCst);
    // SAFETY: ends this process without running anything of ours.
    unsafe { libc::_exit(127) }
}

impl Nursery {
    fn new() -> Result<Self, Errno> {
        let size = size_of::<AtomicU64>();
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at a place of the kernel's choice.
        let page = unsafe { libc::mmap(ptr::null_mut(), size, access, kind, -1, 0) };
        if page == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        Ok(Self { stack: Vec::with_capacity(STACK_SIZE), report: page.cast_const().cast() })
    }
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

    fn read(report: u64) -> Option<Self> {
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
    let unshare = libc::CLOSE_RANGE_UNSHARE;
    // SAFETY: takes numbers. Not libc's function: musl and older glibc have none.
    Errno::result(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, unshare) }).map(drop)
}

fn creation(errno: Errno) -> Failure {
    Failure { stage: Stage::Creation, errno }
}

/// Waits for a process that has failed and is about to end; nobody else may hear of it.
fn collect(pid: libc::pid_t) {
    // SAFETY: takes numbers; a null status is allowed.
    while unsafe { libc::waitpid(pid, ptr::null_mut(), 0) } == -1
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
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
