//! The arguments of execve(2), laid out before the process exists, so that it only makes the call. Unlike execvp(3),
//! execve refuses a file of unknown format instead of giving it to a shell.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CString, NulError, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::{iter, process, ptr};

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
    /// Variables that the process completes with its own number.
    own_numbers: Vec<OwnNumber>,
    /// What the pointers refer to; never changed after they were made.
    _texts: Vec<CString>,
    _block: EnvironmentBlock,
}

impl Image {
    pub(super) fn new(
        path: &Path,
        command: &CommandLine,
        environment: EnvironmentBlock,
        own_numbers: &[&str],
    ) -> Result<Self, NulError> {
        let words = iter::once(&command.program).chain(&command.args);
        let texts: Vec<CString> =
            words.map(|word| CString::new(word.as_bytes())).collect::<Result<_, _>>()?;
        let own_numbers: Vec<OwnNumber> = own_numbers.iter().map(|name| OwnNumber::new(name)).collect();
        let variables = environment.iter().map(|text| text.as_ptr());
        let variables =
            variables.chain(own_numbers.iter().map(OwnNumber::as_ptr)).chain([ptr::null()]).collect();
        Ok(Self {
            path: CString::new(path.as_os_str().as_bytes())?,
            arguments: texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect(),
            environment: variables,
            own_numbers,
            _texts: texts,
            _block: environment,
        })
    }

    /// Completes the variables that have the number of this process. Safe after a fork: one system call, no allocation.
    pub(super) fn tell_own_number(&self) {
        let number = process::id();
        self.own_numbers.iter().for_each(|variable| variable.complete(number));
    }

    /// Becomes the program; returns only if that fails. One system call, safe after a fork.
    pub(super) fn execute(&self) -> Errno {
        // SAFETY: a null-ended path and two null-ended lists of such strings, all alive as long as `self`.
        unsafe { libc::execve(self.path.as_ptr(), self.arguments.as_ptr(), self.environment.as_ptr()) };
        Errno::last()
    }
}

/// `NAME=` with room for a process number and the null that ends it.
struct OwnNumber {
    text: Box<[Cell<u8>]>,
    /// Where the number begins.
    start: usize,
}

impl OwnNumber {
    /// The most digits of a number.
    const DIGITS: usize = 10;

    fn new(name: &str) -> Self {
        let bytes = name.bytes().chain([b'=']).chain([0; Self::DIGITS + 1]);
        Self { text: bytes.map(Cell::new).collect(), start: name.len() + 1 }
    }

    fn as_ptr(&self) -> *const c_char {
        self.text.as_ptr().cast()
    }

    /// Writes the number. Nobody else reads or writes it meanwhile: the process that was cloned is the only one.
    fn complete(&self, number: u32) {
        let mut buffer = itoa::Buffer::new();
        for (place, digit) in self.text.iter().skip(self.start).zip(buffer.format(number).bytes()) {
            place.set(digit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn a_variable_has_the_number_that_it_was_completed_with() {
        for number in [0, 7, 10, 4_194_304, u32::MAX] {
            let variable = OwnNumber::new("LISTEN_PID");
            variable.complete(number);
            let text: Vec<u8> = variable.text.iter().map(Cell::get).collect();
            let text = CStr::from_bytes_until_nul(&text).unwrap();
            assert_eq!(text.to_str().unwrap(), format!("LISTEN_PID={number}"));
        }
    }
}
