//! Work that may block, on a thread of its own, so that a slow name server or disk holds up nobody. Not in tokio's
//! pool: that panics where it cannot start a thread, as at a container's limit of processes; here it is an error.

use std::io::{self, Write};
use std::thread;

use nix::sys::signal::{SigSet, SigmaskHow};

/// So many bytes of text are made between two pauses, in about a tenth of a millisecond.
const PIECE: usize = 4 << 10;

/// Starts a thread. No signal comes to it: all are for the main thread, which reads them.
pub fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // Blocked before the thread exists, since it inherits the mask.
    let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let started = thread::Builder::new().name(name.to_owned()).spawn(work);
    mask.thread_set_mask()?;
    started.map(drop)
}

/// Does the work and waits for its result. Work that nobody waits for any more is done all the same.
#[cfg(not(test))]
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (answer, answered) = tokio::sync::oneshot::channel();
    let started = start_thread("offload", move || drop(answer.send(work())));
    started.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot start a thread: {}", crate::reason::reason(&error)))
    })?;
    answered.await.map_err(|_| io::Error::other("its thread panicked"))
}

/// In unit tests the work is done at once: the same test takes the same course each time.
#[cfg(test)]
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::yield_now().await;
    Ok(work())
}

/// Lets others have the core for a moment, in the middle of long work. Without that a thread that wakes up, such as the event
/// loop, may wait for milliseconds: since Linux 6.6 the one that runs is let run until the next tick of the clock.
pub fn pause() {
    thread::yield_now();
}

/// The pauses of work that makes a long text.
#[derive(Debug, Default)]
pub struct Pauses {
    last: usize,
}

impl Pauses {
    /// Makes a pause if the text has grown enough since the last one.
    pub fn at(&mut self, length: usize) {
        if length >= self.last + PIECE {
            self.last = length;
            pause();
        }
    }
}

/// A long text while it is written, with pauses.
#[derive(Debug, Default)]
pub struct Draft {
    /// The text so far.
    pub text: Vec<u8>,
    pauses: Pauses,
}

impl Write for Draft {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(part);
        self.pauses.at(self.text.len());
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
