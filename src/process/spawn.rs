//! Starting a process. On the fast path std uses posix_spawn (a vfork): its cost does not grow with our
//! size. Settings that posix_spawn does not know need the slow path, a fork.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::error::SpawnError;
use super::execution::Steps;
use super::image::Image;
use super::{Launch, Output, Pipes, Spawned, diagnosis, resolve};
use crate::messages::process::Pid;

pub(super) fn spawn(launch: &Launch<'_>) -> Result<Spawned, SpawnError> {
    let program = &launch.command.program;
    let cwd = launch.execution.cwd.as_deref();
    let path = resolve::executable(program, launch.environment, cwd)?;

    let mut command = Command::new(&path);
    command.arg0(program).args(&launch.command.args).process_group(0).stdin(null()?);
    command.env_clear().envs(launch.environment.iter().map(|(name, value)| (name, value)));
    if let Some(directory) = cwd {
        command.current_dir(directory);
    }
    let pipes = match launch.output {
        Output::Piped => Some(attach_pipes(&mut command)?),
        Output::Inherited => None,
    };
    let pid = start(&mut command, launch, &path)?;
    // The command still holds the write ends of the pipes, and closes them now.
    drop(command);
    Ok(Spawned { pid, pipes })
}

fn start(command: &mut Command, launch: &Launch<'_>, path: &Path) -> Result<Pid, SpawnError> {
    let steps = Steps::plan(launch.execution);
    if !steps.is_empty() {
        let image = Image::new(path, launch.command, launch.environment)
            .map_err(|error| SpawnError::new(format!("execute {path:?}"), error.into()))?;
        steps.attach(command, image);
    }
    match command.spawn() {
        // Dropping the `Child` neither waits for it nor ends it.
        Ok(child) => i32::try_from(child.id()).ok().and_then(Pid::new).ok_or_else(|| {
            let source = io::Error::other(format!("its process number is {}", child.id()));
            SpawnError::new(format!("execute {path:?}"), source)
        }),
        Err(error) => Err(steps
            .failed(&error)
            .unwrap_or_else(|| diagnosis::execution_failed(path, launch.execution.cwd.as_deref(), error))),
    }
}

fn null() -> Result<File, SpawnError> {
    File::open("/dev/null").map_err(|error| SpawnError::new("open \"/dev/null\"".to_owned(), error))
}

fn attach_pipes(command: &mut Command) -> Result<Pipes, SpawnError> {
    let (stdout, stdout_writer) = pipe()?;
    let (stderr, stderr_writer) = pipe()?;
    command.stdout(stdout_writer).stderr(stderr_writer);
    Ok(Pipes { stdout, stderr })
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
