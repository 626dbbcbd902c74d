//! The resources that our own process uses, under the names of Prometheus' client libraries. Read at each scrape, so
//! from getrusage(2), getrlimit(2) and /proc/self/statm: /proc/self/stat and /proc/self/limits, which the `procfs` crate
//! would parse, take longer than the rest of a scrape.

use std::fs;
use std::sync::OnceLock;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, rlim_t};
use nix::sys::time::{TimeVal, TimeValLike};
use nix::unistd::{SysconfVar, sysconf};

use super::exposition::Exposition;

/// The resources that our own process uses.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessUse {
    /// User and system CPU time.
    pub cpu_seconds: f64,
    /// The time at which the process was started, in seconds since 1970.
    pub start_seconds: f64,
    /// Address space.
    pub virtual_bytes: f64,
    /// Resident memory.
    pub resident_bytes: f64,
    /// Open file descriptors.
    pub open_files: f64,
    /// The limit of open file descriptors.
    pub max_files: f64,
}

impl ProcessUse {
    /// Asks the kernel; `None` where /proc is not mounted.
    pub fn read() -> Option<Self> {
        static START: OnceLock<Option<f64>> = OnceLock::new();
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
        let (max_files, _) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
        let page = sysconf(SysconfVar::PAGE_SIZE).ok()??;
        let (virtual_pages, resident_pages) = pages(&fs::read_to_string("/proc/self/statm").ok()?)?;
        Some(Self {
            cpu_seconds: seconds(usage.user_time()) + seconds(usage.system_time()),
            start_seconds: (*START.get_or_init(read_start))?,
            virtual_bytes: virtual_pages * page as f64,
            resident_bytes: resident_pages * page as f64,
            open_files: open_files()? as f64,
            max_files: if max_files == rlim_t::MAX { f64::INFINITY } else { max_files as f64 },
        })
    }

    /// Writes every family.
    pub fn expose(&self, out: &mut Exposition) {
        let help = "Total user and system CPU time spent in seconds.";
        out.counter("process_cpu_seconds_total", help);
        out.sample(&[], self.cpu_seconds);
        let gauges = [
            ("process_open_fds", "Number of open file descriptors.", self.open_files),
            ("process_max_fds", "Maximum number of open file descriptors.", self.max_files),
            ("process_virtual_memory_bytes", "Virtual memory size in bytes.", self.virtual_bytes),
            ("process_resident_memory_bytes", "Resident memory size in bytes.", self.resident_bytes),
            (
                "process_start_time_seconds",
                "Start time of the process since unix epoch in seconds.",
                self.start_seconds,
            ),
        ];
        for (name, help, value) in gauges {
            out.gauge(name, help);
            out.sample(&[], value);
        }
    }
}

fn seconds(time: TimeVal) -> f64 {
    time.num_microseconds() as f64 / 1e6
}

fn pages(statm: &str) -> Option<(f64, f64)> {
    let mut fields = statm.split_whitespace().map(str::parse);
    Some((fields.next()?.ok()?, fields.next()?.ok()?))
}

/// Since Linux 6.2 the size of /proc/self/fd is the number of open files; before, it is 0.
fn open_files() -> Option<u64> {
    match fs::metadata("/proc/self/fd").ok()?.len() {
        // One of them is the open directory itself.
        0 => Some((fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1)),
        count => Some(count),
    }
}

fn read_start() -> Option<f64> {
    let ticks = sysconf(SysconfVar::CLK_TCK).ok()??;
    start(&fs::read_to_string("/proc/self/stat").ok()?, &fs::read_to_string("/proc/stat").ok()?, ticks as f64)
}

/// `ticks_per_second` is the unit of times in `/proc/PID/stat`.
fn start(stat: &str, boot: &str, ticks_per_second: f64) -> Option<f64> {
    // The name in parentheses may contain anything, so count from its end; the first field there is the third.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: f64 = fields.split_whitespace().nth(22 - 3)?.parse().ok()?;
    let boot = boot.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(boot.trim().parse::<f64>().ok()? + ticks / ticks_per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_what_we_use() {
        let process = ProcessUse::read().unwrap();
        assert!(process.resident_bytes > 100_000.0 && process.virtual_bytes >= process.resident_bytes);
        assert!(process.open_files >= 3.0 && process.max_files > process.open_files);
        assert!(process.cpu_seconds > 0.0);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((0.0..86_400.0).contains(&(now - process.start_seconds)), "{}", now - process.start_seconds);
    }

    #[test]
    fn a_parenthesis_in_our_name_confuses_nothing() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 2 0 1000 9 9 9";
        assert_eq!(start(stat, "cpu 1\nbtime 1000000\n", 100.0), Some(1_000_010.0));
    }
}
