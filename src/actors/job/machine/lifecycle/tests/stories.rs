//! One story per rule: inputs in, actions out.

use std::time::Duration;

use super::{FAILED, LASTED, SUCCEEDED, plain};
use crate::actors::job::machine::lifecycle::{Action, Cadence, Ended, Input, Policy, State, Timer, step};
use crate::config::spec::{BackoffSpec, Limit};
use crate::messages::event::EventCode;
use crate::messages::job::Phase;

const EXIT_FAILED: Action = Action::Publish(EventCode::ExitFailed);
const EXIT_SUCCESS: Action = Action::Publish(EventCode::ExitSuccess);
const STOPPING: Action = Action::Publish(EventCode::Stopping);
const STOPPED: Action = Action::Publish(EventCode::Stopped);

/// A job that is led through inputs.
struct Life {
    policy: Policy,
    state: State,
}

impl Life {
    fn of(policy: Policy) -> Self {
        Self { policy, state: State::new() }
    }

    fn on(&mut self, input: Input) -> Vec<Action> {
        let (next, actions) = step(&self.policy, self.state, input);
        self.state = next;
        actions
    }

    /// A whole run that ends early; returns what follows it.
    fn ends(&mut self, how: Input) -> Vec<Action> {
        self.on(how);
        self.on(Input::GroupGone)
    }

    fn running(policy: Policy) -> Self {
        let mut life = Self::of(policy);
        assert!(life.on(Input::Triggered).contains(&Action::Spawn));
        life
    }
}

#[test]
fn a_job_without_restarts_runs_once_and_completes() {
    let mut life = Life::of(plain());
    assert_eq!(life.on(Input::Triggered), [Action::Spawn]);
    assert_eq!(life.on(SUCCEEDED), [EXIT_SUCCESS]);
    assert_eq!(life.on(Input::GroupGone), [STOPPING, STOPPED]);
    assert_eq!(life.state.phase, Phase::Complete);
    assert_eq!(life.on(Input::Triggered), []);
}

#[test]
fn three_restarts_make_four_runs() {
    let mut life = Life::running(Policy { restarts: Limit::Finite(3), ..plain() });
    assert_eq!(life.ends(FAILED), [Action::Spawn]);
    assert_eq!(life.ends(FAILED), [Action::Arm(Timer::Delay(Duration::from_millis(100)))]);
    assert_eq!(life.on(Input::DelayElapsed), [Action::Spawn]);
    assert_eq!(life.ends(SUCCEEDED), [Action::Arm(Timer::Delay(Duration::from_millis(200)))]);
    life.on(Input::DelayElapsed);
    assert_eq!(life.ends(FAILED), [STOPPING, STOPPED]);
}

#[test]
fn a_run_that_lasts_starts_the_backoff_over() {
    let mut life = Life::running(Policy { restarts: Limit::Unlimited, ..plain() });
    for _ in 0..6 {
        life.ends(FAILED);
        life.on(Input::DelayElapsed);
    }
    assert_eq!(life.ends(LASTED), [Action::Spawn], "the first restart after a lasting run is immediate");
    assert_eq!(life.ends(FAILED), [Action::Arm(Timer::Delay(Duration::from_millis(100)))]);
}

#[test]
fn a_spawn_that_failed_is_an_exit_that_failed_and_the_restart_rules_apply() {
    let mut life = Life::running(Policy { restarts: Limit::Finite(1), ..plain() });
    assert_eq!(life.on(Input::SpawnFailed), [EXIT_FAILED, Action::Spawn]);
    assert_eq!(life.on(Input::SpawnFailed), [EXIT_FAILED, STOPPING, STOPPED]);
}

#[test]
fn a_job_that_is_told_to_stop_before_its_failed_spawn_is_known_is_over_when_it_is() {
    for stop in [Input::StopRequested, Input::KillRequested] {
        let mut life = Life::running(Policy { restarts: Limit::Unlimited, ..plain() });
        life.on(stop);
        life.on(Input::HoldEnded);
        assert_eq!(life.on(Input::SpawnFailed), [EXIT_FAILED, STOPPED], "{stop:?}");
        assert_eq!(life.state.phase, Phase::Complete);
    }
}

#[test]
fn a_run_that_takes_too_long_is_killed_and_then_restarted() {
    let policy = Policy { timeout: Some(Duration::from_secs(1)), restarts: Limit::Unlimited, ..plain() };
    let mut life = Life::of(policy);
    assert_eq!(life.on(Input::Triggered), [Action::Spawn, Action::Arm(Timer::RunTimeout)]);
    assert_eq!(life.on(Input::RunTimeoutElapsed), [Action::Kill]);
    assert_eq!(life.on(SUCCEEDED), [EXIT_FAILED]);
    assert_eq!(life.on(Input::GroupGone), [Action::Spawn, Action::Arm(Timer::RunTimeout)]);
}

#[test]
fn any_number_of_each_events_during_a_run_make_one_more_run() {
    let mut life = Life::running(Policy { cadence: Cadence::Each, ..plain() });
    assert_eq!(life.on(Input::Triggered), []);
    assert_eq!(life.on(Input::Triggered), []);
    life.on(SUCCEEDED);
    assert_eq!(life.on(Input::Triggered), []);
    assert_eq!(life.on(Input::GroupGone), [Action::Spawn]);
    assert_eq!(life.ends(SUCCEEDED), []);
    assert_eq!(life.state.phase, Phase::Waiting);
    assert_eq!(life.on(Input::Triggered), [Action::Spawn]);
}

#[test]
fn each_trigger_has_its_own_restart_budget() {
    let mut life = Life::running(Policy { cadence: Cadence::Each, restarts: Limit::Finite(1), ..plain() });
    assert_eq!(life.ends(FAILED), [Action::Spawn]);
    assert_eq!(life.ends(FAILED), []);
    assert_eq!(life.on(Input::Triggered), [Action::Spawn]);
    assert_eq!(life.ends(FAILED), [Action::Spawn]);
}

#[test]
fn a_job_that_triggers_itself_is_slowed_by_backoff() {
    let mut life = Life::running(Policy { cadence: Cadence::Each, triggers_itself: true, ..plain() });
    life.on(SUCCEEDED);
    life.on(Input::Triggered);
    assert_eq!(life.on(Input::GroupGone), [Action::Spawn]);
    life.on(SUCCEEDED);
    life.on(Input::Triggered);
    assert_eq!(life.on(Input::GroupGone), [Action::Arm(Timer::Delay(Duration::from_millis(100)))]);
}

fn periodic(restarts: Limit, interval: u64, timeout: u64) -> Policy {
    Policy {
        cadence: Cadence::Interval(Duration::from_millis(interval)),
        timeout: Some(Duration::from_millis(timeout)),
        restarts,
        ..plain()
    }
}

#[test]
fn a_periodic_job_runs_once_more_than_its_restarts() {
    let mut life = Life::running(periodic(Limit::Finite(2), 500, 500));
    assert_eq!(life.ends(SUCCEEDED), []);
    assert!(life.on(Input::IntervalElapsed).contains(&Action::Spawn));
    assert_eq!(life.ends(SUCCEEDED), []);
    assert!(life.on(Input::IntervalElapsed).contains(&Action::Spawn));
    assert_eq!(life.ends(SUCCEEDED), [STOPPING, STOPPED]);
}

#[test]
fn a_tick_that_finds_a_longer_run_alive_is_skipped() {
    let mut life = Life::running(periodic(Limit::Unlimited, 500, 2000));
    assert_eq!(life.on(Input::IntervalElapsed), []);
    assert_eq!(life.ends(SUCCEEDED), []);
    assert_eq!(life.state.phase, Phase::Waiting);
}

#[test]
fn a_run_killed_at_the_tick_makes_room_for_the_next_one() {
    for order in [
        [Input::RunTimeoutElapsed, Input::IntervalElapsed],
        [Input::IntervalElapsed, Input::RunTimeoutElapsed],
    ] {
        let mut life = Life::running(periodic(Limit::Unlimited, 500, 500));
        for input in order {
            life.on(input);
        }
        assert!(life.ends(FAILED).contains(&Action::Spawn));
    }
}

#[test]
fn a_job_whose_event_does_not_come_in_time_completes_without_running() {
    let mut life = Life::of(plain());
    assert_eq!(life.on(Input::TriggerExpired), [STOPPING, STOPPED]);
    assert_eq!(life.on(Input::Triggered), []);
}

#[test]
fn the_trigger_timer_means_nothing_once_the_job_has_started() {
    let mut life = Life::running(plain());
    assert_eq!(life.on(Input::TriggerExpired), []);
    assert_eq!(life.state.phase, Phase::Running);
}

#[test]
fn a_stop_goes_by_hold_deregistration_drain_signal_exit_stopped() {
    let mut life = Life::running(Policy { advertised: true, drain: Duration::from_secs(1), ..plain() });
    assert_eq!(life.on(Input::StopRequested), [Action::PublishStoppingAndHold, Action::Arm(Timer::Hold)]);
    assert_eq!(life.on(Input::HoldEnded), [Action::Deregister, Action::Arm(Timer::Deregistration)]);
    assert_eq!(life.on(Input::DeregistrationEnded), [Action::Arm(Timer::Drain)]);
    assert_eq!(life.on(Input::DrainElapsed), [Action::Signal, Action::Arm(Timer::KillTimeout)]);
    assert_eq!(life.on(SUCCEEDED), [EXIT_SUCCESS]);
    assert_eq!(life.on(Input::GroupGone), [STOPPED]);
}

#[test]
fn a_plain_stop_signals_as_soon_as_nobody_acts_on_stopping() {
    let mut life = Life::running(plain());
    life.on(Input::StopRequested);
    assert_eq!(life.on(Input::HoldEnded), [Action::Signal, Action::Arm(Timer::KillTimeout)]);
}

#[test]
fn a_job_that_ignores_its_stop_signal_is_killed() {
    let mut life = Life::running(plain());
    life.on(Input::StopRequested);
    life.on(Input::HoldEnded);
    assert_eq!(life.on(Input::KillTimeoutElapsed), [Action::Kill]);
    assert_eq!(life.on(FAILED), [EXIT_FAILED]);
    assert_eq!(life.on(Input::GroupGone), [STOPPED]);
}

#[test]
fn a_job_that_ends_by_itself_while_it_stops_gets_no_signal() {
    let mut life = Life::running(plain());
    life.on(Input::StopRequested);
    assert_eq!(life.on(SUCCEEDED), [EXIT_SUCCESS]);
    assert_eq!(life.state.phase, Phase::Ending);
    assert_eq!(life.on(Input::GroupGone), [STOPPED]);
}

#[test]
fn a_waiting_job_told_to_stop_is_over_at_once() {
    assert_eq!(Life::of(plain()).on(Input::StopRequested), [STOPPING, STOPPED]);
}

#[test]
fn a_job_told_to_stop_during_its_restart_delay_does_not_run_again() {
    let mut life = Life::running(Policy { restarts: Limit::Unlimited, ..plain() });
    life.ends(FAILED);
    life.ends(FAILED);
    assert_eq!(life.state.phase, Phase::Delayed);
    assert_eq!(life.on(Input::StopRequested), [STOPPING, STOPPED]);
    assert_eq!(life.on(Input::DelayElapsed), []);
}

#[test]
fn a_job_told_to_stop_between_two_runs_does_not_run_again() {
    let mut life = Life::running(Policy { restarts: Limit::Unlimited, ..plain() });
    life.on(FAILED);
    assert_eq!(life.on(Input::StopRequested), [STOPPING]);
    assert_eq!(life.on(Input::GroupGone), [STOPPED]);
}

#[test]
fn a_restart_by_hand_stops_first_and_begins_with_a_fresh_budget() {
    let mut life = Life::running(Policy { restarts: Limit::Finite(1), ..plain() });
    life.ends(FAILED);
    life.on(Input::RestartRequested);
    life.on(Input::HoldEnded);
    life.on(SUCCEEDED);
    assert_eq!(life.on(Input::GroupGone), [STOPPED, Action::Spawn]);
    assert_eq!(life.state.restarts, 0);
}

#[test]
fn a_job_stopped_by_hand_waits_for_a_start_by_hand() {
    let mut life = Life::running(Policy { cadence: Cadence::Each, ..plain() });
    life.on(Input::HaltRequested);
    life.on(Input::HoldEnded);
    life.on(SUCCEEDED);
    assert_eq!(life.on(Input::GroupGone), [STOPPED]);
    assert_eq!(life.on(Input::Triggered), []);
    assert_eq!(life.on(Input::StartRequested), [Action::Spawn]);
}

#[test]
fn a_job_without_a_program_serves_until_it_is_told_to_stop() {
    let mut life = Life::of(Policy { has_process: false, advertised: true, ..plain() });
    assert_eq!(life.on(Input::Triggered), []);
    assert_eq!(life.state.phase, Phase::Running);
    assert_eq!(life.on(Input::StopRequested), [Action::PublishStoppingAndHold, Action::Arm(Timer::Hold)]);
    assert_eq!(life.on(Input::HoldEnded), [Action::Deregister, Action::Arm(Timer::Deregistration)]);
    assert_eq!(life.on(Input::DeregistrationEnded), [STOPPED]);
}

#[test]
fn a_kill_tells_consul_but_waits_for_nothing() {
    let mut life = Life::running(Policy { advertised: true, ..plain() });
    assert_eq!(life.on(Input::KillRequested), [STOPPING, Action::Deregister, Action::Kill]);
    life.on(FAILED);
    assert_eq!(life.on(Input::GroupGone), [STOPPED]);
}

#[test]
fn an_unhealthy_job_is_stopped_and_restarted_with_backoff() {
    let mut life = Life::running(Policy { restarts: Limit::Finite(2), advertised: true, ..plain() });
    for delay in [None, Some(Duration::from_millis(100))] {
        assert_eq!(life.on(Input::IllHealth), [Action::PublishStoppingAndHold, Action::Arm(Timer::Hold)]);
        assert_eq!(life.on(Input::HoldEnded), [Action::Deregister, Action::Arm(Timer::Deregistration)]);
        assert_eq!(life.on(Input::DeregistrationEnded), [Action::Signal, Action::Arm(Timer::KillTimeout)]);
        assert_eq!(life.on(FAILED), [EXIT_FAILED]);
        let next = delay.map_or(Action::Spawn, |delay| Action::Arm(Timer::Delay(delay)));
        assert_eq!(life.on(Input::GroupGone), [STOPPED, next]);
        life.on(Input::DelayElapsed);
    }
    life.on(Input::IllHealth);
    life.on(Input::HoldEnded);
    life.on(Input::DeregistrationEnded);
    life.on(FAILED);
    assert_eq!(life.on(Input::GroupGone), [STOPPED], "no restart is left");
    assert_eq!(life.state.phase, Phase::Complete);
}

#[test]
fn a_stop_during_a_restart_for_health_wins() {
    let mut life = Life::running(Policy { restarts: Limit::Unlimited, ..plain() });
    life.on(Input::IllHealth);
    life.on(Input::StopRequested);
    life.on(Input::HoldEnded);
    life.on(FAILED);
    assert_eq!(life.on(Input::GroupGone), [STOPPED]);
    assert_eq!(life.state.phase, Phase::Complete);
}

#[test]
fn backoff_turned_off_restarts_at_once_every_time() {
    let backoff = BackoffSpec { max: Duration::ZERO, ..plain().backoff };
    let mut life = Life::running(Policy { restarts: Limit::Unlimited, backoff, ..plain() });
    for _ in 0..100 {
        assert_eq!(life.ends(FAILED), [Action::Spawn]);
    }
}

#[test]
fn a_run_of_no_time_at_all_is_an_early_end_however_short_the_runs_that_are_not() {
    let backoff = BackoffSpec { reset_after: Duration::ZERO, ..plain().backoff };
    let policy = Policy { restarts: Limit::Unlimited, backoff, ..plain() };
    let early_ends = |lasted| {
        let mut life = Life::running(policy.clone());
        life.state.early_ends = 5;
        life.on(Input::Exited(Ended { success: false, lasted }));
        life.state.early_ends
    };
    assert_eq!((early_ends(Duration::ZERO), early_ends(Duration::from_nanos(1))), (6, 1));
}
