//! Decides about the queries of watches: one at a time for each watch, with a pause after a failure.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Action, CallFailure, Remark, State, retry};
use crate::consul::blocking::HELD;
use crate::messages::discovery::{Query, QueryFailure, QueryReply, RemoveWatch};
use crate::messages::moment::Moment;

/// A watch, as its queries show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Tells it from others that had its name before.
    generation: u64,
    /// The number of its last query. A late reply to an earlier one is dropped.
    number: u64,
    phase: Phase,
    /// Failures in a row.
    failures: u32,
    /// The watch's interval, which the pause after a failure depends on.
    interval: Duration,
}

/// The state of a watch's last query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    /// It was sent to Consul.
    Open {
        /// The time at which it was sent.
        since: Moment,
        /// It is a blocking query, which Consul may hold for minutes.
        is_blocking: bool,
    },
    /// It failed. The watch is told after a pause.
    Pausing,
    /// It is over, and the watch knows.
    Over,
}

impl State {
    pub(super) fn query(
        &mut self,
        now: Moment,
        number: u64,
        query: Query,
        random: f64,
        actions: &mut Vec<Action>,
    ) {
        let name = Arc::clone(&query.caller);
        let generation = query.generation;
        let failures = match self.callers.get(&name) {
            // A watch that was replaced, and does not know it yet.
            Some(caller) if caller.generation > generation => return actions.push(Action::DropQuery(number)),
            Some(Caller { phase: Phase::Over, failures, .. }) => *failures,
            // A watch sends no query while one is open, so this is another watch of that name, after a reload.
            Some(Caller { phase: Phase::Open { .. } | Phase::Pausing, number, .. }) => {
                actions.push(Action::DropQuery(*number));
                0
            }
            None => 0,
        };
        let phase = Phase::Open { since: now, is_blocking: query.newer_than.is_some() };
        let caller = Caller { generation, number, phase, failures, interval: query.interval };
        self.callers.insert(Arc::clone(&name), caller);
        if self.link.address.is_some() {
            actions.push(Action::Query(number, query));
        } else {
            self.pause_after_failure(&name, random, actions);
        }
    }

    pub(super) fn query_ended(
        &mut self,
        now: Moment,
        name: &Arc<str>,
        number: u64,
        result: Result<QueryReply, CallFailure>,
        random: f64,
        actions: &mut Vec<Action>,
    ) {
        let Some(caller) = self.callers.get_mut(name).filter(|caller| caller.number == number) else {
            return; // The watch was removed, or it sent another query.
        };
        let Phase::Open { since, is_blocking } = caller.phase else { return };
        let took = now.since(since);
        match result {
            Ok(reply) => {
                caller.phase = Phase::Over;
                caller.failures = 0;
                self.served(now, name, actions);
                actions.push(Action::Reply(number, Ok(reply)));
            }
            Err(failure) if is_blocking && took >= HELD => {
                caller.phase = Phase::Over;
                actions.push(Action::Log(Remark::Cut(Arc::clone(name), took, failure.reason)));
                actions.push(Action::Count { answered: true });
                actions.push(Action::Reply(number, Err(QueryFailure::Cut(took))));
            }
            Err(failure) => {
                self.failed(now, name, &failure, actions);
                self.pause_after_failure(name, random, actions);
            }
        }
    }

    fn pause_after_failure(&mut self, name: &Arc<str>, random: f64, actions: &mut Vec<Action>) {
        let is_first = self.outage.is_first(name);
        let Some(caller) = self.callers.get_mut(name) else { return };
        caller.phase = Phase::Pausing;
        caller.failures = caller.failures.saturating_add(1);
        let wait = retry::delay(caller.failures, caller.interval, is_first, random);
        actions.push(Action::Pause { caller: Arc::clone(name), number: caller.number, wait });
    }

    pub(super) fn pause_elapsed(&mut self, name: &Arc<str>, number: u64, actions: &mut Vec<Action>) {
        let Some(caller) = self.callers.get_mut(name).filter(|caller| caller.number == number) else {
            return;
        };
        match caller.phase {
            Phase::Pausing => {
                caller.phase = Phase::Over;
                actions.push(Action::Reply(number, Err(QueryFailure::Failed)));
            }
            Phase::Open { .. } | Phase::Over => {}
        }
    }

    /// Has every watch ask again, because replies to the open queries may be lost.
    pub(super) fn interrupt_queries(&mut self, actions: &mut Vec<Action>) {
        for caller in self.callers.values_mut() {
            match caller.phase {
                Phase::Open { .. } => {
                    caller.phase = Phase::Over;
                    actions.push(Action::Reply(caller.number, Err(QueryFailure::Interrupted)));
                }
                Phase::Pausing | Phase::Over => {}
            }
        }
    }

    /// Ends every pause, because Consul serves again.
    pub(super) fn end_pauses(&mut self, actions: &mut Vec<Action>) {
        for caller in self.callers.values_mut() {
            match caller.phase {
                Phase::Pausing => {
                    caller.phase = Phase::Over;
                    actions.push(Action::Reply(caller.number, Err(QueryFailure::Failed)));
                }
                Phase::Open { .. } | Phase::Over => {}
            }
        }
    }

    pub(super) fn remove_watch(&mut self, watch: &RemoveWatch, actions: &mut Vec<Action>) {
        let name = &watch.caller;
        if self.callers.get(name).is_some_and(|caller| caller.generation != watch.generation) {
            return; // It is replaced by another watch of that name already.
        }
        let was_failing = self.outage.failure(name).is_some();
        if self.outage.removed(name) {
            actions.push(Action::Log(Remark::NoTroubleLeft));
        }
        self.show_trouble(actions);
        if was_failing {
            self.show_failure(name, actions);
        }
        if let Some(caller) = self.callers.remove(name) {
            actions.push(Action::DropQuery(caller.number));
        }
    }
}
