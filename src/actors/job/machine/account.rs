//! Why a job is in its present phase, in the terms of its machine.

use super::State;
use super::reasons::Kill;
use super::schedule::Schedule;
use crate::messages::account::{Account, Exceeded};
use crate::messages::job::{Missing, Phase};

impl State {
    /// After an input: notes when the first execution began, could be used and ended.
    pub(super) fn note_beginnings(&mut self) {
        let now = self.now.since_beginning();
        if self.beginnings.ended.is_some() {
            return;
        }
        let runs = self.life.phase == Phase::Running && (self.pid().is_some() || self.spec.exec.is_none());
        if runs && self.beginnings.started.is_none() {
            self.beginnings.occasion = self.occasion.clone();
            self.beginnings.started = Some(now);
        }
        if runs && self.is_ready() && self.beginnings.up.is_none() {
            self.beginnings.up = Some(now);
        }
        if self.last_exit.is_some() {
            self.beginnings.ended = Some(now);
        }
    }

    /// Why it is where it is, but for the times that only the actor knows.
    pub(super) fn account(&self) -> Account {
        let is_waiting = self.life.phase == Phase::Waiting;
        let has_lost = self.life.phase == Phase::Complete && !self.has_run();
        Account {
            missing: if is_waiting || has_lost { self.listener.missing() } else { Missing::Nothing },
            awaits_log: self.awaits_log,
            exceeded: self.exceeded(),
            stop_reason: self.stop_reason.map(|reason| reason.text().to_owned()),
            no_restart: self.no_restart.clone(),
            failed: self.last_outcome.is_some_and(|status| status != 0),
            runs: self.runs,
            occasion: self.occasion.clone(),
            cause: self.cause,
            first_run: self.beginnings.clone(),
            ..Account::default()
        }
    }

    /// The limit that its process has exceeded, until that has ended.
    fn exceeded(&self) -> Option<Exceeded> {
        let lives = matches!(self.life.phase, Phase::Running | Phase::TimedOut);
        match self.kill.filter(|_| lives)? {
            Kill::RunTimeout => Some(Exceeded::Timeout),
            Kill::NotReady => Some(Exceeded::ReadyTimeout),
            Kill::Watchdog => Some(Exceeded::Watchdog),
            Kill::StopTimeout | Kill::NoTimeLeft => None,
        }
    }

    /// Whether the timer of its `when` is the end of the wait for its events.
    pub fn gives_up_in_time(&self) -> bool {
        matches!(self.schedule, Some(Schedule::TriggerTimeout(_)))
    }
}
