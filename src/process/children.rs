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
use std::time::Duration;

use actix::prelude::Recipient;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::memory::MemoryKills;
use super::{Deaths, Exited, Kernel, Launch, Orphan, Pipes, Progress, SpawnError, SpawnOutcome, Spawning};
use crate::logging::{ChildOutput, ChildStream, Label, Log};
use crate::messages::process::{
    ExecutionId, ExitStatus, GroupGone, Pid, ProcessEnded, ProcessStarted, Unstarted,
};
use crate::messages::signal::Signal;
use crate::reason::reason;

/// How long the rest of a group has between SIGTERM and SIGKILL.
pub const SWEEP_GRACE: Duration = Duration::from_secs(1);
/// How long after SIGKILL a group is waited for: only a process stuck in the kernel survives that.
const GIVE_UP_AFTER: Duration = Duration::from_secs(3);

/// Orphans that are reaped before our own children are looked at, if there are few of those.
const ORPHANS_AT_ONCE: usize = 4;
/// To reap an orphan takes about as long as to look at so many children, so that looking at most doubles the work.
const LOOKS_PER_ORPHAN: usize = 4;

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
    swept: HashMap<Pid, Remains>,
    /// Reaped since our own children were last looked at: processes that the kernel gave us.
    orphans: usize,
}

/// A start under way.
struct Starting {
    owner: Owner,
    progress: Arc<Progress>,
    /// Signals to be sent once the program runs: a signal before that could dump our memory instead of its own.
    signals: Vec<Signal>,
    killed: bool,
}

struct Child {
    execution: ExecutionId,
    owner: Owner,
    /// The job that its orphans are known by; `None` for a health check.
    job: Option<Arc<str>>,
    /// Its stdout and stderr, where they can be read.
    output: [Option<ChildStream>; 2],
    /// Whether we sent it SIGKILL.
    killed: bool,
    /// Why it did not become its program.
    failure: Option<SpawnError>,
}

/// An execution whose main process ended while others of it were left.
struct Remains {
    execution: ExecutionId,
    owner: Owner,
    job: Option<Arc<str>>,
    since: Instant,
    /// When it got SIGKILL.
    killed: Option<Instant>,
}

/// Whose output a process writes, and which job it belongs to.
#[derive(Clone)]
pub(super) struct Name {
    /// The name that its output is logged under.
    pub(super) label: Arc<str>,
    /// The job, unless it is a health check.
    pub(super) job: Option<Arc<str>>,
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
        let starting = Starting { owner, progress, signals: vec![], killed: false };
        self.0.table.borrow_mut().starting.insert(execution, starting);
        outcome
    }

    /// Says that a start takes long.
    pub(super) fn help_slow_starts(&self) {
        self.0.kernel.help_slow_starts();
    }

    /// Takes note of what became of a start, and tells its owner.
    pub(super) fn settle(&self, execution: ExecutionId, name: &Name, outcome: SpawnOutcome) {
        let starting = self.0.table.borrow_mut().starting.remove(&execution);
        // One that was cancelled has no process, and its owner was told.
        let Some(Starting { owner, signals, killed, .. }) = starting else { return };
        let (pid, output, failure) = match outcome {
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
        let child = Child { execution, owner, job: name.job.clone(), output, killed, failure };
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

    /// Sends a signal to the processes of an execution. While its program is not running yet, SIGKILL acts at once and
    /// any other signal waits until it is.
    pub(super) fn signal(&self, execution: ExecutionId, signal: Signal) -> io::Result<()> {
        let mut table = self.0.table.borrow_mut();
        if let Some(starting) = table.starting.get_mut(&execution) {
            match starting.progress.pid() {
                Some(pid) if signal == Signal::KILL => {
                    starting.killed = true;
                    self.0.kernel.signal_child(pid, signal);
                }
                Some(_) | None if !starting.signals.contains(&signal) => starting.signals.push(signal),
                Some(_) | None => {}
            }
            return Ok(());
        }
        let Some(pid) = table.pids.get(&execution).copied() else { return Ok(()) };
        let Some(child) = table.live.get_mut(&pid) else {
            return self.0.kernel.signal_group(pid, signal).map(drop);
        };
        child.killed |= signal == Signal::KILL;
        self.0.kernel.signal_group(pid, signal)?;
        // It is not reaped, so its number is its own.
        if self.0.kernel.has_left_its_group(pid) {
            self.0.kernel.signal_child(pid, signal);
        }
        Ok(())
    }

    /// Reaps at most `limit` children that have ended and tells their owners; true if there may be more.
    ///
    /// After so many orphans that it costs little beside them, our own children are looked at: none waits until
    /// thousands of others are reaped.
    pub fn reap(&self, limit: usize) -> io::Result<bool> {
        let mut ended = Vec::new();
        let reaped = self.reap_into(&mut ended, limit);
        self.tell_owners(ended);
        reaped
    }

    fn reap_into(&self, ended: &mut Vec<Ended>, limit: usize) -> io::Result<bool> {
        for _ in 0..limit {
            if self.is_time_for_our_own() {
                self.reap_our_own(ended)?;
            }
            match self.0.kernel.peek_exited()? {
                // Its start is about to be settled, and wakes us then.
                Some(exited) if self.is_starting(exited.pid) => return Ok(false),
                Some(exited) => ended.extend(self.collect(exited)?),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn is_starting(&self, pid: Pid) -> bool {
        let table = self.0.table.borrow();
        table.starting.values().any(|starting| starting.progress.pid() == Some(pid))
    }

    fn is_time_for_our_own(&self) -> bool {
        let table = self.0.table.borrow();
        table.orphans >= (table.live.len() / LOOKS_PER_ORPHAN).max(ORPHANS_AT_ONCE)
    }

    fn reap_our_own(&self, ended: &mut Vec<Ended>) -> io::Result<()> {
        self.0.table.borrow_mut().orphans = 0;
        let children: Vec<Pid> = self.0.table.borrow().live.keys().copied().collect();
        for child in children {
            if let Some(exited) = self.0.kernel.peek_at(child)? {
                ended.extend(self.collect(exited)?);
            }
        }
        Ok(())
    }

    fn collect(&self, exited: Exited) -> io::Result<Option<Ended>> {
        let child = self.0.table.borrow_mut().live.remove(&exited.pid);
        let Some(child) = child else {
            self.0.table.borrow_mut().orphans += 1;
            self.0.kernel.reap(exited.pid)?;
            return Ok(None);
        };
        for stream in child.output.iter().flatten() {
            stream.drain();
            stream.release(exited.status.is_success());
        }
        // The leader is still a zombie: its number cannot belong to anybody else.
        let _ = self.0.kernel.signal_group(exited.pid, Signal::TERM);
        let _ = self.0.kernel.signal_group(exited.pid, Signal::CONT);
        self.0.kernel.reap(exited.pid)?;
        Ok(Some(Ended { exited, child }))
    }

    fn tell_owners(&self, ended: Vec<Ended>) {
        if ended.is_empty() {
            return;
        }
        let orphans = if ended.iter().any(|ended| ended.child.job.is_some()) {
            self.0.kernel.orphans()
        } else {
            vec![]
        };
        for Ended { exited: Exited { pid, status }, child } in ended {
            let Child { execution, owner, job, killed, failure, .. } = child;
            let daemons: Vec<&Orphan> = orphans_of(&orphans, job.as_ref())
                .filter(|orphan| orphan.group.is_some_and(|group| group != pid))
                .collect();
            for daemon in &daemons {
                self.ask_to_end(daemon.pid);
            }
            let leftover = !daemons.is_empty() || !self.0.kernel.group_is_empty(pid);
            if leftover {
                let remains =
                    Remains { execution, owner: owner.clone(), job, since: Instant::now(), killed: None };
                self.0.table.borrow_mut().swept.insert(pid, remains);
            } else {
                self.0.table.borrow_mut().pids.remove(&execution);
            }
            let daemons =
                daemons.iter().map(|daemon| format!("{} (pid {})", daemon.program, daemon.pid)).collect();
            let status = failure.as_ref().map_or(status, |failure| ExitStatus::Code(failure.shell_code()));
            let unstarted = failure.map(|failure| Unstarted::Failed(failure.to_string()));
            let for_memory = !killed && status.tells_of_sigkill() && self.memory_ran_out();
            owner.ended.do_send(ProcessEnded {
                execution,
                pid: Some(pid),
                status,
                unstarted,
                for_memory,
                daemons,
                leftover,
            });
        }
    }

    /// A process that is stopped acts on SIGTERM only after SIGCONT.
    fn ask_to_end(&self, orphan: Pid) {
        self.0.kernel.signal_child(orphan, Signal::TERM);
        self.0.kernel.signal_child(orphan, Signal::CONT);
    }

    /// Whether memory ran out: asked only about a SIGKILL that we did not send.
    fn memory_ran_out(&self) -> bool {
        let mut memory = self.0.memory.borrow_mut();
        memory.as_mut().is_some_and(|memory| memory.explain(self.0.kernel.memory_kills()))
    }

    /// Tells the owners of executions of which not even a zombie is left. True while some have remains.
    pub fn note_empty_groups(&self) -> bool {
        if self.0.table.borrow().swept.is_empty() {
            return false;
        }
        let orphans = self.0.kernel.orphans();
        let is_gone = |group: &Pid, remains: &Remains| {
            self.0.kernel.group_is_empty(*group)
                && orphans_of(&orphans, remains.job.as_ref()).next().is_none()
        };
        self.forget_where(is_gone);
        !self.0.table.borrow().swept.is_empty()
    }

    /// Ends what is left of executions whose main process ended, and tells the owners of those of which nothing runs
    /// any more. True while something is left, and so should be looked at again soon.
    pub fn sweep(&self) -> bool {
        let groups: Vec<Pid> = self.0.table.borrow().swept.keys().copied().collect();
        let living = self.0.kernel.living_groups(&groups);
        let orphans = self.0.kernel.orphans();
        for group in &groups {
            self.kill_if_due(*group, &orphans);
        }
        self.forget_where(|group, remains| {
            let is_over =
                !living.contains(group) && orphans_of(&orphans, remains.job.as_ref()).next().is_none();
            is_over || remains.killed.is_some_and(|killed| killed.elapsed() >= GIVE_UP_AFTER)
        });
        !self.0.table.borrow().swept.is_empty()
    }

    /// Kills what had its time to end.
    fn kill_if_due(&self, group: Pid, orphans: &[Orphan]) {
        let mut table = self.0.table.borrow_mut();
        let Some(remains) = table.swept.get_mut(&group) else { return };
        if remains.since.elapsed() < SWEEP_GRACE {
            return;
        }
        match remains.killed {
            None => {
                remains.killed = Some(Instant::now());
                let _ = self.0.kernel.signal_group(group, Signal::KILL);
            }
            Some(killed) if killed.elapsed() >= GIVE_UP_AFTER => {
                let log = self.0.log.logger();
                slog::error!(log, "a process of the ended group {group} does not die: it is left alone");
            }
            Some(_) => {}
        }
        // Each pass again: one that dies may leave us its children.
        for orphan in orphans_of(orphans, remains.job.as_ref()) {
            self.0.kernel.signal_child(orphan.pid, Signal::KILL);
        }
    }

    fn forget_where(&self, is_gone: impl Fn(&Pid, &Remains) -> bool) {
        let gone: Vec<(Pid, Remains)> =
            self.0.table.borrow_mut().swept.extract_if(|group, remains| is_gone(group, remains)).collect();
        for (_, remains) in gone {
            self.0.table.borrow_mut().pids.remove(&remains.execution);
            remains.owner.gone.do_send(GroupGone(remains.execution));
        }
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

/// A child that was reaped and whose owner is to be told.
struct Ended {
    exited: Exited,
    child: Child,
}

fn orphans_of<'a>(orphans: &'a [Orphan], job: Option<&Arc<str>>) -> impl Iterator<Item = &'a Orphan> {
    orphans
        .iter()
        .filter(move |orphan| orphan.job.as_deref().zip(job).is_some_and(|(named, job)| named == &**job))
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
