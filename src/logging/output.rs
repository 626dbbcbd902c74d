//! The output of the log: stdout, stderr or a file. All system calls of the log writer are here.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
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
    target: LogOutput,
}

impl Output {
    /// Opens the output that the configuration names; an error names the file.
    pub fn open(target: &LogOutput) -> io::Result<Self> {
        let file = match target {
            LogOutput::Stdout => duplicate(io::stdout().as_fd(), "stdout")?,
            LogOutput::Stderr => duplicate(io::stderr().as_fd(), "stderr")?,
            LogOutput::File(path) => open_file(path)?,
        };
        Ok(Self::over(file, target.clone()))
    }

    /// Writes to a file that is open already.
    pub fn over(file: File, target: LogOutput) -> Self {
        Self { file, target }
    }

    /// How the configuration names it.
    pub fn target(&self) -> &LogOutput {
        &self.target
    }

    /// Opens the same file again; `None` if the output is not a file.
    pub fn reopen(&self) -> io::Result<Option<Self>> {
        match &self.target {
            target @ LogOutput::File(_) => Self::open(target).map(Some),
            LogOutput::Stdout | LogOutput::Stderr => Ok(None),
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

    /// Whether both write to the same file.
    pub fn is_same_file(&self, other: &Self) -> bool {
        let place = |output: &Self| output.file.metadata().map(|file| (file.dev(), file.ino())).ok();
        place(self).is_some_and(|here| place(other) == Some(here))
    }

    /// Its name in messages.
    pub fn name(&self) -> String {
        match &self.target {
            LogOutput::Stdout => "stdout".to_owned(),
            LogOutput::Stderr => "stderr".to_owned(),
            LogOutput::File(path) => format!("{path:?}"),
        }
    }

    /// Says on stderr that the log is broken, unless stderr is the log or would block.
    pub fn announce(&self, message: &str) {
        if self.target == LogOutput::Stderr {
            return;
        }
        let stderr = io::stderr();
        let mut descriptors = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
        if matches!(poll(&mut descriptors, PollTimeout::ZERO), Ok(ready) if ready > 0) {
            // There is no other place to report a failure.
            let _ = writeln!(stderr.lock(), "containerpilot: {message}");
        }
    }
}

fn duplicate(descriptor: BorrowedFd<'_>, name: &str) -> io::Result<File> {
    descriptor.try_clone_to_owned().map(File::from).map_err(unusable(name))
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

#[cfg(test)]
mod tests {
    use std::io::Read;

    use nix::fcntl::OFlag;
    use nix::unistd::pipe2;

    use super::*;

    #[test]
    fn a_full_pipe_is_waited_for_until_it_is_read_or_broken() {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).unwrap();
        let output = Output::over(writer.into(), LogOutput::Stdout);
        let fill = || while output.write(&[b'x'; 4096]).is_ok() {};
        fill();
        let reader = thread::spawn(move || {
            let mut reader = File::from(reader);
            reader.read_exact(&mut [0; 4096]).unwrap();
            reader
        });
        output.wait_writable();
        assert_eq!(output.write(b"x").unwrap(), 1);

        let reader = reader.join().unwrap();
        fill();
        let closing = thread::spawn(move || drop(reader));
        output.wait_writable();
        assert_eq!(output.write(b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        closing.join().unwrap();
    }
}
