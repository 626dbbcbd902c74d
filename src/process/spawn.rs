//! Starting a process: the program is found, its pipes are made, and it is born into a group of its own.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::berth::Berth;
use super::birth::{Birth, Failure, Stage};
use super::error::SpawnError;
use super::execution::Steps;
use super::image::Image;
use super::{Launch, Output, Pipes, Spawned, diagnosis, resolve};
use crate::messages::process::Pid;

/// What processes read from stdin, opened once.
static NULL: OnceLock<File> = OnceLock::new();

pub(super) fn spawn(launch: &Launch<'_>) -> Result<Spawned, SpawnError> {
    let cwd = launch.execution.cwd.as_deref();
    let path = resolve::executable(&launch.command.program, launch.environment, cwd)?;
    let impossible = |error: std::ffi::NulError| SpawnError::new(format!("execute {path:?}"), error.into());
    let image = Image::new(&path, launch.command, launch.environment).map_err(impossible)?;
    let directory =
        cwd.map(|cwd| CString::new(cwd.as_os_str().as_bytes())).transpose().map_err(impossible)?;
    let steps = Steps::plan(launch.execution);
    let (pipes, writers) = match launch.output {
        Output::Piped => {
            let (pipes, writers) = pipes()?;
            (Some(pipes), Some(writers))
        }
        Output::Inherited => (None, None),
    };
    let birth = Birth { image, directory, stdio: [None; 3], leave_from: None, steps: &steps };
    match bear(birth, null()?, writers.as_ref()) {
        Ok(pid) => Ok(Spawned { pid, pipes }),
        Err(failed) => Err(explain(failed, &steps, &path, cwd)),
    }
}

/// Starts the process, with as few of our descriptors as can be.
fn bear(
    mut birth: Birth<'_>,
    stdin: BorrowedFd<'_>,
    outputs: Option<&[PipeWriter; 2]>,
) -> Result<Pid, Failure> {
    let outputs = outputs.map(|writers| writers.each_ref().map(AsFd::as_fd));
    let berth =
        outputs.filter(|_| !birth.steps.change_user()).and_then(|outputs| Berth::take(stdin, outputs));
    if let Some(berth) = berth {
        birth.stdio = berth.streams.map(Some);
        birth.leave_from = Some(berth.end);
        match birth.begin() {
            Err(Failure { stage: Stage::Descriptors, .. }) => Berth::give_up(),
            born => return born,
        }
    }
    let [stdout, stderr] = outputs.map_or([None; 2], |outputs| outputs.map(|fd| Some(fd.as_raw_fd())));
    birth.stdio = [Some(stdin.as_raw_fd()), stdout, stderr];
    birth.leave_from = None;
    birth.begin()
}

fn explain(failed: Failure, steps: &Steps, path: &Path, cwd: Option<&Path>) -> SpawnError {
    let cwd = match failed.stage {
        Stage::Step(step) => return steps.failed(step, failed.errno),
        Stage::Directory => cwd,
        Stage::Descriptors | Stage::Creation | Stage::Execution => None,
    };
    diagnosis::execution_failed(path, cwd, failed.errno.into())
}

fn null() -> Result<BorrowedFd<'static>, SpawnError> {
    if let Some(file) = NULL.get() {
        return Ok(file.as_fd());
    }
    let file = File::open("/dev/null");
    let file = file.map_err(|error| SpawnError::new("open \"/dev/null\"".to_owned(), error))?;
    Ok(NULL.get_or_init(|| file).as_fd())
}

fn pipes() -> Result<(Pipes, [PipeWriter; 2]), SpawnError> {
    let (stdout, stdout_writer) = pipe()?;
    let (stderr, stderr_writer) = pipe()?;
    Ok((Pipes { stdout, stderr }, [stdout_writer, stderr_writer]))
}

/// Both ends close on exec; only ours is non-blocking, since children expect blocking writes.
fn pipe() -> Result<(OwnedFd, PipeWriter), SpawnError> {
    let open = || -> io::Result<(PipeReader, PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        fcntl(reader.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok((reader, writer))
    };
    let (reader, writer) =
        open().map_err(|error| SpawnError::new("create a pipe for its output".to_owned(), error))?;
    Ok((reader.into(), writer))
}
