//! How children end: they are reaped, their owners are told, and what is left of an execution is ended before its owner
//! hears that nothing is.

use std::io;
use std::time::Duration;

use tokio::time::Instant;

use super::{Child, Children, Remains, Table};
use crate::messages::process::{ExecutionId, ExitStatus, GroupGone, Pid, ProcessEnded, Unstarted};
use crate::messages::signal::Signal;
use crate::process::{Exited, Orphan};

/// How long the rest of a group has between SIGTERM and SIGKILL.
const SWEEP_GRACE: Duration = Duration::from_secs(1);
/// How long after SIGKILL a group is waited for: only a process stuck in the kernel survives that.
const GIVE_UP_AFTER: Duration = Duration::from_secs(3);

/// Orphans that are reaped before our own children are looked at, if there are few of those.
const ORPHANS_AT_ONCE: usize = 4;
/// To reap an orphan takes about as long as to look at so many children, so that looking at most doubles the work.
const LOOKS_PER_ORPHAN: usize = 4;

impl Children {
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
                // Its start is about to be settled, and wakes us then. It may hide others from this look.
                Some(exited) if self.is_starting(exited.pid) => {
                    self.reap_our_own(ended)?;
                    return Ok(false);
                }
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
            let mut table = self.0.table.borrow_mut();
            table.orphans += 1;
            table.known.remove(&exited.pid);
            drop(table);
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
        let orphans =
            if ended.iter().any(|ended| ended.child.name.job.is_some()) { self.orphans() } else { vec![] };
        let are_becoming = orphans.iter().any(|orphan| orphan.is_becoming);
        for Ended { exited: Exited { pid, status }, child } in ended {
            let Child { execution, owner, name, killed, failure, .. } = child;
            let daemons: Vec<&Orphan> = orphans
                .iter()
                .filter(|orphan| name.owns(orphan))
                .filter(|orphan| self.0.kernel.group_of(orphan.pid).is_some_and(|group| group != pid))
                .collect();
            for daemon in &daemons {
                self.ask_to_end(daemon.pid);
            }
            let group = (!self.0.kernel.group_is_empty(pid)).then_some(pid);
            // One that cannot be told yet whose it is can be at the next look.
            let leftover = group.is_some() || !daemons.is_empty() || (are_becoming && name.job.is_some());
            self.0.table.borrow_mut().pids.remove(&execution);
            if leftover {
                let (owner, name) = (owner.clone(), name.clone());
                let remains = Remains { owner, name, group, since: Instant::now(), killed: None };
                self.0.table.borrow_mut().swept.insert(execution, remains);
            }
            let status = failure.as_ref().map_or(status, |failure| ExitStatus::Code(failure.shell_code()));
            let unstarted = failure.map(|failure| Unstarted::Failed(failure.to_string()));
            let for_memory = !killed && status.tells_of_sigkill() && self.memory_ran_out();
            owner.ended.do_send(ProcessEnded {
                execution,
                pid: Some(pid),
                status,
                unstarted,
                for_memory,
                daemons: names(&daemons),
                leftover,
            });
        }
    }

    /// The processes that the kernel gave us; what was found out of each before is not asked for again.
    fn orphans(&self) -> Vec<Orphan> {
        let pids = self.0.kernel.orphans();
        let mut table = self.0.table.borrow_mut();
        let Table { known, live, .. } = &mut *table;
        let orphans = pids.into_iter().filter(|pid| !live.contains_key(pid)).map(|pid| {
            if let Some(orphan) = known.get(&pid) {
                return orphan.clone();
            }
            let orphan = self.0.kernel.describe_orphan(pid);
            if !orphan.is_becoming {
                known.insert(pid, orphan.clone());
            }
            orphan
        });
        orphans.collect()
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
        self.forget_empty_groups(|group| !self.0.kernel.group_is_empty(group));
        let orphans = self.orphans();
        self.forget_where(&orphans);
        !self.0.table.borrow().swept.is_empty()
    }

    /// Ends what is left of executions whose main process ended, and tells the owners of those of which nothing runs
    /// any more. True while something is left, and so should be looked at again soon.
    pub fn sweep(&self) -> bool {
        let groups: Vec<Pid> =
            self.0.table.borrow().swept.values().filter_map(|remains| remains.group).collect();
        let living = self.0.kernel.living_groups(&groups);
        self.forget_empty_groups(|group| living.contains(&group));
        let orphans = self.orphans();
        for remains in self.0.table.borrow_mut().swept.values_mut() {
            self.press(remains, &orphans);
        }
        self.forget_where(&orphans);
        !self.0.table.borrow().swept.is_empty()
    }

    /// The number of a group without members may be given to another one.
    fn forget_empty_groups(&self, has_members: impl Fn(Pid) -> bool) {
        for remains in self.0.table.borrow_mut().swept.values_mut() {
            remains.group = remains.group.filter(|group| has_members(*group));
        }
    }

    /// Asks what came to light late to end, and kills what had its time.
    fn press(&self, remains: &mut Remains, orphans: &[Orphan]) {
        let is_late = remains.since.elapsed() >= SWEEP_GRACE;
        if is_late && remains.killed.is_none() {
            remains.killed = Some(Instant::now());
            if let Some(group) = remains.group {
                let _ = self.0.kernel.signal_group(group, Signal::KILL);
            }
        }
        // Each pass again: one that dies may leave us its children.
        for orphan in orphans.iter().filter(|orphan| remains.name.owns(orphan)) {
            if is_late {
                self.0.kernel.signal_child(orphan.pid, Signal::KILL);
            } else {
                self.ask_to_end(orphan.pid);
            }
        }
    }

    /// Tells the owners of executions of which nothing is left, or nothing that even SIGKILL ends.
    fn forget_where(&self, orphans: &[Orphan]) {
        let is_gone = |remains: &Remains| {
            let is_over = remains.group.is_none() && !orphans.iter().any(|orphan| remains.name.owns(orphan));
            let is_hopeless = remains.killed.is_some_and(|killed| killed.elapsed() >= GIVE_UP_AFTER);
            if is_hopeless && !is_over {
                let log = self.0.log.logger();
                slog::error!(log, "a process of it does not die: it is left alone"; "job" => &*remains.name.label);
            }
            is_over || is_hopeless
        };
        let gone: Vec<(ExecutionId, Remains)> =
            self.0.table.borrow_mut().swept.extract_if(|_, remains| is_gone(remains)).collect();
        for (execution, remains) in gone {
            remains.owner.gone.do_send(GroupGone(execution));
        }
    }
}

/// A child that was reaped and whose owner is to be told.
struct Ended {
    exited: Exited,
    child: Child,
}

/// Their names, for people: a few of them.
fn names(daemons: &[&Orphan]) -> Vec<String> {
    const TOLD: usize = 3;
    let name = |daemon: &&Orphan| format!("{} (pid {})", daemon.program, daemon.pid);
    let mut names: Vec<String> = daemons.iter().take(TOLD).map(name).collect();
    if daemons.len() > TOLD {
        names.push(format!("{} more", daemons.len() - TOLD));
    }
    names
}
