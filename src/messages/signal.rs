//! Signals by number, real-time ones included, with the names that users write.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A signal that can be sent or received: 1 to 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Signal(i32);

/// Names of the standard signals, without `SIG`; of several names of a number, the first is printed.
const NAMES: [(&str, i32); 34] = [
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ILL", libc::SIGILL),
    ("TRAP", libc::SIGTRAP),
    ("ABRT", libc::SIGABRT),
    ("IOT", libc::SIGABRT),
    ("BUS", libc::SIGBUS),
    ("FPE", libc::SIGFPE),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("SEGV", libc::SIGSEGV),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("STKFLT", libc::SIGSTKFLT),
    ("CHLD", libc::SIGCHLD),
    ("CLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("STOP", libc::SIGSTOP),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
    ("VTALRM", libc::SIGVTALRM),
    ("PROF", libc::SIGPROF),
    ("WINCH", libc::SIGWINCH),
    ("IO", libc::SIGIO),
    ("POLL", libc::SIGIO),
    ("PWR", libc::SIGPWR),
    ("SYS", libc::SIGSYS),
];

/// SIGRTMIN in programs with glibc. A name is meant for a child, so it must not depend on the C library that this program
/// is linked with: musl's SIGRTMIN is 35.
const RTMIN: i32 = 34;
const RTMAX: i32 = 64;

/// Signals that we do not take: those that nobody can take, those that report a fault in our own code, those of the
/// terminal, SIGCHLD, which the Reaper uses, and SIGPIPE, which Rust ignores.
const NOT_FOR_US: [i32; 14] = [
    libc::SIGKILL,
    libc::SIGSTOP,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGSYS,
    libc::SIGTRAP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGCONT,
    libc::SIGCHLD,
    libc::SIGPIPE,
];

impl Signal {
    /// Every signal.
    pub fn all() -> impl Iterator<Item = Self> {
        (1..=RTMAX).map(Self)
    }

    /// Whether the program takes it.
    pub fn is_for_us(self) -> bool {
        !NOT_FOR_US.contains(&self.0)
    }

    /// The terminal went away, or a request to reload.
    pub const HUP: Self = Self(libc::SIGHUP);
    /// Interrupt from the keyboard.
    pub const INT: Self = Self(libc::SIGINT);
    /// Quit from the keyboard; the stop signal of images such as nginx and php-fpm.
    pub const QUIT: Self = Self(libc::SIGQUIT);
    /// The signal that asks an init in a container to halt.
    pub const HALT: Self = Self(RTMIN + 3);
    /// The terminal's size changed; the stop signal of Apache's image.
    pub const WINCH: Self = Self(libc::SIGWINCH);
    /// Urgent data on a socket.
    pub const URG: Self = Self(libc::SIGURG);
    /// A fault in the use of memory.
    pub const SEGV: Self = Self(libc::SIGSEGV);
    /// Stop from the keyboard.
    pub const TSTP: Self = Self(libc::SIGTSTP);
    /// A stopped process goes on.
    pub const CONT: Self = Self(libc::SIGCONT);
    /// The process found an error in itself, or its watchdog did.
    pub const ABRT: Self = Self(libc::SIGABRT);
    /// Cannot be caught: the process ends.
    pub const KILL: Self = Self(libc::SIGKILL);
    /// A request to end.
    pub const TERM: Self = Self(libc::SIGTERM);
    /// First signal without a meaning of its own.
    pub const USR1: Self = Self(libc::SIGUSR1);
    /// Second signal without a meaning of its own.
    pub const USR2: Self = Self(libc::SIGUSR2);

    /// The number that the kernel uses.
    pub const fn number(self) -> i32 {
        self.0
    }

    /// The signal of that number, if the kernel has one.
    pub const fn from_number(number: i32) -> Option<Self> {
        if number >= 1 && number <= RTMAX { Some(Self(number)) } else { None }
    }

    /// The signal that a user means: `SIGTERM`, `term`, `15`, `SIGRTMIN+3` or `RTMAX-1`.
    pub fn parse(text: &str) -> Option<Self> {
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return text.parse().ok().and_then(Self::from_number);
        }
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        let number = NAMES
            .iter()
            .find_map(|&(known, number)| (known == name).then_some(number))
            .or_else(|| real_time(name))?;
        Some(Self(number))
    }
}

fn real_time(name: &str) -> Option<i32> {
    let offset = |rest: &str, sign: char| match rest.strip_prefix(sign) {
        // `parse` would take a second sign.
        Some(digits) if !digits.starts_with('+') => digits.parse::<u8>().ok().map(i32::from),
        Some(_) => None,
        None => rest.is_empty().then_some(0),
    };
    let number = match name.strip_prefix("RTMIN") {
        Some(rest) => RTMIN + offset(rest, '+')?,
        None => RTMAX - offset(name.strip_prefix("RTMAX")?, '-')?,
    };
    (RTMIN..=RTMAX).contains(&number).then_some(number)
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = NAMES.iter().find(|(_, number)| *number == self.0) {
            return write!(f, "SIG{name}");
        }
        // Counted from the nearer end, as `kill -l` does.
        match self.0 {
            RTMIN => f.write_str("SIGRTMIN"),
            RTMAX => f.write_str("SIGRTMAX"),
            number @ 35..=49 => write!(f, "SIGRTMIN+{}", number - RTMIN),
            number @ 50..=63 => write!(f, "SIGRTMAX-{}", RTMAX - number),
            // 32 and 33 belong to the C library and have no name.
            number => write!(f, "{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_known_by_name_and_number_in_any_case() {
        for text in ["SIGTERM", "TERM", "sigterm", "Term", "15"] {
            assert_eq!(Signal::parse(text), Some(Signal::TERM), "{text}");
        }
        assert_eq!(Signal::parse("SIGPOLL").unwrap().to_string(), "SIGIO");
        assert_eq!(Signal::parse("iot").unwrap().number(), libc::SIGABRT);
    }

    #[test]
    fn real_time_signals_count_from_either_end() {
        for (text, number) in
            [("SIGRTMIN", 34), ("SIGRTMIN+3", 37), ("rtmin+30", 64), ("SIGRTMAX-1", 63), ("RTMAX", 64)]
        {
            assert_eq!(Signal::parse(text).map(Signal::number), Some(number), "{text}");
        }
    }

    #[test]
    fn every_signal_prints_a_name_that_reads_back_as_itself() {
        for number in 1..=64 {
            let signal = Signal::from_number(number).unwrap();
            assert_eq!(Signal::parse(&signal.to_string()), Some(signal), "{signal}");
        }
        assert_eq!(Signal::from_number(37).unwrap().to_string(), "SIGRTMIN+3");
        assert_eq!(Signal::from_number(62).unwrap().to_string(), "SIGRTMAX-2");
    }

    #[test]
    fn every_standard_signal_has_a_name() {
        for number in 1..=31 {
            assert!(Signal::from_number(number).unwrap().to_string().starts_with("SIG"), "{number}");
        }
    }

    #[test]
    fn what_is_no_signal_is_refused() {
        for text in [
            "",
            "SIG",
            "SIGFOO",
            "0",
            "65",
            "-1",
            "+9",
            "SIGRTMIN+31",
            "SIGRTMAX-31",
            "RTMIN-1",
            "RTMIN+",
            "RTMIN++3",
            "15x",
            "SIGSIGTERM",
            " TERM",
        ] {
            assert_eq!(Signal::parse(text), None, "{text:?}");
        }
        assert_eq!(Signal::from_number(0), None);
        assert_eq!(Signal::from_number(65), None);
    }
}
