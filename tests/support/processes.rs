//! Finds the processes of a run, wherever they went: each inherits an environment variable that no other run has.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The variable that tells a run's processes from all others.
pub const VARIABLE: &str = "CONTAINERPILOT_TEST_RUN";
/// How long a killed process may take to disappear.
const DEADLINE: Duration = Duration::from_secs(10);

/// What marks the processes of a run.
#[derive(Debug, Clone)]
pub struct Mark {
    entry: Vec<u8>,
}

impl Mark {
    /// The mark of the run that owns a folder.
    pub fn new(dir: &Path) -> Self {
        Self { entry: format!("{VARIABLE}={}", dir.display()).into_bytes() }
    }

    /// The living processes of the run; zombies have no environment and are not among them.
    pub fn living(&self) -> Vec<i32> {
        numbers().into_iter().filter(|pid| self.is_on(*pid)).collect()
    }

    fn is_on(&self, pid: i32) -> bool {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == self.entry)
    }

    /// Ends every process of the run.
    pub fn kill_all(&self) {
        let began = Instant::now();
        loop {
            let living = self.living();
            if living.is_empty() || began.elapsed() > DEADLINE {
                return;
            }
            for pid in living {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

fn numbers() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap();
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The children of a process, whichever of its threads started them.
pub fn children(pid: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| numbers_in(&list)).collect()
}

fn numbers_in(list: &str) -> Vec<i32> {
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// The zombies among the children of a process.
pub fn zombies(pid: i32) -> Vec<i32> {
    children(pid).into_iter().filter(|child| state(*child) == Some('Z')).collect()
}

/// A number of a process that proc(5) tells in its `status`; kibibytes if it is memory.
pub fn proc_status(pid: i32, key: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let value = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).unwrap();
    value.split_whitespace().next().unwrap().parse().unwrap()
}

/// The names of the threads of a process.
pub fn threads(pid: i32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    tasks.filter_map(name).map(|name| name.trim_end().to_owned()).collect()
}

/// The resident memory of a process in KiB.
pub fn resident_kib(pid: i32) -> u64 {
    proc_status(pid, "VmRSS")
}

/// The number of descriptors that a process has.
pub fn open_files(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// The state of a process as one letter; `None` if there is no such process.
pub fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}

/// A process, for a person to read.
pub fn describe(pid: i32) -> String {
    let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    format!("{pid} {} {}", state(pid).unwrap_or('?'), command.replace('\0', " "))
}
