//! The life of one job as a pure state machine: `step(policy, state, input) → (state, actions)`.
//!
//! `phases.rs` has one function per phase, and each lists every input. `docs/lifecycle-table.txt` is printed from here and kept equal by a test.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::spec::{BackoffSpec, JobSpec, Limit, Trigger};
use crate::messages::event::{EventCode, Source};
use crate::messages::job::Phase;

mod moves;
mod phases;
#[cfg(test)]
mod tests;

/// The part of a job's configuration that its life cycle depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// How often its trigger may start it.
    pub cadence: Cadence,
    /// Restarts after the first run of a trigger.
    pub restarts: Limit,
    /// Restarts are counted within a time instead, which a trigger does not begin anew.
    pub has_window: bool,
    /// Longest run of one execution.
    pub timeout: Option<Duration>,
    /// Whether it has a program to execute.
    pub has_process: bool,
    /// Whether Consul knows it, so that it must be deregistered.
    pub advertised: bool,
    /// Pause between deregistering and the stop signal.
    pub drain: Duration,
    /// Delays between restarts.
    pub backoff: BackoffSpec,
    /// Its own events trigger it: without backoff it would spin.
    pub triggers_itself: bool,
    /// It belongs to a group, which decides when it starts.
    pub in_group: bool,
}

/// How often a trigger may start the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cadence {
    /// The first trigger only.
    Once,
    /// Every trigger.
    Each,
    /// At startup and at every tick of this interval.
    Interval(Duration),
    /// At every tick of a schedule.
    Scheduled,
}

impl From<&JobSpec> for Policy {
    fn from(spec: &JobSpec) -> Self {
        let cadence = match &spec.when.trigger {
            Trigger::Once(_) | Trigger::All(_) | Trigger::Any(_) => Cadence::Once,
            Trigger::Each(_) => Cadence::Each,
            Trigger::Interval(interval) => Cadence::Interval(*interval),
            Trigger::Cron(_) => Cadence::Scheduled,
        };
        Self {
            cadence,
            restarts: spec.restarts,
            has_window: spec.restart_rule.per.is_some(),
            timeout: spec.timeout,
            has_process: spec.exec.is_some(),
            advertised: spec.advertise.is_some(),
            drain: spec.stop.drain,
            backoff: spec.backoff,
            triggers_itself: matches!(
                &spec.when.trigger,
                Trigger::Each(key) if key.source == Source::Job(spec.name.clone())
            ),
            in_group: spec.group.is_some(),
        }
    }
}

/// The processes of the current execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Process {
    /// Nothing.
    None,
    /// Its main process lives.
    Live,
    /// Its main process ended; others of its group are being ended.
    Leftover,
}

/// The next step after a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Afterwards {
    /// It is over for good.
    Complete,
    /// It was stopped by hand and stays so until it is started by hand.
    Halt,
    /// It was restarted by hand and runs again.
    Resume,
    /// It was unhealthy and is restarted, after its delay.
    Restart,
    /// Its group stopped it; it waits for its turn to run again.
    Queue,
}

/// Where a job is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct State {
    /// Its phase.
    pub phase: Phase,
    /// Its process.
    pub process: Process,
    /// Restarts since the last trigger, or within `restarts.per`; for an interval, runs after the first.
    pub restarts: u32,
    /// Runs in a row that ended early; the measure of backoff.
    pub early_ends: u32,
    /// A trigger came while it could not run: it runs once more when it can.
    pub pending: bool,
    /// The next step after a stop.
    pub afterwards: Afterwards,
    /// Deregistration is over, or was not needed.
    pub withdrawn: bool,
    /// It is queued because its execution ended and it is to be restarted.
    pub is_restart: bool,
    /// Its backoff delay is over, and it waits for its turn in its group once more: others may have ended meanwhile.
    pub has_waited: bool,
}

impl State {
    /// A job that waits for its first trigger.
    pub const fn new() -> Self {
        Self {
            phase: Phase::Waiting,
            process: Process::None,
            restarts: 0,
            early_ends: 0,
            pending: false,
            afterwards: Afterwards::Complete,
            withdrawn: false,
            is_restart: false,
            has_waited: false,
        }
    }
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// With a status or signal that is a success.
    pub success: bool,
    /// How long it ran.
    pub lasted: Duration,
}

/// Something that happened to the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// The events that its `when` names have come.
    Triggered,
    /// They did not come within `when.timeout`.
    TriggerExpired,
    /// The next tick of its interval or schedule came.
    IntervalElapsed,
    /// Its program could not be executed.
    SpawnFailed,
    /// Its main process ended, and its output is logged.
    Exited(Ended),
    /// No process of its group is left.
    GroupGone,
    /// The execution lasted as long as `timeout`.
    RunTimeoutElapsed,
    /// It became unhealthy, and is to be restarted then.
    IllHealth,
    /// The delay before a restart is over.
    DelayElapsed,
    /// The jobs that its `stopping` event started are done, or had their time.
    HoldEnded,
    /// Consul does not know it any more, or had its time.
    DeregistrationEnded,
    /// The pause before the stop signal is over.
    DrainElapsed,
    /// It had its time to stop by itself.
    KillTimeoutElapsed,
    /// It is to stop for good: shutdown, reload, or its trigger can no longer come.
    StopRequested,
    /// It is to stop by hand, and to stay stopped.
    HaltRequested,
    /// It is to run now, by hand.
    StartRequested,
    /// It is to stop and run anew, by hand.
    RestartRequested,
    /// It is to stop if it runs, and to wait for its turn in its group.
    QueueRequested,
    /// It is its turn in its group.
    TurnCame,
    /// It is to end at once.
    KillRequested,
}

/// A timer; leaving the phase that armed it cancels it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Timer {
    /// Ends an execution.
    RunTimeout,
    /// Delays a restart, before jitter.
    Delay(Duration),
    /// Bounds the wait for the jobs that `stopping` started.
    Hold,
    /// Bounds the wait for Consul.
    Deregistration,
    /// Pauses before the stop signal.
    Drain,
    /// Bounds the wait for the process after the stop signal.
    KillTimeout,
}

/// An action for the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Execute the program.
    Spawn,
    /// Tell everybody.
    Publish(EventCode),
    /// Tell everybody that it stops, and learn when those who act on it are done.
    PublishStoppingAndHold,
    /// Start a timer in place of the phase's former one.
    Arm(Timer),
    /// Withdraw it from Consul.
    Deregister,
    /// Ask its group to stop.
    Signal,
    /// Kill its group.
    Kill,
}

type Next = (State, Vec<Action>);

/// Where an input leads, and what is to be done on the way.
pub fn step(policy: &Policy, state: State, input: Input) -> Next {
    use phases::*;
    match state.phase {
        Phase::Waiting => waiting(policy, state, input),
        Phase::Running => running(policy, state, input),
        Phase::TimedOut => timed_out(policy, state, input),
        Phase::Sweeping => sweeping(policy, state, input),
        Phase::Queued => queued(policy, state, input),
        Phase::Delayed => delayed(policy, state, input),
        Phase::Holding => holding(policy, state, input),
        Phase::Deregistering => deregistering(policy, state, input),
        Phase::Draining => draining(policy, state, input),
        Phase::Terminating => terminating(policy, state, input),
        Phase::Killing => killing(policy, state, input),
        Phase::Ending => ending(policy, state, input),
        Phase::Halted => halted(policy, state, input),
        Phase::Complete => complete(policy, state, input),
    }
}
