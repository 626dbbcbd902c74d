//! A simulated process.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Happening;
use crate::actors::tests::simulation::story::Manner;
use crate::messages::process::{ExitStatus, Pid};
use crate::process::{Launch, Pipes, SpawnOutcome};

/// One process.
pub struct Process {
    /// Tells it from others that had its number before.
    pub birth: u64,
    pub pid: Pid,
    pub group: Pid,
    pub owner: Owner,
    /// The birth of the process that leads its execution.
    pub execution: u64,
    pub state: State,
    /// When it was made, and when it ended.
    pub born: Instant,
    pub ended: Option<Duration>,
    /// Since when it is stopped although we asked it to end.
    pub asked_in_vain: Option<Duration>,
    /// Whether the program knows that it was started.
    pub is_settled: bool,
    /// The birth of its parent; `None`: it is our child.
    pub(super) parent: Option<u64>,
    pub(super) is_adopted: bool,
    pub(super) becomes_at: Option<Instant>,
    pub(super) manner: Manner,
    /// The things that it does as soon as it is continued.
    pub(super) postponed: Vec<Happening>,
    pub(super) output: Option<Rc<[OwnedFd; 2]>>,
    pub(super) start: Option<(Launch, oneshot::Sender<SpawnOutcome>, Option<Pipes>)>,
    /// The address of its socket for systemd's protocol.
    pub(super) notify: Option<String>,
    /// Lines that it has printed.
    pub printed: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Runs,
    Stopped,
    Zombie(ExitStatus),
}

/// The job or the check that a process belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    Job(Arc<str>),
    Check(Arc<str>),
}

impl Process {
    pub fn lives(&self) -> bool {
        !matches!(self.state, State::Zombie(_))
    }

    pub fn leads(&self) -> bool {
        self.birth == self.execution
    }

    pub fn is_of(&self, job: &str) -> bool {
        matches!(&self.owner, Owner::Job(name) if **name == *job)
    }
}
