//! The table of live children: who is told about each, and what is left of the groups of those that ended.
//!
//! Spawning and the entry into the table are one synchronous call, so that no exit can come in between.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::Recipient;
use tokio::time::Instant;

use super::memory::MemoryKills;
use super::{Deaths, Exited, Kernel, Launch, Pipes, SpawnError};
use crate::logging::{ChildOutput, ChildStream, Label, Log};
use crate::messages::process::{ExitStatus, GroupGone, Pid, ProcessEnded};
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

/// Who is told about a process.
#[derive(Clone)]
pub struct Owner {
    /// Told how it ended.
    pub ended: Recipient<ProcessEnded>,
    /// Told when nothing of its group is left.
    pub gone: Recipient<GroupGone>,
}

/// All live children of the program, shared by those who start them and the Reaper.
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
}

#[derive(Default)]
struct Table {
    live: HashMap<Pid, Child>,
    swept: HashMap<Pid, Remains>,
    /// Reaped since our own children were last looked at: processes that the kernel gave us.
    orphans: usize,
}

struct Child {
    owner: Owner,
    /// Its stdout and stderr, where they can be read.
    output: [Option<ChildStream>; 2],
    /// Whether we sent it SIGKILL.
    killed: bool,
}

/// A group whose leader ended.
struct Remains {
    owner: Owner,
    since: Instant,
    /// When it got SIGKILL.
    killed: Option<Instant>,
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
        }))
    }

    /// Wakes whenever children may have ended.
    pub fn deaths(&self) -> io::Result<Deaths> {
        self.0.kernel.deaths()
    }

    /// Starts a process for `owner`, its output logged under `name`.
    pub fn spawn(&self, launch: &Launch<'_>, name: &Arc<str>, owner: Owner) -> Result<Pid, SpawnError> {
        let spawned = self.0.kernel.spawn(launch)?;
        let count = || MemoryKills::new(self.0.kernel.memory_kills());
        self.0.memory.borrow_mut().get_or_insert_with(count);
        let output = spawned.pipes.map(|pipes| self.forward(pipes, name, spawned.pid)).unwrap_or_default();
        self.0.table.borrow_mut().live.insert(spawned.pid, Child { owner, output, killed: false });
        Ok(spawned.pid)
    }

    fn forward(&self, pipes: Pipes, name: &Arc<str>, pid: Pid) -> [Option<ChildStream>; 2] {
        let label = Label { job: Arc::clone(name), pid: u32::try_from(pid.number()).unwrap_or_default() };
        [pipes.stdout, pipes.stderr].map(|pipe| {
            let added = self.output().and_then(|output| output.add(pipe, label.clone()));
            let tell = |error: &io::Error| {
                slog::error!(self.0.log.logger(), "cannot read its output: {}", reason(error); "job" => &**name, "pid" => pid.number());
            };
            added.inspect_err(tell).ok()
        })
    }

    fn output(&self) -> io::Result<&ChildOutput> {
        if let Some(output) = self.0.output.get() {
            return Ok(output);
        }
        let output = ChildOutput::start(&self.0.log)?;
        Ok(self.0.output.get_or_init(|| output))
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

    /// Sends a signal to the group of a child that is known to live, or to what is left of it.
    pub fn signal(&self, group: Pid, signal: Signal) -> io::Result<()> {
        let mut table = self.0.table.borrow_mut();
        let child = table.live.get_mut(&group);
        let leads = child.is_some();
        if let Some(child) = child {
            child.killed |= signal == Signal::KILL;
        }
        if leads || table.swept.contains_key(&group) {
            self.0.kernel.signal_group(group, signal)?;
        }
        Ok(())
    }

    /// Reaps at most `limit` children that have ended and tells their owners; true if there may be more.
    ///
    /// After so many orphans that it costs little beside them, our own children are looked at: none waits until
    /// thousands of others are reaped.
    pub fn reap(&self, limit: usize) -> io::Result<bool> {
        for _ in 0..limit {
            if self.is_time_for_our_own() {
                self.reap_our_own()?;
            }
            match self.0.kernel.peek_exited()? {
                Some(exited) => self.collect(exited)?,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn is_time_for_our_own(&self) -> bool {
        let table = self.0.table.borrow();
        table.orphans >= (table.live.len() / LOOKS_PER_ORPHAN).max(ORPHANS_AT_ONCE)
    }

    fn reap_our_own(&self) -> io::Result<()> {
        self.0.table.borrow_mut().orphans = 0;
        let children: Vec<Pid> = self.0.table.borrow().live.keys().copied().collect();
        for child in children {
            if let Some(exited) = self.0.kernel.peek_at(child)? {
                self.collect(exited)?;
            }
        }
        Ok(())
    }

    fn collect(&self, exited: Exited) -> io::Result<()> {
        let child = self.0.table.borrow_mut().live.remove(&exited.pid);
        let Some(child) = child else {
            self.0.table.borrow_mut().orphans += 1;
            return self.0.kernel.reap(exited.pid);
        };
        let failure = self.0.kernel.start_failure(exited.pid);
        for stream in child.output.iter().flatten() {
            stream.drain();
        }
        // The leader is still a zombie: its number cannot belong to anybody else.
        let _ = self.0.kernel.signal_group(exited.pid, Signal::TERM);
        self.0.kernel.reap(exited.pid)?;
        let leftover = !self.0.kernel.group_is_empty(exited.pid);
        if leftover {
            let remains = Remains { owner: child.owner.clone(), since: Instant::now(), killed: None };
            self.0.table.borrow_mut().swept.insert(exited.pid, remains);
        }
        let Exited { pid, status } = exited;
        let status = failure.as_ref().map_or(status, |failure| ExitStatus::Code(failure.shell_code()));
        let unstarted = failure.map(|failure| failure.to_string());
        let for_memory = !child.killed && status.tells_of_sigkill() && self.memory_ran_out();
        child.owner.ended.do_send(ProcessEnded { pid, status, unstarted, for_memory, leftover });
        Ok(())
    }

    /// Whether memory ran out: asked only about a SIGKILL that we did not send.
    fn memory_ran_out(&self) -> bool {
        let mut memory = self.0.memory.borrow_mut();
        memory.as_mut().is_some_and(|memory| memory.explain(self.0.kernel.memory_kills()))
    }

    /// Tells the owners of groups of which not even a zombie is left. True while some group is left.
    pub fn note_empty_groups(&self) -> bool {
        let groups = self.remains();
        for group in groups.into_iter().filter(|group| self.0.kernel.group_is_empty(*group)) {
            self.forget(group);
        }
        !self.0.table.borrow().swept.is_empty()
    }

    /// Ends what is left of groups whose leader ended, and tells the owners of those of which nothing runs any
    /// more. True while some group is left, and so should be looked at again soon.
    pub fn sweep(&self) -> bool {
        let groups = self.remains();
        let living = self.0.kernel.living_groups(&groups);
        for group in groups {
            if !living.contains(&group) || self.is_hopeless(group) {
                self.forget(group);
            }
        }
        !self.0.table.borrow().swept.is_empty()
    }

    fn remains(&self) -> Vec<Pid> {
        self.0.table.borrow().swept.keys().copied().collect()
    }

    /// Kills what had its time to end; true if not even that helped.
    fn is_hopeless(&self, group: Pid) -> bool {
        let mut table = self.0.table.borrow_mut();
        let Some(remains) = table.swept.get_mut(&group) else { return false };
        match remains.killed {
            None if remains.since.elapsed() >= SWEEP_GRACE => {
                remains.killed = Some(Instant::now());
                let _ = self.0.kernel.signal_group(group, Signal::KILL);
                false
            }
            Some(killed) if killed.elapsed() >= GIVE_UP_AFTER => {
                let log = self.0.log.logger();
                slog::error!(log, "a process of the ended group {group} does not die: it is left alone");
                true
            }
            None | Some(_) => false,
        }
    }

    fn forget(&self, group: Pid) {
        if let Some(remains) = self.0.table.borrow_mut().swept.remove(&group) {
            remains.owner.gone.do_send(GroupGone(group));
        }
    }

    /// Whether we have children left, those that the kernel gave us included.
    pub fn has_adopted(&self) -> bool {
        self.0.kernel.has_children()
    }

    /// Sends a signal to every child that we have, those that the kernel gave us included.
    pub fn signal_adopted(&self, signal: Signal) {
        for child in self.0.kernel.children() {
            self.0.kernel.signal_child(child, signal);
        }
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
