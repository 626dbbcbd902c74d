//! Rules about groups: who starts when, and that nobody is left with an older run of one before it.

use std::sync::Arc;

use super::{AT_ONCE, Account, Ledger, Rules, startup};
use crate::config::spec::{GroupSpec, JobSpec, OnUnhealthy, Strategy, Trigger};
use crate::messages::event::{EventCode, EventKey, Source};
use crate::messages::job::Phase;

/// Whether a group knows that a job starts by itself, so that those after it can wait for it.
fn starts_at_once(job: &JobSpec) -> bool {
    matches!(&job.when.trigger, Trigger::Once(key) if *key == startup())
}

impl Ledger {
    /// The group of a job, as far as it is certain.
    fn group_of(&self, job: &str) -> Option<(&GroupSpec, usize)> {
        if self.is_blurred || self.reloads > 0 {
            return None;
        }
        let place = |group: &GroupSpec| group.jobs.iter().position(|name| **name == *job);
        self.program.groups.iter().find_map(|group| Some((group, place(group)?)))
    }

    /// Whether the group of a job gave up at some time.
    pub(super) fn has_given_up(&self, job: &JobSpec) -> bool {
        let gave_up = |group: &Arc<str>| {
            let source = Source::Group(Arc::clone(group));
            self.past.contains(&EventKey { code: EventCode::ExitFailed, source })
        };
        job.group.as_ref().is_some_and(|place| gave_up(&place.group))
    }

    fn members<'a>(&'a self, names: &'a [Arc<str>]) -> impl Iterator<Item = &'a Account> {
        names.iter().filter_map(|name| self.jobs.get(name))
    }
}

impl Rules {
    /// A member of a group is about to start.
    pub(super) fn check_start_in_group(&self, job: &str, ledger: &Ledger) {
        let now = self.journal.awake();
        let Some((group, place)) = ledger.group_of(job) else { return };
        if now.saturating_sub(ledger.flooded) <= AT_ONCE {
            // Its turn may have come long ago, when the log had no room for its output.
            return;
        }
        if self.phase_of(job).is_some_and(Phase::is_stopping) {
            // It was decided before it was told to stop, and had to wait for a start that hung.
            return;
        }
        // An end or a stop that came before a reload changed the group was followed by what the former group said.
        let is_later =
            |account: &&Account| ledger.groups_since.is_none_or(|since| account.end_began() > since);
        let has_run = ledger.jobs.get(job).filter(is_later).is_some_and(|account| account.starts > 0);
        let mut later = ledger.members(&group.jobs[place + 1..]);
        if group.strategy != Strategy::OneForOne
            && has_run
            && let Some(other) = later.find(|other| other.lives)
        {
            let how = format!("{job} starts while {} runs", other.spec.name);
            self.break_rule("no member runs with an older run of one before it", how);
        }
        if let (Strategy::OneForAll, Some(account)) = (group.strategy, ledger.jobs.get(job)) {
            self.check_together(account, &group.jobs[..place], ledger);
        }
        // If a start before it hangs, its turn came when it began to run, and those before it may have ended since.
        let runs_since = ledger.jobs.get(job).and_then(|account| account.phase);
        let turn = runs_since.filter(|(phase, _)| *phase == Phase::Running).map_or(now, |(_, since)| since);
        let holds = |before: &&Account| {
            let phase = self.phase_of(&before.spec.name);
            let is_over = matches!(phase, Some(Phase::Complete | Phase::Halted) | None);
            // That it is not ready any more may be news.
            let ends = phase.is_some_and(|phase| phase.is_stopping() || phase == Phase::Sweeping);
            let is_hung = before.ended > turn && (group.strategy == Strategy::OneForOne || ends);
            let is_news = now.saturating_sub(before.ended) <= AT_ONCE || is_hung;
            let is_ready = before.is_ready || is_news;
            starts_at_once(&before.spec) && !is_over && !is_ready
        };
        if let Some(before) = ledger.members(&group.jobs[..place]).find(holds) {
            let how = format!("{job} starts before {} is ready", before.spec.name);
            self.break_rule("members start in the order of their group", how);
        }
    }

    /// With `oneForAll`, a member is restarted when those before it have been, too.
    fn check_together(&self, account: &Account, before: &[Arc<str>], ledger: &Ledger) {
        let is_touched = |account: &Account| {
            let trigger = &account.spec.when.trigger;
            // One that its own event starts again is not restarted.
            let is_repeated = trigger.is_periodic() || matches!(trigger, Trigger::Each(_));
            let is_ordered = account.is_told || account.orders > 0 || account.by_hand > 0;
            is_ordered || account.is_new || is_repeated || account.spec.on_unhealthy == OnUnhealthy::Restart
        };
        let is_later = ledger.groups_since.is_none_or(|since| account.end_began() > since);
        if account.starts == 0 || is_touched(account) || !is_later {
            return;
        }
        let is_old = |it: &&Account| it.lives && it.last_start < account.ended && !is_touched(it);
        if let Some(old) = ledger.members(before).find(is_old) {
            let how = format!("{} still runs when {} is restarted", old.spec.name, account.spec.name);
            self.break_rule("with oneForAll, all members are restarted together", how);
        }
    }

    /// A client has started a member, which is over: others may have to stop first.
    pub(super) fn check_start_by_hand(&self, account: &Account, ledger: &Ledger) {
        if ledger.group_of(&account.spec.name).is_some() && !self.is_one_stopping(account, ledger) {
            self.break_rule("a job that a client starts runs", &*account.spec.name);
        }
    }

    /// A client has stopped a job, which is not over: others of its group may have to stop first.
    pub(super) fn check_stop_by_hand(&self, account: &Account, ledger: &Ledger) {
        if !self.is_one_stopping(account, ledger) {
            self.break_rule("a job that a client stops is over", &*account.spec.name);
        }
    }

    /// A client has restarted a job, which runs as before: others of its group may have to stop first.
    pub(super) fn check_restart_by_hand(&self, account: &Account, ledger: &Ledger) {
        if !self.is_one_stopping(account, ledger) {
            self.break_rule("a job that a client restarts gets a new process", &*account.spec.name);
        }
    }

    /// Whether one of its group is stopping.
    fn is_one_stopping(&self, account: &Account, ledger: &Ledger) -> bool {
        let is_stopping = |it: &Account| self.phase_of(&it.spec.name).is_some_and(Phase::is_stopping);
        let group = ledger.group_of(&account.spec.name);
        group.is_some_and(|(group, _)| ledger.members(&group.jobs).any(is_stopping))
    }

    /// A member that is queued, with nothing under way, has somebody before it to wait for.
    pub(super) fn check_queue(&self, job: &str, ledger: &Ledger) {
        let Some((group, place)) = ledger.group_of(job) else { return };
        let is_waited_for = |before: &Account| match self.phase_of(&before.spec.name) {
            Some(Phase::Complete | Phase::Halted) => false,
            Some(Phase::Waiting) => starts_at_once(&before.spec),
            // One that says that it stops, or that we end, is not ready any more.
            Some(Phase::Running) => !before.is_ready || before.says_stops || before.was_signalled,
            Some(_) | None => true,
        };
        // A stop of those after it comes first.
        let is_stopping = |after: &Account| self.phase_of(&after.spec.name).is_some_and(Phase::is_stopping);
        if !ledger.members(&group.jobs[..place]).any(is_waited_for)
            && !ledger.members(&group.jobs[place..]).any(is_stopping)
        {
            self.break_rule("a member whose turn has come starts", job);
        }
    }
}
