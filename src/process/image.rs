//! What execve(2) takes, laid out before the process exists, so that it only makes the call. Unlike execvp(3), that
//! refuses a file of unknown format instead of giving it to a shell.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, NulError};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::{iter, ptr};

use nix::errno::Errno;

use super::variables::{Variable, Variables};
use crate::config::spec::CommandLine;

/// A path, arguments and environment in the kernel's form.
pub(super) struct Image<'a> {
    path: CString,
    _owned: Vec<CString>,
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    _borrowed: PhantomData<&'a Variables>,
}

impl<'a> Image<'a> {
    pub(super) fn new(
        path: &Path,
        command: &CommandLine,
        environment: &'a Variables,
    ) -> Result<Self, NulError> {
        let words = iter::once(&command.program).chain(&command.args);
        let words = words.map(|word| CString::new(word.as_bytes())).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            path: CString::new(path.as_os_str().as_bytes())?,
            arguments: addresses(words.iter().map(CString::as_c_str)),
            environment: addresses(environment.iter().map(Variable::text)),
            _owned: words,
            _borrowed: PhantomData,
        })
    }

    /// Becomes the program; returns only if that fails. One system call, safe after a fork.
    pub(super) fn execute(&self) -> Errno {
        // SAFETY: a null-ended path and two null-ended lists of such strings, all alive as long as `self`.
        unsafe { libc::execve(self.path.as_ptr(), self.arguments.as_ptr(), self.environment.as_ptr()) };
        Errno::last()
    }
}

/// The null-ended list of the texts' addresses.
fn addresses<'a>(texts: impl Iterator<Item = &'a CStr>) -> Vec<*const libc::c_char> {
    texts.map(CStr::as_ptr).chain([ptr::null()]).collect()
}
