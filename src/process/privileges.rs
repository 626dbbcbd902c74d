//! What the kernel lets us do to processes of other users.

use std::fs;

use super::execution::is_another_user;
use crate::config::spec::Spec;

/// The number of CAP_KILL.
const CAP_KILL: u32 = 5;

/// The jobs that run as another user and that we could not signal, since we lack CAP_KILL.
pub fn beyond_signals(spec: &Spec) -> Vec<&str> {
    let jobs = spec.jobs.iter().filter(|job| job.execution.user.as_ref().is_some_and(is_another_user));
    let names: Vec<&str> = jobs.map(|job| &*job.name).collect();
    if names.is_empty() || may_kill(&fs::read_to_string("/proc/self/status").unwrap_or_default()) {
        return vec![];
    }
    names
}

/// Whether the effective capabilities have CAP_KILL; also if that is not known.
fn may_kill(status: &str) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_none_or(|bits| bits & (1 << CAP_KILL) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capability_to_signal_others_is_read_from_the_kernels_words() {
        for (status, expected) in [
            ("Name:\ttini\nCapEff:\t00000000a80425fb\nCapBnd:\t0\n", true),
            ("CapEff:\t00000000000000c0\n", false),
            ("CapEff:\t0000000000000000\n", false),
            ("CapEff:\tmany\n", true),
            ("", true),
        ] {
            assert_eq!(may_kill(status), expected, "{status}");
        }
    }
}
