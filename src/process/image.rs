//! What execve(2) takes, laid out before the fork, so that the child only makes the call. std would end a
//! forked child with execvp(3), which gives a file of unknown format to a shell; the fast path refuses it.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{CString, NulError, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::{iter, ptr};

use nix::errno::Errno;

use crate::config::spec::CommandLine;

/// A path, arguments and environment in the kernel's form.
pub(super) struct Image {
    path: CString,
    arguments: Strings,
    environment: Strings,
}

/// Strings and the null-ended list of their addresses.
struct Strings {
    _owned: Vec<CString>,
    addresses: Vec<*const libc::c_char>,
}

// SAFETY: the addresses point to heap memory that the same value owns and never changes.
unsafe impl Send for Strings {}
// SAFETY: as above; it is only read.
unsafe impl Sync for Strings {}

impl Strings {
    fn new(owned: Vec<CString>) -> Self {
        let addresses = owned.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect();
        Self { _owned: owned, addresses }
    }
}

impl Image {
    pub(super) fn new(
        path: &Path,
        command: &CommandLine,
        environment: &[(OsString, OsString)],
    ) -> Result<Self, NulError> {
        let arguments = iter::once(&command.program).chain(&command.args);
        let arguments = arguments.map(|word| CString::new(word.as_bytes())).collect::<Result<_, _>>()?;
        // Of two equal names the last wins, as std has it on the fast path.
        let environment: BTreeMap<_, _> = environment.iter().map(|(name, value)| (name, value)).collect();
        let environment = environment
            .into_iter()
            .map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            path: CString::new(path.as_os_str().as_bytes())?,
            arguments: Strings::new(arguments),
            environment: Strings::new(environment),
        })
    }

    /// Becomes the program; returns only if that fails. One system call, safe after a fork.
    pub(super) fn execute(&self) -> Errno {
        // SAFETY: a null-ended path and two null-ended lists of such strings, all alive as long as `self`.
        unsafe {
            libc::execve(
                self.path.as_ptr(),
                self.arguments.addresses.as_ptr(),
                self.environment.addresses.as_ptr(),
            )
        };
        Errno::last()
    }
}
