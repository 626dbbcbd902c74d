//! How the Reaper looks at children: which have ended, what is left of their groups, which orphans there are.

use std::collections::BTreeSet;
use std::io;

use actix::prelude::*;
use slog::error;

use super::Reaper;
use super::machine::{Input, Survey};
use crate::messages::process::{Orphan, Pid};
use crate::process::{Exited, Kernel};

/// Children reaped before other actors have their turn.
const PER_TURN: usize = 16;
/// Orphans that are reaped before our own children are looked at, if there are few of those.
const ORPHANS_AT_ONCE: usize = 4;
/// To reap an orphan takes about as long as to look at so many children, so that looking at most doubles the work.
const LOOKS_PER_ORPHAN: usize = 4;

impl Reaper {
    /// Reaps children that have ended, in this turn and, if there may be more, in the next.
    pub(super) fn reap(&mut self, ctx: &mut Context<Self>) {
        match self.reap_some(ctx) {
            Ok(false) => {}
            Ok(true) => self.reap_in_next_turn(ctx),
            Err(error) => error!(self.log.logger(), "cannot wait for children: {error}"),
        }
        if self.driver.machine().has_exited() {
            self.look(ctx);
        }
        if self.driver.machine().has_leftovers() {
            self.look(ctx);
        }
    }

    fn reap_in_next_turn(&mut self, ctx: &mut Context<Self>) {
        self.is_reaping = true;
        ctx.spawn(fut::wrap_future(tokio::task::yield_now()).map(|(), reaper: &mut Self, ctx| {
            reaper.is_reaping = false;
            reaper.reap(ctx);
        }));
    }

    /// Reaps at most [`PER_TURN`] children that have ended; true if there may be more.
    ///
    /// After so many orphans that it costs little beside them, our own children are looked at: none waits until
    /// thousands of others are reaped.
    fn reap_some(&mut self, ctx: &mut Context<Self>) -> io::Result<bool> {
        self.is_start_awaited = false;
        for _ in 0..PER_TURN {
            let enough = (self.driver.machine().running().len() / LOOKS_PER_ORPHAN).max(ORPHANS_AT_ONCE);
            if self.orphans_in_a_row >= enough {
                self.reap_our_own(ctx)?;
            }
            match self.kernel.peek_exited()? {
                // It stays a zombie until its start is settled, and may hide others from this look.
                Some(exited) if self.is_starting(exited.pid) => {
                    self.is_start_awaited = true;
                    self.reap_our_own(ctx)?;
                    return Ok(false);
                }
                Some(exited) => self.reap_one(exited, ctx)?,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// A child can end before the thread that started it has told us its number. The kernel writes that number into the
    /// start's progress before the child runs.
    fn is_starting(&self, pid: Pid) -> bool {
        self.starts.values().any(|progress| progress.pid() == Some(pid))
    }

    fn reap_our_own(&mut self, ctx: &mut Context<Self>) -> io::Result<()> {
        self.orphans_in_a_row = 0;
        let children: Vec<Pid> = self.driver.machine().running().keys().copied().collect();
        for child in children {
            if let Some(exited) = self.kernel.peek_at(child)? {
                self.reap_one(exited, ctx)?;
            }
        }
        Ok(())
    }

    /// While the child is a zombie its group is signalled; after that its number is free.
    fn reap_one(&mut self, exited: Exited, ctx: &mut Context<Self>) -> io::Result<()> {
        let Exited { pid, status } = exited;
        if !self.driver.machine().running().contains_key(&pid) {
            self.orphans_in_a_row += 1;
            self.orphans.remove(&pid);
        }
        let execution = self.driver.machine().running().get(&pid).copied();
        self.advance(Input::ChildExited(pid, status), ctx);
        let usage = self.kernel.reap(pid)?;
        if let Some(handles) = execution.and_then(|execution| self.handles.get_mut(&execution)) {
            handles.usage = usage.map(Box::new);
        }
        Ok(())
    }

    fn look(&mut self, ctx: &mut Context<Self>) {
        let has_member = |kernel: &dyn Kernel, group: &Pid| !kernel.group_is_empty(*group);
        let survey = self.survey(|kernel, groups| {
            groups.iter().copied().filter(|group| has_member(kernel, group)).collect()
        });
        self.advance(Input::Looked(survey), ctx);
    }

    /// The state of the kernel's processes, as the machine needs it.
    pub(super) fn survey(&mut self, with_members: impl Fn(&dyn Kernel, &[Pid]) -> BTreeSet<Pid>) -> Survey {
        let machine = self.driver.machine();
        let memory_kills = if machine.wants_memory_kills() { self.kernel.memory_kills() } else { None };
        let groups = with_members(&*self.kernel, &machine.groups());
        let orphans = if machine.wants_orphans() { self.list_orphans() } else { vec![] };
        Survey { groups, orphans, memory_kills }
    }

    /// The processes that the kernel gave us. One whose description is settled is not described again.
    fn list_orphans(&mut self) -> Vec<Orphan> {
        let mut pids = self.kernel.orphans();
        pids.retain(|pid| !self.driver.machine().running().contains_key(pid) && !self.is_starting(*pid));
        let orphans = pids.into_iter().map(|pid| {
            if let Some(orphan) = self.orphans.get(&pid) {
                return Orphan { group: self.kernel.group_of(pid), ..orphan.clone() };
            }
            let orphan = self.kernel.describe_orphan(pid);
            if self.driver.machine().is_settled(&orphan) {
                self.orphans.insert(pid, orphan.clone());
            }
            orphan
        });
        orphans.collect()
    }
}
