//! Messages to and about jobs.

use std::fmt;
use std::sync::Arc;

use actix::prelude::Message;
use serde::{Deserialize, Serialize};

use super::event::EventKey;
use super::health::Health;
use super::signal::Signal;

/// What a job is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// Waits for its trigger, or for the next one.
    Waiting,
    /// Its process is being started, or runs.
    Running,
    /// Exceeded its timeout, or the time to become ready or to say that it is well: its process group is being killed, then the
    /// restart rules apply.
    TimedOut,
    /// Its process ended; the rest of its process group is being ended before the next run.
    Sweeping,
    /// Waits for its turn in its group.
    Queued,
    /// Waits before a restart.
    Delayed,
    /// Told to stop; the jobs that its `stopping` event started are working.
    Holding,
    /// Is being withdrawn from Consul.
    Deregistering,
    /// Pauses between deregistering and the stop signal.
    Draining,
    /// Got its stop signal.
    Terminating,
    /// Got SIGKILL.
    Killing,
    /// Is stopping: its process ended, the rest of its process group is being ended.
    Ending,
    /// Stopped by hand.
    Halted,
    /// Over.
    Complete,
}

impl Phase {
    /// Every phase, in the order in which a job goes through them.
    pub const ALL: [Self; 14] = [
        Self::Waiting,
        Self::Running,
        Self::TimedOut,
        Self::Sweeping,
        Self::Queued,
        Self::Delayed,
        Self::Holding,
        Self::Deregistering,
        Self::Draining,
        Self::Terminating,
        Self::Killing,
        Self::Ending,
        Self::Halted,
        Self::Complete,
    ];

    /// The name that users read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::TimedOut => "timed-out",
            Self::Sweeping => "sweeping",
            Self::Queued => "queued",
            Self::Delayed => "delayed",
            Self::Holding => "holding",
            Self::Deregistering => "deregistering",
            Self::Draining => "draining",
            Self::Terminating => "terminating",
            Self::Killing => "killing",
            Self::Ending => "ending",
            Self::Halted => "halted",
            Self::Complete => "complete",
        }
    }

    /// Whether `stopping` was published and `stopped` was not yet.
    pub const fn is_stopping(self) -> bool {
        matches!(
            self,
            Self::Holding
                | Self::Deregistering
                | Self::Draining
                | Self::Terminating
                | Self::Killing
                | Self::Ending
        )
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The events that a job still waits for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Missing {
    /// None: its trigger has happened.
    #[default]
    Nothing,
    /// One of these.
    AnyOf(Vec<EventKey>),
    /// Every one of these.
    AllOf(Vec<EventKey>),
}

/// Command to one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message, Serialize, Deserialize)]
#[rtype(result = "()")]
pub enum JobCommand {
    /// Stop and complete. In a shutdown, only the budget of the shutdown limits the steps.
    Stop {
        /// The event that led to it.
        cause: Option<u64>,
        /// The reason for the stop.
        occasion: StopOccasion,
    },
    /// Send [`JobChanged`] with this number, even if nothing changed.
    Answer(u64),
    /// Complete if the job still waits: its events can no longer happen.
    GiveUp {
        /// Whether the whole program stops.
        in_shutdown: bool,
    },
    /// Stop waiting for others before the stop signal.
    Hurry,
    /// Send SIGKILL now.
    Kill,
    /// Stop by hand and stay stopped.
    Halt,
    /// Run now, by hand.
    Start,
    /// Stop and run again, by hand.
    Restart,
    /// Send a signal to the job's processes.
    Signal(Signal),
    /// Pass a signal of ours on to the job's main process.
    Forward(Signal),
    /// Stop if it runs, and wait for its turn in its group.
    Requeue(GroupOrder),
    /// It is its turn in its group: run.
    Proceed(GroupOrder),
    /// Enter or leave maintenance.
    Maintain(bool),
    /// The job was removed: end the actor.
    Retire,
}

/// The reason why a job is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopOccasion {
    /// The whole program stops.
    Shutdown,
    /// A reload changed or removed the job.
    Reload,
    /// Its group gives up.
    Group,
}

/// An order of a group to one of its jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupOrder {
    /// Counts the orders to this job: its reports tell which of them it has carried out.
    pub number: u64,
    /// The event that led to it.
    pub cause: Option<u64>,
}

/// Report to the Pilot: the state of a job changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobChanged {
    /// The name of the job.
    pub name: Arc<str>,
    /// Distinguishes jobs of the same name: the number of the configuration that started it.
    pub generation: u64,
    /// Its phase.
    pub phase: Phase,
    /// Whether it stops only to run again, or until it is started by hand.
    pub returns: bool,
    /// Its health.
    pub health: Health,
    /// Whether its current execution is ready.
    pub ready: bool,
    /// The events that it still waits for.
    pub missing: Missing,
    /// How its last execution ended: 0, a status, or 128 plus the signal.
    pub last_status: Option<u8>,
    /// The number of the [`JobCommand::Answer`] that it replies to.
    pub answers: Option<u64>,
    /// It was queued last because its execution had ended and it was to be restarted.
    pub is_restart: bool,
    /// The number of the last [`GroupOrder`] that it has carried out.
    pub group_order: u64,
    /// The last event in the chain that led here.
    pub cause: Option<u64>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (keys, word) = match self {
            Self::Nothing => return f.write_str("nothing"),
            Self::AnyOf(keys) => (keys, " or "),
            Self::AllOf(keys) => (keys, " and "),
        };
        let texts: Vec<String> = keys.iter().map(|key| format!("\"{key}\"")).collect();
        f.write_str(&texts.join(word))
    }
}
