//! Our terminal, and who is in its foreground: the group that reads from it and gets Ctrl-C.
//!
//! A job that gets the terminal stays in our session, in the foreground, as a shell's job does. In a session of its own it
//! would have to take the terminal from ours, which needs CAP_SYS_ADMIN; and when the leader of a session ends, the kernel
//! hangs up its terminal, and so our own output.

use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp, tcsetpgrp};

use super::init::acquire_terminal;

/// Whether our stdin is a terminal that jobs can be in the foreground of: the controlling one.
pub fn has_terminal() -> bool {
    let stdin = io::stdin();
    stdin.is_terminal() && (tcgetpgrp(&stdin).is_ok() || acquire_terminal().is_ok())
}

/// Whether what is written to our stdin appears on the terminal.
pub(super) fn is_writable() -> bool {
    let flags = fcntl(io::stdin(), FcntlArg::F_GETFL).map(OFlag::from_bits_retain);
    flags.is_ok_and(|flags| flags & OFlag::O_ACCMODE == OFlag::O_RDWR)
}

/// What the terminal was like before a job got it.
#[derive(Debug, Clone, Default)]
pub(super) struct Terminal {
    modes: Arc<Mutex<Option<Termios>>>,
}

impl Terminal {
    fn modes(&self) -> MutexGuard<'_, Option<Termios>> {
        self.modes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the modes of the terminal (echo, line editing) before a job changes them.
    pub(super) fn note_modes(&self) {
        *self.modes() = tcgetattr(io::stdin()).ok();
    }

    /// Puts our own group into the foreground, and the modes back. Nothing can be done if that fails: the terminal is gone.
    pub(super) fn take_back(&self) {
        let stdin = io::stdin();
        // To the background, both calls are an attempt to write: the kernel would stop us by SIGTTOU.
        let writing: SigSet = Signal::SIGTTOU.into();
        let Ok(mask) = writing.thread_swap_mask(SigmaskHow::SIG_BLOCK) else { return };
        let _ = tcsetpgrp(&stdin, getpgrp());
        if let Some(modes) = self.modes().take() {
            let _ = tcsetattr(&stdin, SetArg::TCSANOW, &modes);
        }
        let _ = mask.thread_set_mask();
    }
}
