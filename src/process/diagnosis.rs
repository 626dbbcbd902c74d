//! From the bare error number of a failed execution to a reason that helps: looks at the files involved
//! after the fact, so that a start that succeeds pays nothing.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, eaccess};

use super::error::SpawnError;
use crate::reason::reason;

/// Explains why `path` could not be executed in `cwd`.
pub(super) fn execution_failed(path: &Path, cwd: Option<&Path>, error: io::Error) -> SpawnError {
    let number = error.raw_os_error().unwrap_or_default();
    // The kernel gives the same numbers for a directory that cannot be entered.
    if let Some(directory) = cwd
        && matches!(number, libc::ENOENT | libc::ENOTDIR | libc::EACCES | libc::ELOOP)
        && let Some(reason) = why_not_entered(directory)
    {
        return SpawnError::because(format!("enter the directory {directory:?}"), reason, error);
    }
    let action = format!("execute {path:?}");
    match why_not_executed(path, number) {
        Some(reason) => SpawnError::because(action, reason, error),
        None => SpawnError::new(action, error),
    }
}

fn why_not_entered(directory: &Path) -> Option<String> {
    match fs::metadata(directory) {
        Err(error) => Some(reason(&error)),
        Ok(found) if !found.is_dir() => Some("it is not a directory".to_owned()),
        Ok(_) => eaccess(directory, AccessFlags::X_OK).err().map(|errno| reason(&io::Error::from(errno))),
    }
}

/// `None` where the system's own text says it all.
fn why_not_executed(path: &Path, number: i32) -> Option<String> {
    match number {
        libc::ENOENT | libc::ENOTDIR => why_not_found(path),
        libc::EACCES => why_not_permitted(path),
        libc::ENOEXEC => Some(why_no_format(path)),
        libc::EAGAIN => Some("the limit on the number of processes is reached".to_owned()),
        libc::ENOMEM => Some("not enough memory".to_owned()),
        libc::E2BIG => Some("its arguments and environment are too long".to_owned()),
        libc::ETXTBSY => Some("the file is still being written".to_owned()),
        _ => None,
    }
}

fn why_not_found(path: &Path) -> Option<String> {
    match opening(path)? {
        Opening::Script(interpreter) if !interpreter.exists() => {
            Some(format!("its interpreter {interpreter:?} does not exist"))
        }
        Opening::Elf => {
            Some("its dynamic loader does not exist (is it built for another C library?)".to_owned())
        }
        Opening::Script(_) | Opening::Empty | Opening::Other => None,
    }
}

fn why_not_permitted(path: &Path) -> Option<String> {
    let found = fs::metadata(path).ok()?;
    let mode = found.permissions().mode() & 0o7777;
    if found.is_dir() {
        return Some("it is a directory".to_owned());
    }
    if !found.is_file() {
        return Some("it is not a regular file".to_owned());
    }
    if mode & 0o111 == 0 {
        return Some(format!("permission denied: the file is not executable (mode {mode:04o})"));
    }
    match opening(path)? {
        Opening::Script(interpreter) if eaccess(&interpreter, AccessFlags::X_OK).is_err() => {
            Some(format!("its interpreter {interpreter:?} may not be executed"))
        }
        Opening::Script(_) | Opening::Elf | Opening::Empty | Opening::Other => None,
    }
}

fn why_no_format(path: &Path) -> String {
    match opening(path) {
        Some(Opening::Empty) => "exec format error: the file is empty".to_owned(),
        Some(Opening::Elf) => "exec format error: it is built for another machine".to_owned(),
        Some(Opening::Script(_)) => "exec format error: its #! line is malformed".to_owned(),
        Some(Opening::Other) | None => "exec format error: is it a script without a #! line?".to_owned(),
    }
}

/// How an executable file begins.
enum Opening {
    Empty,
    Script(PathBuf),
    Elf,
    Other,
}

/// `None` if it cannot be read. What is no regular file is not opened: opening a fifo would block us.
fn opening(path: &Path) -> Option<Opening> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    // The kernel too looks no further than 256 bytes.
    File::open(path).ok()?.take(256).read_to_end(&mut bytes).ok()?;
    Some(if bytes.is_empty() {
        Opening::Empty
    } else if bytes.starts_with(b"\x7fELF") {
        Opening::Elf
    } else if let Some(rest) = bytes.strip_prefix(b"#!") {
        Opening::Script(interpreter(rest))
    } else {
        Opening::Other
    })
}

/// The interpreter as the kernel reads it: up to a space, tab or newline, so a carriage return belongs to it.
fn interpreter(line: &[u8]) -> PathBuf {
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let word = line.split(|byte| b" \t".contains(byte)).find(|word| !word.is_empty());
    PathBuf::from(OsStr::from_bytes(word.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explain(path: &Path, number: i32) -> String {
        execution_failed(path, None, io::Error::from_raw_os_error(number)).to_string()
    }

    #[test]
    fn limits_of_the_system_are_told_in_words() {
        let path = Path::new("/x");
        assert_eq!(
            explain(path, libc::EAGAIN),
            "cannot execute \"/x\": the limit on the number of processes is reached"
        );
        assert_eq!(explain(path, libc::ENOMEM), "cannot execute \"/x\": not enough memory");
        assert_eq!(explain(path, libc::ETXTBSY), "cannot execute \"/x\": the file is still being written");
    }

    #[test]
    fn an_error_without_a_better_word_keeps_the_systems() {
        assert_eq!(explain(Path::new("/x"), libc::EIO), "cannot execute \"/x\": Input/output error");
    }

    #[test]
    fn what_is_in_order_is_not_blamed() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let error = io::Error::from_raw_os_error(libc::ENOENT);
        let told = execution_failed(Path::new("/x"), Some(folder.path()), error).to_string();
        assert_eq!(told, "cannot execute \"/x\": No such file or directory", "the directory can be entered");
        let told = |number| explain(&script, number).replace(&format!("{script:?}"), "it");
        assert_eq!(told(libc::ENOENT), "cannot execute it: No such file or directory");
        assert_eq!(told(libc::EACCES), "cannot execute it: Permission denied");
    }

    #[test]
    fn the_interpreter_is_read_as_the_kernel_does() {
        assert_eq!(interpreter(b" /bin/sh -e\necho"), Path::new("/bin/sh"));
        assert_eq!(interpreter(b"/bin/sh\r\n"), Path::new("/bin/sh\r"));
        assert_eq!(interpreter(b"\n"), Path::new(""));
    }

    #[test]
    fn a_binary_for_another_c_library_or_machine_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("binary");
        fs::write(&binary, b"\x7fELF\x02").unwrap();
        assert!(explain(&binary, libc::ENOENT).contains("its dynamic loader does not exist"));
        assert!(explain(&binary, libc::ENOEXEC).contains("it is built for another machine"));
    }
}
