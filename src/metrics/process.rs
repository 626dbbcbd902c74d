//! What our own process uses, under the names that every Prometheus client has for it. Read from /proc.

use std::fs;

use super::exposition::{Exposition, Kind};

/// Clock ticks per second in /proc: fixed for programs on every architecture that we run on.
const TICKS: f64 = 100.0;

/// What the kernel says about us.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessUse {
    /// Time on a processor, ours and the kernel's for us.
    pub cpu_seconds: f64,
    /// When we were started, since 1970.
    pub start_seconds: f64,
    /// Address space.
    pub virtual_bytes: f64,
    /// Memory in use.
    pub resident_bytes: f64,
    /// Open file descriptors.
    pub open_files: f64,
    /// How many there may be.
    pub most_files: f64,
}

impl ProcessUse {
    /// Asks the kernel; `None` where /proc is not mounted.
    pub fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let boot = fs::read_to_string("/proc/stat").ok()?;
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let limits = fs::read_to_string("/proc/self/limits").ok()?;
        let open_files = fs::read_dir("/proc/self/fd").ok()?.count();
        Self::parse(&stat, &boot, &status, &limits, open_files)
    }

    fn parse(stat: &str, boot: &str, status: &str, limits: &str, open_files: usize) -> Option<Self> {
        // The name in parentheses may contain anything, so count from its end; the first field there is the third.
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let kilobytes = |name: &str| Some(value(status, name)?.parse::<f64>().ok()? * 1024.0);
        let most_files = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
        let most_files = most_files.split_whitespace().next()?;
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) / TICKS,
            start_seconds: value(boot, "btime")?.parse::<f64>().ok()? + field(22)? / TICKS,
            virtual_bytes: kilobytes("VmSize:")?,
            resident_bytes: kilobytes("VmRSS:")?,
            open_files: open_files as f64,
            most_files: most_files.parse().unwrap_or(f64::INFINITY),
        })
    }

    /// Writes every family.
    pub fn expose(&self, out: &mut Exposition) {
        let help = "Total user and system CPU time spent in seconds.";
        out.family("process_cpu_seconds_total", help, Kind::Counter);
        out.sample(&[], self.cpu_seconds);
        let gauges = [
            ("process_open_fds", "Number of open file descriptors.", self.open_files),
            ("process_max_fds", "Maximum number of open file descriptors.", self.most_files),
            ("process_virtual_memory_bytes", "Virtual memory size in bytes.", self.virtual_bytes),
            ("process_resident_memory_bytes", "Resident memory size in bytes.", self.resident_bytes),
            (
                "process_start_time_seconds",
                "Start time of the process since unix epoch in seconds.",
                self.start_seconds,
            ),
        ];
        for (name, help, value) in gauges {
            out.family(name, help, Kind::Gauge);
            out.sample(&[], value);
        }
    }
}

/// The word after a name at the start of a line.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_what_we_use() {
        let process = ProcessUse::read().unwrap();
        assert!(process.resident_bytes > 100_000.0 && process.virtual_bytes >= process.resident_bytes);
        assert!(process.open_files >= 3.0 && process.most_files > process.open_files);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((0.0..86_400.0).contains(&(now - process.start_seconds)), "{}", now - process.start_seconds);
    }

    #[test]
    fn a_parenthesis_in_our_name_confuses_nothing() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 2 0 1000 9 9 9";
        let process = ProcessUse::parse(
            stat,
            "cpu 1\nbtime 1000000\n",
            "VmSize:\t  200 kB\nVmRSS:\t 100 kB\n",
            "Limit Soft Hard Units\nMax open files  unlimited unlimited files\n",
            5,
        )
        .unwrap();
        assert_eq!((process.cpu_seconds, process.start_seconds), (2.0, 1_000_010.0));
        assert_eq!((process.resident_bytes, process.most_files), (102_400.0, f64::INFINITY));
    }
}
