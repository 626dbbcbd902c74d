//! Programs that tests write and then start.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a program, from another process: the kernel executes no file that is open for writing, and a process that another
/// test starts in the meantime would have a copy of our descriptor for a moment.
pub fn write_program(path: &Path, text: &str, mode: u32) {
    let mut tee = Command::new("tee").arg(path).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    tee.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(tee.wait().unwrap().success(), "cannot write {}", path.display());
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}
