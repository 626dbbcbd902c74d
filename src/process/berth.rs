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

use super::nursery::CRADLES;

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

/// Stdin, which stays, and what stdout and stderr of each process that is being born are put into.
struct Reserved {
    stdin: OwnedFd,
    outputs: [[OwnedFd; 2]; CRADLES],
    /// A process has gone this way.
    proven: bool,
}

/// Streams at their places, for one birth.
pub(super) struct Berth {
    cradle: usize,
    /// Stdin, stdout and stderr.
    pub(super) streams: [RawFd; 3],
    /// The first descriptor that the new process has no use for, nor for any after it.
    pub(super) end: u32,
}

impl Berth {
    /// Puts the streams into the places of that number; `None` where a copy of the table is cheap, or the only way.
    pub(super) fn take(cradle: usize, stdin: BorrowedFd<'_>, outputs: [BorrowedFd<'_>; 2]) -> Option<Self> {
        if !are_many(outputs) {
            return None;
        }
        PLACES.with_borrow_mut(|places| {
            if let Places::Untried = places {
                *places = Reserved::make(stdin).map_or(Places::Useless, Places::Reserved);
            }
            match places {
                Places::Reserved(reserved) => reserved.fill(cradle, outputs),
                Places::Untried | Places::Useless => None,
            }
        })
    }

    /// Whether places would be taken, but nobody knows yet whether the kernel lets us: somebody must watch.
    pub(super) fn is_doubtful(outputs: [BorrowedFd<'_>; 2]) -> bool {
        are_many(outputs)
            && PLACES.with_borrow(|places| match places {
                Places::Untried => true,
                Places::Reserved(reserved) => !reserved.proven,
                Places::Useless => false,
            })
    }

    /// Says that a process has gone this way.
    pub(super) fn trust() {
        PLACES.with_borrow_mut(|places| {
            if let Places::Reserved(reserved) = places {
                reserved.proven = true;
            }
        });
    }

    /// Has it never tried again, unless it is known to be possible: others may be using their places now.
    pub(super) fn give_up() {
        PLACES.with_borrow_mut(|places| {
            if !matches!(places, Places::Reserved(Reserved { proven: true, .. })) {
                *places = Places::Useless;
            }
        });
    }
}

impl Drop for Berth {
    /// Whoever reads from the pipes must see their end: the places let go of them.
    fn drop(&mut self) {
        // At the end of the thread there may be no places any more.
        let _ = PLACES.try_with(|places| {
            if let Places::Reserved(reserved) = &mut *places.borrow_mut() {
                reserved.clear(self.cradle);
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
        // The first and lowest, so that a process takes along no place above its own.
        let stdin = place()?;
        let mut pairs = Vec::with_capacity(CRADLES);
        for _ in 0..CRADLES {
            pairs.push([place()?, place()?]);
        }
        let outputs = pairs.try_into().map_err(|_| io::Error::other("another number of places"))?;
        Ok(Self { stdin, outputs, proven: false })
    }

    fn fill(&mut self, cradle: usize, outputs: [BorrowedFd<'_>; 2]) -> Option<Berth> {
        let places = self.outputs.get_mut(cradle)?;
        let filled = places.iter_mut().zip(outputs).try_for_each(|(place, output)| put(output, place));
        let [stdout, stderr] = places.each_ref().map(AsRawFd::as_raw_fd);
        let stdin = self.stdin.as_raw_fd();
        if filled.is_err() {
            self.clear(cradle);
            return None;
        }
        let end = stdin.max(stdout).max(stderr).unsigned_abs() + 1;
        Some(Berth { cradle, streams: [stdin, stdout, stderr], end })
    }

    fn clear(&mut self, cradle: usize) {
        for place in self.outputs.get_mut(cradle).into_iter().flatten() {
            // Cannot fail: both are open, and no descriptor is needed for it.
            let _ = put(self.stdin.as_fd(), place);
        }
    }
}

fn are_many(outputs: [BorrowedFd<'_>; 2]) -> bool {
    outputs.iter().any(|output| output.as_raw_fd() >= MANY)
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
