//! Starting a process: the program is found, its pipes are made, and it is born into a group of its own.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::error::SpawnError;
use super::{Launch, Output, Pipes, Spawned, nursery, resolve};

/// What processes read from stdin, opened once.
static NULL: OnceLock<File> = OnceLock::new();

pub(super) fn spawn(launch: &Launch<'_>) -> Result<Spawned, SpawnError> {
    let cwd = launch.execution.cwd.as_deref();
    let path = resolve::executable(&launch.command.program, launch.environment, cwd)?;
    let (pipes, writers) = match launch.output {
        Output::Piped => {
            let (pipes, writers) = pipes()?;
            (Some(pipes), Some(writers))
        }
        Output::Inherited => (None, None),
    };
    let outputs = writers.as_ref().map(|writers| writers.each_ref().map(AsFd::as_fd));
    let pid = nursery::bear(launch, &path, null()?, outputs)?;
    Ok(Spawned { pid, pipes })
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
