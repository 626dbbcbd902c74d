//! Where processes are born: in our own memory (clone(2) with `CLONE_VM`), so that the cost does not grow with our size.
//! posix_spawn(3) does the same, with some 130 system calls more. Like that, we are suspended until a new process has
//! become its program, as with vfork(2); but where many are to be started we go on meanwhile, and the next is born
//! beside it. That it failed is then known when it has ended. Until it has become its program it holds open what we had
//! open when it was born.
//!
//! We wait in any case for one with a directory or settings of its own, which fail more often and need libc, and if too
//! many are being born already. One that changes its user gets a copy of our memory instead: the kernel marks memory that
//! changed hands as not to be looked into, and ours should not be marked.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CString, NulError};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::{io, mem, ptr};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow};

use super::berth::Berth;
use super::birth::{Birth, Failure, Given, Stage, creation, enter};
use super::error::SpawnError;
use super::execution::Steps;
use super::{Launch, diagnosis, raw};
use crate::messages::process::Pid;

/// Processes that are being born while we go on.
const AT_ONCE: usize = 4;
/// Places for them, the first of which is for those that we wait for.
pub(super) const CRADLES: usize = AT_ONCE + 1;
const WAITED_FOR: usize = 0;
/// Enough for a few system calls; only what is used becomes memory.
const STACK_SIZE: usize = 64 * 1024;

thread_local! {
    static NURSERY: RefCell<Nursery> = const { RefCell::new(Nursery::new()) };
}

/// All that is born by one thread.
struct Nursery {
    words: Option<&'static [Words; CRADLES]>,
    cradles: [Option<Box<Cradle>>; CRADLES],
    /// The kernel, or what plays its part, lets nobody go on.
    always_waits: bool,
    /// Those that never became their program, until somebody asks.
    failed: Vec<(Pid, PathBuf, Errno)>,
}

/// What a new process and we both write to, even if memory is copied.
#[repr(C)]
#[derive(Debug)]
struct Words {
    /// Why it failed.
    report: AtomicU64,
    /// Not zero while it is in our memory; set to zero by the kernel.
    inside: AtomicI32,
}

/// A place where one process at a time is born.
struct Cradle {
    words: &'static Words,
    stack: Vec<u8>,
    given: Given,
    /// The process that is being born while we go on.
    born: Option<Pid>,
    berth: Option<Berth>,
}

/// Starts a process: `path` is what it executes, `outputs` are its stdout and stderr unless it keeps ours.
pub(super) fn bear(
    launch: &Launch<'_>,
    path: &Path,
    stdin: BorrowedFd<'_>,
    outputs: Option<[BorrowedFd<'_>; 2]>,
) -> Result<Pid, SpawnError> {
    NURSERY.with_borrow_mut(|nursery| nursery.bear(launch, path, stdin, outputs))
}

/// Why a process that has ended never became its program; `None` if it did.
pub(super) fn failure(ended: Pid) -> Option<SpawnError> {
    NURSERY.with_borrow_mut(|nursery| nursery.failure(ended))
}

impl Nursery {
    const fn new() -> Self {
        Self { words: None, cradles: [const { None }; CRADLES], always_waits: false, failed: Vec::new() }
    }

    fn bear(
        &mut self,
        launch: &Launch<'_>,
        path: &Path,
        stdin: BorrowedFd<'_>,
        outputs: Option<[BorrowedFd<'_>; 2]>,
    ) -> Result<Pid, SpawnError> {
        self.settle();
        let cwd = launch.execution.cwd.as_deref();
        let directory = cwd.map(|cwd| CString::new(cwd.as_os_str().as_bytes())).transpose();
        let directory = directory.map_err(|error| impossible(path, error))?;
        let steps = Steps::plan(launch.execution);
        let may_go_on = launch.goes_on && directory.is_none() && steps.is_empty();
        let number = if may_go_on { self.vacant(outputs) } else { WAITED_FOR };
        let cradle = self.prepared(number, launch, path)?;
        cradle.given.birth.directory = directory;
        cradle.given.birth.steps = steps;
        let mut born = cradle.bear(number, stdin, outputs);
        if number != WAITED_FOR && matches!(born, Err(failed) if is_refusal(failed.errno)) {
            self.always_waits = true;
            born = self.prepared(WAITED_FOR, launch, path)?.bear(WAITED_FOR, stdin, outputs);
        }
        born.map_err(|failed| explain(failed, launch, path))
    }

    /// A place with what is to be executed, and nothing to be set before.
    fn prepared(
        &mut self,
        number: usize,
        launch: &Launch<'_>,
        path: &Path,
    ) -> Result<&mut Cradle, SpawnError> {
        let failed = |errno: Errno| diagnosis::execution_failed(path, None, errno.into());
        let cradle = self.cradle(number).map_err(failed)?;
        let birth = &mut cradle.given.birth;
        birth
            .image
            .lay_out(path, launch.command, launch.environment)
            .map_err(|error| impossible(path, error))?;
        birth.directory = None;
        birth.steps = Steps::default();
        Ok(cradle)
    }

    /// A place for a process that we need not wait for, if there is one.
    fn vacant(&self, outputs: Option<[BorrowedFd<'_>; 2]>) -> usize {
        if !raw::IS_DIRECT || self.always_waits || outputs.is_some_and(Berth::is_doubtful) {
            return WAITED_FOR;
        }
        let is_vacant = |number: &usize| match self.cradles.get(*number) {
            Some(Some(cradle)) => cradle.born.is_none(),
            Some(None) => true,
            None => false,
        };
        (1..CRADLES).find(is_vacant).unwrap_or(WAITED_FOR)
    }

    fn cradle(&mut self, number: usize) -> Result<&mut Cradle, Errno> {
        let words = match self.words {
            Some(words) => words,
            None => *self.words.insert(shared_words()?),
        };
        let (Some(cradle), Some(words)) = (self.cradles.get_mut(number), words.get(number)) else {
            return Err(Errno::EINVAL);
        };
        Ok(cradle.get_or_insert_with(|| Box::new(Cradle::new(words))))
    }

    /// Clears the places of those that have left our memory.
    fn settle(&mut self) {
        for cradle in self.cradles.iter_mut().flatten() {
            if let Some((pid, errno)) = cradle.settle() {
                self.failed.push((pid, cradle.given.birth.image.path().to_owned(), errno));
            }
        }
    }

    fn failure(&mut self, ended: Pid) -> Option<SpawnError> {
        for cradle in self.cradles.iter_mut().flatten().filter(|cradle| cradle.born == Some(ended)) {
            // Not every kernel says so of one that dumped its core, or before the end.
            cradle.words.inside.store(0, Ordering::SeqCst);
        }
        self.settle();
        let index = self.failed.iter().position(|(pid, ..)| *pid == ended)?;
        let (_, path, errno) = self.failed.swap_remove(index);
        Some(diagnosis::execution_failed(&path, None, errno.into()))
    }
}

impl Drop for Nursery {
    /// What a process may still need stays.
    fn drop(&mut self) {
        for cradle in self.cradles.iter_mut().filter_map(Option::take) {
            if cradle.born.is_some() {
                mem::forget(cradle);
            }
        }
    }
}

impl Cradle {
    fn new(words: &'static Words) -> Self {
        let given = Given {
            birth: Birth::default(),
            mask: SigSet::empty(),
            is_exposed: false,
            report: &words.report,
        };
        Self { words, stack: Vec::with_capacity(STACK_SIZE), given, born: None, berth: None }
    }

    /// Starts the process, with as few of our descriptors as can be.
    fn bear(
        &mut self,
        number: usize,
        stdin: BorrowedFd<'_>,
        outputs: Option<[BorrowedFd<'_>; 2]>,
    ) -> Result<Pid, Failure> {
        let waits = number == WAITED_FOR;
        let copies = self.given.birth.steps.change_user();
        if let Some(berth) =
            outputs.filter(|_| !copies).and_then(|outputs| Berth::take(number, stdin, outputs))
        {
            self.given.birth.stdio = berth.streams.map(Some);
            self.given.birth.leave_from = Some(berth.end);
            match self.begin(waits) {
                Err(Failure { stage: Stage::Descriptors, .. }) => Berth::give_up(),
                Err(failed) => return Err(failed),
                Ok(pid) => {
                    Berth::trust();
                    self.berth = Some(berth).filter(|_| !waits);
                    return Ok(pid);
                }
            }
        }
        let [stdout, stderr] = outputs.map_or([None; 2], |outputs| outputs.map(|fd| Some(fd.as_raw_fd())));
        self.given.birth.stdio = [Some(stdin.as_raw_fd()), stdout, stderr];
        self.given.birth.leave_from = None;
        self.begin(waits)
    }

    fn begin(&mut self, waits: bool) -> Result<Pid, Failure> {
        let birth = &self.given.birth;
        let memory = if birth.steps.change_user() { 0 } else { libc::CLONE_VM };
        let descriptors = if birth.leave_from.is_some() { libc::CLONE_FILES } else { 0 };
        let meanwhile = if waits { libc::CLONE_VFORK } else { libc::CLONE_CHILD_CLEARTID };
        self.words.report.store(0, Ordering::SeqCst);
        self.words.inside.store(i32::from(!waits), Ordering::SeqCst);
        // No handler of ours may run in the new process: it would run in our memory.
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK).map_err(creation)?;
        self.given.mask = mask;
        self.given.is_exposed = !waits;
        let top = self.stack.as_mut_ptr().wrapping_add(STACK_SIZE);
        // SAFETY: nobody touches the stack and `given` until the process has left our memory: until this call returns,
        // or until `inside` is zero. `enter` only makes system calls.
        let created = unsafe {
            raw::clone(
                memory | descriptors | meanwhile | libc::SIGCHLD,
                top,
                &self.words.inside,
                enter,
                (&raw mut self.given).cast(),
            )
        };
        // Cannot fail: it is the mask that we had.
        let _ = mask.thread_set_mask();
        let pid = created.inspect_err(|_| self.words.inside.store(0, Ordering::SeqCst)).map_err(creation)?;
        let pid = i32::try_from(pid).ok().and_then(Pid::new).ok_or_else(|| creation(Errno::ESRCH))?;
        if !waits {
            self.born = Some(pid);
            // It does so itself, but perhaps later than somebody signals the group. Not possible once it has.
            let _ = nix::unistd::setpgid(raw_pid(pid), raw_pid(pid));
            return Ok(pid);
        }
        match Failure::read(self.words.report.load(Ordering::SeqCst)) {
            None => Ok(pid),
            Some(failed) => {
                collect(pid);
                Err(failed)
            }
        }
    }

    /// Clears the place if its process has left our memory; tells if it failed.
    fn settle(&mut self) -> Option<(Pid, Errno)> {
        if self.words.inside.load(Ordering::SeqCst) != 0 {
            return None;
        }
        self.berth = None;
        let pid = self.born.take()?;
        Failure::read(self.words.report.load(Ordering::SeqCst)).map(|failed| (pid, failed.errno))
    }
}

fn impossible(path: &Path, error: NulError) -> SpawnError {
    SpawnError::new(format!("execute {path:?}"), error.into())
}

/// Whether the kernel does not do such a thing at all: an emulator may not, nor one that is guarded.
fn is_refusal(errno: Errno) -> bool {
    matches!(errno, Errno::EINVAL | Errno::ENOSYS | Errno::EPERM)
}

fn explain(failed: Failure, launch: &Launch<'_>, path: &Path) -> SpawnError {
    let cwd = match failed.stage {
        Stage::Step(step) => return Steps::plan(launch.execution).failed(step, failed.errno),
        Stage::Directory => launch.execution.cwd.as_deref(),
        Stage::Descriptors | Stage::Creation | Stage::Execution => None,
    };
    diagnosis::execution_failed(path, cwd, failed.errno.into())
}

/// Memory that a process shares with us even if it has a copy of the rest; never unmapped.
fn shared_words() -> Result<&'static [Words; CRADLES], Errno> {
    let size = size_of::<[Words; CRADLES]>();
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at a place of the kernel's choice.
    let page = unsafe { libc::mmap(ptr::null_mut(), size, access, kind, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err(Errno::last());
    }
    // SAFETY: large enough, of zeroes, which these numbers can be, and there until we end.
    Ok(unsafe { &*page.cast_const().cast() })
}

fn raw_pid(pid: Pid) -> nix::unistd::Pid {
    nix::unistd::Pid::from_raw(pid.number())
}

/// Waits for a process that has failed and is about to end; nobody else may hear of it.
fn collect(pid: Pid) {
    // SAFETY: takes numbers; a null status is allowed.
    while unsafe { libc::waitpid(pid.number(), ptr::null_mut(), 0) } == -1
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}
