//! Why a process could not be started, in words for users.

use std::error::Error;
use std::{fmt, io};

use crate::reason::reason;

/// A failed start: what could not be done, and why.
#[derive(Debug)]
pub struct SpawnError {
    action: String,
    reason: String,
    source: io::Error,
}

impl SpawnError {
    /// `action` completes "cannot …"; the reason is the system's.
    pub fn new(action: String, source: io::Error) -> Self {
        let reason = reason(&source);
        Self { action, reason, source }
    }

    /// The same with a reason that says more than the system's.
    pub(super) fn because(action: String, reason: String, source: io::Error) -> Self {
        Self { action, reason, source }
    }

    /// The exit status that shells give to such a failure: 127 if not found, else 126.
    pub fn shell_code(&self) -> u8 {
        if self.source.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.action, self.reason)
    }
}

impl Error for SpawnError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(number: i32) -> SpawnError {
        SpawnError::new("execute \"/x/y\"".to_owned(), io::Error::from_raw_os_error(number))
    }

    #[test]
    fn an_error_names_the_value_and_the_systems_reason() {
        assert_eq!(failure(libc::ENOENT).to_string(), "cannot execute \"/x/y\": No such file or directory");
    }

    #[test]
    fn the_systems_error_is_the_source() {
        let error = failure(libc::EIO);
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.and_then(io::Error::raw_os_error), Some(libc::EIO));
    }

    #[test]
    fn a_failure_has_the_status_that_shells_give_it() {
        assert_eq!(failure(libc::ENOENT).shell_code(), 127);
        assert_eq!(failure(libc::EACCES).shell_code(), 126);
        assert_eq!(failure(libc::EAGAIN).shell_code(), 126);
    }
}
