//! Where orders lead from every state, and which notes a state may carry.

use super::SUCCEEDED;
use super::explore::{every_state, folded};
use crate::actors::job::machine::lifecycle::{Afterwards, Cadence, Input, Policy, Process, State, step};
use crate::messages::job::Phase;

/// Goes on until the stop is over.
fn stopped(policy: &Policy, mut state: State) -> State {
    for _ in 0..10 {
        let input = match (state.phase, state.process) {
            (phase, _) if !phase.is_stopping() => return state,
            (Phase::Holding, _) => Input::HoldEnded,
            (Phase::Deregistering, _) => Input::DeregistrationEnded,
            (Phase::Draining, _) => Input::DrainElapsed,
            (_, Process::Live) => SUCCEEDED,
            (_, Process::Leftover | Process::None) => Input::GroupGone,
        };
        state = step(policy, state, input).0;
    }
    panic!("{state:?} does not end")
}

/// The state after an order and all that follows from it.
fn after(policy: &Policy, state: State, order: Input) -> State {
    stopped(policy, step(policy, state, order).0)
}

/// The restarts that count begin anew with a trigger.
fn counts_anew(policy: &Policy) -> bool {
    matches!(policy.cadence, Cadence::Once | Cadence::Each) && !policy.has_window
}

#[test]
fn a_stopped_job_is_complete_and_one_that_was_stopped_by_hand_is_halted() {
    every_state(|policy, state| {
        assert_eq!(after(policy, state, Input::StopRequested).phase, Phase::Complete, "{policy:?} {state:?}");
        assert_eq!(after(policy, state, Input::HaltRequested).phase, Phase::Halted, "{policy:?} {state:?}");
    });
}

#[test]
fn a_job_that_is_restarted_by_hand_runs_again_wherever_it_was() {
    every_state(|policy, state| {
        let next = after(policy, state, Input::RestartRequested).phase;
        let expected = if policy.in_group { Phase::Queued } else { Phase::Running };
        assert_eq!(next, expected, "{policy:?} {state:?}");
    });
}

#[test]
fn what_its_group_stops_waits_for_its_turn_and_that_is_no_restart_of_its_own() {
    every_state(|policy, state| {
        let stays = matches!(state.phase, Phase::Waiting | Phase::Complete | Phase::Halted);
        if !policy.in_group || stays {
            return;
        }
        let next = after(policy, state, Input::QueueRequested);
        let is_over = matches!(state.afterwards, Afterwards::Complete | Afterwards::Halt);
        if state.phase.is_stopping() && is_over {
            assert!(matches!(next.phase, Phase::Complete | Phase::Halted), "{state:?}");
            return;
        }
        assert_eq!((next.phase, next.is_restart), (Phase::Queued, false), "{state:?}");
        assert_eq!(next.restarts, state.restarts, "{state:?}");
    });
}

#[test]
fn a_member_that_is_restarted_by_hand_does_not_wait_for_its_delay() {
    every_state(|policy, state| {
        if policy.in_group && state.phase == Phase::Delayed {
            let queued = after(policy, state, Input::RestartRequested);
            assert_eq!(step(policy, queued, Input::TurnCame).0.phase, Phase::Running, "{state:?}");
        }
    });
}

#[test]
fn a_start_by_hand_between_two_runs_is_not_forgotten() {
    every_state(|policy, state| {
        if state.phase != Phase::Sweeping {
            return;
        }
        let asked = step(policy, state, Input::StartRequested).0;
        let next = stopped(policy, step(policy, asked, Input::GroupGone).0);
        let runs = matches!(next.phase, Phase::Running | Phase::Queued | Phase::Delayed);
        assert!(runs, "{policy:?} {state:?} → {next:?}");
    });
}

#[test]
fn a_trigger_begins_with_all_restarts_and_without_delay() {
    every_state(|policy, state| {
        let is_triggered = matches!(state.phase, Phase::Waiting | Phase::Delayed);
        let is_asked = state.phase == Phase::Sweeping && state.pending;
        if !counts_anew(policy) || !is_triggered && !is_asked {
            return;
        }
        let next = step(policy, state, if is_asked { Input::GroupGone } else { Input::Triggered }).0;
        assert_eq!(next.restarts, 0, "{policy:?} {state:?}");
        if !policy.triggers_itself && state.phase != Phase::Delayed {
            assert_eq!(next.early_ends, 0, "{policy:?} {state:?}");
        }
    });
}

#[test]
fn a_state_carries_no_note_that_belongs_to_another_phase() {
    every_state(|policy, state| {
        let state = folded(state);
        let may_have_trigger = matches!(state.phase, Phase::Running | Phase::TimedOut | Phase::Sweeping);
        assert!(!state.pending || may_have_trigger, "{policy:?} {state:?}");
        assert!(!state.is_restart || state.phase == Phase::Queued, "{policy:?} {state:?}");
        assert!(!state.has_waited || state.phase == Phase::Queued, "{policy:?} {state:?}");
        let stops = state.phase.is_stopping() || matches!(state.phase, Phase::Halted | Phase::Complete);
        assert!(stops || state.afterwards == Afterwards::Complete, "{policy:?} {state:?}");
    });
}
