//! The signals that the supervisor gets. They are blocked, and read from a signalfd(2): no handler of ours ever runs, neither
//! here nor in a child that has not executed its program yet, and none is lost while the program starts.
//!
//! Every thread must block them: the kernel gives a signal to any thread that does not, and its default action may end the
//! program. Threads inherit what the main thread blocks, and [`offload::start_thread`] blocks the others, too.
//!
//! [`offload::start_thread`]: crate::offload::start_thread
#![allow(unsafe_code)]

use std::io;
use std::task::{Context, Poll, ready};

use nix::sys::signal::{self, SigSet};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::messages::signal::Signal;

/// Keeps the signals that we read pending from now on, and lets all others come: the kernel throws away what PID 1 neither
/// handles nor blocks. To be called before there is another thread.
pub fn hold_signals() -> io::Result<()> {
    let mut held = for_us();
    held.add(signal::SIGCHLD);
    Ok(held.thread_set_mask()?)
}

/// The signals that are for us. Those that the C library keeps for itself are in no set.
fn for_us() -> SigSet {
    let mut ours = SigSet::all();
    for signal in signal::Signal::iterator() {
        if !Signal::from_number(signal as i32).is_some_and(Signal::is_for_us) {
            ours.remove(signal);
        }
    }
    ours
}

/// Signals that were held, to be read one after the other.
#[derive(Debug)]
pub struct Signals(AsyncFd<SignalFd>);

impl Signals {
    /// Every signal that is for us.
    pub fn for_us() -> io::Result<Self> {
        Self::read(&for_us())
    }

    /// The ends of children.
    pub(super) fn of_children() -> io::Result<Self> {
        Self::read(&SigSet::from(signal::SIGCHLD))
    }

    /// These signals, which were not held until now.
    pub fn only(signals: &[Signal]) -> io::Result<Self> {
        let mut set = SigSet::empty();
        for signal in signals {
            set.add(signal::Signal::try_from(signal.number())?);
        }
        let signals = Self::read(&set)?;
        // Last, so that none is held if it cannot be read.
        set.thread_block()?;
        Ok(signals)
    }

    fn read(set: &SigSet) -> io::Result<Self> {
        let fd = SignalFd::with_flags(set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        // SAFETY: the descriptor is the signalfd's own, and stays open and the same for as long as that lives.
        let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?;
        Ok(Self(fd))
    }

    /// The next signal. An error is a bug: reading a signalfd cannot fail otherwise.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Signal>> {
        loop {
            let mut readiness = ready!(self.0.poll_read_ready(context))?;
            match self.0.get_ref().read_signal()? {
                Some(told) => {
                    let number = i32::try_from(told.ssi_signo).ok();
                    if let Some(signal) = number.and_then(Signal::from_number) {
                        return Poll::Ready(Ok(signal));
                    }
                }
                None => readiness.clear_ready(),
            }
        }
    }
}
