//! The decisions about children: which start begins next, which signal goes where, what owners are told, and how processes
//! that are left over are ended, of one execution or of all at the end of the program. Pure: no clock, no I/O.
//!
//! A group is signalled only while its number cannot have been given to another one: its leader is not reaped, or the last
//! [`Survey`] has shown a member of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::actors::machine::{Kind, Machine, Severity};
use crate::messages::moment::Moment;
use crate::messages::process::{
    EndOrphans, ExecutionId, ExitStatus, Orphan, Pid, ProcessEnded, ProcessStarted,
};
use crate::messages::signal::Signal;

mod endings;
mod memory;
mod orphans;
mod starts;
#[cfg(test)]
mod tests;

use memory::MemoryKills;
use orphans::EndingOrphans;

pub use starts::{SLOW_AFTER, TELL_AFTER};

/// Everything that is known of children.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Executions whose main process has not ended.
    executions: BTreeMap<ExecutionId, Execution>,
    /// The executions whose start has not begun, in the order of the requests.
    queue: VecDeque<ExecutionId>,
    /// Starts under way, cancelled ones included: their threads hang on.
    starts: BTreeMap<ExecutionId, Start>,
    /// The executions of children that run.
    running: BTreeMap<Pid, ExecutionId>,
    /// Children that have ended; their owners are told after the next look.
    exited: Vec<Exited>,
    /// Executions whose main process ended while others of it were left.
    leftovers: BTreeMap<ExecutionId, Leftover>,
    /// Orphans that seemed to be nobody's at the first look, until they are reaped.
    strangers: BTreeSet<Pid>,
    memory_kills: MemoryKills,
    /// A sweep is due.
    is_sweeping: bool,
    ending_orphans: Option<EndingOrphans>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Execution {
    name: Name,
    stage: Stage,
}

/// Whose output a process writes, and which job it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Name {
    /// The name that its output is logged under.
    pub label: Arc<str>,
    /// The job and the name of its program's processes, unless it is a health check.
    pub job: Option<(Arc<str>, String)>,
}

impl Name {
    fn owns(&self, orphan: &Orphan) -> bool {
        self.job.as_ref().is_some_and(|(job, program)| orphan.belongs_to(job, program))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Stage {
    /// It is in the queue, or a thread starts it.
    Starting(Starting),
    /// It has a process.
    Running(Child),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Starting {
    /// Signals to be sent once the program runs: a signal before that could dump our memory instead of its own.
    signals: Vec<Signal>,
    /// It was asked to end.
    is_ending: bool,
    killed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Child {
    pid: Pid,
    /// Whether we sent it SIGKILL.
    killed: bool,
    /// Why it did not become its program.
    failure: Option<Failure>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Exited {
    execution: ExecutionId,
    name: Name,
    child: Child,
    status: ExitStatus,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Leftover {
    name: Name,
    /// Its group, for as long as that has a member: then the number may belong to somebody else.
    group: Option<Pid>,
    since: Moment,
    /// Its owner has it killed, so that it has no time to end.
    is_hurried: bool,
    /// When it got SIGKILL.
    killed: Option<Moment>,
}

/// A start that occupies a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Start {
    label: Arc<str>,
    /// It takes long, as on a file system that hangs.
    is_slow: bool,
}

/// Why a program could not be executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The whole sentence.
    pub reason: String,
    /// The exit status that shells give to it.
    pub status: u8,
}

/// The outcome of a start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartOutcome {
    /// The program is being executed.
    Started(Pid),
    /// It is not.
    Failed {
        /// Why.
        failure: Failure,
        /// The process that failed to become the program; it must be reaped.
        child: Option<Pid>,
    },
    /// It was cancelled before there was a process.
    Cancelled,
}

/// The state of the kernel's processes at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    /// The groups of [`State::groups`] that have a member.
    pub groups: BTreeSet<Pid>,
    /// The processes that the kernel gave us, if [`State::wants_orphans`].
    pub orphans: Vec<Orphan>,
    /// How many processes were killed for memory, if [`State::wants_memory_kills`].
    pub memory_kills: Option<u64>,
}

/// Something that happened to children.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// A job or check wants a program to be executed.
    LaunchAsked(ExecutionId, Name),
    /// A start is over.
    SpawnSettled(ExecutionId, StartOutcome),
    /// A start has taken [`SLOW_AFTER`]; it may have a process.
    StartIsSlow(ExecutionId, Option<Pid>),
    /// A start has taken [`TELL_AFTER`] more.
    StartHangs(ExecutionId),
    /// An owner wants an execution to end.
    EndAsked {
        /// Which one.
        execution: ExecutionId,
        /// How.
        signal: Signal,
        /// Whether its start was under way without a process, and is cancelled now.
        is_cancelled: bool,
        /// The process of a start under way.
        pid: Option<Pid>,
    },
    /// An owner sends a signal to an execution.
    SignalAsked(ExecutionId, Signal),
    /// An owner sends a signal to the main process of an execution: another of its group, or the one that was started.
    ForwardAsked(ExecutionId, Option<Pid>, Signal),
    /// A child has ended that is no longer being started. It is reaped when the actions of this input are performed.
    ChildExited(Pid, ExitStatus),
    /// The child at the terminal was stopped by a signal.
    ChildStopped(Pid, Signal),
    /// Children were reaped; zombies count as members of their groups.
    Looked(Survey),
    /// The time to look at what is left of executions has come; zombies do not count as members.
    Swept(Survey),
    /// A signal found nothing left of an execution's group.
    GroupIsEmpty(ExecutionId),
    /// The program ends, and with it what jobs left behind.
    EndOrphansAsked(EndOrphans),
    /// The time to look for them has come.
    OrphansLookedFor {
        /// Whether we have children, zombies included.
        are_left: bool,
    },
    /// It cannot be told who they are.
    OrphansAreUnknown,
}

/// Something that the actor is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Action {
    /// Begin to start an execution; report [`Input::StartIsSlow`], [`Input::StartHangs`] and [`Input::SpawnSettled`].
    Spawn(ExecutionId),
    /// Let the next start begin beside one that hangs.
    HelpSlowStarts,
    /// Send a signal that the owner asked for to a group. While its leader lives, it gets the signal even in another
    /// group, which setpgid(2) lets it join.
    Signal {
        /// Of which execution.
        execution: ExecutionId,
        /// The group, which the leader has given its number.
        group: Pid,
        /// The signal to send.
        signal: Signal,
        /// Whether the leader is not reaped.
        leader_lives: bool,
    },
    /// Send a signal to what is left of a group.
    SignalGroup(Pid, Signal),
    /// Send a signal to one process, a child or of an execution's group.
    SignalProcess(Pid, Signal),
    /// Send a signal to all children.
    SignalAll(Signal),
    /// Log what a process wrote before it ended; what a check wrote depends on its success.
    DrainOutput(ExecutionId, ExitStatus),
    /// Tell the owner that its program runs.
    TellStarted(ProcessStarted),
    /// Tell the owner how its execution ended.
    TellEnded(ProcessEnded),
    /// Tell the owner that no process of its execution is left.
    TellGone(ExecutionId),
    /// Report [`Input::Swept`] after this time.
    SweepAfter(Duration),
    /// Report [`Input::OrphansLookedFor`] after this time.
    LookForOrphansAfter(Duration),
    /// Tell that no orphan is left, or none that can be ended.
    TellOrphansGone,
    /// Log this about a job or check, or about ourselves.
    Log(Severity, Option<Arc<str>>, String),
}

impl State {
    /// No children, and so many processes killed for memory before.
    pub fn new(memory_kills: Option<u64>) -> Self {
        Self {
            executions: BTreeMap::new(),
            queue: VecDeque::new(),
            starts: BTreeMap::new(),
            running: BTreeMap::new(),
            exited: Vec::new(),
            leftovers: BTreeMap::new(),
            strangers: BTreeSet::new(),
            memory_kills: MemoryKills::new(memory_kills),
            is_sweeping: false,
            ending_orphans: None,
        }
    }

    /// The children that run.
    pub const fn running(&self) -> &BTreeMap<Pid, ExecutionId> {
        &self.running
    }

    /// The process group of an execution whose owner has not been told that it ended.
    pub fn group_of(&self, id: ExecutionId) -> Option<Pid> {
        let living = self.executions.get(&id).and_then(|execution| match &execution.stage {
            Stage::Running(child) => Some(child.pid),
            Stage::Starting(_) => None,
        });
        living.or_else(|| {
            self.exited.iter().find(|exited| exited.execution == id).map(|exited| exited.child.pid)
        })
    }

    /// Sends a signal to the processes of an execution, now or once its program runs.
    fn signal(&mut self, id: ExecutionId, signal: Signal) -> Option<Action> {
        if let Some(group) = self.leftovers.get(&id).and_then(|leftover| leftover.group) {
            return Some(Action::Signal { execution: id, group, signal, leader_lives: false });
        }
        match &mut self.executions.get_mut(&id)?.stage {
            Stage::Starting(starting) => {
                if !starting.signals.contains(&signal) {
                    starting.signals.push(signal);
                }
                None
            }
            Stage::Running(child) => {
                child.killed |= signal == Signal::KILL;
                Some(Action::Signal { execution: id, group: child.pid, signal, leader_lives: true })
            }
        }
    }

    /// Undoes Ctrl-Z of a job that is no shell: nobody is there who could continue it.
    fn continue_stopped(&self, pid: Pid, signal: Signal) -> Vec<Action> {
        let execution = self.running.get(&pid).and_then(|id| self.executions.get(id));
        let Some(execution) = execution.filter(|_| signal == Signal::TSTP) else { return vec![] };
        let text = "was stopped by Ctrl-Z and goes on: no shell is there to continue it".to_owned();
        let log = Action::Log(Severity::Info, Some(execution.name.label.clone()), text);
        vec![Action::SignalGroup(pid, Signal::CONT), log]
    }

    /// Sends a signal to the main process of an execution, now or once its program runs; then it is alone in its group.
    fn forward(&mut self, id: ExecutionId, main: Option<Pid>, signal: Signal) -> Option<Action> {
        match &self.executions.get(&id)?.stage {
            Stage::Starting(_) => self.signal(id, signal),
            Stage::Running(child) => Some(Action::SignalProcess(main.unwrap_or(child.pid), signal)),
        }
    }
}

impl Machine for State {
    type Input = Input;
    type Action = Action;
    const KIND: Kind = Kind::Reaper;

    fn step(&mut self, now: Moment, input: Input) -> Vec<Action> {
        match input {
            Input::LaunchAsked(id, name) => self.launch(id, name),
            Input::SpawnSettled(id, outcome) => self.settle(id, outcome),
            Input::StartIsSlow(id, pid) => self.note_slow(id, pid),
            Input::StartHangs(id) => self.tell_hanging(id),
            Input::EndAsked { execution, signal, is_cancelled, pid } => {
                self.end(execution, signal, is_cancelled, pid)
            }
            Input::SignalAsked(id, signal) => self.signal(id, signal).into_iter().collect(),
            Input::ForwardAsked(id, main, signal) => self.forward(id, main, signal).into_iter().collect(),
            Input::ChildExited(pid, status) => self.note_exit(pid, status),
            Input::ChildStopped(pid, signal) => self.continue_stopped(pid, signal),
            Input::Looked(survey) => self.look(now, survey),
            Input::Swept(survey) => self.sweep(now, survey),
            Input::GroupIsEmpty(id) => self.forget_group(id),
            Input::EndOrphansAsked(asked) => self.end_orphans(now, asked),
            Input::OrphansLookedFor { are_left } => self.press_orphans(now, are_left),
            Input::OrphansAreUnknown => self.leave_unknown_orphans(now),
        }
    }
}
