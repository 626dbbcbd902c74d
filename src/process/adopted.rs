//! Orphans: processes that left their job's group and lost their parent become our children.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process;

use super::environment::{JOB, SUPERVISOR};
use super::stat::Stat;
use super::{group, is_pid_one, wait};
use crate::messages::process::{Orphan, Pid};
use crate::messages::signal::Signal;

/// The name that the kernel gives to a process of a program.
pub(super) fn kernel_name(program: &str) -> String {
    let base = program.rsplit('/').next().unwrap_or_default();
    let bytes = base.as_bytes();
    // The kernel cuts at 15 bytes, perhaps within a character; `describe` reads that in the same way.
    String::from_utf8_lossy(bytes.get(..15).unwrap_or(bytes)).into_owned()
}

/// Sends a signal to one process; one that is gone needs none.
pub(super) fn signal(process: Pid, signal: Signal) {
    group::send(process.number(), signal);
}

/// Sends a signal to all our children. As PID 1 to every process there is, which needs no `/proc`. False if it cannot
/// be told who our children are.
pub(super) fn signal_all(number: Signal) -> bool {
    if is_pid_one() {
        group::send(-1, number);
        return true;
    }
    // Usually there are none at the end, and the kernel says so sooner than `/proc` does.
    if !wait::has_children() {
        return false;
    }
    let children = children_of_all_threads();
    for child in &children {
        signal(*child, number);
    }
    !children.is_empty()
}

/// The kernel gives orphans to our first thread, which starts no process itself.
pub(super) fn orphans() -> Vec<Pid> {
    if !wait::has_children() {
        return vec![];
    }
    let first = process::id();
    let listed = fs::read_to_string(format!("/proc/self/task/{first}/children")).unwrap_or_default();
    listed.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).filter_map(Pid::new).collect()
}

fn children_of_all_threads() -> Vec<Pid> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return vec![] };
    let lists =
        threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| living(&list).collect::<Vec<_>>()).filter_map(Pid::new).collect()
}

fn living(list: &str) -> impl Iterator<Item = i32> + '_ {
    list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).filter(|pid| !is_over(*pid))
}

/// Whether nothing of a process runs.
fn is_over(pid: i32) -> bool {
    Stat::read(pid).is_none_or(|stat| stat.is_over())
}

/// Whether a process looks like a zombie, since its first thread has ended, and runs on in others.
fn runs_without_first_thread(pid: i32) -> bool {
    Stat::read(pid).is_some_and(|stat| stat.is_without_first_thread && !stat.is_over())
}

/// Describes an orphan, as far as /proc tells. May hang: see [`super::descriptions`].
pub(super) fn describe(pid: Pid) -> Orphan {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let program = String::from_utf8_lossy(&name).trim_end().to_owned();
    let environment = fs::read(format!("/proc/{pid}/environ"));
    // In the middle of execve(2) it has neither environment nor arguments; by itself an environment may well be empty. Before
    // Linux 6.16 both are empty, too, if the first thread has ended and others go on.
    let is_becoming = environment.as_ref().is_ok_and(Vec::is_empty)
        && fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|arguments| arguments.is_empty())
        && !runs_without_first_thread(pid.number());
    let environment = environment.unwrap_or_default();
    let (job, has_environment) = (job(&environment, process::id()), has_variables(&environment));
    Orphan { pid, group: group::of(pid), program, job, has_environment, is_becoming }
}

/// Whether there is a `NAME=VALUE`. Servers write their title over their environment.
fn has_variables(environment: &[u8]) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    environment.split(|byte| *byte == 0).any(|text| {
        let name = text.split(|byte| *byte == b'=').next().unwrap_or_default();
        name.len() < text.len() && !name.is_empty() && name.iter().all(is_letter)
    })
}

/// The job that an environment names, if it names us as its supervisor: another one may run below us.
fn job(environment: &[u8], supervisor: u32) -> Option<String> {
    let value = |name: &str| {
        let variables = environment.split(|byte| *byte == 0);
        variables.into_iter().find_map(|text| text.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    };
    let is_ours = value(SUPERVISOR)? == supervisor.to_string().as_bytes();
    is_ours.then(|| value(JOB).map(|job| OsStr::from_bytes(job).to_string_lossy().into_owned()))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_orphan_is_known_by_the_environment_that_its_job_was_given() {
        let environment = b"PATH=/bin\0CONTAINERPILOT_JOB=app\0CONTAINERPILOT_PID=7\0";
        assert_eq!(job(environment, 7).as_deref(), Some("app"));
        assert_eq!(job(environment, 8), None, "of another supervisor");
        assert_eq!(job(b"PATH=/bin\0", 7), None);
    }

    #[test]
    fn a_title_that_was_written_over_the_environment_is_none() {
        for (environment, expected) in [
            ("PATH=/bin\0", true),
            ("\0\0HOME=/\0", true),
            ("", false),
            ("\0\0\0", false),
            ("ess nginx -g daemon off;\0", false),
            ("rker: --data=/srv\0", false),
        ] {
            assert_eq!(has_variables(environment.as_bytes()), expected, "{environment:?}");
        }
    }

    #[test]
    fn the_kernel_names_a_process_after_its_program_in_at_most_15_bytes() {
        assert_eq!(kernel_name("/usr/sbin/nginx"), "nginx");
        assert_eq!(kernel_name("a-name-of-more-than-15"), "a-name-of-more-");
        assert_eq!(kernel_name("fourteen-bytes\u{f6}x"), "fourteen-bytes\u{fffd}");
    }

    #[test]
    fn we_are_not_over() {
        assert!(!is_over(i32::try_from(process::id()).unwrap()));
        assert!(is_over(i32::MAX));
    }
}
