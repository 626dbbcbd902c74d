//! How executions end: the owner is told of the exit, the rest of the process group is ended, and the owner is told that the
//! group is gone.

use std::mem;
use std::time::Duration;

use super::{Action, Child, Execution, Exited, Leftover, Name, Stage, State, Survey};
use crate::actors::machine::Severity;
use crate::messages::moment::Moment;
use crate::messages::process::{ExecutionId, ExitStatus, Orphan, Pid, ProcessEnded, Unstarted};
use crate::messages::signal::Signal;

/// How often what is left of a group is looked at: a member whose parent lives elsewhere ends silently.
const SWEEP_EVERY: Duration = Duration::from_millis(25);
/// How long the rest of a group has between SIGTERM and SIGKILL.
const SWEEP_GRACE: Duration = Duration::from_secs(1);
/// How long after SIGKILL a group is waited for: only a process stuck in the kernel survives that.
const GIVE_UP_AFTER: Duration = Duration::from_secs(3);

impl State {
    /// Whether a child has ended whose owner is not told yet: then a look is due.
    pub const fn has_exited(&self) -> bool {
        !self.exited.is_empty()
    }

    /// Whether something may be left of an execution: then a look is due whenever children were reaped.
    pub fn has_leftovers(&self) -> bool {
        !self.leftovers.is_empty()
    }

    /// The groups to look at.
    pub fn groups(&self) -> Vec<Pid> {
        let exited = self.exited.iter().map(|exited| exited.child.pid);
        exited.chain(self.leftovers.values().filter_map(|leftover| leftover.group)).collect()
    }

    /// Whether orphans may belong to an execution that has ended.
    pub fn wants_orphans(&self) -> bool {
        let mut names = self.exited.iter().map(|exited| &exited.name);
        let is_job = |name: &Name| name.job.is_some();
        names.any(is_job) || self.leftovers.values().any(|leftover| is_job(&leftover.name))
    }

    /// Whether a description of an orphan is final: it names a job, or an earlier one named none either.
    pub fn is_settled(&self, orphan: &Orphan) -> bool {
        !orphan.is_becoming && (orphan.job.is_some() || self.strangers.contains(&orphan.pid))
    }

    /// Whether a child was killed and not by us.
    pub fn wants_memory_kills(&self) -> bool {
        self.exited.iter().any(Exited::was_killed_by_another)
    }

    /// The leader is still a zombie: its number cannot belong to anybody else.
    pub(super) fn note_exit(&mut self, pid: Pid, status: ExitStatus) -> Vec<Action> {
        self.strangers.remove(&pid);
        let Some(id) = self.running.remove(&pid) else { return Vec::new() };
        let Some(Execution { name, stage: Stage::Running(child) }) = self.executions.remove(&id) else {
            return Vec::new();
        };
        self.exited.push(Exited { execution: id, name, child, status });
        let mut actions = vec![Action::DrainOutput(id, status)];
        actions.extend([Signal::TERM, Signal::CONT].map(|signal| Action::SignalGroup(pid, signal)));
        actions
    }

    pub(super) fn look(&mut self, now: Moment, mut survey: Survey) -> Vec<Action> {
        self.doubt_strangers(&mut survey);
        self.leave_out_members(&mut survey);
        self.forget_empty_groups(&survey);
        let mut actions = self.tell_gone(now, &survey);
        for exited in mem::take(&mut self.exited) {
            actions.extend(self.tell_ended(now, exited, &survey));
        }
        actions.extend(self.sweep_later());
        actions
    }

    /// Leaves out orphans in the group of an execution that runs: those are its own, unless they name another job.
    fn leave_out_members(&self, survey: &mut Survey) {
        let runs = |orphan: &Orphan| orphan.group.is_some_and(|group| self.running.contains_key(&group));
        survey.orphans.retain(|orphan| orphan.job.is_some() || !runs(orphan));
    }

    /// An orphan that seems to be nobody's is looked at twice. Its execve(2) may have ended after its environment was read,
    /// which was still empty, and before its arguments were; the next description names its job.
    fn doubt_strangers(&mut self, survey: &mut Survey) {
        for orphan in survey.orphans.iter_mut().filter(|orphan| orphan.job.is_none() && !orphan.is_becoming) {
            orphan.is_becoming = self.strangers.insert(orphan.pid);
        }
    }

    fn tell_ended(&mut self, now: Moment, exited: Exited, survey: &Survey) -> Vec<Action> {
        let for_memory =
            exited.was_killed_by_another() && self.memory_kills.explain(now, survey.memory_kills);
        let status = exited.status();
        let Exited { execution, name, child: Child { pid, failure, .. }, .. } = exited;
        let is_outside = |orphan: &&Orphan| orphan.group.is_some_and(|group| group != pid);
        let daemons: Vec<&Orphan> =
            survey.orphans.iter().filter(|orphan| name.owns(orphan)).filter(is_outside).collect();
        let mut actions: Vec<Action> = daemons.iter().flat_map(|daemon| ask_to_end(daemon.pid)).collect();
        let group = survey.groups.contains(&pid).then_some(pid);
        // The owner of an orphan that is in execve(2) is not known now; the next look finds it.
        let are_becoming = name.job.is_some() && survey.orphans.iter().any(|orphan| orphan.is_becoming);
        let leftover = group.is_some() || !daemons.is_empty() || are_becoming;
        if leftover {
            self.leftovers
                .insert(execution, Leftover { name, group, since: now, is_hurried: false, killed: None });
        }
        actions.push(Action::TellEnded(ProcessEnded {
            execution,
            pid: Some(pid),
            status,
            unstarted: failure.map(|failure| Unstarted::Failed(failure.reason)),
            for_memory,
            daemons: names(&daemons),
            leftover,
        }));
        actions
    }

    /// Ends what is left of executions whose main process ended.
    pub(super) fn sweep(&mut self, now: Moment, mut survey: Survey) -> Vec<Action> {
        self.is_sweeping = false;
        self.doubt_strangers(&mut survey);
        self.leave_out_members(&mut survey);
        self.forget_empty_groups(&survey);
        let press = |leftover: &mut Leftover| leftover.press(now, &survey.orphans);
        let mut actions: Vec<Action> = self.leftovers.values_mut().flat_map(press).collect();
        actions.extend(self.tell_gone(now, &survey));
        actions.extend(self.sweep_later());
        actions
    }

    fn sweep_later(&mut self) -> Option<Action> {
        if self.is_sweeping || self.leftovers.is_empty() {
            return None;
        }
        self.is_sweeping = true;
        Some(Action::SweepAfter(SWEEP_EVERY))
    }

    /// The number of a group without members may be given to another one.
    fn forget_empty_groups(&mut self, survey: &Survey) {
        for leftover in self.leftovers.values_mut() {
            leftover.group = leftover.group.filter(|group| survey.groups.contains(group));
        }
    }

    pub(super) fn forget_group(&mut self, id: ExecutionId) -> Vec<Action> {
        if let Some(leftover) = self.leftovers.get_mut(&id) {
            leftover.group = None;
        }
        Vec::new()
    }

    /// Tells the owners of executions of which nothing is left, or nothing that even SIGKILL ends.
    fn tell_gone(&mut self, now: Moment, survey: &Survey) -> Vec<Action> {
        let mut actions = Vec::new();
        self.leftovers.retain(|id, Leftover { name, group, killed, .. }| {
            // An orphan whose owner is not known yet may belong to this execution.
            let may_own = |orphan: &Orphan| name.owns(orphan) || (name.job.is_some() && orphan.is_becoming);
            let is_over = group.is_none() && !survey.orphans.iter().any(may_own);
            let is_hopeless = killed.is_some_and(|killed| now.since(killed) >= GIVE_UP_AFTER);
            if is_hopeless && !is_over {
                let text = "a process of it does not die: it is left alone".to_owned();
                actions.push(Action::Log(Severity::Error, Some(name.label.clone()), text));
            }
            if is_over || is_hopeless {
                actions.push(Action::TellGone(*id));
            }
            !(is_over || is_hopeless)
        });
        actions
    }
}

impl Exited {
    fn was_killed_by_another(&self) -> bool {
        !self.child.killed && self.status().tells_of_sigkill()
    }

    /// How it ended; if the program was never executed, what a shell would tell.
    fn status(&self) -> ExitStatus {
        self.child.failure.as_ref().map_or(self.status, |failure| ExitStatus::Code(failure.status))
    }
}

impl Leftover {
    /// Asks what came to light late to end, and kills what had its time.
    fn press(&mut self, now: Moment, orphans: &[Orphan]) -> Vec<Action> {
        let is_late = self.is_hurried || now.since(self.since) >= SWEEP_GRACE;
        let mut actions = Vec::new();
        if is_late && self.killed.is_none() {
            self.killed = Some(now);
            actions.extend(self.group.map(|group| Action::SignalGroup(group, Signal::KILL)));
        }
        // Each pass again: one that dies may leave us its children.
        for orphan in orphans.iter().filter(|orphan| self.name.owns(orphan)) {
            if is_late {
                actions.push(Action::SignalProcess(orphan.pid, Signal::KILL));
            } else {
                actions.extend(ask_to_end(orphan.pid));
            }
        }
        actions
    }
}

/// A process that is stopped acts on SIGTERM only after SIGCONT.
fn ask_to_end(orphan: Pid) -> [Action; 2] {
    [Signal::TERM, Signal::CONT].map(|signal| Action::SignalProcess(orphan, signal))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_daemons_are_named_and_more_are_counted() {
        let daemon = |number: i32| Orphan {
            pid: Pid::new(number).unwrap(),
            group: None,
            program: "d".to_owned(),
            job: None,
            has_environment: false,
            is_becoming: false,
        };
        let daemons: Vec<Orphan> = (1..=5).map(daemon).collect();
        let told = |number: usize| names(&daemons.iter().take(number).collect::<Vec<_>>()).join(", ");
        assert_eq!(told(3), "d (pid 1), d (pid 2), d (pid 3)");
        assert_eq!(told(5), "d (pid 1), d (pid 2), d (pid 3), 2 more");
    }
}
