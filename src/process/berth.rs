//! Places for the streams of a new process below most of what we hold open. With a thousand jobs we hold two thousand
//! pipes: a process that got a copy of that table would have to close them all again, one by one. With its streams in
//! places below them it takes along only what is lower, and leaves the rest behind at once.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd::dup3;

/// From this descriptor on, to copy all below it costs more than to go around that.
const MANY: RawFd = 96;

thread_local! {
    static PLACES: RefCell<Places> = const { RefCell::new(Places::Untried) };
}

enum Places {
    /// There were never so many descriptors.
    Untried,
    /// They cannot be had, or the kernel, or what guards it, does not let us use them.
    Useless,
    /// They are there.
    Reserved(Reserved),
}

/// What stdout and stderr are put into, and stdin, which stays.
struct Reserved {
    stdin: OwnedFd,
    outputs: [OwnedFd; 2],
}

/// Streams at their places, for one birth.
pub(super) struct Berth {
    /// Stdin, stdout and stderr.
    pub(super) streams: [RawFd; 3],
    /// The first descriptor that the new process has no use for, nor for any after it.
    pub(super) end: u32,
}

impl Berth {
    /// Puts the streams into their places; `None` where a copy of the table is cheap, or the only way.
    pub(super) fn take(stdin: BorrowedFd<'_>, outputs: [BorrowedFd<'_>; 2]) -> Option<Self> {
        if outputs.iter().all(|output| output.as_raw_fd() < MANY) {
            return None;
        }
        PLACES.with_borrow_mut(|places| {
            if let Places::Untried = places {
                *places = Reserved::make(stdin).map_or(Places::Useless, Places::Reserved);
            }
            match places {
                Places::Reserved(reserved) => reserved.fill(outputs),
                Places::Untried | Places::Useless => None,
            }
        })
    }

    /// Has it never tried again.
    pub(super) fn give_up() {
        PLACES.set(Places::Useless);
    }
}

impl Drop for Berth {
    /// Whoever reads from the pipes must see their end: the places let go of them.
    fn drop(&mut self) {
        PLACES.with_borrow_mut(|places| {
            if let Places::Reserved(reserved) = places {
                reserved.clear();
            }
        });
    }
}

impl Reserved {
    fn make(stdin: BorrowedFd<'_>) -> io::Result<Self> {
        let lowest = highest_inherited()? + 1;
        let place = || {
            let place = fcntl(stdin, FcntlArg::F_DUPFD_CLOEXEC(lowest))?;
            // SAFETY: new, and nobody else's.
            io::Result::Ok(unsafe { OwnedFd::from_raw_fd(place) })
        };
        Ok(Self { stdin: place()?, outputs: [place()?, place()?] })
    }

    fn fill(&mut self, outputs: [BorrowedFd<'_>; 2]) -> Option<Berth> {
        for (place, output) in self.outputs.iter_mut().zip(outputs) {
            if put(output, place).is_err() {
                self.clear();
                return None;
            }
        }
        let [stdout, stderr] = self.outputs.each_ref().map(AsRawFd::as_raw_fd);
        Some(Berth { streams: [self.stdin.as_raw_fd(), stdout, stderr], end: self.end() })
    }

    fn clear(&mut self) {
        for place in &mut self.outputs {
            // Cannot fail: both are open, and no descriptor is needed for it.
            let _ = put(self.stdin.as_fd(), place);
        }
    }

    fn end(&self) -> u32 {
        let [stdout, stderr] = self.outputs.each_ref().map(AsRawFd::as_raw_fd);
        self.stdin.as_raw_fd().max(stdout).max(stderr).unsigned_abs() + 1
    }
}

fn put(source: BorrowedFd<'_>, place: &mut OwnedFd) -> Result<(), Errno> {
    loop {
        match dup3(source, place, OFlag::O_CLOEXEC) {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
}

/// The highest descriptor that our parent gave us for the processes that we start: what is ours closes on exec.
fn highest_inherited() -> io::Result<RawFd> {
    let mut highest = 0;
    for entry in fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // SAFETY: takes numbers; one that is not open any more is an error.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
        if flags >= 0 && flags & libc::FD_CLOEXEC == 0 {
            highest = highest.max(number);
        }
    }
    Ok(highest)
}
