//! From the program that a user wrote to the file to execute, as execvp(3) would find it in the child:
//! with the child's own `PATH` and directory. Done before the process exists, where it can fail with a reason. The crate
//! which was weighed: its errors do not tell a program that is missing from one that may not be executed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{self, Path, PathBuf};
use std::{fs, io};

use nix::unistd::{AccessFlags, eaccess};

use super::diagnosis;
use super::error::SpawnError;

/// Where programs are looked for if the child has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The file to execute; a path that holds a slash.
pub(super) fn executable(
    program: &str,
    search: Option<&OsStr>,
    cwd: Option<&Path>,
) -> Result<PathBuf, SpawnError> {
    // Absolute, so that it means the same before and after the child has entered its directory.
    let base = match cwd {
        Some(directory) => path::absolute(directory).unwrap_or_else(|_| directory.to_owned()),
        None => PathBuf::from("."),
    };
    if program.contains('/') {
        return Ok(if cwd.is_some() { base.join(program) } else { PathBuf::from(program) });
    }
    find(program, search.unwrap_or(OsStr::new(DEFAULT_PATH)), &base)
}

/// The same error without the places that were looked at.
pub(super) fn without_path(program: &str, error: &SpawnError) -> SpawnError {
    let reason = if error.shell_code() == 127 { "not found in PATH" } else { "Permission denied" };
    let number = if error.shell_code() == 127 { libc::ENOENT } else { libc::EACCES };
    SpawnError::because(
        format!("execute {program:?}"),
        reason.to_owned(),
        io::Error::from_raw_os_error(number),
    )
}

/// The first executable of that name; like execvp, a file that may not be executed is told only if
/// nothing better follows.
fn find(program: &str, search: &OsStr, base: &Path) -> Result<PathBuf, SpawnError> {
    let mut denied = None;
    for entry in search.as_bytes().split(|&byte| byte == b':') {
        // An empty entry means the current directory.
        let candidate = base.join(OsStr::from_bytes(entry)).join(program);
        match look_at(&candidate) {
            Candidate::Executable => return Ok(candidate),
            Candidate::Denied => denied = denied.or(Some(candidate)),
            Candidate::Absent => {}
        }
    }
    Err(match denied {
        Some(file) => diagnosis::execution_failed(&file, None, io::Error::from_raw_os_error(libc::EACCES)),
        None => SpawnError::because(
            format!("execute {program:?}"),
            format!("not found in PATH {search:?}"),
            io::Error::from_raw_os_error(libc::ENOENT),
        ),
    })
}

enum Candidate {
    Executable,
    Denied,
    Absent,
}

/// Judged with our own rights: a job's other user may still be refused when it executes the file.
fn look_at(file: &Path) -> Candidate {
    match fs::metadata(file) {
        Ok(found) if found.is_file() && eaccess(file, AccessFlags::X_OK).is_ok() => Candidate::Executable,
        Ok(_) => Candidate::Denied,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Candidate::Denied,
        Err(_) => Candidate::Absent,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use nix::unistd::{Uid, getuid, setfsuid};
    use std::ffi::OsString;

    fn put(folder: &Path, name: &str, mode: u32) -> PathBuf {
        let file = folder.join(name);
        fs::create_dir_all(folder).unwrap();
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        file
    }

    fn path_of(folders: &[&Path]) -> Option<OsString> {
        Some(folders.iter().map(|folder| folder.as_os_str()).collect::<Vec<_>>().join(OsStr::new(":")))
    }

    #[test]
    fn the_first_executable_in_the_path_of_the_child_is_taken() {
        let root = tempfile::tempdir().unwrap();
        let (one, two, three) = (root.path().join("1"), root.path().join("2"), root.path().join("3"));
        put(&one, "tool", 0o644);
        let expected = put(&two, "tool", 0o755);
        put(&three, "tool", 0o755);
        let found = executable("tool", path_of(&[&one, &two, &three]).as_deref(), None).unwrap();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_file_that_may_not_be_executed_is_told_if_nothing_better_follows() {
        let root = tempfile::tempdir().unwrap();
        let file = put(&root.path().join("1"), "tool", 0o644);
        let search = path_of(&[&root.path().join("1"), &root.path().join("none")]);
        let error = executable("tool", search.as_deref(), None).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("cannot execute {file:?}: permission denied: the file is not executable (mode 0644)")
        );
        assert_eq!(error.shell_code(), 126);
    }

    #[test]
    fn a_directory_of_the_path_that_may_not_be_entered_is_told_if_nothing_better_follows() {
        let root = tempfile::tempdir().unwrap();
        let file = put(&root.path().join("closed"), "tool", 0o755);
        let search = path_of(&[&root.path().join("closed"), Path::new("/none")]);
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o000)).unwrap();
        // Root may enter it all the same, unless it has another user's rights to files: those are a thread's own.
        let nobody = Uid::from_raw(65_534);
        let look = move || {
            setfsuid(nobody);
            // In a user namespace there may be no such user.
            let is_refused = getuid().is_root() && setfsuid(nobody) != nobody;
            (!is_refused).then(|| executable("tool", search.as_deref(), None))
        };
        let found = std::thread::spawn(look).join();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let Some(found) = found.unwrap() else { return crate::needs::skip("there is no user nobody") };
        let error = found.unwrap_err();
        assert_eq!(error.to_string(), format!("cannot execute {file:?}: Permission denied"));
        assert_eq!(error.shell_code(), 126);
    }

    #[test]
    fn a_directory_is_no_program() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("tool")).unwrap();
        let error = executable("tool", path_of(&[root.path()]).as_deref(), None).unwrap_err();
        assert!(error.to_string().ends_with("/tool\": it is a directory"), "{error}");
    }

    #[test]
    fn a_missing_program_is_told_with_the_path_that_was_searched() {
        let error =
            executable("no-such-tool", path_of(&[Path::new("/none"), Path::new("/nil")]).as_deref(), None);
        let error = error.unwrap_err();
        assert_eq!(error.to_string(), "cannot execute \"no-such-tool\": not found in PATH \"/none:/nil\"");
        assert_eq!(error.shell_code(), 127);
    }

    #[test]
    fn an_error_without_the_path_still_tells_absent_from_denied() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "tool", 0o644);
        for (program, text, code) in [
            ("no-such-tool", "cannot execute \"no-such-tool\": not found in PATH", 127),
            ("tool", "cannot execute \"tool\": Permission denied", 126),
        ] {
            let error = executable(program, path_of(&[root.path()]).as_deref(), None).unwrap_err();
            let error = without_path(program, &error);
            assert_eq!((error.to_string().as_str(), error.shell_code()), (text, code));
        }
    }

    #[test]
    fn without_a_path_the_usual_places_are_searched() {
        assert!(executable("sh", None, None).unwrap().is_absolute());
    }

    #[test]
    fn empty_and_relative_entries_are_below_the_directory_of_the_child() {
        let root = tempfile::tempdir().unwrap();
        let here = put(root.path(), "here", 0o755);
        let below = put(&root.path().join("bin"), "below", 0o755);
        let search = path_of(&[Path::new(""), Path::new("bin")]);
        assert_eq!(executable("here", search.as_deref(), Some(root.path())).unwrap(), here);
        assert_eq!(executable("below", search.as_deref(), Some(root.path())).unwrap(), below);
    }

    #[test]
    fn a_name_with_a_slash_is_not_searched_for() {
        let search = path_of(&[Path::new("/bin")]);
        let found = |program, cwd| executable(program, search.as_deref(), cwd).unwrap();
        assert_eq!(found("./sh", None), Path::new("./sh"));
        assert_eq!(found("bin/app", Some(Path::new("/srv"))), Path::new("/srv/bin/app"));
        assert_eq!(found("/bin/app", Some(Path::new("/srv"))), Path::new("/bin/app"));
    }

    #[test]
    fn a_relative_directory_is_relative_to_ours() {
        let found = executable("./app", None, Some(Path::new("srv"))).unwrap();
        assert_eq!(found, std::env::current_dir().unwrap().join("srv").join("./app"));
    }
}
