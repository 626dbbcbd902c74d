//! Walks every state that any sequence of inputs can reach, and holds the invariants at each step.

use std::collections::{BTreeSet, VecDeque};
use std::sync::LazyLock;

use super::{INPUTS, policies};
use crate::actors::job::machine::lifecycle::{Action, Afterwards, Input, Policy, Process, State, step};
use crate::config::spec::Limit;
use crate::messages::event::EventCode;
use crate::messages::job::Phase;

/// Counters are cut off where they no longer make a difference.
pub(super) fn folded(state: State) -> State {
    State { restarts: state.restarts.min(3), early_ends: state.early_ends.min(3), ..state }
}

/// Whether an input can happen in a state: exits need a process, a gone group needs leftovers.
pub(super) fn can_happen(state: State, input: Input) -> bool {
    match input {
        Input::Exited(_) | Input::SpawnFailed => state.process == Process::Live,
        Input::GroupGone => state.process == Process::Leftover,
        Input::Triggered
        | Input::TriggerExpired
        | Input::IntervalElapsed
        | Input::RunTimeoutElapsed
        | Input::IllHealth
        | Input::DelayElapsed
        | Input::HoldEnded
        | Input::DeregistrationEnded
        | Input::DrainElapsed
        | Input::KillTimeoutElapsed
        | Input::StopRequested
        | Input::HaltRequested
        | Input::StartRequested
        | Input::RestartRequested
        | Input::QueueRequested
        | Input::TurnCame
        | Input::KillRequested => true,
    }
}

pub(super) fn reachable(policy: &Policy, first: State, allowed: impl Fn(Input) -> bool) -> BTreeSet<State> {
    let mut seen = BTreeSet::from([first]);
    let mut queue = VecDeque::from([first]);
    while let Some(state) = queue.pop_front() {
        for input in INPUTS.into_iter().filter(|input| allowed(*input) && can_happen(state, *input)) {
            let is_of_group = matches!(input, Input::QueueRequested | Input::TurnCame);
            if is_of_group && !policy.in_group {
                continue;
            }
            for policy in [policy, &after_the_last_run(policy)] {
                let next = folded(step(policy, state, input).0);
                if seen.insert(next) {
                    queue.push_back(next);
                }
            }
        }
        // With `restarts.per`, a restart counts only for a time.
        let forgotten = State { restarts: state.restarts.saturating_sub(1), ..state };
        if policy.has_window && seen.insert(forgotten) {
            queue.push_back(forgotten);
        }
    }
    seen
}

/// What the policy becomes when the restart rules exclude a restart after the last end.
fn after_the_last_run(policy: &Policy) -> Policy {
    Policy { restarts: Limit::Finite(0), ..policy.clone() }
}

/// Every kind of job with every state that it can reach.
static EXPLORED: LazyLock<Vec<(Policy, BTreeSet<State>)>> = LazyLock::new(|| {
    let explore = |policy: Policy| (policy.clone(), reachable(&policy, State::new(), |_| true));
    policies().into_iter().map(explore).collect()
});

pub(super) fn every_state(mut check: impl FnMut(&Policy, State)) {
    for (policy, states) in EXPLORED.iter() {
        states.iter().for_each(|state| check(policy, *state));
    }
}

fn every_step(mut check: impl FnMut(&Policy, State, Input, State, &[Action])) {
    every_state(|policy, state| {
        for input in INPUTS.into_iter().filter(|input| can_happen(state, *input)) {
            let (next, actions) = step(policy, state, input);
            check(policy, state, input, next, &actions);
        }
    });
}

fn position(actions: &[Action], wanted: &[Action]) -> Option<usize> {
    actions.iter().position(|action| wanted.contains(action))
}

const STOPPING: [Action; 2] = [Action::Publish(EventCode::Stopping), Action::PublishStoppingAndHold];
const STOPPED: [Action; 1] = [Action::Publish(EventCode::Stopped)];

#[test]
fn stopped_is_never_published_while_a_process_lives() {
    every_step(|_, state, input, next, actions| {
        if let Some(stopped) = position(actions, &STOPPED) {
            let gone = next.process == Process::None
                || position(actions, &[Action::Spawn]).is_some_and(|spawn| spawn > stopped);
            assert!(gone, "{state:?} {input:?} {actions:?}");
            let was_live = state.process == Process::Live && input != Input::SpawnFailed;
            assert!(!was_live, "{state:?} {input:?}");
        }
    });
}

#[test]
fn stopping_comes_exactly_once_and_before_stopped() {
    every_step(|_, state, input, next, actions| {
        let stopping = position(actions, &STOPPING);
        let stopped = position(actions, &STOPPED);
        assert!(stopping.is_none() || !state.phase.is_stopping(), "twice: {state:?} {input:?}");
        if let Some(stopped) = stopped {
            assert!(
                state.phase.is_stopping() || stopping.is_some_and(|at| at < stopped),
                "{state:?} {input:?}"
            );
        }
        let entered = next.phase.is_stopping() && !state.phase.is_stopping();
        assert!(!entered || stopping.is_some(), "silent stop: {state:?} {input:?}");
        let left = state.phase.is_stopping() && !next.phase.is_stopping();
        assert!(!left || stopped.is_some(), "silent end: {state:?} {input:?}");
    });
}

#[test]
fn no_two_processes_of_one_job_live_at_a_time() {
    every_step(|_, state, input, next, actions| {
        let spawns = actions.iter().filter(|action| **action == Action::Spawn).count();
        assert!(spawns <= 1, "{state:?} {input:?}");
        if spawns == 1 {
            let free = state.process == Process::None
                || input == Input::GroupGone
                || (input == Input::SpawnFailed && state.process == Process::Live);
            assert!(free, "{state:?} {input:?}");
            assert_eq!((next.phase, next.process), (Phase::Running, Process::Live), "{state:?} {input:?}");
        }
    });
}

#[test]
fn signals_go_only_to_what_exists() {
    every_step(|_, state, input, _, actions| {
        if position(actions, &[Action::Signal, Action::Kill]).is_some() {
            assert_ne!(state.process, Process::None, "{state:?} {input:?}");
        }
        if position(actions, &[Action::Signal]).is_some() {
            assert_eq!(state.process, Process::Live, "{state:?} {input:?}");
        }
    });
}

#[test]
fn the_stop_signal_comes_after_stopping_and_after_deregistration() {
    every_step(|policy, state, input, next, actions| {
        if position(actions, &[Action::Signal]).is_some() {
            assert!(state.phase.is_stopping(), "{state:?} {input:?}");
            assert!(!policy.advertised || next.withdrawn, "{state:?} {input:?}");
        }
    });
}

#[test]
fn an_advertised_job_is_deregistered_before_stopped() {
    every_step(|policy, state, input, _, actions| {
        if policy.advertised && position(actions, &STOPPED).is_some() {
            let withdrawn = state.withdrawn
                || state.phase == Phase::Deregistering
                || position(actions, &[Action::Deregister]).is_some();
            assert!(withdrawn, "{state:?} {input:?}");
        }
    });
}

#[test]
fn each_end_of_a_process_is_published_exactly_once() {
    every_step(|_, state, input, _, actions| {
        let exits = actions
            .iter()
            .filter(|action| {
                matches!(action, Action::Publish(EventCode::ExitSuccess | EventCode::ExitFailed))
            })
            .count();
        let ends = matches!(input, Input::Exited(_) | Input::SpawnFailed);
        assert_eq!(exits, usize::from(ends), "{state:?} {input:?} {actions:?}");
    });
}

#[test]
fn a_run_that_timed_out_has_failed_whatever_it_returned() {
    every_step(|_, state, input, _, actions| {
        if state.phase == Phase::TimedOut && matches!(input, Input::Exited(_)) {
            assert!(actions.contains(&Action::Publish(EventCode::ExitFailed)));
        }
    });
}

#[test]
fn what_exists_fits_the_phase() {
    every_state(|policy, state| {
        let fits = match state.phase {
            Phase::Waiting | Phase::Queued | Phase::Delayed | Phase::Halted | Phase::Complete => {
                state.process == Process::None
            }
            Phase::Running | Phase::Holding => (state.process == Process::Live) == policy.has_process,
            Phase::TimedOut | Phase::Draining | Phase::Terminating | Phase::Killing => {
                !policy.has_process || state.process == Process::Live
            }
            Phase::Sweeping | Phase::Ending => state.process == Process::Leftover,
            Phase::Deregistering => true,
        };
        assert!(fits, "{state:?} {policy:?}");
    });
}

fn by_hand(input: Input) -> bool {
    matches!(input, Input::StartRequested | Input::RestartRequested | Input::HaltRequested)
}

#[test]
fn a_job_told_to_stop_never_runs_again() {
    every_state(|policy, state| {
        let stopped = folded(step(policy, state, Input::StopRequested).0);
        for later in reachable(policy, stopped, |input| !by_hand(input)) {
            let stops = later.phase.is_stopping() || later.phase == Phase::Complete;
            assert!(stops, "{state:?} led to {later:?}");
        }
    });
}

#[test]
fn a_killed_job_is_over_as_soon_as_its_processes_are() {
    every_state(|policy, state| {
        let mut state = step(policy, state, Input::KillRequested).0;
        if state.process == Process::Live {
            state = step(policy, state, super::FAILED).0;
        }
        if state.process == Process::Leftover {
            state = step(policy, state, Input::GroupGone).0;
        }
        assert_eq!(state.phase, Phase::Complete, "{policy:?}");
    });
}

#[test]
fn a_failed_spawn_leaves_nothing_to_wait_for() {
    every_step(|_, state, input, next, actions| {
        if input == Input::SpawnFailed && position(actions, &[Action::Spawn]).is_none() {
            assert_eq!(next.process, Process::None, "{state:?} → {next:?}");
        }
    });
}

#[test]
fn a_halted_job_stays_so_until_it_is_started_by_hand() {
    for policy in policies() {
        let halted = State { phase: Phase::Halted, afterwards: Afterwards::Halt, ..State::new() };
        let states = reachable(&policy, halted, |input| {
            !by_hand(input) && !matches!(input, Input::StopRequested | Input::KillRequested)
        });
        assert_eq!(states.len(), 1);
        let started = if policy.in_group { Phase::Queued } else { Phase::Running };
        assert_eq!(step(&policy, halted, Input::StartRequested).0.phase, started);
    }
}

#[test]
fn an_unhealthy_job_runs_again_only_if_it_has_a_restart_left() {
    every_step(|policy, state, input, next, _| {
        if input != Input::IllHealth || state.phase != Phase::Running {
            return;
        }
        let has_one_left = match policy.restarts {
            Limit::Unlimited => true,
            Limit::Finite(limit) => state.restarts < limit,
        };
        let expected = if has_one_left { Afterwards::Restart } else { Afterwards::Complete };
        assert_eq!(next.afterwards, expected, "{policy:?} {state:?}");
        assert_eq!(next.restarts, state.restarts + u32::from(has_one_left), "{policy:?} {state:?}");
        assert!(next.phase.is_stopping());
    });
}

#[test]
fn after_an_end_that_the_rules_exclude_only_a_trigger_or_a_hand_starts_the_job() {
    for policy in policies() {
        let policy = after_the_last_run(&policy);
        for state in reachable(&policy, State::new(), |_| true) {
            if state.phase != Phase::Sweeping || state.pending {
                continue;
            }
            let (_, actions) = step(&policy, state, Input::GroupGone);
            assert!(!actions.contains(&Action::Spawn), "{policy:?} {state:?}");
        }
    }
}

#[test]
fn inputs_that_cannot_happen_are_harmless() {
    every_state(|policy, state| {
        for input in INPUTS.into_iter().filter(|input| !can_happen(state, *input)) {
            let (_, actions) = step(policy, state, input);
            assert!(
                !actions.contains(&Action::Spawn) || !policy.has_process || state.process == Process::None
            );
        }
    });
}
