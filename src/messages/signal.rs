//! Signals by number, real-time ones included, with the names that users write.

use std::fmt;

/// A signal that can be sent or received: 1 to 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Signal(i32);

impl Signal {
    /// The terminal went away, or a request to reload.
    pub const HUP: Self = Self(libc::SIGHUP);
    /// Interrupt from the keyboard.
    pub const INT: Self = Self(libc::SIGINT);
    /// Cannot be caught: the process ends.
    pub const KILL: Self = Self(libc::SIGKILL);
    /// The polite request to end.
    pub const TERM: Self = Self(libc::SIGTERM);
    /// First signal without a meaning of its own.
    pub const USR1: Self = Self(libc::SIGUSR1);
    /// Second signal without a meaning of its own.
    pub const USR2: Self = Self(libc::SIGUSR2);

    /// The number that the kernel uses.
    pub const fn number(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
