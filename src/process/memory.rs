//! How many processes the kernel has killed in our control group because memory ran out. Both versions of
//! control groups count it, whether the group's own limit was reached or the whole machine's.

use std::fs;
use std::sync::OnceLock;

use crate::messages::process::Pid;

/// Where the kernel shows control groups, within a container and outside.
const MOUNT: &str = "/sys/fs/cgroup";

/// Added to a job's `oom_score_adj`, so that the kernel kills a job before us when memory runs out. It counts in thousandths of the
/// memory that the container may have, so this outweighs our size in a container of 64 MB and more.
const ABOVE_OURS: i32 = 200;
/// The highest that the kernel takes.
const HIGHEST_SCORE: i32 = 1000;

/// Gives a process that sets no `oom_score_adj` one above ours, so that the kernel ends a job and not the one that would
/// start it again. Only once it has memory of its own: see [`super::execution::Steps::need_own_memory`].
pub(super) fn prefer_as_victim(process: Pid) {
    static OURS: OnceLock<i32> = OnceLock::new();
    let read = || fs::read_to_string("/proc/self/oom_score_adj").ok()?.trim().parse().ok();
    let score = above(*OURS.get_or_init(|| read().unwrap_or(0)));
    // Without /proc, or for a process that has ended, things stay as they are.
    let _ = fs::write(format!("/proc/{process}/oom_score_adj"), score.to_string());
}

fn above(ours: i32) -> i32 {
    ours.saturating_add(ABOVE_OURS).min(HIGHEST_SCORE)
}

/// `None` where the kernel does not tell: no control groups, or none mounted.
pub(super) fn kills() -> Option<u64> {
    let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
    places(&membership).iter().find_map(|path| count(&fs::read_to_string(path).ok()?))
}

/// The files that may hold the count, the likeliest first. A container that shares the machine's namespace of
/// control groups is told the path that it has outside, yet sees its own group as the root of the mount.
fn places(membership: &str) -> Vec<String> {
    let mut places = Vec::new();
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, file) = if controllers.is_empty() {
            (MOUNT.to_owned(), "memory.events")
        } else if controllers.split(',').any(|name| name == "memory") {
            (format!("{MOUNT}/{controllers}"), "memory.oom_control")
        } else {
            continue;
        };
        places.push(format!("{root}{}/{file}", path.trim_end_matches('/')));
        places.push(format!("{root}/{file}"));
    }
    places
}

fn count(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_version_of_control_groups_tells_where_the_count_is() {
        let second = ["/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory.events"];
        assert_eq!(places("0::/\n"), second);
        let first = "7:cpu,cpuacct:/docker/1f\n5:memory:/docker/1f\n0::/docker/1f\n";
        assert_eq!(
            places(first),
            [
                "/sys/fs/cgroup/memory/docker/1f/memory.oom_control",
                "/sys/fs/cgroup/memory/memory.oom_control",
                "/sys/fs/cgroup/docker/1f/memory.events",
                "/sys/fs/cgroup/memory.events",
            ]
        );
        assert_eq!(places(""), [""; 0]);
    }

    #[test]
    fn jobs_are_likelier_victims_than_we_are() {
        assert_eq!([-998, 0, 900, 1000].map(above), [-798, 200, 1000, 1000]);
    }

    #[test]
    fn only_killed_processes_count() {
        assert_eq!(count("low 0\nhigh 0\nmax 12\noom 4\noom_kill 3\noom_group_kill 1\n"), Some(3));
        assert_eq!(count("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"), Some(2));
        assert_eq!(count("low 0\n"), None);
    }
}
