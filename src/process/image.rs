//! The arguments of execve(2), laid out before the process exists, so that it only makes the call. Unlike execvp(3),
//! execve refuses a file of unknown format instead of giving it to a shell.
#![allow(unsafe_code)]

use std::ffi::{CString, NulError, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::{iter, ptr};

use nix::errno::Errno;

use super::variables::EnvironmentBlock;
use crate::config::spec::CommandLine;

/// A path, arguments and environment in the form that the kernel takes.
pub(super) struct Image {
    path: CString,
    /// Pointers into `_texts`, ended by a null.
    arguments: Vec<*const c_char>,
    /// Pointers to the texts of the block, ended by a null.
    environment: Vec<*const c_char>,
    /// What the pointers refer to; never changed after they were made.
    _texts: Vec<CString>,
    _block: EnvironmentBlock,
}

impl Image {
    pub(super) fn new(
        path: &Path,
        command: &CommandLine,
        environment: EnvironmentBlock,
    ) -> Result<Self, NulError> {
        let words = iter::once(&command.program).chain(&command.args);
        let texts: Vec<CString> =
            words.map(|word| CString::new(word.as_bytes())).collect::<Result<_, _>>()?;
        Ok(Self {
            path: CString::new(path.as_os_str().as_bytes())?,
            arguments: texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect(),
            environment: environment.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect(),
            _texts: texts,
            _block: environment,
        })
    }

    /// Becomes the program; returns only if that fails. One system call, safe after a fork.
    pub(super) fn execute(&self) -> Errno {
        // SAFETY: a null-ended path and two null-ended lists of such strings, all alive as long as `self`.
        unsafe { libc::execve(self.path.as_ptr(), self.arguments.as_ptr(), self.environment.as_ptr()) };
        Errno::last()
    }
}
