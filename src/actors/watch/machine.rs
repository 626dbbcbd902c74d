//! The decisions of a watch: when to query Consul, and which events a reply means. Pure: no clock, no I/O.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::actors::machine::{Kind, Machine};
use crate::config::spec::{WatchSpec, WatchTarget};
use crate::consul::blocking::{Cursor, Reply};
use crate::messages::discovery::{Found, Query, QueryFailure, QueryReply, QueryTarget, RemoveWatch};
use crate::messages::event::EventCode;
use crate::messages::moment::Moment;
use crate::messages::status::WatchStatus;

mod diff;
#[cfg(test)]
mod tests;

use diff::diff;

/// Everything that a watch knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    spec: WatchSpec,
    /// Tells it from others that had its name before.
    generation: u64,
    phase: Phase,
    /// The index to query with next, and how the server has behaved so far.
    cursor: Cursor,
    /// The last reply; `None` before the first one. An outage does not change it.
    found: Option<Vec<Found>>,
}

/// The step of its work that a watch is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    /// It was not told to begin yet.
    Waiting,
    /// A query is open.
    Asking {
        /// The time at which the query was sent.
        since: Moment,
    },
    /// The next query follows when a timer elapses.
    Pausing,
    /// The watch was removed from the configuration. A late reply or timer is ignored.
    Retired,
}

/// Something that happened to a watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// The watch was told to begin.
    Begun,
    /// The open query is over.
    Replied(Result<QueryReply, QueryFailure>),
    /// The pause before the next query is over.
    PauseElapsed,
    /// The watch was removed from the configuration.
    Retired,
}

/// Something that the actor is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Action {
    /// Send this query to the ConsulAgent.
    Ask(Query),
    /// Report [`Input::PauseElapsed`] after this time.
    Pause(Duration),
    /// Show this in the status.
    Show(WatchStatus),
    /// Publish an event of this watch.
    Publish(EventCode),
    /// Tell the ConsulAgent that no query follows.
    Remove(RemoveWatch),
    /// End the actor.
    Stop,
}

impl State {
    /// A watch that asks nothing before [`Input::Begun`].
    pub fn new(spec: WatchSpec, generation: u64) -> Self {
        Self { spec, generation, phase: Phase::Waiting, cursor: Cursor::default(), found: None }
    }

    /// The watch's name, without `watch.`.
    pub const fn name(&self) -> &Arc<str> {
        &self.spec.name
    }

    /// Tells it from others that had its name before.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    fn waiting(&mut self, now: Moment, input: &Input) -> Vec<Action> {
        match input {
            Input::Begun => vec![self.ask(now)],
            Input::Retired => self.retire(),
            Input::Replied(_) | Input::PauseElapsed => Vec::new(),
        }
    }

    fn asking(&mut self, now: Moment, since: Moment, input: Input) -> Vec<Action> {
        match input {
            Input::Replied(Ok(reply)) => self.learn(now, since, reply),
            Input::Replied(Err(failure)) => vec![self.ask_after_failure(now, failure)],
            Input::Retired => self.retire(),
            Input::Begun | Input::PauseElapsed => Vec::new(),
        }
    }

    fn pausing(&mut self, now: Moment, input: &Input) -> Vec<Action> {
        match input {
            Input::PauseElapsed => vec![self.ask(now)],
            Input::Retired => self.retire(),
            Input::Begun | Input::Replied(_) => Vec::new(),
        }
    }

    fn retired(input: &Input) -> Vec<Action> {
        match input {
            Input::Begun | Input::Replied(_) | Input::PauseElapsed | Input::Retired => Vec::new(),
        }
    }

    fn ask(&mut self, now: Moment) -> Action {
        self.phase = Phase::Asking { since: now };
        Action::Ask(Query {
            caller: caller(&self.spec.name),
            generation: self.generation,
            target: match &self.spec.target {
                WatchTarget::Service { service, tag } => {
                    QueryTarget::Service { name: service.clone(), tag: tag.clone() }
                }
                WatchTarget::Key(key) => QueryTarget::Key(key.clone()),
                WatchTarget::Prefix(prefix) => QueryTarget::Prefix(prefix.clone()),
            },
            datacentre: self.spec.datacentre.clone(),
            newer_than: self.cursor.newer_than(self.spec.interval),
            interval: self.spec.interval,
        })
    }

    fn ask_after(&mut self, now: Moment, pause: Duration) -> Action {
        if pause.is_zero() {
            return self.ask(now);
        }
        self.phase = Phase::Pausing;
        Action::Pause(pause)
    }

    fn learn(&mut self, now: Moment, since: Moment, reply: QueryReply) -> Vec<Action> {
        let events = diff(self.found.as_deref(), &reply.found);
        let seen = Reply { index: reply.index, took: now.since(since), is_news: !events.is_empty() };
        let (cursor, pause) = self.cursor.after(seen, self.spec.interval);
        self.cursor = cursor;
        let mut actions = vec![Action::Show(status(&reply.found))];
        self.found = Some(reply.found);
        actions.extend(events.into_iter().map(Action::Publish));
        actions.push(self.ask_after(now, pause));
        actions
    }

    fn ask_after_failure(&mut self, now: Moment, failure: QueryFailure) -> Action {
        match failure {
            QueryFailure::Cut(after) => {
                let (cursor, pause) = self.cursor.after_cut(after, self.spec.interval);
                self.cursor = cursor;
                self.ask_after(now, pause)
            }
            // The next reply may come from another Consul, to which our index means nothing.
            QueryFailure::Failed | QueryFailure::Interrupted => {
                self.cursor = self.cursor.anew();
                self.ask(now)
            }
        }
    }

    fn retire(&mut self) -> Vec<Action> {
        self.phase = Phase::Retired;
        let (caller, generation) = (caller(&self.spec.name), self.generation);
        vec![Action::Remove(RemoveWatch { caller, generation }), Action::Stop]
    }
}

impl Machine for State {
    type Input = Input;
    type Action = Action;
    const KIND: Kind = Kind::Watch;

    fn name(&self) -> &str {
        &self.spec.name
    }

    fn step(&mut self, now: Moment, input: Input) -> Vec<Action> {
        match self.phase {
            Phase::Waiting => self.waiting(now, &input),
            Phase::Asking { since } => self.asking(now, since, input),
            Phase::Pausing => self.pausing(now, &input),
            Phase::Retired => Self::retired(&input),
        }
    }
}

/// The name under which a watch queries the ConsulAgent.
pub fn caller(watch: &str) -> Arc<str> {
    format!("watch.{watch}").into()
}

fn status(found: &[Found]) -> WatchStatus {
    let instances = found.iter().map(|found| match found {
        Found::Instance { id, address, port } => (id.clone(), address.clone(), *port),
        Found::Entry { key, .. } => (key.clone(), String::new(), 0),
    });
    WatchStatus { instances: instances.collect(), known: true }
}
