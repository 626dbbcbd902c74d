//! One function per phase, every input listed in each.

use super::moves::{
    announce, announce_while_ending, announce_while_killed, announced, count_restart, drain, end, end_of_run,
    end_unstarted, end_while_stopping, fresh_budget, halt_instead, is_exhausted, kill, next_run,
    publish_exit, queue, queue_instead, remember, restart_for_health, resume_instead, run, run_after_backoff,
    start, start_by_hand, stay, terminate, tick_while_running, to, unstarted, withdraw,
};
use super::{Action, Afterwards, Input, Next, Policy, Process, State};
use crate::messages::job::Phase;

pub(super) fn waiting(policy: &Policy, state: State, input: Input) -> Next {
    match input {
        Input::Triggered => start(policy, state, vec![]),
        Input::StartRequested | Input::RestartRequested => start_by_hand(policy, vec![]),
        Input::IntervalElapsed => run(policy, count_restart(state), vec![]),
        Input::TriggerExpired | Input::StopRequested => announce(policy, state, Afterwards::Complete),
        Input::HaltRequested => announce(policy, state, Afterwards::Halt),
        Input::KillRequested => kill(policy, announced(state)),
        Input::SpawnFailed
        | Input::Exited(_)
        | Input::GroupGone
        | Input::RunTimeoutElapsed
        | Input::IllHealth
        | Input::DelayElapsed
        | Input::HoldEnded
        | Input::DeregistrationEnded
        | Input::DrainElapsed
        | Input::KillTimeoutElapsed
        | Input::QueueRequested
        | Input::TurnCame => stay(state),
    }
}

pub(super) fn running(policy: &Policy, state: State, input: Input) -> Next {
    match input {
        Input::Triggered => remember(policy, state),
        Input::IntervalElapsed => (tick_while_running(policy, state), vec![]),
        Input::SpawnFailed => unstarted(policy, state),
        Input::Exited(ended) => {
            let state = end_of_run(policy, State { process: Process::Leftover, ..state }, ended);
            (to(state, Phase::Sweeping), vec![publish_exit(ended.success)])
        }
        Input::RunTimeoutElapsed if state.process == Process::Live => {
            (to(state, Phase::TimedOut), vec![Action::Kill])
        }
        Input::IllHealth => restart_for_health(policy, state),
        Input::StopRequested => announce(policy, state, Afterwards::Complete),
        Input::HaltRequested => announce(policy, state, Afterwards::Halt),
        Input::RestartRequested => announce(policy, state, Afterwards::Resume),
        Input::QueueRequested => announce(policy, state, Afterwards::Queue),
        Input::KillRequested => kill(policy, announced(state)),
        Input::TriggerExpired
        | Input::GroupGone
        | Input::RunTimeoutElapsed
        | Input::DelayElapsed
        | Input::HoldEnded
        | Input::DeregistrationEnded
        | Input::DrainElapsed
        | Input::KillTimeoutElapsed
        | Input::StartRequested
        | Input::TurnCame => stay(state),
    }
}

/// SIGKILL is on its way because the execution took too long; afterwards the restart rules apply.
pub(super) fn timed_out(policy: &Policy, state: State, input: Input) -> Next {
    match input {
        Input::Triggered => remember(policy, state),
        // The tick belongs to the run that the kill makes room for.
        Input::IntervalElapsed => (State { pending: true, ..state }, vec![]),
        Input::Exited(ended) => {
            let state = end_of_run(policy, State { process: Process::Leftover, ..state }, ended);
            (to(state, Phase::Sweeping), vec![publish_exit(false)])
        }
        Input::SpawnFailed => unstarted(policy, state),
        Input::StopRequested => announce_while_killed(state, Afterwards::Complete),
        Input::HaltRequested => announce_while_killed(state, Afterwards::Halt),
        Input::RestartRequested => announce_while_killed(state, Afterwards::Resume),
        Input::QueueRequested => announce_while_killed(state, Afterwards::Queue),
        Input::KillRequested => kill(policy, announced(state)),
        Input::TriggerExpired
        | Input::GroupGone
        | Input::RunTimeoutElapsed
        | Input::IllHealth
        | Input::DelayElapsed
        | Input::HoldEnded
        | Input::DeregistrationEnded
        | Input::DrainElapsed
        | Input::KillTimeoutElapsed
        | Input::StartRequested
        | Input::TurnCame => stay(state),
    }
}

/// The main process ended; what is left of its group ends before the next execution.
pub(super) fn sweeping(policy: &Policy, state: State, input: Input) -> Next {
    match input {
        Input::Triggered => remember(policy, state),
        // It would be over otherwise.
        Input::StartRequested if is_exhausted(policy, state) => {
            announce_while_ending(state, Afterwards::Resume)
        }
        Input::IntervalElapsed | Input::StartRequested => (State { pending: true, ..state }, vec![]),
        Input::GroupGone => next_run(policy, State { process: Process::None, ..state }, vec![]),
        Input::StopRequested => announce_while_ending(state, Afterwards::Complete),
        Input::HaltRequested => announce_while_ending(state, Afterwards::Halt),
        Input::RestartRequested => announce_while_ending(state, Afterwards::Resume),
        Input::QueueRequested => announce_while_ending(state, Afterwards::Queue),
        Input::KillRequested => kill(policy, announced(state)),
        Input::TriggerExpired
        | Input::SpawnFailed
        | Input::Exited(_)
        | Input::RunTimeoutElapsed
        | Input::IllHealth
        | Input::DelayElapsed
        | Input::HoldEnded
        | Input::DeregistrationEnded
        | Input::DrainElapsed
        | Input::KillTimeoutElapsed
        | Input::TurnCame => stay(state),
    }
}

/// Its group decides when it runs.
pub(super) fn queued(policy: &Policy, state: State, input: Input) -> Next {
    match input {
        Input::TurnCame if state.has_waited => run(policy, state, vec![]),
        Input::TurnCame => run_after_backoff(policy, state, vec![]),
        Input::StopRequested => announce(policy, state, Afterwards::Complete),
        Input::HaltRequested => announce(policy, state, Afterwards::Halt),
        Input::KillRequested => kill(policy, announced(state)),
        // It is restarted with the others: its end has been counted, or counts no more.
        Input::QueueRequested | Input::StartRequested | Input::RestartRequested => (queue(state), vec![]),
        Input::Triggered
        | Input::TriggerExpired
        | Input::IntervalElapsed
        | Input::SpawnFailed
        | Input::Exited(_)
        | Input::GroupGone
        | Input::RunTimeoutElapsed
        | Input::IllHealth
        | Input::DelayElapsed
        | Input::HoldEnded
        | Input::DeregistrationEnded
        | Input::DrainElapsed
        | Input::KillTimeoutElapsed => stay(state),
    }
}

/// Backoff: the next execution waits.
pub(super) fn delayed(policy: &Policy, state: State, input: Input) -> Next {
    match input {
        // In a group, others may have to stop or to start first.
        Input::RestartRequested if policy.in_group => start_by_hand(policy, vec![]),
        Input::DelayElapsed if policy.in_group => (State { has_waited: true, ..queue(state) }, vec![]),
        Input::DelayElapsed | Input::StartRequested | Input::RestartRequested => run(policy, state, vec![]),
        // The execution that is due anyway answers the trigger, with a fresh restart budget.
        Input::Triggered => (State { restarts: fresh_budget(policy, state), ..state }, vec![]),
        Input::StopRequested => announce(policy, state, Afterwards::Complete),
        Input::HaltRequested => announce(policy, state, Afterwards::Halt),
        Input::QueueRequested => (queue(state), vec![]),
        Input::KillRequested => kill(policy, announced(state)),
        Input::TriggerExpired
        | Input::IntervalElapsed
        | Input::SpawnFailed
        | Input::Exited(_)
        | Input::GroupGone
        | Input::RunTimeoutElapsed
        | Input::IllHealth
        | Input::HoldEnded
        | Input::DeregistrationEnded
        | Input::DrainElapsed
        | Input::KillTimeoutElapsed
        | Input::TurnCame => stay(state),
    }
}

/// `stopping` is published; the jobs that it started are at work while our process still serves.
pub(super) fn holding(policy: &Policy, state: State, input: Input) -> Next {
    match input {
        Input::HoldEnded => withdraw(policy, state, vec![]),
        Input::Exited(ended) => {
            let (state, actions) = end_while_stopping(policy, state, ended);
            withdraw(policy, state, actions)
        }
        Input::SpawnFailed => end_unstarted(policy, state),
        Input::KillRequested => kill(policy, (state, vec![])),
        Input::StopRequested => (State { afterwards: Afterwards::Complete, ..state }, vec![]),
        Input::HaltRequested => halt_instead(state),
        Input::QueueRequested => queue_instead(state),
        Input::StartRequested | Input::RestartRequested => resume_instead(state),
        Input::Triggered
        | Input::TriggerExpired
        | Input::IntervalElapsed
        | Input::GroupGone
        | Input::RunTimeoutElapsed
        | Input::IllHealth
        | Input::DelayElapsed
        | Input::DeregistrationEnded
        | Input::DrainElapsed
        | Input::KillTimeoutElapsed
        | Input::TurnCame => stay(state),
    }
}

pub(super) fn deregistering(policy: &Policy, state: State, input: Input) -> Next {
    match input {
        Input::DeregistrationEnded => drain(policy, State { withdrawn: true, ..state }),
        Input::Exited(ended) => end_while_stopping(policy, state, ended),
        Input::SpawnFailed => (State { process: Process::None, ..state }, vec![publish_exit(false)]),
        Input::GroupGone => (State { process: Process::None, ..state }, vec![]),
        Input::KillRequested => kill(policy, (state, vec![])),
        Input::StopRequested => (State { afterwards: Afterwards::Complete, ..state }, vec![]),
        Input::HaltRequested => halt_instead(state),
        Input::QueueRequested => queue_instead(state),
        Input::StartRequested | Input::RestartRequested => resume_instead(state),
        Input::Triggered
        | Input::TriggerExpired
        | Input::IntervalElapsed
        | Input::RunTimeoutElapsed
        | Input::IllHealth
        | Input::DelayElapsed
        | Input::HoldEnded
        | Input::DrainElapsed
        | Input::KillTimeoutElapsed
        | Input::TurnCame => stay(state),
    }
}

pub(super) fn draining(policy: &Policy, state: State, input: Input) -> Next {
    match input {
        Input::DrainElapsed => terminate(policy, state, vec![]),
        Input::Exited(ended) => end(policy, state, ended),
        Input::SpawnFailed => end_unstarted(policy, state),
        Input::KillRequested => kill(policy, (state, vec![])),
        Input::StopRequested => (State { afterwards: Afterwards::Complete, ..state }, vec![]),
        Input::HaltRequested => halt_instead(state),
        Input::QueueRequested => queue_instead(state),
        Input::StartRequested | Input::RestartRequested => resume_instead(state),
        Input::Triggered
        | Input::TriggerExpired
        | Input::IntervalElapsed
        | Input::GroupGone
        | Input::RunTimeoutElapsed
        | Input::IllHealth
        | Input::DelayElapsed
        | Input::HoldEnded
        | Input::DeregistrationEnded
        | Input::KillTimeoutElapsed
        | Input::TurnCame => stay(state),
    }
}

pub(super) fn terminating(policy: &Policy, state: State, input: Input) -> Next {
    match input {
        Input::Exited(ended) => end(policy, state, ended),
        Input::KillTimeoutElapsed => (to(state, Phase::Killing), vec![Action::Kill]),
        Input::SpawnFailed => end_unstarted(policy, state),
        Input::KillRequested => kill(policy, (state, vec![])),
        Input::StopRequested => (State { afterwards: Afterwards::Complete, ..state }, vec![]),
        Input::HaltRequested => halt_instead(state),
        Input::QueueRequested => queue_instead(state),
        Input::StartRequested | Input::RestartRequested => resume_instead(state),
        Input::Triggered
        | Input::TriggerExpired
        | Input::IntervalElapsed
        | Input::GroupGone
        | Input::RunTimeoutElapsed
        | Input::IllHealth
        | Input::DelayElapsed
        | Input::HoldEnded
        | Input::DeregistrationEnded
        | Input::DrainElapsed
        | Input::TurnCame => stay(state),
    }
}

pub(super) fn killing(policy: &Policy, state: State, input: Input) -> Next {
    match input {
        Input::Exited(ended) => end(policy, state, ended),
        // A process may have been forked into the group after the first kill.
        Input::SpawnFailed => end_unstarted(policy, state),
        Input::KillRequested => kill(policy, (state, vec![])),
        Input::StopRequested => (State { afterwards: Afterwards::Complete, ..state }, vec![]),
        Input::HaltRequested => halt_instead(state),
        Input::QueueRequested => queue_instead(state),
        Input::StartRequested | Input::RestartRequested => resume_instead(state),
        Input::Triggered
        | Input::TriggerExpired
        | Input::IntervalElapsed
        | Input::GroupGone
        | Input::RunTimeoutElapsed
        | Input::IllHealth
        | Input::DelayElapsed
        | Input::HoldEnded
        | Input::DeregistrationEnded
        | Input::DrainElapsed
        | Input::KillTimeoutElapsed
        | Input::TurnCame => stay(state),
    }
}

/// It stops; the main process ended, and what is left of its group is being ended.
pub(super) fn ending(policy: &Policy, state: State, input: Input) -> Next {
    match input {
        Input::GroupGone => withdraw(policy, State { process: Process::None, ..state }, vec![]),
        Input::KillRequested => kill(policy, (state, vec![])),
        Input::StopRequested => (State { afterwards: Afterwards::Complete, ..state }, vec![]),
        Input::HaltRequested => halt_instead(state),
        Input::QueueRequested => queue_instead(state),
        Input::StartRequested | Input::RestartRequested => resume_instead(state),
        Input::Triggered
        | Input::TriggerExpired
        | Input::IntervalElapsed
        | Input::SpawnFailed
        | Input::Exited(_)
        | Input::RunTimeoutElapsed
        | Input::IllHealth
        | Input::DelayElapsed
        | Input::HoldEnded
        | Input::DeregistrationEnded
        | Input::DrainElapsed
        | Input::KillTimeoutElapsed
        | Input::TurnCame => stay(state),
    }
}

pub(super) fn halted(policy: &Policy, state: State, input: Input) -> Next {
    match input {
        Input::StartRequested | Input::RestartRequested => start_by_hand(policy, vec![]),
        Input::StopRequested | Input::KillRequested => (to(state, Phase::Complete), vec![]),
        Input::Triggered
        | Input::TriggerExpired
        | Input::IntervalElapsed
        | Input::SpawnFailed
        | Input::Exited(_)
        | Input::GroupGone
        | Input::RunTimeoutElapsed
        | Input::IllHealth
        | Input::DelayElapsed
        | Input::HoldEnded
        | Input::DeregistrationEnded
        | Input::DrainElapsed
        | Input::KillTimeoutElapsed
        | Input::HaltRequested
        | Input::QueueRequested
        | Input::TurnCame => stay(state),
    }
}

pub(super) fn complete(policy: &Policy, state: State, input: Input) -> Next {
    match input {
        Input::StartRequested | Input::RestartRequested => start_by_hand(policy, vec![]),
        Input::HaltRequested => (to(state, Phase::Halted), vec![]),
        Input::Triggered
        | Input::TriggerExpired
        | Input::IntervalElapsed
        | Input::SpawnFailed
        | Input::Exited(_)
        | Input::GroupGone
        | Input::RunTimeoutElapsed
        | Input::IllHealth
        | Input::DelayElapsed
        | Input::HoldEnded
        | Input::DeregistrationEnded
        | Input::DrainElapsed
        | Input::KillTimeoutElapsed
        | Input::StopRequested
        | Input::KillRequested
        | Input::QueueRequested
        | Input::TurnCame => stay(state),
    }
}
