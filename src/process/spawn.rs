//! Starts one process: finds the program, makes its pipes, clones with vfork semantics and becomes the program. Runs on
//! a thread of [`super::spawner`], since any step may wait for a file system that hangs.
//!
//! Why not `std::process::Command`: a start that hangs in execve(2) must be killable, so its process number has to be
//! known before execve returns (CLONE_PARENT_SETTID); and several settings have no safe equivalent there.
//!
//! clone(2) with CLONE_VM and CLONE_VFORK lends the child our memory until execve and suspends only this thread, so that
//! the cost of a start does not grow with our size. A child whose settings would affect us through that memory gets a
//! copy instead ([`Steps::need_own_memory`]). A seccomp filter may refuse CLONE_VM: then the child gets a copy, too.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_void};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{mem, ptr};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::SigSet;
use nix::unistd::{Gid, Uid, chdir, fchown, getpid, setpgid, setsid, tcsetpgrp};

use super::error::SpawnError;
use super::execution::{Steps, login_environment};
use super::image::Image;
use super::init::reset;
use super::spawner::Progress;
use super::{
    Launch, Output, Passed, Pipes, SpawnOutcome, Spawned, diagnosis, memory, pipe_to_us, resolve, terminal,
};
use crate::config::spec::ExecutionSpec;
use crate::messages::process::Pid;

/// Enough for a few system calls; only what is used becomes memory.
const STACK_SIZE: usize = 64 * 1024;
/// How long to wait for the report of a child after clone(2) has returned. The kernel returns after execve, when the
/// report is complete; only an emulator that makes a fork of a vfork returns earlier.
const REPORT_PATIENCE: u16 = 50;
/// Signals that do not have their default action here: Rust ignores the first one, and handles the others to tell of a stack
/// that has overflowed.
const NOT_DEFAULT: [c_int; 3] = [libc::SIGPIPE, libc::SIGSEGV, libc::SIGBUS];
/// If these are ignored, our parent did that because of the terminal: a child that is not at the terminal inherits it.
const OF_TERMINAL: [c_int; 3] = [libc::SIGTTIN, libc::SIGTTOU, libc::SIGTSTP];

/// The stdin of every process, opened once.
static NULL: OnceLock<File> = OnceLock::new();

/// The stack of children of one thread, until they execute their program.
pub(super) struct Stack(Vec<mem::MaybeUninit<u8>>);

impl Default for Stack {
    fn default() -> Self {
        Self(vec![mem::MaybeUninit::uninit(); STACK_SIZE])
    }
}

/// Starts a process that leads a new group. Every signal must be blocked in the calling thread: a handler, such as Rust's for
/// SIGSEGV, would run in our memory if it ran in the child; and the kernel throws the SIGCHLD of a child away whose parent thread
/// neither handles nor blocks it.
pub(super) fn spawn(launch: &Launch, progress: &Progress, stack: &mut Stack) -> SpawnOutcome {
    let outcome = match prepare(launch) {
        Err(error) => SpawnOutcome::Failed { error, child: None },
        Ok(prepared) => prepared.start(progress, stack),
    };
    if let SpawnOutcome::Started(spawned) = &outcome {
        launch.note_started(spawned.pid);
        if launch.execution.oom_score_adj.is_none() {
            memory::prefer_as_victim(spawned.pid);
        }
    }
    outcome
}

/// All that can be done before the process exists.
struct Prepared<'a> {
    child: Child,
    execution: &'a ExecutionSpec,
    path: PathBuf,
    pipes: Option<Pipes>,
    report: PipeReader,
    /// Closed in this process once the child has its copies.
    _writers: Option<[PipeWriter; 2]>,
    report_writer: PipeWriter,
    /// The descriptors that are passed, at numbers that none of them gets in the child.
    _passed: Vec<OwnedFd>,
}

/// What the child reads between clone and execve. Nothing in it changes while the child lives in our memory.
struct Child {
    image: Image,
    directory: Option<CString>,
    /// Its stdin, stdout and stderr; `None` where it keeps ours.
    stdio: [Option<RawFd>; 3],
    /// Further descriptors, each with its number in the child.
    passed: Vec<(RawFd, RawFd)>,
    /// Its group takes the foreground of our terminal.
    is_at_terminal: bool,
    /// It leads a session, not only a group.
    own_session: bool,
    steps: Steps,
    /// Where it reports a failure.
    report: RawFd,
}

fn prepare(launch: &Launch) -> Result<Prepared<'_>, SpawnError> {
    let Launch { command, execution, output, .. } = launch;
    let mut environment = launch.whole_environment()?;
    // Values from files are never shown, and errors tell where a program was looked for.
    let hides_path = environment.get("PATH") != launch.environment.get("PATH");
    if let Some(user) = &execution.user {
        environment.log_in(&login_environment(user));
    }
    let cwd = execution.cwd.as_deref();
    let path = resolve::executable(&command.program, environment.get("PATH"), cwd)
        .map_err(|error| if hides_path { resolve::without_path(&command.program, &error) } else { error })?;
    let shown = if hides_path { PathBuf::from(&*command.program) } else { path.clone() };
    let impossible = |error: std::ffi::NulError| SpawnError::new(format!("execute {shown:?}"), error.into());
    let directory =
        cwd.map(|cwd| CString::new(cwd.as_os_str().as_bytes())).transpose().map_err(impossible)?;
    let image = Image::new(&path, command, environment, &launch.passed.own_number).map_err(impossible)?;
    let steps = Steps::plan(execution);
    let (pipes, writers) = match output {
        Output::Inherited | Output::Terminal => (None, None),
        Output::Piped => {
            let (pipes, writers) = output_pipes(execution)?;
            (Some(pipes), Some(writers))
        }
    };
    let (report, mut report_writer) = io::pipe().map_err(cannot_pipe)?;
    let (sources, passed) = lift(&launch.passed, &mut report_writer).map_err(cannot_pass)?;
    let [stdout, stderr] = writers
        .as_ref()
        .map_or([None; 2], |writers| writers.each_ref().map(|writer| Some(writer.as_raw_fd())));
    let is_at_terminal = *output == Output::Terminal;
    let stdio = if is_at_terminal {
        let terminal = terminal::is_writable().then_some(libc::STDIN_FILENO);
        [None, terminal, terminal]
    } else {
        [Some(null()?.as_raw_fd()), stdout, stderr]
    };
    let child = Child {
        image,
        directory,
        stdio,
        passed,
        is_at_terminal,
        own_session: launch.passed.own_session,
        steps,
        report: report_writer.as_raw_fd(),
    };
    Ok(Prepared {
        child,
        execution,
        path: shown,
        pipes,
        report,
        _writers: writers,
        report_writer,
        _passed: sources,
    })
}

impl Prepared<'_> {
    fn start(self, progress: &Progress, stack: &mut Stack) -> SpawnOutcome {
        if !progress.begin_clone() {
            return SpawnOutcome::Cancelled;
        }
        let cloned = if self.child.steps.need_own_memory() {
            self.child.clone_process(0, progress, stack)
        } else {
            match self.child.clone_process(libc::CLONE_VM, progress, stack) {
                Err(Errno::EPERM | Errno::EINVAL | Errno::ENOSYS) => {
                    self.child.clone_process(0, progress, stack)
                }
                cloned => cloned,
            }
        };
        let Self { child, execution, path, pipes, report, report_writer, .. } = self;
        drop(report_writer);
        let pid = match cloned {
            Ok(pid) => pid,
            Err(errno) => {
                progress.end_without_process();
                let error = diagnosis::execution_failed(&path, None, errno.into());
                return SpawnOutcome::Failed { error, child: None };
            }
        };
        match Failure::receive(report) {
            None => SpawnOutcome::Started(Spawned { pid, pipes }),
            Some(failure) => {
                let error = failure.explain(&child.steps, execution, &path);
                SpawnOutcome::Failed { error, child: Some(pid) }
            }
        }
    }
}

impl Child {
    /// clone(2): returns when the child has become its program or has ended.
    fn clone_process(&self, memory: c_int, progress: &Progress, stack: &mut Stack) -> Result<Pid, Errno> {
        let top = stack.0.as_mut_ptr().wrapping_add(STACK_SIZE).map_addr(|top| top & !15);
        let flags = memory | libc::CLONE_VFORK | libc::CLONE_PARENT_SETTID | libc::SIGCHLD;
        // SAFETY: CLONE_VFORK suspends this thread until the child has left our memory, so that the stack and `self`
        // are the child's alone until then; `run` only makes system calls. The kernel writes the process number to
        // `progress`, which outlives the call, before the child runs.
        let pid = unsafe {
            libc::clone(run, top.cast(), flags, ptr::from_ref(self).cast_mut().cast(), progress.as_ptr())
        };
        let pid = Errno::result(pid).and_then(|pid| Pid::new(pid).ok_or(Errno::ESRCH))?;
        progress.end_clone(pid);
        Ok(pid)
    }

    /// Runs in the child: system calls only, no allocation, no lock.
    fn become_program(&self) -> Failure {
        match self.prepare() {
            Err(failure) => failure,
            Ok(()) => Failure { stage: Stage::Execution, errno: self.image.execute() },
        }
    }

    fn lead_group(&self) -> Result<(), Errno> {
        let own = nix::unistd::Pid::from_raw(0);
        // In another session it could not have our terminal.
        if self.own_session && !self.is_at_terminal { setsid().map(drop) } else { setpgid(own, own) }
    }

    fn prepare(&self) -> Result<(), Failure> {
        self.lead_group().map_err(|errno| Stage::Creation.failed(errno))?;
        if self.is_at_terminal {
            // SAFETY: our stdin stays open. Not `io::stdin()`, which may allocate.
            let terminal = unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) };
            // Allowed from the background, since SIGTTOU is blocked here like all signals.
            tcsetpgrp(terminal, getpid()).map_err(|errno| Stage::Terminal.failed(errno))?;
        }
        let stdio = self.stdio.into_iter().zip(0..).filter_map(|(source, target)| Some((source?, target)));
        for (source, target) in stdio.chain(self.passed.iter().copied()) {
            // SAFETY: takes numbers. Each `source` is open; it is no `target` and none of the first three, but for the
            // terminal at our stdin. The pipe of the report is no `target`, either.
            let duplicated = unsafe { libc::dup2(source, target) };
            Errno::result(duplicated).map_err(|errno| Stage::Creation.failed(errno))?;
        }
        self.image.tell_own_number();
        if let Some(directory) = &self.directory {
            chdir(directory.as_c_str()).map_err(|errno| Stage::Directory.failed(errno))?;
        }
        self.steps.make().map_err(|(step, errno)| Stage::Step(step).failed(errno))?;
        reset_signals(self.is_at_terminal).map_err(|errno| Stage::Creation.failed(errno))
    }
}

/// The entry point of the child; its status is seen only if it did not become its program.
extern "C" fn run(child: *mut c_void) -> c_int {
    // SAFETY: a `Child` that lives until this process has left the memory that holds it.
    let child = unsafe { &*child.cast_const().cast::<Child>() };
    let report = child.become_program().to_bytes();
    // SAFETY: writes from a buffer of that size; should it fail, the status is all that is told.
    unsafe { libc::write(child.report, report.as_ptr().cast(), report.len()) };
    127
}

/// Gives every signal its default action, then unblocks all: no handler may run here. We have none of our own, see
/// [`super::signals`], and [`super::init::reset_signals`] has reset what our parent left ignored.
fn reset_signals(is_at_terminal: bool) -> Result<(), Errno> {
    NOT_DEFAULT.into_iter().try_for_each(reset)?;
    if is_at_terminal {
        OF_TERMINAL.into_iter().try_for_each(reset)?;
    }
    SigSet::empty().thread_set_mask()
}

/// Why a child did not become its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failure {
    stage: Stage,
    errno: Errno,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It could not lead a group or set up its streams and signals.
    Creation,
    /// It could not take the foreground of our terminal.
    Terminal,
    /// It could not enter its directory.
    Directory,
    /// The setting of that number failed.
    Step(u32),
    /// execve(2) failed.
    Execution,
}

impl Stage {
    const fn failed(self, errno: Errno) -> Failure {
        Failure { stage: self, errno }
    }
}

impl Failure {
    fn to_bytes(self) -> [u8; 8] {
        let stage = match self.stage {
            Stage::Creation => 0,
            Stage::Directory => 1,
            Stage::Execution => 2,
            Stage::Terminal => 3,
            Stage::Step(step) => 4 + step,
        };
        let mut bytes = [0; 8];
        let (first, second) = bytes.split_at_mut(4);
        first.copy_from_slice(&stage.to_ne_bytes());
        second.copy_from_slice(&(self.errno as i32).to_ne_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; 8]) -> Self {
        let [a, b, c, d, e, f, g, h] = bytes;
        let stage = match u32::from_ne_bytes([a, b, c, d]) {
            0 => Stage::Creation,
            1 => Stage::Directory,
            2 => Stage::Execution,
            3 => Stage::Terminal,
            step => Stage::Step(step - 4),
        };
        Self { stage, errno: Errno::from_raw(i32::from_ne_bytes([e, f, g, h])) }
    }

    /// Reads the report of a child; `None` if its end of the pipe was closed by execve(2).
    fn receive(mut report: PipeReader) -> Option<Self> {
        // Another child that hangs between clone and execve may hold a copy of the pipe: do not wait for its end.
        let mut waits = [PollFd::new(report.as_fd(), PollFlags::POLLIN)];
        if !matches!(poll(&mut waits, PollTimeout::from(REPORT_PATIENCE)), Ok(1..)) {
            return None;
        }
        let mut bytes = [0; 8];
        report.read_exact(&mut bytes).ok()?;
        Some(Self::from_bytes(bytes))
    }

    fn explain(self, steps: &Steps, execution: &ExecutionSpec, path: &Path) -> SpawnError {
        let cwd = match self.stage {
            Stage::Step(step) => return steps.failed(step, self.errno),
            Stage::Terminal => return SpawnError::new("give it the terminal".to_owned(), self.errno.into()),
            Stage::Directory => execution.cwd.as_deref(),
            Stage::Creation | Stage::Execution => None,
        };
        diagnosis::execution_failed(path, cwd, self.errno.into())
    }
}

fn null() -> Result<&'static File, SpawnError> {
    if let Some(file) = NULL.get() {
        return Ok(file);
    }
    let file = File::open("/dev/null");
    let file = file.map_err(|error| SpawnError::new("open \"/dev/null\"".to_owned(), error))?;
    Ok(NULL.get_or_init(|| file))
}

/// The pipes of stdout and stderr. They belong to the user of the job, who could not open `/dev/stdout` otherwise.
fn output_pipes(execution: &ExecutionSpec) -> Result<(Pipes, [PipeWriter; 2]), SpawnError> {
    let (stdout, stdout_writer) = pipe_to_us().map_err(cannot_pipe)?;
    let (stderr, stderr_writer) = pipe_to_us().map_err(cannot_pipe)?;
    if let Some(user) = &execution.user {
        let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(execution.group.unwrap_or(user.gid)));
        for writer in [&stdout_writer, &stderr_writer] {
            // Without privileges the owner stays ours, and the change of the user below fails with a reason.
            let _ = fchown(writer, Some(uid), Some(gid));
        }
    }
    Ok((Pipes { stdout: stdout.into(), stderr: stderr.into() }, [stdout_writer, stderr_writer]))
}

/// Copies of descriptors, and for each its number and the one that it gets in the child.
type CopiedDescriptors = (Vec<OwnedFd>, Vec<(RawFd, RawFd)>);

/// Copies the descriptors that are passed, and that of the report, to numbers above those that they get in the child: there
/// each would close another one otherwise.
fn lift(passed: &Passed, report: &mut PipeWriter) -> io::Result<CopiedDescriptors> {
    let (mut sources, mut numbers) = (Vec::new(), Vec::new());
    let Some(highest) = passed.highest() else { return Ok((sources, numbers)) };
    let above = |source: BorrowedFd<'_>| -> io::Result<OwnedFd> {
        let copy = fcntl(source, FcntlArg::F_DUPFD_CLOEXEC(highest + 1))?;
        // SAFETY: the kernel has just made it, and nobody else knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(copy) })
    };
    for (source, number) in &passed.descriptors {
        let copy = above(source.as_fd())?;
        numbers.push((copy.as_raw_fd(), *number));
        sources.push(copy);
    }
    *report = above(report.as_fd())?.into();
    Ok((sources, numbers))
}

fn cannot_pass(error: io::Error) -> SpawnError {
    SpawnError::new("pass a descriptor to it".to_owned(), error)
}

fn cannot_pipe(error: io::Error) -> SpawnError {
    SpawnError::new("create a pipe for it".to_owned(), error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::Arc;

    #[test]
    fn descriptors_wait_above_the_numbers_that_they_get_in_the_child() {
        let (report, mut report_writer) = io::pipe().unwrap();
        let (one, other) = io::pipe().unwrap();
        let descriptors = vec![(Arc::new(one.into()), 500), (Arc::new(other.into()), 3)];
        let passed = Passed { descriptors, ..Passed::default() };
        let (sources, numbers) = lift(&passed, &mut report_writer).unwrap();
        let lifted: Vec<RawFd> = sources.iter().map(AsRawFd::as_raw_fd).collect();
        assert_eq!(numbers, [(lifted[0], 500), (lifted[1], 3)]);
        assert!(lifted.iter().all(|number| *number > 500), "{lifted:?}");
        assert!(report_writer.as_raw_fd() > 500);
        let failure = Stage::Execution.failed(Errno::ENOENT);
        report_writer.write_all(&failure.to_bytes()).unwrap();
        assert_eq!(Failure::receive(report), Some(failure), "it is the same pipe");
    }

    #[test]
    fn every_failure_survives_the_way_through_the_pipe() {
        let steps = [Stage::Step(0), Stage::Step(30)];
        let others = [Stage::Creation, Stage::Terminal, Stage::Directory, Stage::Execution];
        for stage in others.into_iter().chain(steps) {
            let failure = stage.failed(Errno::EPERM);
            assert_eq!(Failure::from_bytes(failure.to_bytes()), failure);
        }
    }
}
