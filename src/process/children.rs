//! The table of children: starts under way, processes that run, and remains of those that ended. It tells the owner of
//! each what becomes of it.
//!
//! A child can end before the thread that started it has told us its number. The kernel writes that number into the
//! start's [`Progress`] before the child runs, so such a child is known; it stays a zombie until the start is settled.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use actix::prelude::Recipient;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::memory::MemoryKills;
use super::{Deaths, Kernel, Launch, Orphan, Pipes, Progress, SpawnError, SpawnOutcome, Spawning};
use crate::logging::{ChildOutput, ChildStream, Label, Log};
use crate::messages::process::{
    ExecutionId, ExitStatus, GroupGone, Pid, ProcessEnded, ProcessStarted, Unstarted,
};
use crate::messages::signal::Signal;
use crate::reason::reason;

mod ending;

/// The actor that is told about an execution.
#[derive(Clone)]
pub struct Owner {
    /// Told when the program runs.
    pub started: Recipient<ProcessStarted>,
    /// Told how it ended.
    pub ended: Recipient<ProcessEnded>,
    /// Told when no process of it is left.
    pub gone: Recipient<GroupGone>,
}

/// All children of the program, shared by those who start them and the Reaper.
#[derive(Clone)]
pub struct Children(Rc<Shared>);

struct Shared {
    kernel: Box<dyn Kernel>,
    log: Log,
    /// Made for the first child that is piped.
    output: OnceCell<ChildOutput>,
    table: RefCell<Table>,
    /// Counted from the first start on.
    memory: RefCell<Option<MemoryKills>>,
    /// The number of the latest execution.
    executions: Cell<u64>,
    /// A child that ended before its start was settled can be reaped now.
    settled: Notify,
}

#[derive(Default)]
struct Table {
    starting: HashMap<ExecutionId, Starting>,
    live: HashMap<Pid, Child>,
    /// The process of each execution that lives or has remains.
    pids: HashMap<ExecutionId, Pid>,
    swept: HashMap<ExecutionId, Remains>,
    /// Processes that the kernel gave us, as far as they are known; until they are reaped their numbers are their own.
    known: HashMap<Pid, Orphan>,
    /// Reaped since our own children were last looked at: processes that the kernel gave us.
    orphans: usize,
}

/// A start under way.
struct Starting {
    owner: Owner,
    progress: Arc<Progress>,
    /// Signals to be sent once the program runs: a signal before that could dump our memory instead of its own.
    signals: Vec<Signal>,
    /// It takes long, as on a file system that hangs.
    is_slow: bool,
    /// It was asked to end.
    is_ending: bool,
    killed: bool,
}

struct Child {
    execution: ExecutionId,
    owner: Owner,
    name: Name,
    /// Its stdout and stderr, where they can be read.
    output: [Option<ChildStream>; 2],
    /// Whether we sent it SIGKILL.
    killed: bool,
    /// Why it did not become its program.
    failure: Option<SpawnError>,
}

/// An execution whose main process ended while others of it were left.
struct Remains {
    owner: Owner,
    name: Name,
    /// Its group, for as long as that has a member: then the number may belong to somebody else.
    group: Option<Pid>,
    since: Instant,
    /// When it got SIGKILL.
    killed: Option<Instant>,
}

/// Whose output a process writes, and which job it belongs to.
#[derive(Clone)]
pub(super) struct Name {
    /// The name that its output is logged under.
    pub(super) label: Arc<str>,
    /// The job and the name of its program's processes, unless it is a health check.
    pub(super) job: Option<(Arc<str>, String)>,
}

impl Name {
    fn owns(&self, orphan: &Orphan) -> bool {
        self.job.as_ref().is_some_and(|(job, program)| orphan.belongs_to(job, program))
    }
}

impl Children {
    /// An empty table over a kernel; the output of children goes to `log`.
    pub fn new(kernel: Box<dyn Kernel>, log: Log) -> Self {
        Self(Rc::new(Shared {
            kernel,
            log,
            output: OnceCell::new(),
            table: RefCell::default(),
            memory: RefCell::default(),
            executions: Cell::default(),
            settled: Notify::new(),
        }))
    }

    /// Wakes whenever children may have ended.
    pub fn deaths(&self) -> io::Result<Deaths> {
        self.0.kernel.deaths()
    }

    /// Waits until a child that ended early can be reaped.
    pub async fn settled(&self) {
        self.0.settled.notified().await;
    }

    /// A number that no execution has had.
    pub(super) fn next_execution(&self) -> ExecutionId {
        self.0.executions.set(self.0.executions.get() + 1);
        ExecutionId(self.0.executions.get())
    }

    /// Begins to start a process. Whoever awaits the outcome must hand it to [`settle`](Self::settle).
    pub(super) fn spawn(
        &self,
        execution: ExecutionId,
        launch: Launch,
        owner: Owner,
    ) -> tokio::sync::oneshot::Receiver<SpawnOutcome> {
        let count = || MemoryKills::new(self.0.kernel.memory_kills());
        self.0.memory.borrow_mut().get_or_insert_with(count);
        let Spawning { progress, outcome } = self.0.kernel.spawn(launch);
        let starting =
            Starting { owner, progress, signals: vec![], is_slow: false, is_ending: false, killed: false };
        self.0.table.borrow_mut().starting.insert(execution, starting);
        outcome
    }

    /// Notes that a start takes long; others begin beside it. False if no more can.
    pub(super) fn note_slow_start(&self, execution: ExecutionId) -> bool {
        if let Some(starting) = self.0.table.borrow_mut().starting.get_mut(&execution) {
            starting.is_slow = true;
            if starting.is_ending {
                self.kill_unstarted(starting);
            }
        }
        self.0.kernel.help_slow_starts()
    }

    /// Its program does not run yet, so that there is nothing to end gently.
    fn kill_unstarted(&self, starting: &mut Starting) {
        if let Some(pid) = starting.progress.pid() {
            starting.killed = true;
            self.0.kernel.signal_child(pid, Signal::KILL);
        }
    }

    /// Takes note of what became of a start, and tells its owner.
    pub(super) fn settle(&self, execution: ExecutionId, name: &Name, outcome: SpawnOutcome) {
        let starting = self.0.table.borrow_mut().starting.remove(&execution);
        // One that was cancelled has no process, and its owner was told.
        let Some(Starting { owner, signals, killed, .. }) = starting else { return };
        let (pid, output, failure) = match outcome {
            // execve(2) did not come to its end, though clone(2) cannot tell that from a success.
            SpawnOutcome::Started(spawned) if killed => {
                let error = io::Error::from_raw_os_error(libc::EINTR);
                let error = SpawnError::because(
                    "execute its program".to_owned(),
                    "it was killed while it was being started".to_owned(),
                    error,
                );
                (spawned.pid, [None, None], Some(error))
            }
            SpawnOutcome::Started(spawned) => {
                owner.started.do_send(ProcessStarted { execution, pid: spawned.pid });
                let output = spawned.pipes.map(|pipes| self.forward(pipes, name, spawned.pid));
                (spawned.pid, output.unwrap_or_default(), None)
            }
            // Its process is told of when it is reaped, like any other.
            SpawnOutcome::Failed { error, child: Some(pid) } => (pid, [None, None], Some(error)),
            SpawnOutcome::Failed { error, child: None } => {
                let reason = Unstarted::Failed(error.to_string());
                return owner.ended.do_send(unstarted(execution, reason, error.shell_code()));
            }
            SpawnOutcome::Cancelled => {
                return owner.ended.do_send(unstarted(execution, Unstarted::Cancelled, 126));
            }
        };
        let child = Child { execution, owner, name: name.clone(), output, killed, failure };
        {
            let mut table = self.0.table.borrow_mut();
            table.live.insert(pid, child);
            table.pids.insert(execution, pid);
        }
        for signal in signals {
            let _ = self.signal(execution, signal);
        }
        self.0.settled.notify_one();
    }

    /// Forwards the output of a job as it comes, that of a health check when it has ended.
    fn forward(&self, pipes: Pipes, name: &Name, pid: Pid) -> [Option<ChildStream>; 2] {
        let label =
            Label { job: Arc::clone(&name.label), pid: u32::try_from(pid.number()).unwrap_or_default() };
        [pipes.stdout, pipes.stderr].map(|pipe| {
            let added = self.output().and_then(|output| output.add(pipe, label.clone()));
            let tell = |error: &io::Error| {
                slog::error!(self.0.log.logger(), "cannot read its output: {}", reason(error); "job" => &*label.job, "pid" => pid.number());
            };
            let stream = added.inspect_err(tell).ok();
            if let (Some(stream), None) = (&stream, &name.job) {
                stream.hold();
            }
            stream
        })
    }

    fn output(&self) -> io::Result<&ChildOutput> {
        if let Some(output) = self.0.output.get() {
            return Ok(output);
        }
        let output = ChildOutput::start(&self.0.log)?;
        Ok(self.0.output.get_or_init(|| output))
    }

    pub(super) fn log(&self) -> &Log {
        &self.0.log
    }

    /// Whether the log holds so much that it cannot take the output of another process. What one wrote before it
    /// ended is logged in any case, so nobody should start one that writes while this is so.
    pub fn log_is_flooded(&self) -> bool {
        self.0.log.sink().is_flooded()
    }

    /// Waits until the log can take more from children.
    pub fn log_room(&self) -> impl Future<Output = ()> + use<> {
        let sink = self.0.log.sink().clone();
        async move { sink.room().await }
    }

    /// Cancels a start that has no process yet, and tells its owner; false if there is nothing to cancel.
    pub(super) fn cancel(&self, execution: ExecutionId) -> bool {
        let cancelled = {
            let mut table = self.0.table.borrow_mut();
            if !table.starting.get(&execution).is_some_and(|starting| starting.progress.cancel()) {
                return false;
            }
            table.starting.remove(&execution)
        };
        if let Some(starting) = cancelled {
            starting.owner.ended.do_send(unstarted(execution, Unstarted::Cancelled, 126));
        }
        true
    }

    /// Asks an execution to end by a signal.
    pub(super) fn end(&self, execution: ExecutionId, signal: Signal) -> io::Result<()> {
        if let Some(starting) = self.0.table.borrow_mut().starting.get_mut(&execution) {
            starting.is_ending = true;
            if starting.is_slow || signal == Signal::KILL {
                self.kill_unstarted(starting);
                return Ok(());
            }
        }
        self.signal(execution, signal)?;
        // A stopped process acts on a signal only after SIGCONT.
        if signal == Signal::KILL { Ok(()) } else { self.signal(execution, Signal::CONT) }
    }

    /// Sends a signal to the processes of an execution, once its program runs.
    pub(super) fn signal(&self, execution: ExecutionId, signal: Signal) -> io::Result<()> {
        let mut table = self.0.table.borrow_mut();
        if let Some(starting) = table.starting.get_mut(&execution) {
            if !starting.signals.contains(&signal) {
                starting.signals.push(signal);
            }
            return Ok(());
        }
        if let Some(group) = table.swept.get(&execution).and_then(|remains| remains.group) {
            return self.0.kernel.signal_group(group, signal).map(drop);
        }
        let Some(pid) = table.pids.get(&execution).copied() else { return Ok(()) };
        let Some(child) = table.live.get_mut(&pid) else { return Ok(()) };
        child.killed |= signal == Signal::KILL;
        self.0.kernel.signal_group(pid, signal)?;
        // It is not reaped, so its number is its own.
        if self.0.kernel.group_of(pid).is_some_and(|group| group != pid) {
            self.0.kernel.signal_child(pid, signal);
        }
        Ok(())
    }

    /// Whether we have children left, those that the kernel gave us included.
    pub fn has_adopted(&self) -> bool {
        self.0.kernel.has_children()
    }

    /// Sends a signal to every child that we have, those that the kernel gave us included. False if it cannot be told
    /// who they are.
    pub fn signal_adopted(&self, signal: Signal) -> bool {
        self.0.kernel.signal_all_children(signal)
    }

    /// How many children live that were started here.
    pub fn len(&self) -> usize {
        self.0.table.borrow().live.len()
    }

    /// Whether no child lives that was started here.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn unstarted(execution: ExecutionId, reason: Unstarted, status: u8) -> ProcessEnded {
    ProcessEnded {
        execution,
        pid: None,
        status: ExitStatus::Code(status),
        unstarted: Some(reason),
        for_memory: false,
        daemons: vec![],
        leftover: false,
    }
}
