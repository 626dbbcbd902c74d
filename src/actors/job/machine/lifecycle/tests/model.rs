//! Random sequences of inputs against a much simpler model: a job is a counter of processes and three flags.

use proptest::prelude::*;

use super::explore::can_happen;
use super::{INPUTS, policies};
use crate::actors::job::machine::lifecycle::{Action, Input, Policy, Process, State, step};
use crate::config::spec::Limit;
use crate::messages::event::EventCode;

/// What an observer outside knows.
#[derive(Default)]
struct Observer {
    live: u32,
    group: u32,
    stopping: bool,
    told_to_stop: bool,
    runs_since_trigger: u32,
}

impl Observer {
    fn sees_input(&mut self, input: Input) {
        match input {
            Input::Exited(_) => {
                self.live -= 1;
                self.group = 1;
            }
            Input::SpawnFailed => self.live -= 1,
            Input::GroupGone => self.group = 0,
            Input::StopRequested | Input::KillRequested => self.told_to_stop = true,
            Input::StartRequested | Input::RestartRequested => {
                self.told_to_stop = false;
                self.runs_since_trigger = 0;
            }
            // A restart by its group does not use up one of the job's own.
            Input::Triggered | Input::IntervalElapsed | Input::QueueRequested => self.runs_since_trigger = 0,
            Input::TriggerExpired
            | Input::RunTimeoutElapsed
            | Input::IllHealth
            | Input::DelayElapsed
            | Input::HoldEnded
            | Input::DeregistrationEnded
            | Input::DrainElapsed
            | Input::KillTimeoutElapsed
            | Input::TurnCame
            | Input::HaltRequested => {}
        }
    }

    fn sees_action(&mut self, policy: &Policy, action: Action) -> Result<(), TestCaseError> {
        match action {
            Action::Spawn => {
                prop_assert_eq!((self.live, self.group), (0, 0), "two processes");
                prop_assert!(!self.told_to_stop && !self.stopping, "runs although told to stop");
                self.live = 1;
                self.runs_since_trigger += 1;
                if let Limit::Finite(limit) = policy.restarts {
                    prop_assert!(self.runs_since_trigger <= limit + 2, "more runs than restarts allow");
                }
            }
            Action::Publish(EventCode::Stopping) | Action::PublishStoppingAndHold => {
                prop_assert!(!self.stopping);
                self.stopping = true;
            }
            Action::Publish(EventCode::Stopped) => {
                prop_assert!(self.stopping, "stopped without stopping");
                prop_assert_eq!((self.live, self.group), (0, 0), "stopped while a process lives");
                self.stopping = false;
            }
            Action::Publish(_) | Action::Arm(_) | Action::Deregister => {}
            Action::Signal | Action::Kill => prop_assert!(self.live + self.group > 0),
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn every_sequence_of_inputs_looks_sane_from_outside(
        policy in proptest::sample::select(policies()),
        inputs in proptest::collection::vec(proptest::sample::select(INPUTS.to_vec()), 0..60),
    ) {
        let mut state = State::new();
        let mut observer = Observer::default();
        for input in inputs {
            if !can_happen(state, input) {
                continue;
            }
            observer.sees_input(input);
            let (next, actions) = step(&policy, state, input);
            state = next;
            for action in actions {
                observer.sees_action(&policy, action)?;
            }
            prop_assert_eq!(observer.live == 1, state.process == Process::Live);
            prop_assert_eq!(observer.group == 1, state.process == Process::Leftover);
            prop_assert_eq!(observer.stopping, state.phase.is_stopping());
        }
    }
}
