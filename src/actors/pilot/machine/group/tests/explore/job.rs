//! One job of the group, and the messages to and from it.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::actors::job::machine::lifecycle::{self, State as Life};
use crate::messages::health::Health;
use crate::messages::job::{JobChanged, JobCommand, Missing, Phase};

/// One job, with the messages that are on their way to and from it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Job {
    pub(super) life: Life,
    /// Its trigger has happened.
    pub(super) is_triggered: bool,
    pub(super) ready: bool,
    pub(super) group_order: u64,
    /// Which execution this is.
    pub(super) run: u8,
    /// The executions of those before it that were there when it started.
    pub(super) knows: [u8; 3],
    pub(super) reported: (Phase, bool, bool),
    /// Its phase, as the Pilot knows it.
    pub(super) known: Phase,
    pub(super) inbox: VecDeque<Command>,
    pub(super) outbox: VecDeque<Seen>,
}

/// A command, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Command(pub(super) Verb, pub(super) u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Verb {
    Queue,
    Proceed,
    Start,
    Restart,
    Halt,
    Stop,
}

/// A report, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Seen {
    pub(super) phase: Phase,
    pub(super) returns: bool,
    pub(super) ready: bool,
    pub(super) is_restart: bool,
    pub(super) group_order: u64,
}

impl Job {
    /// A job that has not begun, after so many executions of its forerunners.
    pub(super) fn new(run: u8) -> Self {
        Self {
            life: Life::new(),
            is_triggered: false,
            ready: false,
            group_order: 0,
            run,
            knows: [0; 3],
            reported: (Phase::Waiting, false, false),
            known: Phase::Waiting,
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
        }
    }

    pub(super) fn report(&mut self, is_asked: bool) {
        let returns =
            self.life.phase.is_stopping() && self.life.afterwards != lifecycle::Afterwards::Complete;
        let now = (self.life.phase, returns, self.ready);
        if is_asked || now != self.reported {
            self.reported = now;
            let (is_restart, group_order) = (self.life.is_restart, self.group_order);
            self.outbox.push_back(Seen {
                phase: self.life.phase,
                returns,
                ready: self.ready,
                is_restart,
                group_order,
            });
        }
    }
}

impl From<JobCommand> for Command {
    fn from(command: JobCommand) -> Self {
        match command {
            JobCommand::Requeue(order) => Self(Verb::Queue, order.number),
            JobCommand::Proceed(order) => Self(Verb::Proceed, order.number),
            JobCommand::Start => Self(Verb::Start, 0),
            JobCommand::Restart => Self(Verb::Restart, 0),
            JobCommand::Halt => Self(Verb::Halt, 0),
            JobCommand::Stop { .. } => Self(Verb::Stop, 0),
            JobCommand::Answer(_)
            | JobCommand::GiveUp { .. }
            | JobCommand::Hurry
            | JobCommand::Kill
            | JobCommand::Signal(_)
            | JobCommand::Forward(_)
            | JobCommand::Maintain(_)
            | JobCommand::Retire => panic!("a group does not say {command:?}"),
        }
    }
}

pub(super) fn changed(name: &str, seen: Seen) -> JobChanged {
    JobChanged {
        name: Arc::from(name),
        generation: 0,
        phase: seen.phase,
        returns: seen.returns,
        health: Health::Unknown,
        ready: seen.ready,
        missing: Missing::Nothing,
        last_status: Some(1),
        answers: None,
        is_restart: seen.is_restart,
        group_order: seen.group_order,
        cause: None,
    }
}
