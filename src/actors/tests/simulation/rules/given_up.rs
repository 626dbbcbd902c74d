//! The oracle about jobs that were given up: in the rest of the run, what they waited for must not come.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::{Account, Ledger, Rules};
use crate::config::spec::{JobSpec, Trigger};
use crate::messages::event::{EventCode, EventKey, Source};

/// A job that nobody told to stop and that stopped while it waited.
#[derive(Clone)]
pub(super) struct GivenUp {
    spec: Arc<JobSpec>,
    at: Duration,
    /// The last event before it was configured, or before its last run.
    after: u64,
    /// Events of its trigger that have come.
    seen: Vec<EventKey>,
    /// Jobs that were stopped by hand then, and can be started again.
    halted: HashSet<Arc<str>>,
    /// Others end it, too: its group, ill health, or somebody who gave it orders.
    pub(super) is_excused: bool,
}

impl GivenUp {
    /// `moment` has the events of this moment, which are looked at together later.
    pub(super) fn new(
        account: &Account,
        halted: HashSet<Arc<str>>,
        (at, moment): (Duration, &[(u64, EventKey)]),
    ) -> Self {
        let is_new = |key: &EventKey| moment.iter().any(|(_, now)| now == key);
        let seen = account.seen.iter().filter(|key| !is_new(key)).cloned().collect();
        let after = account.after;
        let is_excused = account.is_restarted_by_others() || account.is_told || account.orders > 0;
        Self { spec: Arc::clone(&account.spec), at, after, seen, halted, is_excused }
    }

    pub(super) fn name(&self) -> &str {
        &self.spec.name
    }

    /// Whether it counts when a job is started by hand: only one that was stopped by hand can still publish events.
    pub(super) fn counts_on(&self, job: &str) -> bool {
        self.halted.iter().any(|halted| **halted == *job)
    }

    /// Takes note of an event that came about when it was given up, or later; true if it would have started it.
    pub(super) fn is_wrong_after(&mut self, sequence: u64, key: &EventKey, all: &[Self]) -> bool {
        if self.is_excused || sequence <= self.after || self.is_of_a_circle(key, all) {
            return false;
        }
        match &self.spec.when.beginning() {
            Trigger::Once(wanted) | Trigger::Each(wanted) => wanted == key,
            Trigger::Any(wanted) => wanted.contains(key),
            Trigger::Interval(_) | Trigger::Cron(_) => false,
            Trigger::All(wanted) if !wanted.contains(key) => false,
            Trigger::All(wanted) => {
                if !self.seen.contains(key) {
                    self.seen.push(key.clone());
                }
                wanted.iter().all(|wanted| self.seen.contains(wanted))
            }
        }
    }

    /// Whether one of the events of a job that is restarted would start it.
    pub(super) fn could_wait_for(&self, other: &Account) -> bool {
        let repeats = |key: &EventKey| {
            let is_of_it = matches!(&key.source, Source::Job(name) if *name == other.spec.name);
            is_of_it && [EventCode::Ready, EventCode::Stopping].contains(&key.code)
        };
        let is_enough = match self.spec.when.beginning() {
            Trigger::Once(key) | Trigger::Each(key) => repeats(&key),
            Trigger::Any(keys) => keys.iter().any(repeats),
            Trigger::All(_) | Trigger::Interval(_) | Trigger::Cron(_) => false,
        };
        is_enough && other.returns && other.spec.group.is_none() && !self.is_excused
    }

    /// Jobs that wait for each other's end are given up together, and then their ends come.
    fn is_of_a_circle(&self, key: &EventKey, all: &[Self]) -> bool {
        if !matches!(key.code, EventCode::Stopping | EventCode::Stopped) {
            return false;
        }
        let mut reached: Vec<&str> = publishers(key, all);
        let mut next = 0;
        while let Some(name) = reached.get(next).copied() {
            next += 1;
            if name == self.name() {
                return true;
            }
            let together = all.iter().filter(|other| other.at == self.at && other.name() == name);
            for name in together.flat_map(|other| other.spec.when.keys()).flat_map(|key| publishers(key, all))
            {
                if !reached.contains(&name) {
                    reached.push(name);
                }
            }
        }
        false
    }
}

impl Rules {
    /// A job that was started in the last moment had a reason.
    fn check_suspect(&self, ledger: &Ledger, job: &Arc<str>) {
        let Some(account) = ledger.jobs.get(job) else { return };
        if ledger.is_blurred || ledger.reloads > 0 || account.by_hand > 0 || account.orders > 0 {
            return;
        }
        let has_come = account.spec.when.keys().iter().any(|key| ledger.past.contains(key));
        if account.is_new && has_come {
            return;
        }
        if account.fired == 0 && account.spec.group.is_none() {
            self.break_rule("a job starts after its event", format!("{job} was not triggered"));
        }
        if let Some(most) = account.most_starts().filter(|most| account.starts > *most) {
            let how = format!("{job}: more than {most} starts");
            self.break_rule("a job is restarted as often as configured", how);
        }
    }

    /// Looks at the events of the last moment, all together: jobs that wait for each other are given up together.
    pub(super) fn check_given_up(&self) {
        let now = self.journal.awake();
        let mut ledger = self.ledger.borrow_mut();
        if ledger.moment.0 == now {
            return;
        }
        let (_, events) = std::mem::replace(&mut ledger.moment, (now, vec![]));
        for job in std::mem::take(&mut ledger.suspects) {
            self.check_suspect(&ledger, &job);
        }
        let all: Vec<GivenUp> = ledger.given_up.clone();
        for given_up in &mut ledger.given_up {
            for (sequence, key) in &events {
                if given_up.is_wrong_after(*sequence, key, &all) {
                    let how = format!("{} does not wait for {key}", given_up.name());
                    self.break_rule("no job is given up whose event can come", how);
                }
            }
        }
    }
}

/// The jobs on which an event depends.
fn publishers<'a>(key: &'a EventKey, all: &'a [GivenUp]) -> Vec<&'a str> {
    match &key.source {
        Source::Job(name) | Source::Check(name) => vec![name],
        Source::Group(group) => {
            let is_in =
                |other: &&GivenUp| other.spec.group.as_ref().is_some_and(|place| place.group == *group);
            all.iter().filter(is_in).map(GivenUp::name).collect()
        }
        Source::Global | Source::Watch(_) | Source::Signal(_) => vec![],
    }
}
