//! Descriptors that a process is given beside its streams, and what it is told of them.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::Arc;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::config::spec::Environment;

/// The first descriptor after the streams, where systemd's protocol puts those that it passes.
pub const FIRST: RawFd = 3;

/// A pipe from a process to us. Both ends close on exec; only ours is non-blocking, since children expect blocking writes.
pub fn pipe_to_us() -> io::Result<(PipeReader, PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    fcntl(reader.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok((reader, writer))
}

/// What a process gets in addition.
#[derive(Debug, Clone, Default)]
pub struct Passed {
    /// Descriptors, each with the number that it has in the process.
    pub descriptors: Vec<(Arc<OwnedFd>, RawFd)>,
    /// Variables; those that the job sets itself win.
    pub variables: Environment,
    /// Variables whose value is its own process number, which only it knows.
    pub own_number: Vec<&'static str>,
    /// The process leads a session of its own: setpgid(2) lets nobody into a group of another session, so that no process can
    /// pass for one of this job.
    pub own_session: bool,
}

impl Passed {
    /// The highest number that a descriptor has in the process.
    pub fn highest(&self) -> Option<RawFd> {
        self.descriptors.iter().map(|(_, number)| *number).max()
    }

    /// Sets a variable.
    pub fn tell(&mut self, name: &str, value: impl Into<String>) {
        self.variables.push((name.to_owned(), Some(value.into())));
    }

    /// Has a variable set to the process number; one that we inherited would be another's.
    pub fn tell_own_number(&mut self, name: &'static str) {
        self.variables.push((name.to_owned(), None));
        self.own_number.push(name);
    }
}
