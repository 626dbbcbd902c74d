//! Every reachable state × every input against the invariants, the printed table, and the stories of the rules.

mod explore;
mod model;
mod promises;
mod stories;
mod table;

use std::time::Duration;

use super::{Cadence, Ended, Input, Policy};
use crate::config::spec::{BackoffSpec, Limit};

/// A run that ends early.
pub(super) const FAILED: Input = Input::Exited(Ended { success: false, lasted: Duration::from_millis(5) });
pub(super) const SUCCEEDED: Input = Input::Exited(Ended { success: true, lasted: Duration::from_millis(5) });
/// A run that lasts long enough to start the backoff over.
pub(super) const LASTED: Input = Input::Exited(Ended { success: false, lasted: Duration::from_secs(60) });

pub(super) const INPUTS: [Input; 22] = [
    Input::Triggered,
    Input::TriggerExpired,
    Input::IntervalElapsed,
    Input::SpawnFailed,
    SUCCEEDED,
    FAILED,
    LASTED,
    Input::GroupGone,
    Input::RunTimeoutElapsed,
    Input::IllHealth,
    Input::DelayElapsed,
    Input::HoldEnded,
    Input::DeregistrationEnded,
    Input::DrainElapsed,
    Input::KillTimeoutElapsed,
    Input::StopRequested,
    Input::HaltRequested,
    Input::StartRequested,
    Input::RestartRequested,
    Input::QueueRequested,
    Input::TurnCame,
    Input::KillRequested,
];

/// A plain job: runs once, no restarts, nothing else.
pub(super) fn plain() -> Policy {
    Policy {
        cadence: Cadence::Once,
        restarts: Limit::Finite(0),
        has_window: false,
        timeout: None,
        has_process: true,
        advertised: false,
        drain: Duration::ZERO,
        backoff: BackoffSpec {
            min: Duration::ZERO,
            max: Duration::from_secs(30),
            factor: 2.0,
            jitter: 0.0,
            reset_after: Duration::from_secs(10),
        },
        triggers_itself: false,
        in_group: false,
    }
}

/// Policies that differ in everything that `step` looks at.
pub(super) fn policies() -> Vec<Policy> {
    let interval = Duration::from_millis(500);
    let mut all = Vec::new();
    for cadence in [Cadence::Once, Cadence::Each, Cadence::Interval(interval), Cadence::Scheduled] {
        for restarts in [Limit::Finite(0), Limit::Finite(2), Limit::Unlimited] {
            for timeout in [None, Some(interval), Some(interval * 3)] {
                for (has_process, advertised) in [(true, false), (true, true), (false, true)] {
                    for drain in [Duration::ZERO, Duration::from_secs(1)] {
                        all.push(Policy {
                            cadence,
                            restarts,
                            timeout,
                            has_process,
                            advertised,
                            drain,
                            ..plain()
                        });
                    }
                }
            }
        }
    }
    for restarts in [Limit::Finite(0), Limit::Finite(2)] {
        all.push(Policy { cadence: Cadence::Each, restarts, triggers_itself: true, ..plain() });
    }
    for cadence in [Cadence::Once, Cadence::Each, Cadence::Interval(interval)] {
        all.push(Policy { cadence, restarts: Limit::Finite(2), has_window: true, ..plain() });
    }
    for (restarts, advertised) in [(Limit::Finite(2), false), (Limit::Unlimited, true)] {
        all.push(Policy { restarts, advertised, in_group: true, timeout: Some(interval), ..plain() });
    }
    all
}
