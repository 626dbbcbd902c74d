//! What execve(2) takes, laid out before the process exists, so that it only makes the call. Unlike execvp(3), that
//! refuses a file of unknown format instead of giving it to a shell.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, CString, NulError};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::{iter, mem, ptr};

use nix::errno::Errno;

use super::variables::{Layered, Variable};
use crate::config::spec::CommandLine;

thread_local! {
    /// The list of the last environment: with a thousand jobs it is long, and the next one will be as long.
    static RECYCLED: Cell<Vec<*const libc::c_char>> = const { Cell::new(Vec::new()) };
}

/// A path, arguments and environment in the kernel's form.
pub(super) struct Image<'a> {
    path: CString,
    _owned: Vec<CString>,
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    _borrowed: PhantomData<&'a Layered<'a>>,
}

impl<'a> Image<'a> {
    pub(super) fn new(
        path: &Path,
        command: &CommandLine,
        environment: &'a Layered<'_>,
    ) -> Result<Self, NulError> {
        let words = iter::once(&command.program).chain(&command.args);
        let words = words.map(|word| CString::new(word.as_bytes())).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            path: CString::new(path.as_os_str().as_bytes())?,
            arguments: listed(Vec::new(), words.iter().map(CString::as_c_str)),
            environment: listed(RECYCLED.take(), environment.iter().map(Variable::text)),
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

impl Drop for Image<'_> {
    fn drop(&mut self) {
        RECYCLED.set(mem::take(&mut self.environment));
    }
}

/// The null-ended list of the texts' addresses, in an old list's memory.
fn listed<'a>(
    mut list: Vec<*const libc::c_char>,
    texts: impl Iterator<Item = &'a CStr>,
) -> Vec<*const libc::c_char> {
    list.clear();
    list.extend(texts.map(CStr::as_ptr).chain([ptr::null()]));
    list
}
