//! What execve(2) takes, laid out before the process exists, so that it only makes the call. Unlike execvp(3), that
//! refuses a file of unknown format instead of giving it to a shell.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, NulError, OsStr};
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;

use super::raw;
use super::variables::{Layered, Variable};
use crate::config::spec::CommandLine;

/// A path, arguments and environment in the kernel's form, all its own: nothing that changes elsewhere changes it.
/// Its memory is used again and again: with a thousand jobs the environment is long, and the next one will be as long.
#[derive(Default)]
pub(super) struct Image {
    /// The path, then the arguments, then the variables, each with its nul.
    text: Vec<u8>,
    /// Where in `text` each argument begins, then 0; the same for each variable. Addresses once all is laid out.
    list: Vec<usize>,
    /// Where in `list` the variables begin.
    environment: usize,
}

impl Image {
    /// Replaces what was laid out before.
    pub(super) fn lay_out(
        &mut self,
        path: &Path,
        command: &CommandLine,
        environment: &Layered<'_>,
    ) -> Result<(), NulError> {
        self.text.clear();
        self.list.clear();
        self.text.extend(CString::new(path.as_os_str().as_bytes())?.as_bytes_with_nul());
        for word in iter::once(&command.program).chain(&command.args) {
            self.add(&CString::new(word.as_bytes())?);
        }
        self.list.push(0);
        self.environment = self.list.len();
        environment.iter().map(Variable::text).for_each(|text| self.add(text));
        self.list.push(0);
        let base = self.text.as_ptr().expose_provenance();
        for place in self.list.iter_mut().filter(|place| **place != 0) {
            *place += base;
        }
        Ok(())
    }

    /// Never at the beginning, where the path is: 0 ends a list.
    fn add(&mut self, text: &CStr) {
        self.list.push(self.text.len());
        self.text.extend(text.to_bytes_with_nul());
    }

    /// The file that is executed.
    pub(super) fn path(&self) -> &Path {
        let path = CStr::from_bytes_until_nul(&self.text).unwrap_or_default();
        Path::new(OsStr::from_bytes(path.to_bytes()))
    }

    /// Becomes the program; returns only if that fails. One system call, safe after a fork.
    pub(super) fn execute(&self) -> Errno {
        let arguments = self.list.as_ptr();
        let environment = arguments.wrapping_add(self.environment);
        let given = [
            self.text.as_ptr().expose_provenance(),
            arguments.expose_provenance(),
            environment.expose_provenance(),
            0,
        ];
        // SAFETY: a null-ended path and two null-ended lists of such strings, all alive as long as `self`.
        match unsafe { raw::call(libc::SYS_execve, given) } {
            Err(errno) => errno,
            Ok(_) => Errno::UnknownErrno,
        }
    }
}
