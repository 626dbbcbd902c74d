//! The output of the log: stdout, stderr or a file. All system calls of the log writer are here.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc::O_NONBLOCK;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::config::spec::LogOutput;
use crate::reason::reason;

/// An open output.
#[derive(Debug)]
pub struct Output {
    file: File,
    target: Target,
}

#[derive(Debug)]
enum Target {
    Stdout,
    Stderr,
    File(PathBuf),
    Descriptor,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("stdout"),
            Self::Stderr => f.write_str("stderr"),
            Self::File(path) => write!(f, "{path:?}"),
            Self::Descriptor => f.write_str("its descriptor"),
        }
    }
}

impl Output {
    /// Opens the output that the configuration names; an error names the file.
    pub fn open(output: &LogOutput) -> io::Result<Self> {
        match output {
            LogOutput::Stdout => {
                let descriptor = io::stdout().as_fd().try_clone_to_owned().map_err(unusable("stdout"))?;
                Ok(Self { file: descriptor.into(), target: Target::Stdout })
            }
            LogOutput::Stderr => {
                let descriptor = io::stderr().as_fd().try_clone_to_owned().map_err(unusable("stderr"))?;
                Ok(Self { file: descriptor.into(), target: Target::Stderr })
            }
            LogOutput::File(path) => Ok(Self { file: open_file(path)?, target: Target::File(path.clone()) }),
        }
    }

    /// Writes to a descriptor that is open already.
    pub fn descriptor(descriptor: OwnedFd) -> Self {
        Self { file: descriptor.into(), target: Target::Descriptor }
    }

    /// Opens the same file again; `None` if the output is not a file.
    pub fn reopen(&self) -> io::Result<Option<Self>> {
        match &self.target {
            Target::File(path) => {
                Ok(Some(Self { file: open_file(path)?, target: Target::File(path.clone()) }))
            }
            Target::Stdout | Target::Stderr | Target::Descriptor => Ok(None),
        }
    }

    /// One write(2), which may block and may write less.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match (&self.file).write(bytes) {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            result => result,
        }
    }

    /// Waits until a non-blocking descriptor accepts bytes again, or is broken: then the next write fails.
    pub fn wait_writable(&self) {
        let mut descriptors = [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut descriptors, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            // ENOMEM: the caller tries again, and must not spin.
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }

    /// Its name in messages.
    pub fn name(&self) -> impl fmt::Display + '_ {
        &self.target
    }

    /// Says on stderr that the log is broken, unless stderr is the log or would block.
    pub fn announce(&self, message: &str) {
        match self.target {
            Target::Stdout | Target::File(_) => {}
            Target::Stderr | Target::Descriptor => return,
        }
        let stderr = io::stderr();
        let mut descriptors = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
        if matches!(poll(&mut descriptors, PollTimeout::ZERO), Ok(ready) if ready > 0) {
            // There is no other place to report a failure.
            let _ = writeln!(stderr.lock(), "containerpilot: {message}");
        }
    }
}

/// Opens for appending. Without O_NONBLOCK, open(2) of a FIFO without a reader would block.
fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o644)
        .custom_flags(O_NONBLOCK)
        .open(path)
        .map_err(unusable(&format!("the log file {path:?}")))
}

/// Adds what could not be opened to an error.
fn unusable(what: &str) -> impl Fn(io::Error) -> io::Error + '_ {
    move |error| io::Error::new(error.kind(), format!("cannot open {what}: {}", reason(&error)))
}
