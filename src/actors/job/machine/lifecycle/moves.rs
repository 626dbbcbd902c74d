//! The moves that several phases share.

use std::time::Duration;

use super::{Action, Afterwards, Cadence, Ended, Next, Policy, Process, State, Timer};
use crate::config::spec::{Limit, backoff};
use crate::messages::event::EventCode;
use crate::messages::job::Phase;

pub(super) fn stay(state: State) -> Next {
    (state, vec![])
}

pub(super) fn to(state: State, phase: Phase) -> State {
    State { phase, ..state }
}

/// Forgets what was noted for the phase that it leaves.
fn without_notes(state: State) -> State {
    State { pending: false, is_restart: false, has_waited: false, ..state }
}

pub(super) fn publish_exit(success: bool) -> Action {
    Action::Publish(if success { EventCode::ExitSuccess } else { EventCode::ExitFailed })
}

/// Runs with a fresh restart budget.
pub(super) fn start(policy: &Policy, state: State, actions: Vec<Action>) -> Next {
    let restarts = fresh_budget(policy, state);
    if policy.in_group {
        return (queue(State { restarts, early_ends: 0, ..state }), actions);
    }
    if policy.triggers_itself {
        return run_after_backoff(policy, State { restarts, ..state }, actions);
    }
    run(policy, State { restarts, early_ends: 0, ..state }, actions)
}

/// The restarts that count at a new trigger.
pub(super) fn fresh_budget(policy: &Policy, state: State) -> u32 {
    match policy.cadence {
        Cadence::Once | Cadence::Each if !policy.has_window => 0,
        Cadence::Once | Cadence::Each | Cadence::Interval(_) | Cadence::Scheduled => state.restarts,
    }
}

/// Executes the program now.
pub(super) fn run(policy: &Policy, state: State, mut actions: Vec<Action>) -> Next {
    let state = to(without_notes(state), Phase::Running);
    if !policy.has_process {
        return (state, actions);
    }
    actions.push(Action::Spawn);
    if policy.timeout.is_some() {
        actions.push(Action::Arm(Timer::RunTimeout));
    }
    (State { process: Process::Live, ..state }, actions)
}

/// Waits for its turn in its group.
pub(super) fn queue(state: State) -> State {
    to(without_notes(state), Phase::Queued)
}

/// Restarts it; in a group, once it is its turn.
fn restart(policy: &Policy, state: State, actions: Vec<Action>) -> Next {
    if policy.in_group {
        return (State { is_restart: true, ..queue(state) }, actions);
    }
    run_after_backoff(policy, state, actions)
}

/// Runs as a user asked for; in a group, once it is its turn.
pub(super) fn start_by_hand(policy: &Policy, actions: Vec<Action>) -> Next {
    if policy.in_group {
        return (queue(State::new()), actions);
    }
    run(policy, State::new(), actions)
}

/// Executes the program once its backoff delay is over.
pub(super) fn run_after_backoff(policy: &Policy, state: State, mut actions: Vec<Action>) -> Next {
    let delay = backoff::delay(&policy.backoff, state.early_ends);
    if delay.is_zero() {
        return run(policy, state, actions);
    }
    actions.push(Action::Arm(Timer::Delay(delay)));
    (to(without_notes(state), Phase::Delayed), actions)
}

pub(super) fn count_restart(state: State) -> State {
    State { restarts: state.restarts.saturating_add(1), ..state }
}

/// A trigger while the job cannot start: any number of them make one more run.
pub(super) fn remember(policy: &Policy, state: State) -> Next {
    match policy.cadence {
        Cadence::Each => (State { pending: true, ..state }, vec![]),
        Cadence::Once | Cadence::Interval(_) | Cadence::Scheduled => stay(state),
    }
}

/// A tick that finds the run alive is skipped, unless that run's time is up by now and it is about to be killed.
pub(super) fn tick_while_running(policy: &Policy, state: State) -> State {
    match (policy.cadence, policy.timeout) {
        (Cadence::Interval(interval), Some(timeout)) if timeout <= interval => {
            State { pending: true, ..state }
        }
        (Cadence::Interval(_) | Cadence::Scheduled | Cadence::Once | Cadence::Each, _) => state,
    }
}

pub(super) fn end_of_run(policy: &Policy, state: State, ended: Ended) -> State {
    let lasting = ended.lasted >= policy.backoff.reset_after && ended.lasted > Duration::ZERO;
    State { early_ends: if lasting { 1 } else { state.early_ends.saturating_add(1) }, ..state }
}

fn may_restart(policy: &Policy, state: State) -> bool {
    match policy.restarts {
        Limit::Unlimited => true,
        Limit::Finite(limit) => state.restarts < limit,
    }
}

/// Whether a job that runs again and again has had all its runs.
pub(super) fn is_exhausted(policy: &Policy, state: State) -> bool {
    match policy.cadence {
        Cadence::Interval(_) | Cadence::Scheduled => !may_restart(policy, state),
        Cadence::Once | Cadence::Each => false,
    }
}

/// A run is over and nothing is left of it: what comes next?
pub(super) fn next_run(policy: &Policy, state: State, actions: Vec<Action>) -> Next {
    if is_exhausted(policy, state) {
        return complete_by_itself(policy, state, actions);
    }
    match policy.cadence {
        Cadence::Interval(_) | Cadence::Scheduled if state.pending => {
            run(policy, count_restart(state), actions)
        }
        Cadence::Interval(_) | Cadence::Scheduled => (to(state, Phase::Waiting), actions),
        Cadence::Once | Cadence::Each if state.pending => start(policy, state, actions),
        Cadence::Once | Cadence::Each if may_restart(policy, state) => {
            restart(policy, count_restart(state), actions)
        }
        Cadence::Each => (to(state, Phase::Waiting), actions),
        Cadence::Once => complete_by_itself(policy, state, actions),
    }
}

/// Nothing comes after that: of a job that does not stop, `afterwards` is [`Afterwards::Complete`].
fn complete_by_itself(policy: &Policy, state: State, mut actions: Vec<Action>) -> Next {
    actions.push(Action::Publish(EventCode::Stopping));
    withdraw(policy, without_notes(state), actions)
}

/// Stops a job that is unhealthy; it runs again if it has a restart left.
pub(super) fn restart_for_health(policy: &Policy, state: State) -> Next {
    if may_restart(policy, state) {
        announce(policy, count_restart(state), Afterwards::Restart)
    } else {
        announce(policy, state, Afterwards::Complete)
    }
}

/// Tells that the job stops. Only a job that serves waits for those who act on that.
pub(super) fn announce(policy: &Policy, state: State, afterwards: Afterwards) -> Next {
    let state = State { afterwards, ..without_notes(state) };
    if state.phase == Phase::Running {
        return (to(state, Phase::Holding), vec![Action::PublishStoppingAndHold, Action::Arm(Timer::Hold)]);
    }
    withdraw(policy, state, vec![Action::Publish(EventCode::Stopping)])
}

pub(super) fn announced(state: State) -> Next {
    (without_notes(state), vec![Action::Publish(EventCode::Stopping)])
}

pub(super) fn announce_while_killed(state: State, afterwards: Afterwards) -> Next {
    let (state, actions) = announced(state);
    (State { afterwards, ..to(state, Phase::Killing) }, actions)
}

pub(super) fn announce_while_ending(state: State, afterwards: Afterwards) -> Next {
    let (state, actions) = announced(state);
    (State { afterwards, ..to(state, Phase::Ending) }, actions)
}

pub(super) fn halt_instead(state: State) -> Next {
    stay(State { afterwards: Afterwards::Halt, ..state })
}

pub(super) fn resume_instead(state: State) -> Next {
    stay(State { afterwards: Afterwards::Resume, ..state })
}

/// Its group stops it while it stops already: if it was to return, the group decides when.
pub(super) fn queue_instead(state: State) -> Next {
    match state.afterwards {
        Afterwards::Complete | Afterwards::Halt => stay(state),
        Afterwards::Resume | Afterwards::Restart | Afterwards::Queue => {
            stay(State { afterwards: Afterwards::Queue, ..state })
        }
    }
}

/// Deregisters, if that is still to be done.
pub(super) fn withdraw(policy: &Policy, state: State, mut actions: Vec<Action>) -> Next {
    if policy.advertised && !state.withdrawn {
        actions.extend([Action::Deregister, Action::Arm(Timer::Deregistration)]);
        return (to(state, Phase::Deregistering), actions);
    }
    pause(policy, state, actions)
}

pub(super) fn drain(policy: &Policy, state: State) -> Next {
    pause(policy, state, vec![])
}

fn pause(policy: &Policy, state: State, mut actions: Vec<Action>) -> Next {
    match state.process {
        Process::None => finish(policy, state, actions),
        Process::Leftover => (to(state, Phase::Ending), actions),
        Process::Live if policy.drain.is_zero() => terminate(policy, state, actions),
        Process::Live => {
            actions.push(Action::Arm(Timer::Drain));
            (to(state, Phase::Draining), actions)
        }
    }
}

pub(super) fn terminate(policy: &Policy, state: State, mut actions: Vec<Action>) -> Next {
    match state.process {
        Process::None => finish(policy, state, actions),
        Process::Leftover => (to(state, Phase::Ending), actions),
        Process::Live => {
            actions.extend([Action::Signal, Action::Arm(Timer::KillTimeout)]);
            (to(state, Phase::Terminating), actions)
        }
    }
}

/// The main process of a stopping job ended.
pub(super) fn end(policy: &Policy, state: State, ended: Ended) -> Next {
    let (state, actions) = end_while_stopping(policy, state, ended);
    (to(state, Phase::Ending), actions)
}

/// The same, in a phase that it does not leave for that. Only a restart has a delay that depends on how long the run was.
pub(super) fn end_while_stopping(policy: &Policy, state: State, ended: Ended) -> Next {
    let state = State { process: Process::Leftover, ..state };
    let actions = vec![publish_exit(ended.success)];
    match state.afterwards {
        Afterwards::Restart => (end_of_run(policy, state, ended), actions),
        Afterwards::Complete | Afterwards::Halt | Afterwards::Resume | Afterwards::Queue => (state, actions),
    }
}

/// The program could not be executed: a run that failed at once and left nothing behind.
pub(super) fn unstarted(policy: &Policy, state: State) -> Next {
    let ended = Ended { success: false, lasted: Duration::ZERO };
    let state = end_of_run(policy, State { process: Process::None, ..state }, ended);
    next_run(policy, state, vec![publish_exit(false)])
}

/// The same, told after the job was asked to stop: there is nothing to wait for.
pub(super) fn end_unstarted(policy: &Policy, state: State) -> Next {
    withdraw(policy, State { process: Process::None, ..state }, vec![publish_exit(false)])
}

/// Ends everything at once; Consul is told, and not waited for.
pub(super) fn kill(policy: &Policy, (state, mut actions): Next) -> Next {
    if policy.advertised && !state.withdrawn && state.phase != Phase::Deregistering {
        actions.push(Action::Deregister);
    }
    let state = State { afterwards: Afterwards::Complete, withdrawn: true, ..state };
    match state.process {
        Process::None => finish(policy, state, actions),
        Process::Live => {
            actions.push(Action::Kill);
            (to(state, Phase::Killing), actions)
        }
        Process::Leftover => {
            actions.push(Action::Kill);
            (to(state, Phase::Ending), actions)
        }
    }
}

/// The one place where `stopped` is published: nothing of the job is left.
fn finish(policy: &Policy, state: State, mut actions: Vec<Action>) -> Next {
    actions.push(Action::Publish(EventCode::Stopped));
    match state.afterwards {
        Afterwards::Complete => (to(state, Phase::Complete), actions),
        Afterwards::Halt => (to(state, Phase::Halted), actions),
        Afterwards::Resume => start_by_hand(policy, actions),
        Afterwards::Restart => {
            let State { restarts, early_ends, .. } = state;
            restart(policy, State { restarts, early_ends, ..State::new() }, actions)
        }
        Afterwards::Queue => (queue(State { restarts: state.restarts, ..State::new() }), actions),
    }
}
