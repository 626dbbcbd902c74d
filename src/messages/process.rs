//! Messages about processes. Types only: the system calls are in `crate::process`.

use std::fmt;
use std::time::Duration;

use actix::prelude::Message;
use serde::{Deserialize, Serialize};

use super::crashes::Usage;
use super::notify::Notification;
use super::signal::Signal;

/// A process, or the process group that it leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pid(i32);

impl Pid {
    /// A process by its number; `None` for 0 and below, which kill(2) and waitid(2) give other meanings.
    pub const fn new(number: i32) -> Option<Self> {
        if number > 0 { Some(Self(number)) } else { None }
    }

    /// The number that the kernel uses.
    pub const fn number(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ExitStatus {
    /// It exited with this status.
    Code(u8),
    /// A signal killed it.
    Signal {
        /// The signal that killed it.
        signal: Signal,
        /// Whether it left a core dump.
        core_dumped: bool,
    },
}

impl ExitStatus {
    /// Whether it exited with status 0.
    pub const fn is_success(self) -> bool {
        matches!(self, Self::Code(0))
    }

    /// Whether SIGKILL ended it, or it exited with 137, as a shell does whose child was killed.
    pub fn tells_of_sigkill(self) -> bool {
        self.shell_code() == Self::Signal { signal: Signal::KILL, core_dumped: false }.shell_code()
    }

    /// The status as in a shell: 128 + N for signal N.
    pub fn shell_code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal { signal, .. } => u8::try_from(signal.number()).unwrap_or(127).saturating_add(128),
        }
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited with status {code}"),
            Self::Signal { signal, core_dumped: false } => write!(f, "killed by {signal}"),
            Self::Signal { signal, core_dumped: true } => write!(f, "killed by {signal} (core dumped)"),
        }
    }
}

/// One start of a program, from the request until no process of it is left. It exists before there is a process, and
/// unlike a process id it is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExecutionId(pub u64);

/// To the job or check that asked: its program has been executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessStarted {
    /// The execution.
    pub execution: ExecutionId,
    /// Its process, which leads its process group.
    pub pid: Pid,
}

/// A start that takes longer is told in the log and by `why`: execve(2) may hang, as on a file system that does not respond.
pub const LONG_START: Duration = Duration::from_secs(5);

/// Why the program of an execution never ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unstarted {
    /// The program could not be executed, for this reason.
    Failed(String),
    /// It was cancelled before there was a process.
    Cancelled,
}

/// To the job or check that asked: the execution has ended, and its output is logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessEnded {
    /// The execution.
    pub execution: ExecutionId,
    /// Its process; `None` if there never was one.
    pub pid: Option<Pid>,
    /// Its exit status; if the program could not be executed, that of a shell (126 or 127).
    pub status: ExitStatus,
    /// Why its program never ran.
    pub unstarted: Option<Unstarted>,
    /// Whether the kernel killed it, or a process that it waited for, for lack of memory.
    pub for_memory: bool,
    /// Processes that it put into the background, outside its group, as "NAME (pid N)".
    pub daemons: Vec<String>,
    /// Whether processes of it are left; then [`ExecutionReport::Gone`] follows when they are gone.
    pub leftover: bool,
}

impl fmt::Display for ProcessEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.unstarted {
            Some(Unstarted::Failed(reason)) => return f.write_str(reason),
            Some(Unstarted::Cancelled) => return f.write_str("stopped before it was started"),
            None => {}
        }
        match self.status {
            ExitStatus::Signal { signal, .. } if self.for_memory => {
                write!(f, "killed for memory ({signal})")?;
            }
            ExitStatus::Code(_) if self.for_memory => {
                write!(f, "{}: a process of it was killed for memory", self.status)?;
            }
            ExitStatus::Code(_) | ExitStatus::Signal { .. } => self.status.fmt(f)?,
        }
        if self.daemons.is_empty() {
            return Ok(());
        }
        write!(f, "; left {} running in the background", self.daemons.join(", "))
    }
}

/// Why a run failed that nobody had asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CrashReason {
    /// Its exit status is no success.
    Status,
    /// A signal killed it that we did not send.
    Signal,
    /// The kernel killed it, or a process of it, for lack of memory.
    Memory,
    /// It ran longer than its `timeout`.
    Timeout,
    /// It could not be started.
    Start,
}

impl CrashReason {
    /// The word that metrics use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Signal => "signal",
            Self::Memory => "memory",
            Self::Timeout => "timeout",
            Self::Start => "start",
        }
    }
}

/// What the owner of an execution is told.
#[derive(Debug, Clone, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub enum ExecutionReport {
    /// Its program runs.
    Started(ProcessStarted),
    /// It has ended, and its process has used this.
    Ended(ProcessEnded, Option<Box<Usage>>),
    /// It has told that it can be used, by its descriptor or its output.
    Ready(ExecutionId),
    /// It has told something by systemd's protocol.
    Notified(ExecutionId, Box<Notification>),
    /// No process of it is left.
    Gone(ExecutionId),
}

/// A process that became our child when its parent ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orphan {
    /// Which one.
    pub pid: Pid,
    /// The group that it is in; `None` if it is gone.
    pub group: Option<Pid>,
    /// The name of its program, cut to 15 bytes by the kernel.
    pub program: String,
    /// The job that its environment names. Servers such as nginx overwrite their environment, and that of another user's
    /// process cannot be read without CAP_SYS_PTRACE.
    pub job: Option<String>,
    /// Whether its environment can be read and has variables.
    pub has_environment: bool,
    /// Whether it cannot be told yet whose it is: it is, or may be, in the middle of an execve(2), or this hangs.
    pub is_becoming: bool,
}

impl Orphan {
    /// One of which nothing is known.
    pub const fn unknown(pid: Pid) -> Self {
        Self {
            pid,
            group: None,
            program: String::new(),
            job: None,
            has_environment: false,
            is_becoming: false,
        }
    }

    /// Whether a job left it behind: its environment names the job, or, if it has none that tells, it runs the job's program.
    pub fn belongs_to(&self, job: &str, program: &str) -> bool {
        match &self.job {
            Some(named) => named == job,
            None => !self.is_becoming && !self.has_environment && self.program == program,
        }
    }
}

/// Command to the Reaper: end the processes that jobs left behind. All orphans get SIGTERM now and SIGKILL after `grace`; they
/// are given up `patience` after that. A second command can only shorten the grace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub struct EndOrphans {
    /// The time between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// How long SIGKILL is repeated before they are given up.
    pub patience: Duration,
}

/// The orphans are gone, or given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub struct OrphansGone;

#[cfg(test)]
mod tests {
    use super::*;

    const fn killed(signal: Signal, core_dumped: bool) -> ExitStatus {
        ExitStatus::Signal { signal, core_dumped }
    }

    fn ended(status: ExitStatus, for_memory: bool) -> ProcessEnded {
        let (execution, pid) = (ExecutionId(1), Pid::new(7));
        ProcessEnded { execution, pid, status, unstarted: None, for_memory, daemons: vec![], leftover: false }
    }

    #[test]
    fn what_was_put_into_the_background_is_told() {
        let daemons = vec!["nginx (pid 8)".to_owned(), "nginx (pid 9)".to_owned()];
        let ended = ProcessEnded { daemons, ..ended(ExitStatus::Code(0), false) };
        let told = "exited with status 0; left nginx (pid 8), nginx (pid 9) running in the background";
        assert_eq!(ended.to_string(), told);
    }

    #[test]
    fn only_status_zero_is_a_success() {
        assert!(ExitStatus::Code(0).is_success());
        assert!(!ExitStatus::Code(1).is_success());
        assert!(!killed(Signal::TERM, false).is_success());
    }

    #[test]
    fn a_signal_is_told_as_shells_do() {
        assert_eq!(ExitStatus::Code(255).shell_code(), 255);
        assert_eq!(killed(Signal::KILL, false).shell_code(), 137);
        assert_eq!(killed(Signal::TERM, true).shell_code(), 143);
    }

    #[test]
    fn a_status_reads_as_a_sentence() {
        assert_eq!(ExitStatus::Code(3).to_string(), "exited with status 3");
        assert_eq!(killed(Signal::KILL, false).to_string(), "killed by SIGKILL");
        assert_eq!(killed(Signal::HUP, true).to_string(), "killed by SIGHUP (core dumped)");
        let real_time = Signal::parse("SIGRTMIN+3").unwrap();
        assert_eq!(killed(real_time, false).to_string(), "killed by SIGRTMIN+3");
    }

    #[test]
    fn an_end_for_memory_says_so() {
        let told = |status, for_memory| ended(status, for_memory).to_string();
        assert_eq!(told(killed(Signal::KILL, false), true), "killed for memory (SIGKILL)");
        assert_eq!(told(killed(Signal::KILL, false), false), "killed by SIGKILL");
        let handed_on = "exited with status 137: a process of it was killed for memory";
        assert_eq!(told(ExitStatus::Code(137), true), handed_on);
        assert_eq!(told(ExitStatus::Code(137), false), "exited with status 137");
    }

    #[test]
    fn sigkill_is_known_by_the_signal_and_by_a_shells_status() {
        assert!(killed(Signal::KILL, false).tells_of_sigkill());
        assert!(ExitStatus::Code(137).tells_of_sigkill());
        assert!(!killed(Signal::TERM, false).tells_of_sigkill());
        assert!(!ExitStatus::Code(1).tells_of_sigkill());
    }

    #[test]
    fn an_orphan_that_hides_its_environment_is_known_by_its_program() {
        let orphan = |job: Option<&str>| Orphan {
            pid: Pid::new(7).unwrap(),
            group: Pid::new(7),
            program: "nginx".into(),
            job: job.map(Into::into),
            has_environment: job.is_some(),
            is_becoming: false,
        };
        let strange = Orphan { has_environment: true, ..orphan(None) };
        assert!(!strange.belongs_to("web", "nginx"), "somebody else has started it");
        assert!(orphan(None).belongs_to("web", "nginx"));
        assert!(!orphan(None).belongs_to("other", "sh"));
        assert!(orphan(Some("other")).belongs_to("other", "sh"));
        assert!(!orphan(Some("other")).belongs_to("web", "nginx"), "it says whose it is");
    }

    #[test]
    fn numbers_with_another_meaning_are_no_processes() {
        assert_eq!(Pid::new(0), None);
        assert_eq!(Pid::new(-7), None);
        assert_eq!(Pid::new(7).map(Pid::number), Some(7));
    }
}
