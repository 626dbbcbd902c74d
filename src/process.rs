//! Processes: the only place that starts, waits for and signals them, behind one seam to the kernel. No decisions about
//! jobs. Calls never block: what may, a start or a look into another process, happens on threads of its own; all else is
//! done by one thread.
//!
//! How a child starts: in a new process group that it leads, with stdin from `/dev/null` unless it gets our terminal. In it
//! every signal has its default action, except that the terminal's stay ignored if they were when we were started. None is
//! blocked. It inherits the descriptors that our parent gave us, and none that we opened.

mod adopted;
mod descriptions;
mod diagnosis;
mod env_files;
mod environment;
mod error;
mod execution;
mod group;
mod image;
mod init;
mod jitter;
mod launcher;
mod memory;
mod notify;
mod passed;
mod privileges;
mod resolve;
mod running;
mod signals;
mod spawn;
mod spawner;
mod stat;
mod terminal;
mod variables;
mod wait;
pub mod wall_clock;

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::config::spec::{CommandLine, ExecutionSpec, VariableFile};
use crate::messages::crashes::Usage;
use crate::messages::process::{ExitStatus, Orphan, Pid};
use crate::messages::signal::Signal;
use descriptions::Descriptions;
use terminal::Terminal;

pub use environment::{Environ, Request};
pub use error::SpawnError;
pub use execution::login_environment;
pub use init::{become_subreaper, is_pid_one, raise_limit_of_files, reset_signals};
pub use jitter::random_share;
#[cfg(test)]
pub use jitter::set_seed;
pub use launcher::{ExecutionCommand, Kind, Launcher, Order};
pub use notify::{Datagram, Message, NotifySocket};
pub use passed::{FIRST as FIRST_PASSED, Passed, pipe_to_us};
pub use privileges::beyond_signals;
pub use running::RunningJobs;
pub use signals::{Signals, hold_signals};
pub use spawner::{Progress, Spawner};
pub use terminal::has_terminal;
pub use variables::{EnvironmentBlock, Layered, Variable, Variables};

/// The seam to the kernel; tests put a fake here.
///
/// The life of a group, and when its number may be used: [`spawn`](Self::spawn) makes it; when its leader
/// ends, [`peek_exited`](Self::peek_exited) tells so and the leader stays a zombie, so the number cannot be
/// given to another process: signal what is left of the group now, then [`reap`](Self::reap). The
/// kernel does not reuse the number while the group has members, so it may be signalled later too, until
/// [`signal_group`](Self::signal_group) or [`living_groups`](Self::living_groups) has once said that
/// nothing is left; never after that. Members whose parents died become our children and are
/// peeked and reaped like any other; one whose parent lives elsewhere ends without a SIGCHLD for us.
pub trait Kernel {
    /// Begins to start a process that leads a new process group, and returns at once.
    fn spawn(&self, launch: Launch) -> Spawning;

    /// Says that a start takes long: others that were asked for should begin beside it.
    /// False if no more can begin.
    fn help_slow_starts(&self) -> bool;

    /// A child, adopted orphans included, that has ended and is still a zombie; the same one again until it
    /// is reaped.
    fn peek_exited(&self) -> io::Result<Option<Exited>>;

    /// The same of one child that was started here, however many orphans have ended before it.
    fn peek_at(&self, child: Pid) -> io::Result<Option<Exited>>;

    /// Wakes whenever children may have ended; to be asked for before the first one is started.
    fn deaths(&self) -> io::Result<Deaths>;

    /// Lets a child go that [`peek_exited`](Self::peek_exited) has told; its number is free after that.
    /// Returns what it has used, if the kernel tells.
    fn reap(&self, pid: Pid) -> io::Result<Option<Usage>>;

    /// Sends a signal to every process of a group.
    fn signal_group(&self, group: Pid, signal: Signal) -> io::Result<Delivery>;

    /// The group that a process is in; a leader may have joined another one than its own, as setpgid(2) lets it.
    fn group_of(&self, process: Pid) -> Option<Pid>;

    /// Processes that became our children when their parent ended; others may be among them.
    fn orphans(&self) -> Vec<Pid>;

    /// Describes an orphan, as far as the kernel tells.
    fn describe_orphan(&self, orphan: Pid) -> Orphan;

    /// Sends a signal to all our children, whoever started them; false if it cannot be told who they are.
    fn signal_all_children(&self, signal: Signal) -> bool;

    /// Whether we have children left, zombies that are not reaped included. Told at one moment, unlike the list: a
    /// process that dies while the list is read hands us its children unseen.
    fn has_children(&self) -> bool;

    /// Sends a signal to one process.
    fn signal_process(&self, process: Pid, signal: Signal);

    /// Which of these groups have a process that still runs, in one pass: zombies do not count.
    fn living_groups(&self, groups: &[Pid]) -> HashSet<Pid>;

    /// Whether a group has no process left, not even a zombie; much cheaper than to look who lives.
    fn group_is_empty(&self, group: Pid) -> bool;

    /// The signal that has stopped a child since this was last asked.
    fn stopped_by(&self, _child: Pid) -> Option<Signal> {
        None
    }

    /// Takes our terminal back from a job: we are in the foreground, its modes are as they were before the job.
    fn take_terminal_back(&self) {}

    /// How many processes of our container the kernel has killed for lack of memory, if it tells.
    fn memory_kills(&self) -> Option<u64>;
}

/// Is ready whenever children may have ended, several at once included; `None` means that no more will be told.
pub type Deaths = Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<()>>>;

/// What to start, and how.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program and its arguments.
    pub command: CommandLine,
    /// Directory, user, limits and so on; its `env` is not read here.
    pub execution: ExecutionSpec,
    /// The environment of the process, but for what comes from files and for the processes of running jobs.
    pub environment: EnvironmentBlock,
    /// The variables from files that all jobs get.
    pub variable_files: Vec<VariableFile>,
    /// The processes of running jobs, which it is told when it starts.
    pub running: RunningJobs,
    /// The variable that tells others of its process, if it is a job's.
    pub variable: Option<OsString>,
    /// Where stdout and stderr go.
    pub output: Output,
    /// Further descriptors that it gets.
    pub passed: Passed,
}

impl Launch {
    /// The whole environment, if the process starts now. Reads files: not for the event loop.
    pub fn whole_environment(&self) -> Result<EnvironmentBlock, SpawnError> {
        let mut environment = self.environment.clone();
        env_files::add(&mut environment, &self.variable_files, &self.execution)?;
        self.running.tell(&mut environment);
        Ok(environment)
    }

    /// Tells those who start later of this process.
    pub fn note_started(&self, process: Pid) {
        if let Some(variable) = &self.variable {
            self.running.insert(variable, process);
        }
    }
}

/// A start under way.
#[derive(Debug)]
pub struct Spawning {
    /// How far it is; there it can be cancelled.
    pub progress: Arc<Progress>,
    /// Receives the outcome.
    pub outcome: oneshot::Receiver<SpawnOutcome>,
}

/// The outcome of a start.
#[derive(Debug)]
pub enum SpawnOutcome {
    /// The program is being executed.
    Started(Spawned),
    /// It is not.
    Failed {
        /// Why.
        error: SpawnError,
        /// The process that failed to become the program: it has ended or is about to, and must be reaped.
        child: Option<Pid>,
    },
    /// It was cancelled before there was a process.
    Cancelled,
}

/// Where a child's stdout and stderr go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// To us, through one pipe each.
    Piped,
    /// Where ours go.
    Inherited,
    /// To our terminal, where its stdin comes from, too. Its group is in the foreground.
    Terminal,
}

/// A process that was started.
#[derive(Debug)]
pub struct Spawned {
    /// The process, and the group that it leads.
    pub pid: Pid,
    /// What it writes to stdout and stderr, if piped.
    pub pipes: Option<Pipes>,
}

/// The read ends of a child's output: non-blocking, closed on exec.
#[derive(Debug)]
pub struct Pipes {
    /// From its stdout.
    pub stdout: OwnedFd,
    /// From its stderr.
    pub stderr: OwnedFd,
}

/// A child that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exited {
    /// Which one.
    pub pid: Pid,
    /// How it ended.
    pub status: ExitStatus,
}

/// The outcome of a signal to a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// At least one process, perhaps a zombie, got it.
    Sent,
    /// The group has no process left, not even a zombie: its number must not be used again.
    NoSuchGroup,
}

/// The real kernel.
#[derive(Debug, Clone, Default)]
pub struct Linux {
    spawner: Spawner,
    terminal: Terminal,
    descriptions: Descriptions,
}

impl Kernel for Linux {
    fn spawn(&self, launch: Launch) -> Spawning {
        if launch.output == Output::Terminal {
            self.terminal.note_modes();
        }
        self.spawner.start(launch)
    }

    fn help_slow_starts(&self) -> bool {
        self.spawner.help()
    }

    fn peek_exited(&self) -> io::Result<Option<Exited>> {
        wait::peek_exited()
    }

    fn peek_at(&self, child: Pid) -> io::Result<Option<Exited>> {
        wait::peek_at(child)
    }

    fn deaths(&self) -> io::Result<Deaths> {
        let mut signals = Signals::of_children()?;
        Ok(Box::new(move |context| signals.poll_next(context).map(|signal| signal.ok().map(drop))))
    }

    fn reap(&self, pid: Pid) -> io::Result<Option<Usage>> {
        self.descriptions.forget(pid);
        wait::reap(pid)
    }

    fn signal_group(&self, group: Pid, signal: Signal) -> io::Result<Delivery> {
        group::signal(group, signal)
    }

    fn group_of(&self, process: Pid) -> Option<Pid> {
        group::of(process)
    }

    fn orphans(&self) -> Vec<Pid> {
        adopted::orphans()
    }

    fn describe_orphan(&self, orphan: Pid) -> Orphan {
        self.descriptions.of(orphan, adopted::describe)
    }

    fn signal_all_children(&self, signal: Signal) -> bool {
        adopted::signal_all(signal)
    }

    fn has_children(&self) -> bool {
        wait::has_children()
    }

    fn signal_process(&self, process: Pid, signal: Signal) {
        adopted::signal(process, signal);
    }

    fn living_groups(&self, groups: &[Pid]) -> HashSet<Pid> {
        group::living(groups)
    }

    fn group_is_empty(&self, group: Pid) -> bool {
        group::is_empty(group)
    }

    fn stopped_by(&self, child: Pid) -> Option<Signal> {
        wait::stopped_by(child)
    }

    fn take_terminal_back(&self) {
        self.terminal.take_back();
    }

    fn memory_kills(&self) -> Option<u64> {
        memory::kills()
    }
}
