//! What each signal means to the program. Pure.

use crate::messages::signal::Signal;

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// To shut down.
    ShutDown,
    /// To reload, or to tell the jobs that wait for it.
    HangUp,
    /// To reopen the log file.
    ReopenLog,
    /// To tell the jobs that wait for it.
    Event,
    /// Nothing that we know, though it would end an ordinary process.
    Unexpected,
    /// Nothing: an ordinary process ignores it.
    Nothing,
}

/// The meaning of a signal; `shutdown` are those that the configuration adds.
pub fn meaning(signal: Signal, shutdown: &[Signal]) -> Meaning {
    if shutdown.contains(&signal) {
        return Meaning::ShutDown;
    }
    match signal {
        Signal::TERM | Signal::INT | Signal::QUIT | Signal::HALT => Meaning::ShutDown,
        Signal::HUP => Meaning::HangUp,
        Signal::USR1 => Meaning::ReopenLog,
        Signal::USR2 => Meaning::Event,
        // A job asked for SIGTSTP or SIGCONT before a reload: it is still read.
        Signal::WINCH | Signal::URG | Signal::TSTP | Signal::CONT => Meaning::Nothing,
        _ => Meaning::Unexpected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stop_signals_of_images_shut_down() {
        for name in ["SIGTERM", "SIGINT", "SIGQUIT", "SIGRTMIN+3"] {
            assert_eq!(meaning(Signal::parse(name).unwrap(), &[]), Meaning::ShutDown, "{name}");
        }
        assert_eq!(meaning(Signal::WINCH, &[]), Meaning::Nothing);
        assert_eq!(meaning(Signal::USR1, &[]), Meaning::ReopenLog);
        assert_eq!(meaning(Signal::WINCH, &[Signal::WINCH]), Meaning::ShutDown);
    }

    #[test]
    fn a_signal_that_would_end_a_process_and_means_nothing_here_is_unexpected() {
        for name in ["SIGALRM", "SIGPWR", "SIGIO", "SIGRTMIN", "SIGRTMAX"] {
            assert_eq!(meaning(Signal::parse(name).unwrap(), &[]), Meaning::Unexpected, "{name}");
        }
    }
}
