//! Ends processes that jobs have left over, before the program ends.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Action, State};
use crate::actors::machine::Severity;
use crate::messages::moment::Moment;
use crate::messages::process::EndOrphans;
use crate::messages::signal::Signal;

/// How often orphans are looked for, once everything else is over.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long we wait for children that `/proc` does not show, so that they cannot be signalled.
const UNKNOWN_GRACE: Duration = Duration::from_millis(100);

/// The end of all orphans, which are ours alone once every job is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EndingOrphans {
    kill_from: Moment,
    /// How long they are killed until we leave without them.
    patience: Duration,
    /// Since when they are killed. The machine may have slept when that began to be due.
    killed_since: Option<Moment>,
}

impl EndingOrphans {
    /// How long it is due to kill them; `None` if it is too early for that.
    fn overtime(self, now: Moment) -> Option<Duration> {
        (now >= self.kill_from).then(|| now.since(self.kill_from))
    }
}

impl State {
    pub(super) fn end_orphans(&mut self, now: Moment, asked: EndOrphans) -> Vec<Action> {
        let EndOrphans { grace, patience } = asked;
        let mut ending = EndingOrphans { kill_from: now.plus(grace), patience, killed_since: None };
        let mut actions = Vec::new();
        match self.ending_orphans {
            Some(first) => {
                ending.kill_from = ending.kill_from.min(first.kill_from);
                ending.patience = ending.patience.min(first.patience);
                ending.killed_since = first.killed_since;
            }
            None => actions.extend([Signal::TERM, Signal::CONT].map(Action::SignalAll)),
        }
        let is_first = self.ending_orphans.replace(ending).is_none();
        if ending.overtime(now).is_some_and(|overtime| overtime >= ending.patience) {
            actions.push(Action::SignalAll(Signal::KILL));
            actions.push(self.orphans_gone());
        } else if is_first {
            actions.push(Action::LookForOrphansAfter(Duration::ZERO));
        }
        actions
    }

    pub(super) fn press_orphans(&mut self, now: Moment, are_left: bool) -> Vec<Action> {
        let Some(ending) = &mut self.ending_orphans else { return Vec::new() };
        if !are_left {
            return vec![self.orphans_gone()];
        }
        let look = Action::LookForOrphansAfter(LOOK_EVERY);
        if now < ending.kill_from {
            return vec![look];
        }
        let since = *ending.killed_since.get_or_insert(now);
        if now.since(since) >= ending.patience {
            return vec![self.orphans_gone()];
        }
        // Again and again: each that dies may leave us its children.
        vec![Action::SignalAll(Signal::KILL), look]
    }

    pub(super) fn leave_unknown_orphans(&mut self, now: Moment) -> Vec<Action> {
        let overtime = self.ending_orphans.and_then(|ending| ending.overtime(now));
        if overtime.is_none_or(|overtime| overtime < UNKNOWN_GRACE) {
            return Vec::new();
        }
        let text = "leaving a process behind that cannot be found: is /proc mounted?".to_owned();
        vec![Action::Log(Severity::Warning, None, text), self.orphans_gone()]
    }

    fn orphans_gone(&mut self) -> Action {
        self.ending_orphans = None;
        Action::TellOrphansGone
    }
}
