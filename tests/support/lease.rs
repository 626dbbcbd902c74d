//! A program that nobody can execute for a while, as on a file system that hangs: this process holds a write lease on
//! it, and the kernel lets whoever opens it wait for `/proc/sys/fs/lease-break-time`.
#![allow(unsafe_code, reason = "no safe call takes a lease on a file")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::programs::write_program;

/// A lease; dropping it lets everybody go on.
pub struct Lease {
    /// The program.
    pub program: PathBuf,
    _file: File,
}

impl Lease {
    /// Writes a shell script and takes a lease on it.
    pub fn take(program: &Path, script: &str) -> Self {
        write_program(program, &format!("#!/bin/sh\n{script}\n"), 0o755);
        let file = File::open(program).unwrap();
        // The kernel tells the holder with SIGIO, which must not end this program.
        // SAFETY: ignoring a signal runs no code of ours.
        unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
        let deadline = Instant::now() + Duration::from_secs(30);
        // SAFETY: takes numbers. Refused while a process that another test forks has a copy of the descriptor.
        while unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) } != 0 {
            assert!(Instant::now() < deadline, "no lease: {}", io::Error::last_os_error());
            thread::sleep(Duration::from_millis(5));
        }
        Self { program: program.to_owned(), _file: file }
    }
}
