//! Starts: a few at a time, in the order of the requests. One that takes long, as on a file system that hangs, lets the
//! next begin beside it.

use std::mem;
use std::time::Duration;

use super::{Action, Child, Execution, Failure, Name, Stage, Start, StartOutcome, Starting, State};
use crate::actors::machine::Severity;
use crate::messages::process::{
    ExecutionId, ExitStatus, LONG_START, Pid, ProcessEnded, ProcessStarted, Unstarted,
};
use crate::messages::signal::Signal;

/// Starts that are handed over before the first of them is over: enough to keep the thread at work.
const AT_ONCE: usize = 8;
/// A start that takes longer does not keep others waiting.
pub const SLOW_AFTER: Duration = Duration::from_millis(100);
/// A start that takes so much longer is told in the log.
pub const TELL_AFTER: Duration = LONG_START;
/// The status of a shell for a command that was found and not executed.
const NOT_EXECUTED: u8 = 126;

impl State {
    pub(super) fn launch(&mut self, id: ExecutionId, name: Name) -> Vec<Action> {
        self.executions.insert(id, Execution { name, stage: Stage::Starting(Starting::default()) });
        self.queue.push_back(id);
        self.begin_starts()
    }

    fn begin_starts(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        while self.starts.values().filter(|start| !start.is_slow).count() < AT_ONCE {
            let Some(id) = self.take_next() else { break };
            let Some(execution) = self.executions.get(&id) else { continue };
            self.starts.insert(id, Start { label: execution.name.label.clone(), is_slow: false });
            actions.push(Action::Spawn(id));
        }
        actions
    }

    /// The first start that may begin. While one hangs, even if it was cancelled, the next of its label waits: otherwise
    /// each try would take another thread.
    fn take_next(&mut self) -> Option<ExecutionId> {
        let hangs = |label| self.starts.values().any(|start| start.is_slow && start.label == label);
        let label = |id: &ExecutionId| self.executions.get(id).map(|execution| execution.name.label.clone());
        let place = self.queue.iter().position(|id| !label(id).is_some_and(hangs))?;
        self.queue.remove(place)
    }

    pub(super) fn note_slow(&mut self, id: ExecutionId, pid: Option<Pid>) -> Vec<Action> {
        let Some(start) = self.starts.get_mut(&id) else { return Vec::new() };
        start.is_slow = true;
        let mut actions = Vec::new();
        if let Some(Stage::Starting(starting)) = self.stage_mut(id)
            && starting.is_ending
        {
            actions.extend(starting.kill(pid));
        }
        actions.push(Action::HelpSlowStarts);
        actions.extend(self.begin_starts());
        actions
    }

    pub(super) fn tell_hanging(&self, id: ExecutionId) -> Vec<Action> {
        let Some(start) = self.starts.get(&id) else { return Vec::new() };
        let text = format!(
            "is still being started after {} s: the file system of its program does not answer",
            TELL_AFTER.as_secs()
        );
        vec![Action::Log(Severity::Warning, Some(start.label.clone()), text)]
    }

    /// Takes note of what became of a start. One that was cancelled has no process, and its owner was told.
    pub(super) fn settle(&mut self, id: ExecutionId, outcome: StartOutcome) -> Vec<Action> {
        self.starts.remove(&id);
        let mut actions = match self.stage_mut(id) {
            Some(Stage::Starting(starting)) => {
                let starting = mem::take(starting);
                self.settle_start(id, starting, outcome)
            }
            Some(Stage::Running(_)) | None => Vec::new(),
        };
        actions.extend(self.begin_starts());
        actions
    }

    fn settle_start(&mut self, id: ExecutionId, starting: Starting, outcome: StartOutcome) -> Vec<Action> {
        let Starting { signals, killed, .. } = starting;
        match outcome {
            // execve(2) did not come to its end, though clone(2) cannot tell that from a success.
            StartOutcome::Started(pid) if killed => {
                let reason = "cannot execute its program: it was killed while it was being started";
                let failure = Failure { reason: reason.to_owned(), status: NOT_EXECUTED };
                self.run(id, Child { pid, killed, failure: Some(failure) });
                Vec::new()
            }
            StartOutcome::Started(pid) => {
                self.run(id, Child { pid, killed, failure: None });
                let mut actions = vec![Action::TellStarted(ProcessStarted { execution: id, pid })];
                actions.extend(signals.into_iter().filter_map(|signal| self.signal(id, signal)));
                actions
            }
            // Its process is told of when it is reaped, like any other.
            StartOutcome::Failed { failure, child: Some(pid) } => {
                self.run(id, Child { pid, killed, failure: Some(failure) });
                Vec::new()
            }
            StartOutcome::Failed { failure: Failure { reason, status }, child: None } => {
                vec![self.end_unstarted(id, Unstarted::Failed(reason), status)]
            }
            StartOutcome::Cancelled => vec![self.end_unstarted(id, Unstarted::Cancelled, NOT_EXECUTED)],
        }
    }

    fn run(&mut self, id: ExecutionId, child: Child) {
        self.running.insert(child.pid, id);
        if let Some(stage) = self.stage_mut(id) {
            *stage = Stage::Running(child);
        }
    }

    /// Asks an execution to end: one without a process is cancelled, one whose program does not run yet is killed, any
    /// other one gets the signal.
    pub(super) fn end(
        &mut self,
        id: ExecutionId,
        signal: Signal,
        is_cancelled: bool,
        pid: Option<Pid>,
    ) -> Vec<Action> {
        let start = self.starts.get(&id);
        let (is_queued, is_slow) = (start.is_none(), start.is_some_and(|start| start.is_slow));
        match self.stage_mut(id) {
            Some(Stage::Starting(_)) if is_queued || is_cancelled => {
                self.queue.retain(|queued| *queued != id);
                return vec![self.end_unstarted(id, Unstarted::Cancelled, NOT_EXECUTED)];
            }
            Some(Stage::Starting(starting)) => {
                starting.is_ending = true;
                if is_slow || signal == Signal::KILL {
                    return starting.kill(pid).into_iter().collect();
                }
            }
            Some(Stage::Running(_)) | None => {}
        }
        if let Some(leftover) = self.leftovers.get_mut(&id) {
            leftover.is_hurried |= signal == Signal::KILL;
        }
        // A stopped process acts on a signal only after SIGCONT.
        let wakes = (signal != Signal::KILL).then_some(Signal::CONT);
        [Some(signal), wakes].into_iter().flatten().filter_map(|signal| self.signal(id, signal)).collect()
    }

    fn end_unstarted(&mut self, id: ExecutionId, reason: Unstarted, status: u8) -> Action {
        self.executions.remove(&id);
        Action::TellEnded(ProcessEnded {
            execution: id,
            pid: None,
            status: ExitStatus::Code(status),
            unstarted: Some(reason),
            for_memory: false,
            daemons: vec![],
            leftover: false,
        })
    }

    fn stage_mut(&mut self, id: ExecutionId) -> Option<&mut Stage> {
        self.executions.get_mut(&id).map(|execution| &mut execution.stage)
    }
}

impl Starting {
    /// Its program does not run yet, so that there is nothing to end gently.
    fn kill(&mut self, pid: Option<Pid>) -> Option<Action> {
        let pid = pid?;
        self.killed = true;
        Some(Action::SignalProcess(pid, Signal::KILL))
    }
}
