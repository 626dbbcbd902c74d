//! Output of commands. A closed pipe (`containerpilot schema | head`) is no error, and a file is replaced as a whole or not
//! at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use terminal_size::{Height, Width, terminal_size_of};
use tokio::sync::Notify;

/// Prints to stdout.
pub fn print(text: &str) -> io::Result<()> {
    print_bytes(text.as_bytes()).map(drop)
}

/// Prints to stdout; false if nobody reads it any more.
pub fn print_bytes(bytes: &[u8]) -> io::Result<bool> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// The reader of what a command prints that goes on until it is ended, such as `head` behind a pipe.
pub struct Reader {
    gone: Arc<Notify>,
}

impl Reader {
    /// The reader of stdout.
    pub fn of_stdout() -> Self {
        let gone = Arc::new(Notify::new());
        let told = Arc::clone(&gone);
        // Without the thread, the next write tells. It ends with the program.
        let _ = thread::Builder::new().spawn(move || {
            if await_end_of_reader().is_ok() {
                told.notify_one();
            }
        });
        Self { gone }
    }

    /// The result of a step; `None` if the reader is gone before it is done.
    pub async fn unless_gone<T>(&self, step: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.gone.notified() => None,
            result = step => Some(result),
        }
    }
}

/// Blocks until nobody reads stdout: poll(2) reports that of a pipe though it is asked for nothing. A file always has room,
/// and so blocks for ever.
fn await_end_of_reader() -> nix::Result<()> {
    let stdout = io::stdout();
    loop {
        match poll(&mut [PollFd::new(stdout.as_fd(), PollFlags::empty())], PollTimeout::NONE) {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The width of the terminal in characters; `None` if stdout is no terminal.
pub fn width() -> Option<usize> {
    let (Width(columns), _) = terminal_size_of(io::stdout())?;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}

/// The height of the terminal in lines; `None` if stdout is no terminal.
pub fn height() -> Option<usize> {
    let (_, Height(lines)) = terminal_size_of(io::stdout())?;
    Some(usize::from(lines)).filter(|lines| *lines > 0)
}

/// Prints to stderr; there is nothing left to do if that fails.
pub fn print_error(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Gives a file new content in one step: a reader sees the old or the new content, never a part. Anything but
/// a regular file (`/dev/stderr`, a pipe) is written to directly, since it must not be replaced by a file.
pub fn replace_file(path: &Path, content: &[u8]) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => OpenOptions::new().write(true).open(path)?.write_all(content),
        // A symbolic link stays: what it points to is replaced.
        Ok(metadata) => replace_regular_file(&fs::canonicalize(path)?, content, Some(metadata.permissions())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => replace_regular_file(path, content, None),
        Err(error) => Err(error),
    }
}

fn replace_regular_file(path: &Path, content: &[u8], permissions: Option<fs::Permissions>) -> io::Result<()> {
    let temporary = temporary_beside(path)?;
    let file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
    let result = fill(file, content, permissions).and_then(|()| fs::rename(&temporary, path));
    if result.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    result
}

fn fill(mut file: File, content: &[u8], permissions: Option<fs::Permissions>) -> io::Result<()> {
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.write_all(content)?;
    file.sync_all()
}

/// In the same directory: a rename works only within one file system.
fn temporary_beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.tmp", std::process::id()));
    Ok(path.with_file_name(temporary))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_created_and_replaced_and_nothing_else_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        for content in ["first, longer", "second"] {
            replace_file(&path, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
            assert_eq!(names(directory.path()), ["out"]);
        }
    }

    #[test]
    fn a_replaced_file_keeps_its_permissions() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        replace_file(&path, b"new").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_symbolic_link_stays_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let (target, link) = (directory.path().join("target"), directory.path().join("link"));
        fs::write(&target, "old").unwrap();
        symlink("target", &link).unwrap();
        replace_file(&link, b"new").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        replace_file(Path::new("/dev/null"), b"gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn a_failure_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        assert!(replace_file(&directory.path().join("missing/out"), b"x").is_err());
        assert!(replace_file(directory.path(), b"x").is_err());
        assert!(names(directory.path()).is_empty());
    }
}
