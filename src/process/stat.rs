//! What `/proc/PID/stat` tells of a process.
//!
//! procfs was weighed: it reads all 52 fields where three are needed, for every process of the machine.

use std::fs;

/// Some of its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    /// Its first thread has ended. Then it looks like a zombie, but may run on in its other threads.
    pub(super) is_without_first_thread: bool,
    /// The process group that it is in.
    pub(super) group: i32,
    threads: u32,
}

impl Stat {
    /// `None` if there is no such process.
    pub(super) fn read(pid: i32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(stat: &[u8]) -> Option<Self> {
        let stat = String::from_utf8_lossy(stat);
        // The name, the second field, can hold spaces and parentheses.
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split_ascii_whitespace();
        Some(Self {
            is_without_first_thread: matches!(fields.next()?, "Z" | "X"),
            group: fields.nth(1)?.parse().ok()?,
            threads: fields.nth(14)?.parse().ok()?,
        })
    }

    /// Whether nothing of the process runs: it is a zombie.
    pub(super) fn is_over(&self) -> bool {
        self.is_without_first_thread && self.threads <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(name: &str, state: &str, threads: u32) -> Option<Stat> {
        let text = format!("77 ({name}) {state} 1 7 5 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 {threads} 0 99 0 0");
        Stat::parse(text.as_bytes())
    }

    #[test]
    fn a_name_may_have_parentheses() {
        let expected = Stat { is_without_first_thread: false, group: 7, threads: 1 };
        assert_eq!(stat("a) Z 1 (b", "S", 1), Some(expected));
    }

    #[test]
    fn a_zombie_with_threads_still_runs() {
        let (alone, with_another) = (stat("sh", "Z", 1).unwrap(), stat("sh", "Z", 2).unwrap());
        assert!(alone.is_over() && alone.is_without_first_thread);
        assert!(!with_another.is_over() && with_another.is_without_first_thread);
    }

    #[test]
    fn nothing_is_known_of_a_process_that_is_gone() {
        assert_eq!(Stat::parse(b""), None);
    }
}
